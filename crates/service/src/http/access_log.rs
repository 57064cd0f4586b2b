//! The access log: one log line and one count in the metrics per request, and its span, which adds the request ID to all of
//! its log lines. Of the requests without a token, an address has one line a second.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::app::App;
use crate::http::anonymous_requests::Counted;
use crate::http::context::RequestContext;
use crate::http::problem::Problem;
use crate::limits::permit;
use crate::maintenance::periodic::Ticks;
use model::escape::{Escaped, shortened};
use model::pluralize;

/// Maximum length of a logged path, in characters.
const MAX_PATH_CHARS: usize = 500;

/// Runs a request in its span, and adds the request ID to a server error.
pub(crate) async fn run_logged(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let entry = Entry::new(&mut request, &app);
    let id = Arc::clone(&entry.context.id);
    // As an error, so that a filter which passes a log line passes the span too.
    let span = tracing::error_span!(target: "supercargo::access", "request", request_id = %id);
    let mut response = run(app, entry, request, next).instrument(span).await;
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) if response.status().is_server_error() => problem.of_request(&id).into_response(),
        _ => response,
    }
}

/// Runs a request to its end, even if its client disconnects: dropping it while a transaction begins would return a
/// connection with an open transaction to the pool. The number of running requests is limited, since disconnected clients
/// no longer count as connections. A request that cannot run in time gets 503.
async fn run(app: App, entry: Entry, request: Request, next: Next) -> Response {
    let (running, deadline) = (Arc::clone(&app.running), entry.start + app.limits.permit_timeout);
    let running =
        match permit::acquire(running, deadline, "the service has reached its limit of running requests")
            .await
        {
            Ok(running) => running,
            Err(error) => {
                let response = Problem::from(error).into_response();
                entry.log(&app, response.status());
                return response;
            }
        };
    let answering = async move {
        let response = next.run(request).await;
        entry.log(&app, response.status());
        drop(running);
        response
    };
    let answering = tokio::spawn(answering.in_current_span());
    answering.await.unwrap_or_else(|_| Problem::defect().into_response())
}

/// The entry of a request in the access log.
struct Entry {
    start: Instant,
    method: &'static str,
    path: String,
    route: String,
    context: RequestContext,
}

impl Entry {
    /// Adds the context to the request.
    fn new(request: &mut Request, app: &App) -> Self {
        Self {
            start: Instant::now(),
            method: method_label(request.method()),
            path: shortened(request.uri().path(), MAX_PATH_CHARS),
            route: request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned(),
            context: RequestContext::insert_into(request, &app.trusted_proxies),
        }
    }

    fn log(&self, app: &App, status: StatusCode) {
        let Self { start, method, path, route, context } = self;
        let (status, after) = (status.as_u16(), start.elapsed());
        app.metrics.request(route, method, status, after);
        let token = context.token_name();
        if token.is_empty() && !app.anonymous.is_first(context.peer) {
            return;
        }
        let (path, peer) = (Escaped(path), context.peer.to_string());
        let milliseconds = after.as_secs_f64() * 1e3;
        let who = if token.is_empty() { "-" } else { &token };
        tracing::info!(
            target: "supercargo::access",
            method, path = %path, status, milliseconds, peer, token,
            "{peer} {who} {method} {path} {status} {milliseconds:.1} ms"
        );
    }
}

/// Logs each second how many requests without a token were only counted, until `shutdown`.
pub(crate) async fn log_counts(app: App, shutdown: CancellationToken) {
    let mut ticks = Ticks::new(Duration::from_secs(1));
    loop {
        let is_last = tokio::select! {
            () = shutdown.cancelled() => true,
            () = ticks.tick() => false,
        };
        for Counted { address, requests } in app.anonymous.take() {
            let peer = address.map_or_else(|| "other addresses".to_owned(), |address| address.to_string());
            tracing::info!(
                target: "supercargo::access",
                peer, requests,
                "{peer} - {} without a token within a second", pluralize(requests, "more request")
            );
        }
        if is_last {
            return;
        }
    }
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
