//! Bad input at the command line, and what it gets.

use crate::fake::{Reply, Server};
use crate::program::{TOKEN, once, recorded_report, supercargo};

#[test]
fn a_name_that_cannot_be_an_environment_is_refused() {
    for name in ["", ".", "..", "a/b", "a\nb"] {
        once()
            .args(["--dry-run", "--environment", name])
            .recorded_pods()
            .run()
            .says(2, &["--environment", "environment \""]);
    }
}

#[test]
fn exactly_one_of_environment_and_config_is_needed() {
    once().args(["--dry-run"]).recorded_pods().run().says(2, &["--environment", "--config"]);
    let both = once().args(["--environment", "x", "--config", "c.yaml"]).recorded_pods().run();
    both.says(2, &["--environment", "--config"]);
    let mixed = once().args(["--config", "c.yaml", "--namespace", "a"]).recorded_pods().run();
    mixed.says(2, &["--config", "--namespace"]);
}

#[test]
fn a_configuration_file_s_mistake_is_named_with_its_place() {
    for (config, words) in [
        ("environments: []", &["lists no environment"][..]),
        ("environments:\n- name: a\n- name: a\n", &["lists the environment \"a\" twice"]),
        (
            "environments:\n- name: a\n  namespacesRegexp: [x]\n",
            &["at environments[0].namespacesRegexp", "namespacesRegex", "line 3"],
        ),
        ("environments:\n- name: a\n  namespaces: pay\n", &["at environments[0].namespaces", "line 3"]),
        (
            "environments:\n- name: a\n  namespacesRegex: [ok, '(']\n",
            &["at environments[0].namespacesRegex[1]", "line 3", "\"(\": unclosed group"],
        ),
        ("", &["is empty"]),
        ("environments:\n- name: a/b\n", &["line 2", "a/b", "slash"]),
    ] {
        let outcome =
            once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).recorded_pods().run();
        outcome.says(2, &["the configuration file \"c.yaml\""]).says(2, words);
    }
    once()
        .args(["--dry-run", "--config", "none.yaml"])
        .recorded_pods()
        .run()
        .says(2, &["none.yaml", "cannot be read"]);
}

#[test]
fn a_report_that_cannot_be_sent_is_noticed_before_the_cluster_is_asked() {
    let program = || once().args(["--environment", "prod"]).recorded_pods();
    let url = "https://compliance.example.com";
    for (outcome, words) in [
        (program().run(), &["there is no base URL", "--base-url", "SUPERCARGO_BASE_URL"][..]),
        (program().args(["--base-url", url]).run(), &["there is no organization", "--org", "SUPERCARGO_ORG"]),
        (
            program().args(["--base-url", url, "--org", "acme"]).run(),
            &["there is no token", "--token-file", "SUPERCARGO_TOKEN_FILE", "SUPERCARGO_TOKEN"],
        ),
        (program().args(["--base-url", url, "--org", ".."]).run(), &["--org", "relative path"]),
        (program().args(["--base-url", "compliance.example.com", "--org", "acme"]).run(), &["is no URL"]),
        (program().args(["--base-url", "https://x?y=z", "--org", "acme"]).run(), &["query"]),
        (
            program().args(["--base-url", "http://compliance.example.com", "--org", "acme"]).run(),
            &["--allow-http"],
        ),
    ] {
        outcome.says(2, words);
    }
    for (token, words) in [
        ("", &["is empty", "--token-file"][..]),
        ("two\nlines", &["holds a line break", "SUPERCARGO_TOKEN_FILE"]),
    ] {
        let with =
            program().args(["--base-url", url, "--org", "acme", "--token-file", "t"]).file("t", token).run();
        with.says(2, words);
    }
    let outcome = program().args(["--base-url", url, "--org", "acme", "--token-file", "none"]).run();
    outcome.says(2, &["\"none\"", "--token-file", "cannot be read"]);
}

