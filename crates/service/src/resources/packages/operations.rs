//! Search packages: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::identity::access::{Admitted, Read};
use crate::resources::packages::find::{FoundPackages, PARAMETERS, PackageQuery};
use crate::site::Site;

/// Search where a package runs, by attested bills of materials, now or at a time of the past. Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/packages/{org}",
    tag = "artifacts",
    params(
        ("name" = String, Query, description = "Such as `log4j-core`, `org.apache.logging.log4j:log4j-core` or `@angular/core`; case is ignored", pattern = "^[^\\x00]*$", min_length = 1, max_length = 512),
        ("version" = Option<String>, Query, description = "Comparisons such as `<2.17.1` or `>=2.0, <2.17.1`, by the rules of the ecosystem", pattern = "^[^\\x00]*$", max_length = 512),
        ("purl_type" = Option<String>, Query, description = "Type of the package URL, such as `maven`", pattern = "^[^\\x00]*$", max_length = 512),
        ("at" = Option<String>, Query, description = "A time such as `2026-10-03T14:00Z` or `2w`; default: now", pattern = "^[^\\x00]*$"),
        ("after" = Option<String>, Query, description = "Packages after this one: `next` of a page", pattern = "^[^\\x00]*$"),
    ),
    responses((status = 200, description = "At most 100 packages", body = FoundPackages)),
)]
pub(crate) async fn search_packages(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<FoundPackages>, Problem> {
    let query = PackageQuery::parse(&Parameters::read(&uri, &PARAMETERS)?, site.now())?;
    FoundPackages::read(&site, &organization, &query).await.map(axum::Json)
}
