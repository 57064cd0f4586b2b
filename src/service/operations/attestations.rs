//! Operation 2: list a flow's attestations.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::evidence::access::Operation;
use crate::domain::model::{Attestation, FlowName, Pagination};
use crate::service::access::{Asking, admit};
use crate::service::app::App;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem, Refused};
use crate::service::http::response::fits;
use crate::service::http::segments::Segments;
use crate::store::attestations::Span;

/// The answer of operation 2.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Attestations {
    data: Vec<Attestation>,
    pagination: Pagination,
}

/// List the attestations of a flow, newest first.
#[utoipa::path(
    get,
    path = "/attestations/{org}/{flow_name}",
    tag = "attestations",
    params(
        ("org" = String, Path, description = "Organization"),
        ("flow_name" = inline(FlowName), Path, description = "Flow"),
        ("from_timestamp" = Option<i64>, Query, description = "Received in this second or later", minimum = 0),
        ("to_timestamp" = Option<i64>, Query, description = "Received in this second or earlier", minimum = 0),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Attestations),
        (status = 404, description = "No such flow", body = ErrorBody),
        Refused,
    ),
    security(("token" = [])),
)]
pub(crate) async fn list_attestations(
    State(app): State<App>,
    Segments((organization, flow)): Segments<(String, String)>,
    asking: Asking,
    uri: Uri,
) -> Result<axum::Json<Attestations>, Problem> {
    admit(&app, &asking, &organization, Operation::Read).await?;
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let parameters = Parameters::read(&uri, &["from_timestamp", "to_timestamp", "page", "per_page"])?;
    let page = parameters.page()?;
    let span = Span {
        from: micros(&parameters, "from_timestamp")?.unwrap_or(0),
        // A second counts with all its fractions.
        until: micros(&parameters, "to_timestamp")?
            .map_or(i64::MAX, |second| second.saturating_add(1_000_000)),
    };
    let mut transaction = app.store.read().await?;
    let size = transaction.size_of_attestations(&organization, flow.as_str(), span, page).await?;
    fits(size).map_err(|why| Problem::field("per_page", &why))?;
    let html_url =
        |trail: &str, attestation| app.links.attestation(&organization, flow.as_str(), trail, attestation);
    let listed = transaction.attestations(&organization, flow.as_str(), span, page, &html_url).await?;
    let (data, total) = listed
        .ok_or_else(|| Problem::not_found(format!("there is no flow \"{flow}\" in this organization")))?;
    Ok(axum::Json(Attestations { data, pagination: page.of(total) }))
}

/// A time in seconds, as the database keeps it.
fn micros(parameters: &Parameters, name: &str) -> Result<Option<i64>, Problem> {
    match parameters.integer(name)? {
        Some(seconds) if seconds < 0 => Err(Problem::field(name, "seconds since 1970 were expected")),
        seconds => Ok(seconds.map(|seconds| seconds.saturating_mul(1_000_000))),
    }
}
