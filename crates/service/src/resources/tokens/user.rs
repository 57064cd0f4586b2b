//! The organization of a token: an extension of the interface.

use serde::Serialize;

use crate::http::problem::Problem;
use crate::identity::access::Authenticated;

/// The organization of a token.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DefaultOrganization {
    default_org_name: String,
}

/// Get the organization of the token.
#[utoipa::path(
    get,
    path = "/user/default-org",
    tag = "organizations",
    responses((status = 200, description = "The organization", body = DefaultOrganization)),
)]
pub(crate) async fn get_default_organization(
    Authenticated(organization): Authenticated,
) -> Result<axum::Json<DefaultOrganization>, Problem> {
    Ok(axum::Json(DefaultOrganization { default_org_name: organization }))
}
