//! Encodings of responses, and the messages of error responses.
//!
//! Called by `connect` for every response with an error status. The Content-Type selects the decoder:
//! overloaded servers and proxies respond in plain text.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::messages::Status;
use super::protobuf;

/// Maximum length of a plain text message, in characters.
const MAX_TEXT_CHARS: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
    Other,
}

impl Encoding {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/vnd.kubernetes.protobuf" => Self::Protobuf,
            "application/json" => Self::Json,
            _ => Self::Other,
        }
    }
}

/// The message of an error response: of its `Status`, or the start of its text. `redact` removes secrets
/// before the text is shortened.
pub(super) fn message(encoding: Encoding, body: &[u8], redact: impl Fn(&str) -> String) -> String {
    let status: Option<Status> = match encoding {
        Encoding::Protobuf => protobuf::unwrap(body),
        Encoding::Json => serde_json::from_slice(body).ok(),
        Encoding::Other => None,
    };
    match status {
        Some(status) if !status.message.is_empty() => redact(&status.message),
        _ if body.is_empty() => "empty body".to_owned(),
        _ => {
            let text = redact(String::from_utf8_lossy(body).trim());
            model::escape::shortened(&text, MAX_TEXT_CHARS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(encoding: Encoding, body: &[u8]) -> String {
        super::message(encoding, body, str::to_owned)
    }

    #[test]
    fn recorded_errors_have_the_same_message_in_json_and_protobuf() {
        for (json, protobuf, expected) in [
            (
                &include_bytes!("../../../../tests/fixtures/kube-api/statuses/401.json")[..],
                &include_bytes!("../../../../tests/fixtures/kube-api/statuses/401.pb")[..],
                "Unauthorized",
            ),
            (
                include_bytes!("../../../../tests/fixtures/kube-api/statuses/403.json"),
                include_bytes!("../../../../tests/fixtures/kube-api/statuses/403.pb"),
                "pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                include_bytes!("../../../../tests/fixtures/kube-api/statuses/410-continue.json"),
                include_bytes!("../../../../tests/fixtures/kube-api/statuses/410-continue.pb"),
                "The provided continue parameter is too old",
            ),
        ] {
            assert!(message(Encoding::Json, json).starts_with(expected));
            assert_eq!(message(Encoding::Json, json), message(Encoding::Protobuf, protobuf));
        }
    }

    #[test]
    fn text_and_invalid_bodies_are_shown_unchanged_up_to_512_characters() {
        assert_eq!(
            message(Encoding::Other, b"Too many requests, please try again later.\n"),
            "Too many requests, please try again later."
        );
        assert_eq!(message(Encoding::Json, b"{"), "{");
        assert_eq!(message(Encoding::Protobuf, b""), "empty body");
        let long = "ä".repeat(600);
        assert_eq!(message(Encoding::Other, long.as_bytes()), format!("{}…", "ä".repeat(512)));
    }
}
