//! What an API server's answer says, whatever its encoding.
//!
//! `connect` asks it about every answer that is no success. The decoder is chosen by Content-Type:
//! errors come in the encoding that was asked for, except from overloaded servers and proxies,
//! which answer in plain text.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::messages::Status;
use super::protobuf;

/// How much of a plain text is shown, in characters.
const SHOWN: usize = 512;

/// The encodings that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
    Other,
}

/// What to send as Accept: protobuf, or JSON from a server that has no other.
pub(super) const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json;q=0.5";

/// The same for a watch, whose protobuf comes in frames.
pub(super) const ACCEPT_EVENTS: &str =
    "application/vnd.kubernetes.protobuf;stream=watch, application/json;q=0.5";

impl Encoding {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/vnd.kubernetes.protobuf" => Self::Protobuf,
            "application/json" => Self::Json,
            _ => Self::Other,
        }
    }
}

/// The message of an error answer: that of its `Status`, or else the text itself, shortened once it is
/// `clean` of secrets.
pub(super) fn message(encoding: Encoding, body: &[u8], clean: impl Fn(&str) -> String) -> String {
    let status: Option<Status> = match encoding {
        Encoding::Protobuf => protobuf::unwrap(body),
        Encoding::Json => serde_json::from_slice(body).ok(),
        Encoding::Other => None,
    };
    match status {
        Some(status) if !status.message.is_empty() => clean(&status.message),
        _ if body.is_empty() => "an empty body".to_owned(),
        _ => crate::domain::escape::shortened(&clean(String::from_utf8_lossy(body).trim()), SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(encoding: Encoding, body: &[u8]) -> String {
        super::message(encoding, body, str::to_owned)
    }

    #[test]
    fn recorded_errors_say_the_same_in_json_and_protobuf() {
        for (json, protobuf, says) in [
            (
                &include_bytes!("../../tests/fixtures/kube-api/status-401.json")[..],
                &include_bytes!("../../tests/fixtures/kube-api/status-401.pb")[..],
                "Unauthorized",
            ),
            (
                include_bytes!("../../tests/fixtures/kube-api/status-403.json"),
                include_bytes!("../../tests/fixtures/kube-api/status-403.pb"),
                "pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                include_bytes!("../../tests/fixtures/kube-api/status-410-continue.json"),
                include_bytes!("../../tests/fixtures/kube-api/status-410-continue.pb"),
                "The provided continue parameter is too old",
            ),
        ] {
            assert!(message(Encoding::Json, json).starts_with(says));
            assert_eq!(message(Encoding::Json, json), message(Encoding::Protobuf, protobuf));
        }
    }

    #[test]
    fn text_and_nonsense_are_shown_as_they_came_up_to_512_characters() {
        assert_eq!(
            message(Encoding::Other, b"Too many requests, please try again later.\n"),
            "Too many requests, please try again later."
        );
        assert_eq!(message(Encoding::Json, b"{"), "{");
        assert_eq!(message(Encoding::Protobuf, b""), "an empty body");
        let long = "ä".repeat(600);
        assert_eq!(message(Encoding::Other, long.as_bytes()), format!("{}…", "ä".repeat(512)));
    }
}
