//! Target `query`: path and query of a GET request, for all operations and pages.

use serde_json::Value;

use crate::service::fuzzing::TestedService;

pub(super) fn target(bytes: &[u8]) {
    thread_local! {
        static SERVICE: TestedService = TestedService::new();
    }
    let Ok(target) = str::from_utf8(bytes) else { return };
    let Some((status, body)) = SERVICE.with(|service| service.get(target)) else { return };
    assert!(status < 500, "{status} for {target}");
    if target.starts_with("/api/") {
        let response: Value = serde_json::from_slice(&body).expect("a response is JSON");
        let message = response["message"].as_str();
        assert_eq!(
            message.is_some_and(|message| !message.is_empty()),
            status >= 400,
            "{status} for {target}: {response}"
        );
    }
}
