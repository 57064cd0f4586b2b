//! An API server that replays recorded bytes, and kubeconfigs that lead to it.

use std::collections::HashMap;
use std::path::PathBuf;

use super::pki::Identity;
use super::{Reply, Seen};

pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixture_path(name)).unwrap()
}

pub fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kube-api").join(name)
}

pub fn protobuf(status: u16, body: impl Into<bytes::Bytes>) -> Reply {
    Reply::Answer(status, vec![("content-type", PROTOBUF.into())], body.into())
}

/// The query's parameters.
pub fn parameters(seen: &Seen) -> HashMap<String, String> {
    url::form_urlencoded::parse(seen.query.as_bytes()).into_owned().collect()
}

/// Which of the recorded pages of ten a request asks for: the first, or the one behind the recorded
/// token of another.
pub fn page_of(seen: &Seen) -> usize {
    let Some(token) = parameters(seen).remove("continue") else { return 1 };
    (1..3)
        .find(|page| {
            let json: serde_json::Value =
                serde_json::from_slice(&fixture(&format!("pod-list-page-{page}.json"))).unwrap();
            json["metadata"]["continue"] == token.as_str()
        })
        .map(|page| page + 1)
        .expect("the recorded token of a page")
}

/// The recorded answer to a list of pods, in pages of ten.
pub fn recorded(seen: &Seen) -> Reply {
    assert_eq!(seen.path, "/api/v1/pods", "{seen:?}");
    protobuf(200, fixture(&format!("pod-list-page-{}.pb", page_of(seen))))
}

/// How a kubeconfig says who we are.
pub enum User<'a> {
    Nobody,
    Token(&'a str),
    Certificate(&'a Identity),
}

/// A kubeconfig for one server.
pub fn kubeconfig(url: &str, authority: Option<&str>, user: &User<'_>) -> String {
    let mut cluster = serde_json::json!({ "server": url });
    if let Some(pem) = authority {
        cluster["certificate-authority-data"] = base64(pem).into();
    }
    let user = match user {
        User::Nobody => serde_json::json!({}),
        User::Token(token) => serde_json::json!({ "token": token }),
        User::Certificate(identity) => serde_json::json!({
            "client-certificate-data": base64(&identity.certificate),
            "client-key-data": base64(&identity.key),
        }),
    };
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    })
    .to_string()
}

/// RFC 4648 section 4.
pub fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let bits = chunk.iter().fold(0_u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        let digit = |n: usize| {
            if n > chunk.len() { '=' } else { ALPHABET[(bits >> (18 - 6 * n)) as usize & 63] as char }
        };
        (0..4).map(digit).collect::<String>()
    };
    text.as_bytes().chunks(3).map(group).collect()
}