#[test]
fn what_was_expected_of_a_value_is_said_in_words() {
    for (line, words) in [
        ("serve --listen 8090", &["'8090'", "an IP address and a port, as 127.0.0.1:8080"][..]),
        ("serve --admin-listen localhost:8090", &["an IP address and a port, as 127.0.0.1:8080"]),
        ("agent --environment a --listen :8082", &["an IP address and a port, as 127.0.0.1:8080"]),
        ("serve --max-report 10MB", &["'10MB'", "a whole number from 1 to 67108864 was expected"]),
        ("serve --max-attachment 0", &["a whole number from 1 to 10485760 was expected"]),
        ("serve --max-wrong-tokens 0", &["a whole number from 1 to 4294967295 was expected"]),
        ("get approval cart x", &["'x'", "a whole number from 0 to"]),
        ("get action x", &["'x'", "a whole number from 0 to"]),
        ("list trails --per-page 0", &["a whole number from 1 to 500 was expected"]),
        ("list trails --page x", &["a whole number from 1 to 4294967295 was expected"]),
        ("serve --public-url foo", &["\"foo\"", "--public-url, SUPERCARGO_PUBLIC_URL", "http or https URL"]),
    ] {
        supercargo().args(line.split(' ')).run().says(2, words);
    }
    let secret = supercargo().args(["serve", "--public-url", "https://u:s3cret@h"]).run();
    assert!(!secret.says(2, &["--public-url"]).stderr.contains("s3cret"), "{secret:#?}");
}

#[test]
fn help_names_the_variable_of_an_option_and_not_what_is_in_it() {
    for (line, variable) in [
        ("--help", "SUPERCARGO_LOG_FORMAT"),
        ("serve --help", "SUPERCARGO_PUBLIC_URL"),
        ("list trails --help", "SUPERCARGO_ORG"),
    ] {
        let help = supercargo().args(line.split(' ')).env(variable, "text").run().stdout;
        let shown = help.split("[env: ").skip(1).map(|rest| rest.split(']').next().unwrap());
        assert!(shown.clone().any(|name| name == variable), "{help}");
        assert!(!shown.clone().any(|name| name.contains('=')), "{help}");
    }
}

#[test]
fn what_talks_to_no_service_takes_no_option_of_one() {
    for line in ["agent", "list trails", "get action", "wait", "attest junit", "list", "attest"] {
        let help = supercargo().args(line.split(' ')).args(["--help"]).run();
        assert!(help.stdout.contains("--org <NAME>"), "{line}: {help:#?}");
    }
    for line in ["serve", "demo", "completions", "man", ""] {
        let arguments = || supercargo().args(line.split(' ').filter(|word| !word.is_empty()));
        let help = arguments().args(["--help"]).run();
        assert!(!help.stdout.contains("--org"), "{line}: {help:#?}");
        arguments().args(["--org", "acme"]).run().says(2, &["unexpected argument '--org'"]);
    }
}

#[test]
fn a_mistake_names_what_is_missing_and_nothing_that_a_variable_or_a_default_gave() {
    let outcome = supercargo().args(["list", "attestations"]).env("SUPERCARGO_ORG", "acme").run();
    outcome.says(2, &["required arguments were not provided", "<FLOW>", "try '--help'"]);
    for given in ["--org", "--per-page", "--timeout", "--output"] {
        assert!(!outcome.stderr.contains(given), "{given}: {outcome:#?}");
    }
}

#[test]
fn durations_are_written_as_people_write_them() {
    for bad in ["", "0s", "-1s", "60", "soon", "99d"] {
        let outcome = once()
            .args(["--dry-run", "--environment", "x", &format!("--timeout={bad}")])
            .recorded_pods()
            .run();
        outcome.says(2, &["--timeout"]);
    }
    for good in ["90s", "10m", "1h30m"] {
        once()
            .args(["--dry-run", "--environment", "x", "--timeout", good])
            .recorded_pods()
            .run()
            .says(0, &[]);
    }
}

#[test]
fn the_token_file_wins_over_the_variable() {
    let endpoint = Server::start(|_| Reply::json(201, ""));
    let program = once().args(["--environment", "x", "--token-file", "t"]).file("t", "from-file\n");
    program.recorded_pods().service(&endpoint).run().says(0, &[]);
    assert_eq!(endpoint.seen()[0].headers["authorization"], "Bearer from-file");
}

