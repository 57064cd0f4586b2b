//! The admin listener's routes: whether the process lives, whether it is ready, and what it counted.
//!
//! `agent` and `service` hand in what they know of themselves. The answers are those of a Kubernetes
//! component (Kubernetes documentation, "Kubernetes API health endpoints"): 200 with `ok`, or 503 with
//! a line for each check; with `?verbose` the lines come in either case.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

/// The media type of the OpenMetrics text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a process says of itself.
pub trait Admin: Send + Sync + 'static {
    /// What has to be well for the process to be ready.
    fn checks(&self) -> impl Future<Output = Vec<Check>> + Send;

    /// What it counted, in the OpenMetrics text format.
    fn metrics(&self) -> String;
}

/// One thing that is well, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name, in one line.
    pub name: String,
    /// Why it is not well.
    pub failure: Option<String>,
}

/// `/livez`, `/readyz` and `/metrics`. That `/livez` is answered says that the process turns.
pub fn router<A: Admin>(admin: Arc<A>) -> Router {
    let ready = async |State(admin): State<Arc<A>>, RawQuery(query): RawQuery| {
        let checks = admin.checks().await;
        let is_ready = checks.iter().all(|check| check.failure.is_none());
        let is_verbose = query.is_some_and(|query| query.split('&').any(|q| q.starts_with("verbose")));
        let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let text = if is_ready && !is_verbose { "ok\n".to_owned() } else { lines(&checks, is_ready) };
        (status, text)
    };
    let metrics =
        async |State(admin): State<Arc<A>>| ([(CONTENT_TYPE, OPEN_METRICS)], admin.metrics()).into_response();
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .fallback(async || {
            (StatusCode::NOT_FOUND, "there is nothing here: /livez, /readyz and /metrics are served\n")
        })
        .with_state(admin)
}

/// `[+]NAME ok`, `[-]NAME failed: WHY`, a line each, and what follows from them.
fn lines(checks: &[Check], is_ready: bool) -> String {
    let mut text = String::new();
    for Check { name, failure } in checks {
        // Writing to a string cannot fail.
        let _ = match failure {
            None => writeln!(text, "[+]{name} ok"),
            Some(why) => writeln!(text, "[-]{name} failed: {why}"),
        };
    }
    text.push_str(if is_ready { "readyz check passed\n" } else { "readyz check failed\n" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_a_line_and_one_that_fails_says_why() {
        let well = Check { name: "listed".into(), failure: None };
        let ill = Check { name: "watch".into(), failure: Some("silent for 5 min".into()) };
        assert_eq!(lines(std::slice::from_ref(&well), true), "[+]listed ok\nreadyz check passed\n");
        assert_eq!(
            lines(&[well, ill], false),
            "[+]listed ok\n[-]watch failed: silent for 5 min\nreadyz check failed\n"
        );
    }
}
