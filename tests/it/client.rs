//! The client of the service against one that answers as it is told: what is sent, and what is believed.

use secrecy::SecretString;
use serde_json::json;
use supercargo::api::{Attachment, BaseUrl, Client, Error, Patience, PlainHttp, Setup, TokenSource};

use crate::fake::{Reply, Server};
use crate::program::TOKEN;

fn client(server: &Server) -> Client {
    let setup = Setup {
        base_url: BaseUrl::parse(&server.url(), PlainHttp::LoopbackOnly).unwrap(),
        organization: "acme".parse().unwrap(),
        token: TokenSource::Variable(SecretString::from(TOKEN)),
        ca_file: None,
    };
    Client::new(setup, Patience::default()).unwrap()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn an_attestation_is_a_form_whose_first_part_is_data_json_and_whose_second_is_the_file() {
    let server = Server::start(|_| Reply::json(201, r#""Creation Success""#));
    let (flow, trail) = ("web".parse().unwrap(), "a b%".parse().unwrap());
    let file = Attachment { name: "web.xml".to_owned(), content: "<testsuite/>".into() };
    let data = json!({"attestation_name": "x"}).to_string();
    run(client(&server).attest_junit(&flow, &trail, data, Some(file), |_| ())).unwrap();
    let [seen] = server.seen().try_into().unwrap();
    assert_eq!((seen.method.as_str(), seen.query.as_str()), ("POST", ""));
    assert_eq!(seen.path, "/api/v2/attestations/acme/web/trail/a%20b%25/junit");
    assert!(seen.headers.contains_key("content-length"), "{:?}", seen.headers);
    let body = String::from_utf8(seen.body.to_vec()).unwrap();
    let parts: Vec<_> = body.split("\r\n--").collect();
    assert!(
        parts[0].contains("name=\"data_json\"") && parts[0].ends_with(r#"{"attestation_name":"x"}"#),
        "{body}"
    );
    assert!(parts[1].contains("name=\"attachment_file\"; filename=\"web.xml\""), "{body}");
    assert!(parts[1].ends_with("<testsuite/>"), "{body}");
}

#[test]
fn a_read_is_believed_with_200_and_json_of_its_shape_alone() {
    for (reply, says) in [
        (Reply::json(201, "[]"), "201 Created, where 200 OK was expected"),
        (Reply::json(200, ""), "JSON of another shape"),
        (Reply::json(200, format!(r#"{{"live_artifacts": "{TOKEN}"}}"#)), "\"[token]\", expected a sequence"),
        (Reply::text(200, "<html>"), "begins \"<html>\""),
        (Reply::json(404, r#"{"message": "no such repository"}"#), "404 Not Found: no such repository"),
    ] {
        let reply = std::sync::Mutex::new(Some(reply));
        let server = Server::start(move |_| reply.lock().unwrap().take().unwrap());
        let error = run(client(&server).live_artifacts(&"acme/web".parse().unwrap(), None)).unwrap_err();
        assert!(error.to_string().contains(says) && !error.to_string().contains(TOKEN), "{error}");
        assert_eq!(matches!(error, Error::Answered { .. }), says.starts_with("404"), "{error:?}");
        assert_eq!(server.seen()[0].path, "/api/v2/repos/acme/live-artifacts/acme%2Fweb");
    }
}
