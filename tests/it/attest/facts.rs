//! Where what was tested came from.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{PASSING, attest, said};
use crate::program::Program;

/// A working copy, and what git says there.
struct WorkingCopy(tempfile::TempDir);

impl WorkingCopy {
    fn of(remote: &str) -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        copy.git(&["init", "--quiet", "--initial-branch=main", "."]);
        copy.git(&["remote", "add", "origin", remote]);
        copy.commit("Count");
        copy
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.path()).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null");
        for (role, name) in [("AUTHOR", "Jo"), ("COMMITTER", "CI")] {
            git.env(format!("GIT_{role}_NAME"), name).env(format!("GIT_{role}_EMAIL"), "jo@example.com");
            git.env(format!("GIT_{role}_DATE"), "2026-09-15T14:00:00+02:00");
        }
        let output = git.output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// The dry run, in which git can be found.
    fn attest(&self, more: &str) -> Program {
        let program = attest("--dry-run r.xml --working-copy").args([self.path().to_str().unwrap()]);
        let program = program.args(more.split(' ').filter(|word| !word.is_empty())).file("r.xml", PASSING);
        program.env("PATH", &std::env::var("PATH").unwrap())
    }
}

fn sent(program: Program) -> Value {
    serde_json::from_str(&program.args(["-o", "json"]).run().says(0, &[]).stdout).unwrap()
}

#[test]
fn a_working_copy_tells_the_commit_its_parents_and_the_repository_without_credentials() {
    let copy = WorkingCopy::of("https://ci:s3cret@github.com/acme/cart.git");
    let parent = copy.git(&["rev-parse", "HEAD"]);
    let commit = copy.commit("Count <all>\n\nOf them.");
    assert_eq!(
        sent(copy.attest("")),
        json!({
            "attestation_name": "unit-tests",
            "junit_results": [{"name": "s", "total": 1, "failures": 0, "errors": 0, "skipped": 0, "duration": 0.5}],
            "git_commit_info": {
                "sha1": commit, "branch": "main", "author": "Jo <jo@example.com>", "message": "Count <all>\n\nOf them.",
                "timestamp": 1_789_473_600, "parents": [parent],
                "url": format!("https://github.com/acme/cart/commit/{commit}"),
            },
            "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
        })
    );
    let table = copy.attest("").run().stdout;
    assert_eq!(said(&table, "commit"), format!("{commit} (working copy)"));
    assert_eq!(said(&table, "repository "), "acme/cart (repository's URL)");
    assert_eq!(said(&table, "time of the commit"), "2026-09-15T12:00:00Z (working copy)");
}

#[test]
fn a_shallow_clone_still_knows_its_parents() {
    let copy = WorkingCopy::of("https://github.com/acme/cart");
    let parent = copy.git(&["rev-parse", "HEAD"]);
    copy.commit("Second");
    let clone = tempfile::tempdir().unwrap();
    let (from, to) = (format!("file://{}", copy.path().display()), clone.path().join("c"));
    copy.git(&["clone", "--quiet", "--depth", "1", &from, to.to_str().unwrap()]);
    std::fs::rename(clone.path().join("c/.git"), copy.path().join("shallow")).unwrap();
    std::fs::remove_dir_all(copy.path().join(".git")).unwrap();
    std::fs::rename(copy.path().join("shallow"), copy.path().join(".git")).unwrap();
    assert_eq!(sent(copy.attest(""))["git_commit_info"]["parents"], json!([parent]));
}

