//! The access log: one log line and one count in the metrics per request.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::context::RequestContext;
use super::problem::Problem;
use crate::domain::escape::{Escaped, shortened};
use crate::service::app::App;

/// Maximum length of a logged path, in characters.
const MAX_PATH_CHARS: usize = 500;

/// Runs a request to its end, even if its client disconnects: dropping it while a transaction begins would return a
/// connection with an open transaction to the pool. The number of running requests is limited, since disconnected clients
/// no longer count as connections.
pub(crate) async fn run_logged(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let start = Instant::now();
    let Ok(running) = Arc::clone(&app.running).acquire_owned().await else {
        return Problem::defect().into_response();
    };
    let answering = tokio::spawn(async move {
        let method = method_label(request.method());
        let path = shortened(request.uri().path(), MAX_PATH_CHARS);
        let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
        let context = RequestContext::insert_into(&mut request);
        let peer = context.peer.to_string();
        let response = next.run(request).await;
        let (status, after) = (response.status().as_u16(), start.elapsed());
        app.metrics.request(&route, method, status, after);
        let path = Escaped(&path);
        let milliseconds = after.as_secs_f64() * 1e3;
        let token = context.token_name();
        let who = if token.is_empty() { "-" } else { &token };
        tracing::info!(
            target: "supercargo::access",
            method, path = %path, status, milliseconds, peer, token,
            "{peer} {who} {method} {path} {status} {milliseconds:.1} ms"
        );
        drop(running);
        response
    });
    answering.await.unwrap_or_else(|_| Problem::defect().into_response())
}

/// The method as a label; methods outside HTTP share one.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