#[test]
fn a_log_line_is_one_json_object_where_that_is_asked_for() {
    let outcome =
        once().args(["--dry-run", "--environment", "x", "--log-format", "json"]).recorded_pods().run();
    let line: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    assert_eq!(
        (&line["environment"], &line["artifacts"], &line["level"]),
        (&"x".into(), &20.into(), &"INFO".into())
    );

    let failed =
        once().args(["--dry-run", "--environment", "x", "--log-format", "json", "--pods-from", "none"]).run();
    let line: serde_json::Value = serde_json::from_str(&failed.says(2, &[]).stderr).unwrap();
    assert!(line["message"].as_str().unwrap().contains("\"none\" cannot be read"), "{line}");
    once()
        .args(["--dry-run", "--environment", "x"])
        .recorded_pods()
        .env("RUST_LOG", "[=")
        .run()
        .says(2, &["RUST_LOG"]);
}

#[test]
fn help_lists_the_exit_codes_and_shows_an_example() {
    let help = supercargo().args(["--help"]).run();
    assert_eq!(help.code, 0);
    for code in [
        "0  done",
        "2  usage",
        "3  not authorized",
        "4  not found",
        "5  the service refused",
        "6  the service",
        "8  the cluster",
    ] {
        assert!(help.stdout.contains(code), "{code}: {}", help.stdout);
    }
    let agent = supercargo().args(["agent", "--help"]).env("SUPERCARGO_TOKEN", TOKEN).run();
    assert!(
        agent.stdout.contains("supercargo agent --once --dry-run --environment prod"),
        "{}",
        agent.stdout
    );
}

/// Runs the dry run of three environments with standard output and error going to a shell's idea.
fn three_environments(redirection: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.yaml"), "environments:\n- name: a\n- name: b\n- name: c\n").unwrap();
    let script = format!(
        "'{}' agent --once --dry-run --config c.yaml --pods-from '{}' {redirection}",
        env!("CARGO_BIN_EXE_supercargo"),
        crate::fake::kube::fixture_path("pod-list.json").display()
    );
    let shell = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .env_clear()
        .current_dir(folder.path())
        .output()
        .unwrap();
    (shell.status.code(), String::from_utf8(shell.stdout).unwrap())
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (code, seen) = three_environments("2>err | head -c 10; cat err");
    assert_eq!((code, &seen[..10]), (Some(0), r#"{"type":"K"#));
    assert!(!seen.contains("error"), "{seen}");
}

#[test]
fn a_log_that_cannot_be_written_stops_no_report() {
    let (code, printed) = three_environments("2>/dev/full");
    assert_eq!((code, printed.lines().count()), (Some(0), 3));
}

#[test]
fn a_file_that_is_too_long_is_refused_and_not_cut() {
    // Cut anywhere in its comment, it would still be a configuration, of one environment less.
    let config = format!("environments:\n- name: a\n#{}\n- name: b\n", "x".repeat(5 * 1024 * 1024));
    let outcome =
        once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).recorded_pods().run();
    outcome.says(2, &["\"c.yaml\" cannot be read", "longer than 4194304 bytes"]);

    let token = "x".repeat(70 * 1024);
    let program = once().args(["--environment", "a", "--token-file", "t"]).file("t", token).recorded_pods();
    let outcome = program.args(["--base-url", "https://compliance.example.com", "--org", "acme"]).run();
    outcome.says(2, &["--token-file", "longer than 65536 bytes"]);
}

#[test]
fn a_variable_that_is_empty_is_one_that_is_not_set() {
    let outcome = once()
        .args(["--dry-run", "--environment", "x"])
        .recorded_pods()
        .env("SUPERCARGO_LOG_FORMAT", "")
        .env("SUPERCARGO_BASE_URL", "")
        .run();
    assert_eq!(outcome.says(0, &[]).stdout, recorded_report());
    // What is wrong comes after what could not be read.
    let serve =
        supercargo().args(["serve", "--database", "postgres://user:password@db.example.com/evidence"]);
    let serve =
        ["LISTEN", "ADMIN_LISTEN", "TLS_CERT", "TLS_KEY", "BOOTSTRAP", "PUBLIC_URL", "ALLOW_INTERNAL"]
            .into_iter()
            .fold(serve, |serve, name| serve.env(&format!("SUPERCARGO_{name}"), ""));
    serve.run().says(2, &["give the URL in SUPERCARGO_DATABASE"]);
}
