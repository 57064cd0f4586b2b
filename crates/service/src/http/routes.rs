//! The routes of the API, and the OpenAPI document.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Version};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_request};
use axum::response::{Redirect, Response};
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{PropagateRequestIdLayer, SetRequestIdLayer};
use utoipa::OpenApi;
use utoipa::openapi::Server;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::http::problem::{Problem, panicked};
use crate::http::{access_log, openapi, pages, request_id, response};
use crate::layout::session;
use crate::resources::{
    access_review, actions, approvals, artifacts, attestations, audit, environments, flows, log, packages,
    policies, repositories, search, tags, tokens, trails,
};

/// The prefix of every path of the interface.
const PREFIX: &str = "/api/v2";

#[derive(OpenApi)]
#[openapi(info(
    title = "supercargo",
    description = "Evidence of tests and of running artifacts",
    license(name = "Apache-2.0", identifier = "Apache-2.0")
))]
struct Document;

/// The operations, and their OpenAPI document. Built once: it took a seventh of the processor time of the service's tests.
static OPERATIONS: LazyLock<(Router<App>, utoipa::openapi::OpenApi)> = LazyLock::new(|| {
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .nest(
            PREFIX,
            OpenApiRouter::new()
                .routes(routes!(trails::operations::list_trails))
                .routes(routes!(trails::operations::get_trail))
                .routes(routes!(attestations::operations::list_attestations))
                .routes(routes!(attestations::operations::attachments::download_attachment))
                .routes(routes!(attestations::operations::get_attestation))
                .routes(routes!(
                    attestations::operations::attest::attest,
                    attestations::operations::get_attestations_in_trail
                ))
                .routes(routes!(attestations::operations::get_attestations_of_artifact))
                .routes(routes!(actions::operations::list_notifications))
                .routes(routes!(artifacts::operations::live::live_artifacts))
                .routes(routes!(artifacts::operations::digests::list_digests))
                .routes(routes!(packages::operations::search_packages))
                .routes(routes!(audit::operations::list_audit))
                .routes(routes!(access_review::operations::review_access))
                .routes(routes!(log::operations::read_log))
                .routes(routes!(artifacts::operations::asserts::assert_artifact))
                .routes(routes!(policies::operations::put_policy, policies::operations::list_policies))
                .routes(routes!(policies::operations::get_policy))
                .routes(routes!(
                    policies::operations::check::check_policy,
                    policies::operations::get_policy_named_check
                ))
                .routes(routes!(
                    environments::operations::policies::attach_policies,
                    environments::operations::policies::detach_policies
                ))
                .routes(routes!(repositories::operations::close_repository))
                .routes(routes!(repositories::operations::reopen_repository))
                .routes(routes!(environments::operations::create::create_environment))
                .routes(routes!(environments::operations::archive::archive_environment))
                .routes(routes!(environments::operations::list_environments))
                .routes(routes!(environments::operations::get_environment))
                .routes(routes!(environments::operations::events::list_events))
                .routes(routes!(environments::operations::agents::list_agents))
                .routes(routes!(environments::operations::snapshots::list_snapshots))
                .routes(routes!(environments::operations::snapshot::get_snapshot))
                .routes(routes!(environments::operations::statement::export_statement))
                .routes(routes!(environments::operations::diff::diff_snapshots))
                .routes(routes!(artifacts::operations::allow_list::allow_artifact))
                .routes(routes!(
                    flows::operations::create_flow,
                    flows::operations::get_flow_named_template_file
                ))
                .routes(routes!(flows::operations::create_flow_with_list, flows::operations::list_flows))
                .routes(routes!(flows::operations::get_flow))
                .routes(routes!(trails::operations::begin::begin_trail))
                .routes(routes!(artifacts::operations::report::report_artifact))
                .routes(routes!(artifacts::operations::image_index::record_image_index))
                .routes(routes!(artifacts::operations::list_artifacts))
                .routes(routes!(artifacts::operations::get_artifact))
                .routes(routes!(artifacts::operations::get_artifacts_of_commit))
                .routes(routes!(search::operations::search))
                .routes(routes!(search::operations::search_text))
                .routes(routes!(tags::operations::tag_environment))
                .routes(routes!(tags::operations::tag_flow))
                .routes(routes!(tokens::operations::create_token, tokens::operations::list_tokens))
                .routes(routes!(tokens::operations::revoke_token))
                .routes(routes!(tokens::user::get_default_organization))
                .routes(routes!(approvals::operations::get_approval))
                .routes(routes!(approvals::operations::approved_commit))
                .routes(routes!(approvals::operations::list_approvals_of_flow))
                .routes(routes!(approvals::operations::approve::approve_artifact))
                .routes(routes!(approvals::operations::approve::withdraw_approval))
                .routes(routes!(environments::operations::report::report_k8s))
                .routes(routes!(approvals::operations::list_approvals))
                .routes(routes!(actions::operations::get_action))
                .routes(routes!(actions::operations::test_action)),
        )
        .split_for_parts();
    // Routes write a parameter with slashes as `{*name}`, the document as `{name}`.
    document.paths.paths =
        document.paths.paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    openapi::complete(&mut document);
    let token = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("token", token);
    (router, document)
});

