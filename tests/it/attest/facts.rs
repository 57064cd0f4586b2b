//! Provenance of an attestation: working copy, CI variables and options.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::attest::{PASSING, attest, particular};
use crate::program::Program;

/// A working copy with git.
struct WorkingCopy(tempfile::TempDir);

impl WorkingCopy {
    fn new(remote: &str) -> Self {
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

    /// A dry run with git on the PATH.
    fn attest(&self, more: &str) -> Program {
        let program = attest("--dry-run r.xml --working-copy").args([self.path().to_str().unwrap()]);
        let program = program.args(more.split(' ').filter(|word| !word.is_empty())).file("r.xml", PASSING);
        program.env("PATH", &std::env::var("PATH").unwrap())
    }
}

fn dry_run_data(program: Program) -> Value {
    serde_json::from_str(&program.args(["-o", "json"]).run().expect(0, &[]).stdout).unwrap()
}

#[test]
fn working_copy_gives_commit_parents_and_repository_without_credentials() {
    let copy = WorkingCopy::new("https://ci:s3cret@github.com/acme/cart.git");
    let parent = copy.git(&["rev-parse", "HEAD"]);
    let commit = copy.commit("Count <all>\n\nOf them.");
    assert_eq!(
        dry_run_data(copy.attest("")),
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
    assert_eq!(particular(&table, "commit"), format!("{commit} (working copy)"));
    assert_eq!(particular(&table, "repository "), "acme/cart (repository's URL)");
    assert_eq!(particular(&table, "time of the commit"), "2026-09-15T12:00:00Z (working copy)");
}

#[test]
fn shallow_clone_gives_parents() {
    let copy = WorkingCopy::new("https://github.com/acme/cart");
    let parent = copy.git(&["rev-parse", "HEAD"]);
    copy.commit("Second");
    let clone = tempfile::tempdir().unwrap();
    let (from, to) = (format!("file://{}", copy.path().display()), clone.path().join("c"));
    copy.git(&["clone", "--quiet", "--depth", "1", &from, to.to_str().unwrap()]);
    std::fs::rename(clone.path().join("c/.git"), copy.path().join("shallow")).unwrap();
    std::fs::remove_dir_all(copy.path().join(".git")).unwrap();
    std::fs::rename(copy.path().join("shallow"), copy.path().join(".git")).unwrap();
    assert_eq!(dry_run_data(copy.attest(""))["git_commit_info"]["parents"], json!([parent]));
}

#[test]
fn ci_variables_apply_only_to_the_tested_commit() {
    let copy = WorkingCopy::new("https://git.example.com/mirror/cart");
    let commit = copy.git(&["rev-parse", "HEAD"]);
    copy.git(&["checkout", "--quiet", "--detach"]);
    let github = |commit: &str| {
        let program = copy.attest("").env("GITHUB_ACTIONS", "true").env("GITHUB_SHA", commit);
        let program = program.env("GITHUB_REF", "refs/heads/fix").env("GITHUB_REPOSITORY", "acme/cart");
        program.env("GITHUB_SERVER_URL", "https://github.com").env("GITHUB_RUN_ID", "12")
    };
    let data = dry_run_data(github(&commit));
    assert_eq!(data["git_commit_info"]["branch"], "fix");
    assert_eq!(data["repo_info"], json!({"name": "acme/cart", "url": "https://github.com/acme/cart"}));
    assert_eq!(data["origin_url"], "https://github.com/acme/cart/actions/runs/12");

    let other = "1".repeat(40);
    let outcome = github(&other).run();
    outcome.expect(
        0,
        &[&format!("ignoring commit {other} from GITHUB_SHA: the tested commit is {commit} (working copy)")],
    );
    let data = dry_run_data(github(&other));
    assert_eq!(
        (&data["git_commit_info"]["sha1"], data["git_commit_info"].get("branch")),
        (&json!(commit), None)
    );
    assert_eq!(data["repo_info"]["name"], "mirror/cart");
}

#[test]
fn options_set_each_fact_and_revisions_are_resolved() {
    let copy = WorkingCopy::new("https://github.com/acme/cart");
    let first = copy.git(&["rev-parse", "HEAD"]);
    copy.commit("Second");
    let data = dry_run_data(copy.attest("--commit HEAD~1"));
    // The commit is not checked out, so its branch is unknown.
    assert_eq!(
        (&data["git_commit_info"]["sha1"], data["git_commit_info"].get("branch")),
        (&json!(first), None)
    );

    let commit = "a".repeat(40);
    let options = format!(
        "--commit {commit} --commit-url https://x.example/c --branch b --author A --message m \
         --commit-timestamp 1789473600.5 --repository o/r --repository-url https://u:p@x.example/o/r \
         --provider gitlab --origin-url https://u:p@ci.example/1 \
         --description D --external-url docs=https://u:p@d.example --annotate k=v=w --target web --user-data u.json \
         --fingerprint {} --fingerprint x/y@sha256:{} --fingerprint-file digests",
        "1".repeat(64),
        "2".repeat(64)
    );
    let program = copy.attest(&options).file("u.json", "{\"n\": 1}");
    let program =
        program.file("digests", format!("# built\n\nsha256:{}\n{}\n", "3".repeat(64), "1".repeat(64)));
    assert_eq!(
        dry_run_data(program),
        json!({
            "attestation_name": "unit-tests",
            "junit_results": [{"name": "s", "total": 1, "failures": 0, "errors": 0, "skipped": 0, "duration": 0.5}],
            "origin_url": "https://ci.example/1",
            "description": "D",
            "artifact_fingerprint": "1".repeat(64),
            "target_artifacts": ["2".repeat(64), "3".repeat(64), "web"],
            "git_commit_info": {
                "sha1": commit, "url": "https://x.example/c", "branch": "b", "author": "A", "message": "m",
                "timestamp": 1_789_473_600.5,
            },
            "repo_info": {"name": "o/r", "url": "https://x.example/o/r", "provider": "gitlab"},
            "external_urls": {"docs": "https://d.example/"},
            "annotations": {"k": "v=w"},
            "user_data": {"n": 1},
        })
    );
}

#[test]
fn repository_option_ignores_the_working_copy() {
    let copy = WorkingCopy::new("https://github.com/acme/cart");
    let data = dry_run_data(copy.attest("--repository acme/other --provider bitbucket"));
    assert_eq!(data["repo_info"], json!({"name": "acme/other", "provider": "bitbucket"}));
    let data =
        dry_run_data(copy.attest("--repository-url git@gitlab.example.com:acme/other.git --provider="));
    assert_eq!(
        data["repo_info"],
        json!({"name": "acme/other", "url": "https://gitlab.example.com/acme/other"})
    );
}

#[test]
fn each_remote_of_a_repository_gives_its_name_and_its_pages() {
    for (remotes, name, page, commits) in [
        (
            &[
                "https://jo@bitbucket.example.com/scm/pay/cart.git",
                "ssh://git@bitbucket.example.com:7999/pay/cart.git",
            ][..],
            "pay/cart",
            "https://bitbucket.example.com/projects/pay/repos/cart",
            "commits",
        ),
        (
            &[
                "git@ssh.dev.azure.com:v3/acme/Web%20Shop/cart",
                "acme@vs-ssh.visualstudio.com:v3/acme/Web%20Shop/cart",
                "https://acme.visualstudio.com/DefaultCollection/Web%20Shop/_git/cart",
                "https://acme@dev.azure.com/acme/Web%20Shop/_git/cart",
            ],
            "acme/Web Shop/cart",
            "https://dev.azure.com/acme/Web%20Shop/_git/cart",
            "commit",
        ),
        (
            &["ssh://git@ssh.github.com:443/acme/cart.git", "git@github.com:acme/cart.git"],
            "acme/cart",
            "https://github.com/acme/cart",
            "commit",
        ),
    ] {
        let copy = WorkingCopy::new(remotes[0]);
        let commit = copy.git(&["rev-parse", "HEAD"]);
        for remote in remotes {
            copy.git(&["remote", "set-url", "origin", remote]);
            let data = dry_run_data(copy.attest(""));
            assert_eq!((&data["repo_info"]["name"], &data["repo_info"]["url"]), (&json!(name), &json!(page)));
            assert_eq!(data["git_commit_info"]["url"], format!("{page}/{commits}/{commit}"), "{remote}");
        }
    }
    let copy = WorkingCopy::new("https://jo@gerrit.example.com/a/acme/cart");
    let data = dry_run_data(copy.attest(""));
    assert_eq!(
        data["repo_info"],
        json!({"name": "acme/cart", "url": "https://gerrit.example.com/acme/cart"})
    );
}

#[test]
fn author_and_message_are_read_in_the_encoding_of_the_commit() {
    let copy = WorkingCopy::new("https://github.com/acme/cart");
    copy.git(&["config", "i18n.commitEncoding", "ISO-8859-1"]);
    let mut commit = Command::new("git");
    commit.arg("-C").arg(copy.path()).args(["commit", "--quiet", "--allow-empty", "--file", "message"]);
    std::fs::write(copy.path().join("message"), b"F\xfcr Jan").unwrap();
    let name = OsStr::from_bytes(b"J\xf6rg");
    for role in ["AUTHOR", "COMMITTER"] {
        commit.env(format!("GIT_{role}_NAME"), name).env(format!("GIT_{role}_EMAIL"), "j@example.com");
    }
    assert!(commit.status().unwrap().success());
    let data = dry_run_data(copy.attest(""));
    let commit = &data["git_commit_info"];
    assert_eq!((&commit["author"], &commit["message"]), (&json!("Jörg <j@example.com>"), &json!("Für Jan")));
}

#[test]
fn azure_pipeline_of_a_pull_request_at_github_gives_the_branch() {
    let program = attest("--dry-run r.xml").file("r.xml", PASSING).env("TF_BUILD", "True");
    let program =
        program.env("SYSTEM_PULLREQUEST_SOURCEBRANCH", "fix/x").env("BUILD_SOURCEVERSION", &"a".repeat(40));
    assert_eq!(dry_run_data(program)["git_commit_info"]["branch"], "fix/x");
}

#[test]
fn git_variables_do_not_change_the_repository() {
    let (copy, other) =
        (WorkingCopy::new("https://github.com/acme/cart"), WorkingCopy::new("https://github.com/a/b"));
    let git_dir = other.path().join(".git");
    let data = dry_run_data(copy.attest("").env("GIT_DIR", git_dir.to_str().unwrap()));
    assert_eq!(data["repo_info"]["name"], "acme/cart");
}

#[test]
fn invalid_ci_facts_are_left_out_and_credentials_not_printed() {
    for (variable, value, expected_text) in [
        (
            "CI_COMMIT_TIMESTAMP",
            "garbage",
            "invalid time of the commit \"garbage\" (CI_COMMIT_TIMESTAMP): expected a time",
        ),
        ("CI_PROJECT_PATH", "a b/c ", "invalid repository"),
        ("CI_JOB_URL", "https://u:S3CRET#x@h", "invalid origin \"(not shown)\" (CI_JOB_URL): expected a URL"),
        ("CI_PROJECT_URL", "x-token:S3CRET@gitlab.com/a/b", ""),
    ] {
        let program = attest("--dry-run r.xml -vvv")
            .file("r.xml", PASSING)
            .env("GITLAB_CI", "true")
            .env(variable, value);
        let outcome = program.run();
        outcome.expect(0, &[expected_text]);
        assert!(!format!("{outcome:?}").contains("S3CRET"), "{outcome:?}");
    }
    let long = format!("https://u:S3CRET@ci.example/{}", "x".repeat(70_000));
    let outcome =
        attest("--dry-run r.xml").file("r.xml", PASSING).env("GITLAB_CI", "1").env("CI_JOB_URL", &long).run();
    assert!(!format!("{:?}", outcome.expect(0, &["origin", "; omitted"])).contains("S3CRET"));
}

#[test]
fn silent_git_and_long_messages_are_limited() {
    let copy = WorkingCopy::new("https://github.com/acme/cart");
    std::fs::write(copy.path().join("long"), "long ".repeat(500_000)).unwrap();
    copy.git(&["commit", "--quiet", "--allow-empty", "--file", "long"]);
    let commit = copy.git(&["rev-parse", "HEAD"]);
    let data = dry_run_data(copy.attest(""));
    assert_eq!(data["git_commit_info"]["sha1"], commit);
    assert_eq!(data["git_commit_info"]["message"].as_str().unwrap().chars().count(), 10_001);
    let head = copy.path().join(".git/HEAD");
    std::fs::remove_file(&head).unwrap();
    assert!(Command::new("mkfifo").arg(&head).status().unwrap().success());
    copy.attest("").run().expect(0, &["git timed out after 10s"]);
}

#[test]
fn missing_facts_are_logged_and_invalid_options_rejected() {
    let outside = attest("--dry-run r.xml").file("r.xml", PASSING).run();
    outside.expect(0, &["unknown commit", "set --commit", "unknown repository", "--repository"]);
    for (options, texts) in [
        (
            "--commit HEAD",
            &[
                "invalid commit \"HEAD\" (given)",
                "40 lowercase hexadecimal digits",
                "or a name that exists in the working copy",
            ][..],
        ),
        ("--commit-timestamp noon", &["time of the commit \"noon\"", "2026-09-15T12:00:00Z"]),
        ("--repository acme//cart", &["--repository", "got an empty part"]),
        ("--provider sourceforge", &["github, gitlab, bitbucket"]),
        ("--fingerprint web:1.0", &["--fingerprint", "name@sha256:"]),
        ("--fingerprint-file digests", &["digests", "line 2", "web:1.0", "expected a SHA-256 digest"]),
        ("--fingerprint-file none", &["failed to read \"none\" (--fingerprint-file)"]),
        ("--user-data list.json", &["list.json", "expected a JSON object"]),
        ("--annotate k", &["--annotate", "expected KEY=VALUE"]),
        ("--annotate k=1 --annotate k=2", &["--annotate sets \"k\" twice"]),
        ("--external-url docs=javascript:alert(1)", &["--external-url", "https://"]),
        ("--working-copy none", &["--working-copy", "expected a directory"]),
    ] {
        let program = attest(&format!("--dry-run r.xml {options}")).file("r.xml", PASSING);
        let program =
            program.file("digests", format!("{}\nweb:1.0\n", "1".repeat(64))).file("list.json", "[]");
        program.run().expect(2, texts);
    }
}