#[test]
fn the_ci_system_s_variables_count_where_they_speak_of_the_commit_that_was_tested() {
    let copy = WorkingCopy::of("https://git.example.com/mirror/cart");
    let commit = copy.git(&["rev-parse", "HEAD"]);
    copy.git(&["checkout", "--quiet", "--detach"]);
    let github = |commit: &str| {
        let program = copy.attest("").env("GITHUB_ACTIONS", "true").env("GITHUB_SHA", commit);
        let program = program.env("GITHUB_REF", "refs/heads/fix").env("GITHUB_REPOSITORY", "acme/cart");
        program.env("GITHUB_SERVER_URL", "https://github.com").env("GITHUB_RUN_ID", "12")
    };
    let said = sent(github(&commit));
    assert_eq!(said["git_commit_info"]["branch"], "fix");
    assert_eq!(said["repo_info"], json!({"name": "acme/cart", "url": "https://github.com/acme/cart"}));
    assert_eq!(said["origin_url"], "https://github.com/acme/cart/actions/runs/12");

    let other = "1".repeat(40);
    let warned = github(&other).run();
    warned.says(0, &[&format!("GITHUB_SHA says {other}, but what was tested is {commit} (working copy)")]);
    let said = sent(github(&other));
    assert_eq!(
        (&said["git_commit_info"]["sha1"], said["git_commit_info"].get("branch")),
        (&json!(commit), None)
    );
    assert_eq!(said["repo_info"]["name"], "mirror/cart");
}

#[test]
fn each_fact_can_be_given_and_a_revision_is_looked_up() {
    let copy = WorkingCopy::of("https://github.com/acme/cart");
    let first = copy.git(&["rev-parse", "HEAD"]);
    copy.commit("Second");
    let said = sent(copy.attest("--commit HEAD~1"));
    // It is not what is checked out, so it is on no branch that is known.
    assert_eq!(
        (&said["git_commit_info"]["sha1"], said["git_commit_info"].get("branch")),
        (&json!(first), None)
    );

    let commit = "a".repeat(40);
    let options = format!(
        "--commit {commit} --commit-url https://x.example/c --branch b --author A --author-username a --message m \
         --commit-timestamp 1789473600.5 --parent p1 --parent p2 --repository o/r --repository-url https://u:p@x.example/o/r \
         --repository-id 7 --repository-description d --provider gitlab --origin-url https://u:p@ci.example/1 \
         --description D --external-url docs=https://u:p@d.example --annotate k=v=w --target web --user-data u.json \
         --fingerprint {} --fingerprint x/y@sha256:{} --fingerprint-file digests",
        "1".repeat(64),
        "2".repeat(64)
    );
    let program = copy.attest(&options).file("u.json", "{\"n\": 1}");
    let program =
        program.file("digests", format!("# built\n\nsha256:{}\n{}\n", "3".repeat(64), "1".repeat(64)));
    assert_eq!(
        sent(program),
        json!({
            "attestation_name": "unit-tests",
            "junit_results": [{"name": "s", "total": 1, "failures": 0, "errors": 0, "skipped": 0, "duration": 0.5}],
            "origin_url": "https://ci.example/1",
            "description": "D",
            "artifact_fingerprint": "1".repeat(64),
            "target_artifacts": ["2".repeat(64), "3".repeat(64), "web"],
            "git_commit_info": {
                "sha1": commit, "url": "https://x.example/c", "branch": "b", "author": "A", "author_username": "a", "message": "m",
                "timestamp": 1_789_473_600.5, "parents": ["p1", "p2"],
            },
            "repo_info": {"name": "o/r", "url": "https://x.example/o/r", "id": "7", "description": "d", "provider": "gitlab"},
            "external_urls": {"docs": "https://d.example/"},
            "annotations": {"k": "v=w"},
            "user_data": {"n": 1},
        })
    );
}

#[test]
fn a_repository_that_is_given_has_nothing_of_the_one_around() {
    let copy = WorkingCopy::of("https://github.com/acme/cart");
    let said = sent(copy.attest("--repository acme/other --provider bitbucket"));
    assert_eq!(said["repo_info"], json!({"name": "acme/other", "provider": "bitbucket"}));
    let said = sent(copy.attest("--repository-url git@gitlab.example.com:acme/other.git --provider="));
    assert_eq!(
        said["repo_info"],
        json!({"name": "acme/other", "url": "https://gitlab.example.com/acme/other"})
    );
}

#[test]
fn a_variable_of_git_names_no_other_repository_than_the_folder_s() {
    let (copy, other) =
        (WorkingCopy::of("https://github.com/acme/cart"), WorkingCopy::of("https://github.com/a/b"));
    let git_dir = other.path().join(".git");
    let said = sent(copy.attest("").env("GIT_DIR", git_dir.to_str().unwrap()));
    assert_eq!(said["repo_info"]["name"], "acme/cart");
}

