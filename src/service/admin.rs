//! The admin listener: whether it lives, whether it is ready, and what it counted.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::problem::Problem;

/// The media type of the OpenMetrics text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a probe waits for the database.
const PROBE: Duration = Duration::from_millis(800);

/// `/livez`, `/readyz` and `/metrics`. Not ready is what cannot reach its database, or is about to
/// end.
pub(super) fn router(app: App, shutdown: CancellationToken) -> Router {
    let ready = async move |State(app): State<App>| {
        if shutdown.is_cancelled() {
            return Err(Problem::unavailable("the service is stopping"));
        }
        // Within the time that a kubelet gives a probe by default.
        let ping = tokio::spawn(async move { app.store.ping().await });
        match timeout(PROBE, ping).await {
            Ok(Ok(answered)) => answered.map_err(Problem::from).map(|()| "ok\n"),
            _ => Err(Problem::unavailable("the database does not answer")),
        }
    };
    let metrics = async |State(app): State<App>| {
        (StatusCode::OK, [(CONTENT_TYPE, OPEN_METRICS)], app.metrics.text(app.store.connections()))
            .into_response()
    };
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .fallback(async || {
            Problem::not_found("there is nothing here: /livez, /readyz and /metrics are served")
        })
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(app)
}