/// All routes of the API listener: operations, OpenAPI document and pages.
pub(crate) fn router(app: App) -> Router {
    let (router, mut document) = OPERATIONS.clone();
    document.servers = Some(vec![Server::new(app.site.links.base())]);
    // All responses share one copy: clients need no token for it.
    let document = Bytes::from(document.to_json().unwrap_or_default());
    let described = move || async move { ([(CONTENT_TYPE, "application/json")], document) };
    router
        .route(&format!("{PREFIX}/openapi.json"), get(described))
        .route("/ready", get(ready))
        .route("/", get(front))
        .fallback(async || not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), session::use_session))
        .layer(from_fn_with_state(app.clone(), response::limit_memory))
        .merge(pages::router(&app))
        // Handlers limit their bodies themselves.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn(require_host))
        .layer(from_fn_with_state(app.clone(), access_log::run_logged))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(request_id::NewId))
        .layer(map_request(request_id::drop_unsafe))
        .with_state(app)
}

/// Leads browsers to the pages.
async fn front(State(app): State<App>, headers: HeaderMap) -> Result<Redirect, Problem> {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    if accepted.contains("text/html") {
        Ok(Redirect::to(&app.site.links.page(&[])))
    } else {
        Err(not_found())
    }
}

fn not_found() -> Problem {
    Problem::not_found("not found; see /api/v2/openapi.json for the operations")
}

/// Whether the service can serve, for clients that check it before their requests.
async fn ready(State(app): State<App>) -> Result<&'static str, Problem> {
    if app.is_ready().await { Ok("OK\n") } else { Err(Problem::unavailable("the database is unavailable")) }
}

/// Rejects a request without exactly one valid `Host` (RFC 9112, section 3.2), which only HTTP/1.0 may omit.
async fn require_host(request: Request, next: Next) -> Result<Response, Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let is_valid = match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            Authority::try_from(host.as_bytes()).is_ok_and(|host| !host.as_str().contains('@'))
        }
        (None, _) => request.version() == Version::HTTP_10,
        (Some(_), Some(_)) => false,
    };
    if is_valid {
        Ok(next.run(request).await)
    } else {
        Err(Problem::invalid("expected one valid Host header"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use http_body_util::BodyExt;
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;

    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn each_reference_of_the_document_has_a_schema() {
        let document = serde_json::to_value(&OPERATIONS.1).unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.contains("#/components/schemas/JunitFields"), "{found:?}");
        for reference in found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }

    #[tokio::test]
    async fn panic_of_a_handler_is_500_without_its_text() {
        let panics = async || -> &'static str { panic!("s3cret") };
        let router = Router::new().route("/", get(panics)).layer(CatchPanicLayer::custom(panicked));
        let answer = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, r#"{"message":"internal error; see the log of the service"}"#);
    }
}