#[test]
fn what_is_found_and_cannot_be_sent_is_left_out_and_credentials_are_never_shown() {
    for (variable, value, says) in [
        (
            "CI_COMMIT_TIMESTAMP",
            "garbage",
            "time of the commit \"garbage\" (CI_COMMIT_TIMESTAMP) cannot be used",
        ),
        ("CI_PROJECT_PATH", "a b/c ", "the repository"),
        ("CI_JOB_URL", "https://u:S3CRET#x@h", "origin \"(not shown)\" (CI_JOB_URL) cannot be used"),
        ("CI_PROJECT_URL", "x-token:S3CRET@gitlab.com/a/b", ""),
    ] {
        let program = attest("--dry-run r.xml -vvv")
            .file("r.xml", PASSING)
            .env("GITLAB_CI", "true")
            .env(variable, value);
        let outcome = program.run();
        outcome.says(0, &[says]);
        assert!(!format!("{outcome:?}").contains("S3CRET"), "{outcome:?}");
    }
    let long = format!("https://u:S3CRET@ci.example/{}", "x".repeat(70_000));
    let outcome =
        attest("--dry-run r.xml").file("r.xml", PASSING).env("GITLAB_CI", "1").env("CI_JOB_URL", &long).run();
    assert!(!format!("{:?}", outcome.says(0, &["origin", "it is left out"])).contains("S3CRET"));
}

#[test]
fn git_that_says_nothing_or_without_end_holds_nothing_up() {
    let copy = WorkingCopy::of("https://github.com/acme/cart");
    std::fs::write(copy.path().join("long"), "long ".repeat(500_000)).unwrap();
    copy.git(&["commit", "--quiet", "--allow-empty", "--file", "long"]);
    let commit = copy.git(&["rev-parse", "HEAD"]);
    let said = sent(copy.attest(""));
    assert_eq!(said["git_commit_info"]["sha1"], commit);
    assert_eq!(said["git_commit_info"]["message"].as_str().unwrap().chars().count(), 10_001);
    let head = copy.path().join(".git/HEAD");
    std::fs::remove_file(&head).unwrap();
    assert!(Command::new("mkfifo").arg(&head).status().unwrap().success());
    copy.attest("").run().says(0, &["git has said nothing for 10s"]);
}

#[test]
fn what_nobody_tells_is_left_out_and_said_and_what_cannot_be_is_refused() {
    let outside = attest("--dry-run r.xml").file("r.xml", PASSING).run();
    outside.says(
        0,
        &["nothing tells the commit", "give --commit", "nothing tells the repository", "--repository"],
    );
    for (options, words) in [
        (
            "--commit HEAD",
            &[
                "the commit \"HEAD\" (given) cannot be used",
                "40 lowercase hexadecimal digits",
                "or a name that the working copy knows",
            ][..],
        ),
        ("--commit-timestamp noon", &["time of the commit \"noon\"", "2026-09-15T12:00:00Z"]),
        ("--repository acme//cart", &["--repository", "has an empty part"]),
        ("--provider sourceforge", &["github, gitlab, bitbucket"]),
        ("--fingerprint web:1.0", &["--fingerprint", "name@sha256:"]),
        ("--fingerprint-file digests", &["digests", "line 2", "web:1.0", "SHA-256 digest was expected"]),
        ("--fingerprint-file none", &["\"none\" (--fingerprint-file) cannot be read"]),
        ("--user-data list.json", &["list.json", "no JSON object"]),
        ("--annotate k", &["--annotate", "= between"]),
        ("--annotate k=1 --annotate k=2", &["--annotate gives \"k\" twice"]),
        ("--external-url docs=javascript:alert(1)", &["--external-url", "https://"]),
        ("--working-copy none", &["--working-copy", "a directory was expected"]),
    ] {
        let program = attest(&format!("--dry-run r.xml {options}")).file("r.xml", PASSING);
        let program =
            program.file("digests", format!("{}\nweb:1.0\n", "1".repeat(64))).file("list.json", "[]");
        program.run().says(2, words);
    }
}
