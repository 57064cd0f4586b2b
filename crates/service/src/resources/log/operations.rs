//! Read the log: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::identity::access::{Admitted, ReadAudit};
use crate::site::Site;
use model::log::verification::{RecordedEntry, RowCounts};

/// Default and maximum number of entries on a page. The size of their records is limited too.
const MAX_ENTRIES: i64 = 500;

/// A page of the log.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Log {
    /// Entries, oldest first, each with its record as it is stored now.
    entries: Vec<RecordedEntry>,
    /// The checkpoint of the whole log, as a note; signed if the service has a signing key.
    checkpoint: String,
    /// On the last page: the numbers of stored rows per kind from the end of the log's first hour on.
    rows: Option<RowCounts>,
}

/// Read the log of acknowledged changes. Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/log/{org}",
    tag = "audit",
    params(
        ("after" = Option<i64>, Query, description = "Entries after this sequence number", minimum = 0),
        ("per_page" = Option<i64>, Query, description = "Maximum number of entries; fewer if their records are large", minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page", body = Log)),
)]
pub(crate) async fn read_log(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<ReadAudit>,
    uri: Uri,
) -> Result<axum::Json<Log>, Problem> {
    let parameters = Parameters::read(&uri, &["after", "per_page"])?;
    let integer = |name: &str, default: i64, min: i64, max: i64| {
        let number = parameters.integer(name)?.unwrap_or(default);
        let expected = || Problem::field(name, &format!("expected an integer from {min} to {max}"));
        (min..=max).contains(&number).then_some(number).ok_or_else(expected)
    };
    let (after, limit) =
        (integer("after", 0, 0, i64::MAX)?, integer("per_page", MAX_ENTRIES, 1, MAX_ENTRIES)?);
    let mut transaction = site.store.read().await?;
    let page = store::log::reading::page(&mut transaction.of(&organization), after, limit).await?;
    drop(transaction);
    let checkpoint = site.log_signer.checkpoint(&organization, page.head).map_err(|_| Problem::defect())?;
    Ok(axum::Json(Log { entries: page.entries, checkpoint, rows: page.rows }))
}
