//! Every request runs to its end, and gives one line in the log and one count in the metrics.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use crate::domain::escape::{Visible, shortened};
use crate::process::listener::Peer;
use crate::service::access::{KnownAs, Turn};
use crate::service::app::App;

/// How much of a path is logged, in characters.
const LOGGED: usize = 500;

/// Answers, and tells of it. A request whose client goes away is not dropped where it stands: a connection
/// that is given up while its transaction begins goes back to the pool with the transaction open, and
/// one that is given up while it is made has to be made again. How many run at once is bounded, since
/// clients that went away no longer count as connections.
pub(crate) async fn observe(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let start = Instant::now();
    let Ok(running) = Arc::clone(&app.running).acquire_owned().await else {
        return Problem::defect().into_response();
    };
    let answering = tokio::spawn(async move {
        let method = known(request.method());
        let path = shortened(request.uri().path(), LOGGED);
        let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
        let peer = request.extensions().get::<Peer>();
        let peer = peer.map_or_else(String::new, |Peer(peer)| peer.ip().to_string());
        let known_as = KnownAs::default();
        request.extensions_mut().insert(known_as.clone());
        request.extensions_mut().insert(Turn::default());
        let response = next.run(request).await;
        let (status, after) = (response.status().as_u16(), start.elapsed());
        app.metrics.answered(&route, method, status, after);
        let path = Visible(&path);
        let milliseconds = after.as_secs_f64() * 1e3;
        let token = known_as.shown();
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

/// The methods that HTTP knows; others are one label.
fn known(method: &Method) -> &'static str {
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
