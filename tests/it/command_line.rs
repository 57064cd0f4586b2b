//! Rejection of invalid command-line input, help texts, and output to closed or full pipes.

use crate::fake::{Reply, Server};
use crate::program::{TOKEN, once, recorded_report, supercargo};

#[test]
fn invalid_environment_name_is_rejected() {
    for name in ["", ".", "..", "a/b", "a\nb"] {
        once()
            .args(["--dry-run", "--environment", name])
            .recorded_pods()
            .run()
            .expect(2, &["--environment", "invalid environment name \""]);
    }
}

#[test]
fn exactly_one_of_environment_and_config_is_required() {
    once().args(["--dry-run"]).recorded_pods().run().expect(2, &["--environment", "--config"]);
    let both = once().args(["--environment", "x", "--config", "c.yaml"]).recorded_pods().run();
    both.expect(2, &["--environment", "--config"]);
    let mixed = once().args(["--config", "c.yaml", "--namespace", "a"]).recorded_pods().run();
    mixed.expect(2, &["--config", "--namespace"]);
}

#[test]
fn configuration_file_error_names_key_and_line() {
    for (config, texts) in [
        ("environments: []", &["lists no environment"][..]),
        ("environments:\n- name: a\n- name: a\n", &["lists environment \"a\" twice"]),
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
        ("environments:\n- name: a/b\n", &["line 2", "a/b", "letter or digit"]),
    ] {
        let outcome =
            once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).recorded_pods().run();
        outcome.expect(2, &["configuration file \"c.yaml\""]).expect(2, texts);
    }
    once()
        .args(["--dry-run", "--config", "none.yaml"])
        .recorded_pods()
        .run()
        .expect(2, &["failed to read", "none.yaml"]);
}

#[test]
fn missing_service_options_are_rejected_before_the_cluster_is_listed() {
    let program = || once().args(["--environment", "prod"]).recorded_pods();
    let url = "https://compliance.example.com";
    for (outcome, texts) in [
        (program().run(), &["missing base URL", "--base-url", "SUPERCARGO_BASE_URL"][..]),
        (program().args(["--base-url", url]).run(), &["missing organization", "--org", "SUPERCARGO_ORG"]),
        (
            program().args(["--base-url", url, "--org", "acme"]).run(),
            &["missing token", "--token-file", "SUPERCARGO_TOKEN_FILE", "SUPERCARGO_TOKEN"],
        ),
        (program().args(["--base-url", url, "--org", ".."]).run(), &["--org", "relative path"]),
        (
            program().args(["--base-url", "compliance.example.com", "--org", "acme"]).run(),
            &["expected a URL"],
        ),
        (program().args(["--base-url", "https://x?y=z", "--org", "acme"]).run(), &["query"]),
        (
            program().args(["--base-url", "http://compliance.example.com", "--org", "acme"]).run(),
            &["--allow-http"],
        ),
    ] {
        outcome.expect(2, texts);
    }
    for (token, texts) in [
        ("", &["is empty", "--token-file"][..]),
        ("two\nlines", &["got a line break", "SUPERCARGO_TOKEN_FILE"]),
    ] {
        let with =
            program().args(["--base-url", url, "--org", "acme", "--token-file", "t"]).file("t", token).run();
        with.expect(2, texts);
    }
    let outcome = program().args(["--base-url", url, "--org", "acme", "--token-file", "none"]).run();
    outcome.expect(2, &["failed to read", "\"none\"", "--token-file"]);
}

#[test]
fn invalid_option_value_error_says_what_was_expected() {
    for (line, texts) in [
        ("serve --listen 8090", &["'8090'", "expected an IP address and a port such as 127.0.0.1:8080"][..]),
        (
            "serve --admin-listen localhost:8090",
            &["expected an IP address and a port such as 127.0.0.1:8080"],
        ),
        (
            "agent --environment a --listen :8082",
            &["expected an IP address and a port such as 127.0.0.1:8080"],
        ),
        ("serve --max-report 10MB", &["'10MB'", "expected an integer from 1 to 67108864"]),
        ("serve --max-attachment 0", &["expected an integer from 1 to 10485760"]),
        ("serve --max-invalid-tokens 0", &["expected an integer from 1 to 4294967295"]),
        ("get approval cart x", &["'x'", "expected an integer from 0 to"]),
        ("get action x", &["'x'", "expected an integer from 0 to"]),
        ("list trails --per-page 0", &["expected an integer from 1 to 500"]),
        ("list trails --page x", &["expected an integer from 1 to 4294967295"]),
        ("serve --public-url foo", &["\"foo\"", "--public-url, SUPERCARGO_PUBLIC_URL", "http or https URL"]),
    ] {
        supercargo().args(line.split(' ')).run().expect(2, texts);
    }
    let secret = supercargo().args(["serve", "--public-url", "https://u:s3cret@h"]).run();
    assert!(!secret.expect(2, &["--public-url"]).stderr.contains("s3cret"), "{secret:#?}");
}

#[test]
fn help_shows_environment_variable_names_without_values() {
    for (line, variable) in [
        ("--help", "SUPERCARGO_LOG_FORMAT"),
        ("serve --help", "SUPERCARGO_PUBLIC_URL"),
        ("list trails --help", "SUPERCARGO_ORG"),
    ] {
        let help = supercargo().args(line.split(' ')).env(variable, "text").run().stdout;
        let variables = help.split("[env: ").skip(1).map(|rest| rest.split(']').next().unwrap());
        assert!(variables.clone().any(|name| name == variable), "{help}");
        assert!(!variables.clone().any(|name| name.contains('=')), "{help}");
    }
}

