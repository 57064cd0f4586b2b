//! List the digests in use: an extension of the interface.

use std::collections::{BTreeSet, HashMap};

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{Fingerprint, ListedManifest, RelatedDigests, Timestamp};
use store::artifacts::digests::DigestRun;

/// Default and maximum number of digests, and of their runs, on a page.
const MAX_DIGESTS: i64 = 5_000;

/// A page of the digests in use.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DigestsInUse {
    /// In order
    data: Vec<DigestInUse>,
    /// The value of `after` for the next page; `null` on the last one
    next: Option<Fingerprint>,
}

/// A digest that runs, or that ran in the requested time.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DigestInUse {
    fingerprint: Fingerprint,
    /// Image names
    names: BTreeSet<String>,
    /// Names of environments
    running_in: BTreeSet<String>,
    /// Names of environments
    exited_from: BTreeSet<String>,
    /// When the first of these runs started
    started_at: Timestamp,
    /// When the last of them ended; `null` while it runs
    ended_at: Option<Timestamp>,
    #[serde(flatten)]
    digests: RelatedDigests,
}

/// List the digests that run in any environment, or ran there since a time, with the other digests of their images. Not in
/// Kosli's API.
#[utoipa::path(
    get,
    path = "/digests/{org}",
    tag = "artifacts",
    params(
        ("since" = Option<i64>, Query, description = "Also digests that ran at or after this time, in seconds since 1970", minimum = 0),
        ("after" = inline(Option<Fingerprint>), Query, description = "Digests after this one"),
        ("per_page" = Option<i64>, Query, description = "Maximum number of digests, and of their runs, unless one digest has more", minimum = 1, maximum = 5000),
    ),
    responses((status = 200, description = "A page", body = DigestsInUse)),
)]
pub(crate) async fn list_digests(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<DigestsInUse>, Problem> {
    let parameters = Parameters::read(&uri, &["since", "after", "per_page"])?;
    let since = match parameters.integer("since")? {
        Some(seconds) if seconds < 0 => return Err(Problem::field("since", "expected seconds since 1970")),
        seconds => seconds.map(|seconds| Timestamp::from_micros(seconds.saturating_mul(1_000_000))),
    };
    let limit = parameters.integer("per_page")?.unwrap_or(MAX_DIGESTS);
    if !(1..=MAX_DIGESTS).contains(&limit) {
        let expected = format!("expected an integer from 1 to {MAX_DIGESTS}");
        return Err(Problem::field("per_page", &expected));
    }
    let after = parameters.parsed("after")?;
    let mut transaction = site.store.read().await?;
    let page =
        store::artifacts::digests::list(&mut transaction.of(&organization), after, since, limit).await?;
    let fingerprints = page.runs.iter().map(|run| run.fingerprint).collect();
    let listed =
        store::image_indexes::listed_manifests(&mut transaction.of(&organization), &fingerprints).await?;
    drop(transaction);
    let mut related: HashMap<Fingerprint, Vec<ListedManifest>> = HashMap::new();
    // Both digests of a pair may have found it.
    for pair in listed {
        for digest in [pair.index, pair.manifest] {
            let pairs = related.entry(digest).or_default();
            if !pairs.contains(&pair) {
                pairs.push(pair.clone());
            }
        }
    }
    let related = |digest| RelatedDigests::new(related.get(&digest).map_or(&[][..], Vec::as_slice), digest);
    let runs = page.runs.chunk_by(|one, other| one.fingerprint == other.fingerprint);
    let data = runs.filter_map(|runs| DigestInUse::new(runs, related));
    Ok(axum::Json(DigestsInUse { data: data.collect(), next: page.next }))
}

impl DigestInUse {
    /// `None` without runs, which are all of one digest.
    fn new(runs: &[DigestRun], digests: impl Fn(Fingerprint) -> RelatedDigests) -> Option<Self> {
        let fingerprint = runs.first()?.fingerprint;
        let names = |is_running: bool| {
            let runs = runs.iter().filter(move |run| run.ended_at.is_none() == is_running);
            runs.map(|run| run.environment.clone()).collect::<BTreeSet<_>>()
        };
        let running_in = names(true);
        Some(Self {
            fingerprint,
            names: runs.iter().map(|run| run.name.clone()).collect(),
            exited_from: names(false).difference(&running_in).cloned().collect(),
            started_at: runs.iter().map(|run| run.started_at).min()?,
            ended_at: runs
                .iter()
                .map(|run| run.ended_at)
                .collect::<Option<Vec<_>>>()
                .and_then(|ends| ends.into_iter().max()),
            running_in,
            digests: digests(fingerprint),
        })
    }
}
