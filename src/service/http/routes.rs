//! The routes of the API, and the document that describes them.

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa::openapi::Server;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Problem;
use super::{access_log, response};
use crate::service::app::App;
use crate::service::operations::{actions, approvals, attest, attestations, live_artifacts, report, trails};
use crate::service::pages;

/// What the interface puts in front of every path.
const PREFIX: &str = "/api/v2";

#[derive(OpenApi)]
#[openapi(info(
    title = "supercargo",
    description = "Evidence of what was tested and what runs",
    license(name = "Apache-2.0", identifier = "Apache-2.0")
))]
struct Document;

/// The operations, and their document.
fn operations() -> (Router<App>, utoipa::openapi::OpenApi) {
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .nest(
            PREFIX,
            OpenApiRouter::new()
                .routes(routes!(trails::list_trails))
                .routes(routes!(attestations::list_attestations))
                .routes(routes!(actions::list_notifications))
                .routes(routes!(live_artifacts::live_artifacts))
                .routes(routes!(attest::attest_junit))
                .routes(routes!(approvals::get_approval))
                .routes(routes!(report::report_k8s))
                .routes(routes!(approvals::list_approvals))
                .routes(routes!(actions::get_action)),
        )
        .split_for_parts();
    // A parameter that holds slashes is written otherwise in a route than in the document.
    document.paths.paths =
        document.paths.paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let token = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("token", token);
    (router, document)
}

/// Everything that the API listener serves.
pub(crate) fn router(app: App) -> Router {
    let (router, mut document) = operations();
    document.servers = Some(vec![Server::new(app.links.base())]);
    // One copy, however many ask for it and read slowly: they need no token.
    let document = Bytes::from(document.to_json().unwrap_or_default());
    let described =
        move || async move { ([(axum::http::header::CONTENT_TYPE, "application/json")], document) };
    router
        .route(&format!("{PREFIX}/openapi.json"), get(described))
        .merge(pages::router())
        .fallback(async || Problem::not_found("there is nothing here: the operations lie under /api/v2, and /api/v2/openapi.json describes them"))
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        // Each operation has limits of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), response::sent))
        .layer(from_fn_with_state(app.clone(), pages::guarded))
        .layer(from_fn_with_state(app.clone(), access_log::observe))
        .with_state(app)
}

/// A panic is a defect; its text went to the log and stays there.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("a request panicked");
    Problem::defect().into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_request_that_panics_is_500_and_says_nothing_of_why() {
        let panics = async || -> &'static str { panic!("s3cret") };
        let router = Router::new().route("/", get(panics)).layer(CatchPanicLayer::custom(panicked));
        let answer = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, r#"{"message":"the service failed; its log says how"}"#);
    }
}
