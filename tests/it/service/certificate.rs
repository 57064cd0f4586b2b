//! The files of a certificate that `serve` takes, and the variables that name them.

use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::tls::TlsInfo;

use super::READER;
use super::process::{Process, command_on};
use super::running::{bootstrap, client, folder};
use super::tls::{Secret, der};

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
async fn a_key_that_does_not_belong_leaves_the_certificate_and_is_said_once() {
    let secret = Secret::new();
    let (identity, renewed) = (secret.authority.host("first"), secret.authority.host("second"));
    secret.write(&identity);
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    let process = start(&["--tls-cert", certificate, "--tls-key", key], &[]);
    let line = process.says("serving on");
    let base = line.strip_prefix("serving on ").unwrap().split(',').next().unwrap().to_owned();
    assert!(base.starts_with("https://"), "{line}");
    let certificate_seen = async || {
        let http = client(&secret.options()).build().unwrap();
        let request = http.get(format!("{base}/api/v2/trails/acme")).bearer_auth(READER);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec()
    };
    assert_eq!(certificate_seen().await, der(&identity));

    std::fs::write(&files.certificate, &renewed.certificate).unwrap();
    process.signal(Signal::SIGHUP);
    let said = process.says("does not belong");
    assert!(said.contains(key) && said.contains("stays"), "{said}");
    assert_eq!(certificate_seen().await, der(&identity));
    process.signal(Signal::SIGHUP);
    process.says("the bootstrap file was applied");
    std::fs::write(&files.key, &renewed.key).unwrap();
    process.signal(Signal::SIGHUP);
    let between: Vec<_> = std::iter::from_fn(|| process.said.recv_timeout(Duration::from_mins(1)).ok())
        .take_while(|line| !line.contains("the certificate was read again"))
        .collect();
    assert!(!between.iter().any(|line| line.contains("does not belong")), "{between:#?}");
    assert_eq!(certificate_seen().await, der(&renewed));
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
}

#[test]
fn files_that_cannot_be_used_refuse_the_start_and_are_named() {
    let secret = Secret::new();
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    let other = Secret::new();
    let others = other.files();
    let garbled = secret.folder.path().join("garbled");
    std::fs::write(&garbled, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    for (args, words) in [
        (["--tls-cert", "missing.crt", "--tls-key", key], &["missing.crt", "cannot be read"][..]),
        (["--tls-cert", certificate, "--tls-key", "missing.key"], &["missing.key", "cannot be read"]),
        (["--tls-cert", garbled.to_str().unwrap(), "--tls-key", key], &["garbled", "X.509 in PEM"]),
        (["--tls-cert", key, "--tls-key", key], &["tls.key", "no certificate"]),
        (["--tls-cert", certificate, "--tls-key", certificate], &["tls.crt", "no private key"]),
        (
            ["--tls-cert", certificate, "--tls-key", others.key.to_str().unwrap()],
            &["does not belong", certificate],
        ),
    ] {
        let (code, said) = start(&args, &[]).wait();
        assert_eq!(code, Some(2), "{args:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

#[test]
fn a_certificate_without_its_key_is_refused_and_an_empty_variable_is_none() {
    let secret = Secret::new();
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    for (args, variables, missing) in [
        (&["--tls-cert", certificate][..], &[][..], "--tls-key"),
        (&["--tls-key", key], &[], "--tls-cert"),
        (&["--tls-cert", certificate], &[("SUPERCARGO_TLS_KEY", "")], "--tls-key"),
        (&[], &[("SUPERCARGO_TLS_CERT", certificate)], "--tls-key"),
    ] {
        let (code, said) = start(args, variables).wait();
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&format!("but no {missing}")), "{said}");
    }
    let empty = [("SUPERCARGO_TLS_CERT", ""), ("SUPERCARGO_TLS_KEY", "")];
    assert!(start(&[], &empty).says("serving on").contains("serving on http://"));
    let named = [("SUPERCARGO_TLS_CERT", certificate), ("SUPERCARGO_TLS_KEY", key)];
    assert!(start(&[], &named).says("serving on").contains("serving on https://"));
}

#[test]
fn tokens_that_come_in_the_clear_are_warned_of_but_on_loopback() {
    let secret = Secret::new();
    let files = secret.files();
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    for (listen, args, expected) in [
        ("127.0.0.1:0", &[][..], false),
        ("0.0.0.0:0", &[], true),
        ("0.0.0.0:0", &["--tls-cert", certificate, "--tls-key", key], false),
    ] {
        let process = start_on(listen, args, &[]);
        process.says("serving on");
        process.signal(Signal::SIGTERM);
        let (code, said) = process.wait();
        assert_eq!((code, said.contains("in the clear")), (Some(0), expected), "{listen} {args:?}: {said}");
    }
}
