//! List the audit log: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::identity::access::{Admitted, ReadAudit};
use crate::site::Site;
use model::Pagination;
use store::audit::AuditEntry;

/// A page of the audit log.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AuditLog {
    data: Vec<AuditEntry>,
    pagination: Pagination,
}

/// List the audit log, newest first. Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/audit/{org}",
    tag = "audit",
    params(
        ("from_timestamp" = Option<i64>, Query, description = "At or after this time, in seconds since 1970", minimum = 0),
        ("to_timestamp" = Option<i64>, Query, description = "At or before this time, in seconds since 1970", minimum = 0),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page", body = AuditLog)),
)]
pub(crate) async fn list_audit(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<ReadAudit>,
    uri: Uri,
) -> Result<axum::Json<AuditLog>, Problem> {
    let parameters = Parameters::read(&uri, &["from_timestamp", "to_timestamp", "page", "per_page"])?;
    let (page, span) = (parameters.page()?, parameters.span()?);
    let mut transaction = site.store.read().await?;
    let (data, total) = store::audit::list(&mut transaction.of(&organization), span, page).await?;
    Ok(axum::Json(AuditLog { data, pagination: page.pagination(total) }))
}
