//! The API client against a fake service: the requests that it sends and the responses that it accepts.

use client::{
    Attachment, BaseUrl, Client, Error, NewAttestation, PlainHttp, RequestTimeouts, Setup, TokenSource,
};
use secrecy::SecretString;
use serde_json::json;

use crate::fake::{Reply, Server};
use crate::program::TOKEN;

fn client(server: &Server) -> Client {
    let setup = Setup {
        base_url: BaseUrl::parse(&server.url(), PlainHttp::LoopbackOnly).unwrap(),
        organization: "acme".parse().unwrap(),
        token: TokenSource::Variable(SecretString::from(TOKEN)),
        ca_file: None,
        command: "test",
    };
    Client::new(setup, RequestTimeouts::default()).unwrap()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn attestation_is_a_form_with_data_json_first_and_the_file_second() {
    let server = Server::start(|_| Reply::json(201, r#""Creation Success""#));
    let (flow, trail) = ("web".parse().unwrap(), "build-1~2".parse().unwrap());
    let file = Attachment { name: "web.xml".to_owned(), content: "<testsuite/>".into() };
    let data = json!({"attestation_name": "x"}).to_string();
    run(client(&server).attest(&NewAttestation::new("junit", &flow, &trail, data, Some(file)))).unwrap();
    let [request] = server.requests().try_into().unwrap();
    assert_eq!((request.method.as_str(), request.query.as_str()), ("POST", ""));
    assert_eq!(request.path, "/api/v2/attestations/acme/web/trail/build-1~2/junit");
    assert!(request.headers.contains_key("content-length"), "{:?}", request.headers);
    let body = String::from_utf8(request.body.to_vec()).unwrap();
    let parts: Vec<_> = body.split("\r\n--").collect();
    assert!(
        parts[0].contains("name=\"data_json\"") && parts[0].ends_with(r#"{"attestation_name":"x"}"#),
        "{body}"
    );
    assert!(parts[1].contains("name=\"attachment_file\"; filename=\"web.xml\""), "{body}");
    assert!(parts[1].ends_with("<testsuite/>"), "{body}");
}

#[test]
fn read_accepts_only_200_with_json_of_the_expected_shape() {
    for (reply, expected_text) in [
        (Reply::json(201, "[]"), "expected 200 OK, got 201 Created"),
        (Reply::json(200, ""), "unexpected JSON"),
        (Reply::json(200, format!(r#"{{"live_artifacts": "{TOKEN}"}}"#)), "\"[token]\", expected a sequence"),
        (Reply::text(200, "<html>"), ": \"<html>\""),
        (Reply::json(404, r#"{"message": "no such repository"}"#), "404 Not Found: no such repository"),
    ] {
        let reply = std::sync::Mutex::new(Some(reply));
        let server = Server::start(move |_| reply.lock().unwrap().take().unwrap());
        let error = run(client(&server).live_artifacts(&"acme/web".parse().unwrap(), None)).unwrap_err();
        assert!(error.to_string().contains(expected_text) && !error.to_string().contains(TOKEN), "{error}");
        assert_eq!(matches!(error, Error::Answered { .. }), expected_text.starts_with("404"), "{error:?}");
        assert_eq!(server.requests()[0].path, "/api/v2/repos/acme/live-artifacts/acme%2Fweb");
    }
}
