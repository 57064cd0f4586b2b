//! Recorded responses of an API server, and kubeconfigs.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::fake::pki::Identity;
use crate::fake::{Reply, Request};

pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixture_path(name)).unwrap()
}

pub fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kube-api").join(name)
}

pub fn protobuf(status: u16, body: impl Into<bytes::Bytes>) -> Reply {
    Reply::Response(status, vec![("content-type", PROTOBUF.into())], body.into())
}

pub fn parameters(request: &Request) -> HashMap<String, String> {
    url::form_urlencoded::parse(request.query.as_bytes()).into_owned().collect()
}

/// Number of the requested page, by the continue tokens of the recorded pages of ten pods.
pub fn page_of(request: &Request) -> usize {
    let Some(token) = parameters(request).remove("continue") else { return 1 };
    (1..3)
        .find(|page| {
            let json: serde_json::Value =
                serde_json::from_slice(&fixture(&format!("pod-list-page-{page}.json"))).unwrap();
            json["metadata"]["continue"] == token.as_str()
        })
        .map(|page| page + 1)
        .expect("the recorded token of a page")
}

/// The recorded response to a list of pods, in pages of ten.
pub fn recorded(request: &Request) -> Reply {
    assert_eq!(request.path, "/api/v1/pods", "{request:?}");
    protobuf(200, fixture(&format!("pod-list-page-{}.pb", page_of(request))))
}

/// Credentials in a kubeconfig.
pub enum User<'a> {
    Anonymous,
    Token(&'a str),
    Certificate(&'a Identity),
}

/// A kubeconfig with one cluster and user.
pub fn kubeconfig(url: &str, authority: Option<&str>, user: &User<'_>) -> String {
    let mut cluster = serde_json::json!({ "server": url });
    if let Some(pem) = authority {
        cluster["certificate-authority-data"] = base64(pem).into();
    }
    let user = match user {
        User::Anonymous => serde_json::json!({}),
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
pub fn base64(bytes: impl AsRef<[u8]>) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let bits = chunk.iter().fold(0_u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        let digit = |n: usize| {
            if n > chunk.len() { '=' } else { ALPHABET[(bits >> (18 - 6 * n)) as usize & 63] as char }
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.as_ref().chunks(3).map(group).collect()
}
