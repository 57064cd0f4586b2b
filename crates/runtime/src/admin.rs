//! Routes of the admin listener: liveness, readiness and metrics.
//!
//! `agent` and `service` implement [`Admin`]. Responses follow Kubernetes components (Kubernetes documentation,
//! "Kubernetes API health endpoints"): 200 with `ok`, or 503 with a line per check; `?verbose` always lists
//! the checks.

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

/// State of a process for probes and scrapes.
pub trait Admin: Send + Sync + 'static {
    /// The readiness checks. The process is ready if none fails.
    fn checks(&self) -> impl Future<Output = Vec<Check>> + Send;

    /// The metrics in the OpenMetrics text format.
    fn metrics(&self) -> String;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check, in one line.
    pub name: String,
    pub failure: Option<String>,
    /// A condition that an operator should know, although the check passes.
    pub warning: Option<String>,
}

/// Routes `/livez`, `/readyz` and `/metrics`. `/livez` always succeeds.
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
        .fallback(async || (StatusCode::NOT_FOUND, "not found: expected /livez, /readyz or /metrics\n"))
        .with_state(admin)
}

/// One line per check, `[+]NAME ok` or `[-]NAME failed: WHY`, and the result.
fn lines(checks: &[Check], is_ready: bool) -> String {
    let mut text = String::new();
    for Check { name, failure, warning } in checks {
        // Writing to a string cannot fail.
        let _ = match (failure, warning) {
            (None, None) => writeln!(text, "[+]{name} ok"),
            (None, Some(warning)) => writeln!(text, "[+]{name} ok, with a warning: {warning}"),
            (Some(why), _) => writeln!(text, "[-]{name} failed: {why}"),
        };
    }
    text.push_str(if is_ready { "readyz check passed\n" } else { "readyz check failed\n" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_a_line_with_its_failure_or_warning() {
        let well = Check { name: "listed".into(), failure: None, warning: None };
        let ill = Check { name: "watch".into(), failure: Some("silent for 5 min".into()), warning: None };
        let stale = Check { name: "bootstrap".into(), failure: None, warning: Some("stale".into()) };
        assert_eq!(lines(std::slice::from_ref(&well), true), "[+]listed ok\nreadyz check passed\n");
        assert_eq!(lines(&[stale], true), "[+]bootstrap ok, with a warning: stale\nreadyz check passed\n");
        assert_eq!(
            lines(&[well, ill], false),
            "[+]listed ok\n[-]watch failed: silent for 5 min\nreadyz check failed\n"
        );
    }
}
