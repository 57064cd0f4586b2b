//! Certificate files of `serve`, and the options and variables that name them.

use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::tls::TlsInfo;

use crate::service::READER;
use crate::service::http::tls::{Secret, der};
use crate::service::support::process::{Process, command_on};
use crate::service::support::test_service::{bootstrap, client, folder};

fn start(args: &[&str], variables: &[(&str, &str)]) -> Process {
    start_on("127.0.0.1:0", args, variables)
}

fn start_on(listen: &str, args: &[&str], variables: &[(&str, &str)]) -> Process {
    let folder = folder(&bootstrap(1, ""));
    let mut command = command_on(listen, &folder, "sqlite::memory:");
    command.envs(variables.iter().copied()).args(args);
    Process::spawn(command, folder)
}

#[tokio::test]
async fn mismatched_key_keeps_the_certificate_and_is_logged_once() {
    let secret = Secret::new();
    let (identity, renewed) = (secret.authority.host("first"), secret.authority.host("second"));
    secret.write(&identity);
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    let process = start(&["--tls-cert", certificate, "--tls-key", key], &[]);
    let line = process.wait_for_line("serving on");
    let base = line.split_once("serving on ").unwrap().1.split(',').next().unwrap().to_owned();
    assert!(base.starts_with("https://"), "{line}");
    let certificate_seen = async || {
        let http = client(&secret.options()).build().unwrap();
        let request = http.get(format!("{base}/api/v2/trails/acme")).bearer_auth(READER);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec()
    };
    assert_eq!(certificate_seen().await, der(&identity));

    std::fs::write(&files.certificate, &renewed.certificate).unwrap();
    process.signal(Signal::SIGHUP);
    let line = process.wait_for_line("does not match the certificate");
    assert!(line.contains(key) && line.contains("stays"), "{line}");
    assert_eq!(certificate_seen().await, der(&identity));
    process.signal(Signal::SIGHUP);
    process.wait_for_line("applied the bootstrap file");
    std::fs::write(&files.key, &renewed.key).unwrap();
    process.signal(Signal::SIGHUP);
    let between: Vec<_> = std::iter::from_fn(|| process.stderr.recv_timeout(Duration::from_mins(1)).ok())
        .take_while(|line| !line.contains("reloaded the certificate"))
        .collect();
    assert!(!between.iter().any(|line| line.contains("does not match the certificate")), "{between:#?}");
    assert_eq!(certificate_seen().await, der(&renewed));
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
}

#[test]
fn invalid_certificate_file_prevents_the_start_and_is_named() {
    let secret = Secret::new();
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    let other = Secret::new();
    let others = other.files();
    let garbled = secret.folder.path().join("garbled");
    std::fs::write(&garbled, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    for (args, texts) in [
        (["--tls-cert", "missing.crt", "--tls-key", key], &["failed to read", "missing.crt"][..]),
        (["--tls-cert", certificate, "--tls-key", "missing.key"], &["failed to read", "missing.key"]),
        (["--tls-cert", garbled.to_str().unwrap(), "--tls-key", key], &["garbled", "X.509 in PEM"]),
        (["--tls-cert", key, "--tls-key", key], &["tls.key", "no certificate"]),
        (["--tls-cert", certificate, "--tls-key", certificate], &["tls.crt", "no private key"]),
        (
            ["--tls-cert", certificate, "--tls-key", others.key.to_str().unwrap()],
            &["does not match the certificate", certificate],
        ),
    ] {
        let (code, log) = start(&args, &[]).wait();
        assert_eq!(code, Some(2), "{args:?}: {log}");
        for text in texts {
            assert!(log.contains(text), "{text}: {log}");
        }
    }
}

#[test]
fn certificate_without_key_is_rejected_and_empty_variable_is_unset() {
    let secret = Secret::new();
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    for (args, variables, missing) in [
        (&["--tls-cert", certificate][..], &[][..], "--tls-key"),
        (&["--tls-key", key], &[], "--tls-cert"),
        (&["--tls-cert", certificate], &[("SUPERCARGO_TLS_KEY", "")], "--tls-key"),
        (&[], &[("SUPERCARGO_TLS_CERT", certificate)], "--tls-key"),
    ] {
        let (code, log) = start(args, variables).wait();
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(&format!("requires {missing}")), "{log}");
    }
    let empty = [("SUPERCARGO_TLS_CERT", ""), ("SUPERCARGO_TLS_KEY", "")];
    assert!(start(&[], &empty).wait_for_line("serving on").contains("serving on http://"));
    let named = [("SUPERCARGO_TLS_CERT", certificate), ("SUPERCARGO_TLS_KEY", key)];
    assert!(start(&[], &named).wait_for_line("serving on").contains("serving on https://"));
}

#[test]
fn plain_http_is_warned_about_except_on_loopback() {
    let secret = Secret::new();
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    for (listen, args, expected) in [
        ("127.0.0.1:0", &[][..], false),
        ("0.0.0.0:0", &[], true),
        ("0.0.0.0:0", &["--tls-cert", certificate, "--tls-key", key], false),
    ] {
        let process = start_on(listen, args, &[]);
        process.wait_for_line("serving on");
        process.signal(Signal::SIGTERM);
        let (code, log) = process.wait();
        assert_eq!(
            (code, log.contains("serving plain HTTP")),
            (Some(0), expected),
            "{listen} {args:?}: {log}"
        );
    }
}