#[test]
fn commands_without_a_service_reject_service_options() {
    for line in ["agent", "list trails", "get action", "wait", "attest junit", "list", "attest"] {
        let help = supercargo().args(line.split(' ')).args(["--help"]).run();
        assert!(help.stdout.contains("--org <NAME>"), "{line}: {help:#?}");
    }
    for line in ["serve", "demo", "completions", "man", ""] {
        let arguments = || supercargo().args(line.split(' ').filter(|word| !word.is_empty()));
        let help = arguments().args(["--help"]).run();
        assert!(!help.stdout.contains("--org"), "{line}: {help:#?}");
        arguments().args(["--org", "acme"]).run().expect(2, &["unexpected argument '--org'"]);
    }
}

#[test]
fn usage_error_names_only_missing_arguments() {
    let outcome = supercargo().args(["list", "attestations"]).env("SUPERCARGO_ORG", "acme").run();
    outcome.expect(2, &["required arguments were not provided", "<FLOW>", "try '--help'"]);
    for given in ["--org", "--per-page", "--timeout", "--output"] {
        assert!(!outcome.stderr.contains(given), "{given}: {outcome:#?}");
    }
}

#[test]
fn durations_need_a_unit() {
    for invalid in ["", "0s", "-1s", "60", "soon", "99d"] {
        let outcome = once()
            .args(["--dry-run", "--environment", "x", &format!("--timeout={invalid}")])
            .recorded_pods()
            .run();
        outcome.expect(2, &["--timeout"]);
    }
    for good in ["90s", "10m", "1h30m"] {
        once()
            .args(["--dry-run", "--environment", "x", "--timeout", good])
            .recorded_pods()
            .run()
            .expect(0, &[]);
    }
}

#[test]
fn token_file_overrides_the_token_variable() {
    let endpoint = Server::start(|_| Reply::json(201, ""));
    let program = once().args(["--environment", "x", "--token-file", "t"]).file("t", "from-file\n");
    program.recorded_pods().service(&endpoint).run().expect(0, &[]);
    assert_eq!(endpoint.requests()[0].headers["authorization"], "Bearer from-file");
}

#[test]
fn json_log_format_writes_one_object_per_line() {
    let outcome =
        once().args(["--dry-run", "--environment", "x", "--log-format", "json"]).recorded_pods().run();
    let line: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    assert_eq!(
        (&line["environment"], &line["pods"], &line["level"]),
        (&"x".into(), &20.into(), &"INFO".into())
    );

    let failed =
        once().args(["--dry-run", "--environment", "x", "--log-format", "json", "--pods-from", "none"]).run();
    let line: serde_json::Value = serde_json::from_str(&failed.expect(2, &[]).stderr).unwrap();
    let message = line["message"].as_str().unwrap();
    assert!(message.contains("failed to read") && message.contains("\"none\""), "{line}");
    once()
        .args(["--dry-run", "--environment", "x"])
        .recorded_pods()
        .env("RUST_LOG", "[=")
        .run()
        .expect(2, &["RUST_LOG"]);
}

#[test]
fn help_lists_the_exit_codes_and_shows_an_example() {
    let help = supercargo().args(["--help"]).run();
    assert_eq!(help.code, 0);
    for code in [
        "0 success",
        "2 invalid usage",
        "3 not authorized",
        "4 not found",
        "5 rejected",
        "6 the service",
        "8 the cluster",
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

/// Runs a dry run of three environments in a shell, with this redirection.
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
fn closed_standard_output_is_not_a_failure() {
    let (code, output) = three_environments("2>err | head -c 10; cat err");
    assert_eq!((code, &output[..10]), (Some(0), r#"{"type":"K"#));
    assert!(!output.contains("error"), "{output}");
}

#[test]
#[cfg(target_os = "linux")]
fn unwritable_log_does_not_stop_reports() {
    let (code, printed) = three_environments("2>/dev/full");
    assert_eq!((code, printed.lines().count()), (Some(0), 3));
}

#[test]
fn too_long_file_is_rejected_and_not_truncated() {
    // Truncated within the comment, the file would be a valid configuration with one environment less.
    let config = format!("environments:\n- name: a\n#{}\n- name: b\n", "x".repeat(5 * 1024 * 1024));
    let outcome =
        once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).recorded_pods().run();
    outcome.expect(2, &["failed to read configuration file \"c.yaml\"", "longer than 4194304 bytes"]);

    let token = "x".repeat(70 * 1024);
    let program = once().args(["--environment", "a", "--token-file", "t"]).file("t", token).recorded_pods();
    let outcome = program.args(["--base-url", "https://compliance.example.com", "--org", "acme"]).run();
    outcome.expect(2, &["--token-file", "longer than 65536 bytes"]);
}

#[test]
fn empty_variable_counts_as_unset() {
    let outcome = once()
        .args(["--dry-run", "--environment", "x"])
        .recorded_pods()
        .env("SUPERCARGO_LOG_FORMAT", "")
        .env("SUPERCARGO_BASE_URL", "")
        .run();
    assert_eq!(outcome.expect(0, &[]).stdout, recorded_report());
    // The error that is left is about the database, not about an empty variable.
    let serve =
        supercargo().args(["serve", "--database", "postgres://user:password@db.example.com/evidence"]);
    let serve = [
        "LISTEN",
        "ADMIN_LISTEN",
        "TLS_CERT",
        "TLS_KEY",
        "BOOTSTRAP",
        "PUBLIC_URL",
        "ALLOW_INTERNAL",
        "DATABASE_READ",
    ]
    .into_iter()
    .fold(serve, |serve, name| serve.env(&format!("SUPERCARGO_{name}"), ""));
    serve.run().expect(2, &["set the URL in SUPERCARGO_DATABASE"]);
}
