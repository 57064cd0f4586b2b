//! Records image indexes, and reads which manifests they list.
//!
//! The evidence of an artifact is read together with that of other digests of its image, so a change of one evaluates
//! all. Only the latest indexes of a manifest count: the cost does not grow with the builds that contain it.

use std::collections::BTreeSet;

use crate::database::from_row::all_from_rows;
use crate::database::transaction::{MAX_STATEMENT_ROWS, execute, fetch_for_all, fetch_scalar, insert, on};
use crate::{Error, Tenant};
use model::log::Kind;
use model::{Fingerprint, ImageIndex, ListedManifest, Timestamp};

/// Number of indexes in each flow whose evidence counts for a manifest (`is_recent`): the newest ones. A manifest that does not change is in
/// the index of each build, so that the cost of an evaluation would grow with the history.
const MAX_INDEXES: i64 = 16;

/// The indexes and manifests between which evidence counts.
pub fn related(listed: &[ListedManifest]) -> impl Iterator<Item = Fingerprint> {
    listed.iter().filter(|pair| pair.counts).flat_map(|pair| [pair.index, pair.manifest])
}

/// Records an index. Returns whether it is new.
pub async fn insert(
    tenant: &mut Tenant<'_>,
    index: &ImageIndex,
    flow: &str,
    reported_by: &str,
    at: Timestamp,
) -> Result<bool, Error> {
    const INSERT: &str = "
        INSERT INTO image_indexes (id, organization, fingerprint, flow, reported_by, created_at)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (organization, fingerprint) DO NOTHING";
    const AGE: &str = "
        UPDATE image_manifests SET is_recent = FALSE
        WHERE organization = $1 AND flow = $2 AND is_recent
          AND fingerprint IN (SELECT l.fingerprint FROM image_manifests l
                              WHERE l.organization = $1 AND l.image_index = $3)
          AND created_at < (SELECT n.created_at FROM image_manifests n
                            WHERE n.organization = $1 AND n.flow = $2
                              AND n.fingerprint = image_manifests.fingerprint
                            ORDER BY n.created_at DESC LIMIT 1 OFFSET $4)";
    let id = crate::new_id();
    let inserted = execute!(tenant.tx, INSERT, id, tenant.name, index.fingerprint, flow, reported_by, at);
    if inserted == 0 {
        return Ok(false);
    }
    insert!(
        tenant.tx,
        "INSERT INTO image_manifests (organization, image_index, fingerprint, platform, flow, created_at, is_recent) ",
        "",
        &index.manifests,
        |values, manifest| {
            values.push_bind(tenant.name).push_bind(index.fingerprint).push_bind(manifest.fingerprint);
            values.push_bind(manifest.platform.as_str()).push_bind(flow).push_bind(at).push_bind(true);
        }
    );
    execute!(tenant.tx, AGE, tenant.name, flow, index.fingerprint, MAX_INDEXES - 1);
    tenant.tx.log().row(tenant.name, Kind::ImageIndex, id);
    Ok(true)
}

/// The newest indexes that list any of these artifacts, and all manifests that any of them lists; the newest first.
pub async fn listed_manifests(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Vec<ListedManifest>, Error> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM image_indexes WHERE organization = $1)";
    let mut listed = Vec::new();
    let has_any: bool = fetch_scalar!(tenant.tx, ANY, tenant.name);
    if !has_any {
        return Ok(listed);
    }
    let artifacts: Vec<_> = artifacts.iter().copied().collect();
    for chunk in artifacts.chunks(MAX_STATEMENT_ROWS) {
        listed.append(&mut on!(tenant.tx, |connection| {
            let mut query = sqlx::QueryBuilder::new("WITH wanted (fingerprint) AS (");
            query.push_values(chunk, |mut values, artifact| {
                values.push_bind(*artifact);
            });
            query.push(
                ") SELECT image_index, fingerprint, platform, counts FROM (
                 SELECT m.image_index, m.fingerprint, m.platform, m.created_at, TRUE AS counts
                 FROM wanted w CROSS JOIN image_manifests m WHERE m.organization = ",
            );
            query.push_bind(tenant.name).push(
                " AND m.fingerprint = w.fingerprint AND m.is_recent
                 UNION
                 SELECT m.image_index, m.fingerprint, m.platform, m.created_at, m.is_recent AS counts
                 FROM wanted w CROSS JOIN image_manifests m WHERE m.organization = ",
            );
            query
                .push_bind(tenant.name)
                .push(" AND m.image_index = w.fingerprint) AS listed ORDER BY created_at DESC, fingerprint");
            let query = query.build().persistent(chunk.len() == 1);
            query.fetch_all(connection).await.and_then(all_from_rows)?
        }));
    }
    Ok(listed)
}

/// The manifests among these artifacts, each with the first index of a flow that lists it. Later ones do not hide the author
/// whom it names.
pub(crate) async fn first_indexes(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Vec<(Fingerprint, Fingerprint)>, Error> {
    // A flow has a recent index of each manifest that any of its indexes lists.
    const FIRST: &str = "
        SELECT DISTINCT m.fingerprint, (SELECT o.image_index FROM image_manifests o
           WHERE o.organization = m.organization AND o.fingerprint = m.fingerprint AND o.flow = m.flow
           ORDER BY o.created_at LIMIT 1) AS image_index
        FROM image_manifests m WHERE m.is_recent AND m.organization = ? AND m.fingerprint IN (?)";
    Ok(fetch_for_all!(tenant.tx, FIRST, artifacts.iter().copied(), tenant.name))
}

/// The names under which artifacts ran. For those that did not run, the names of the other digests of their images.
pub async fn names(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Vec<(Fingerprint, String)>, Error> {
    let mut names = crate::provenance::names(tenant, artifacts).await?;
    let mut others = artifacts.clone();
    others.retain(|artifact| names.iter().all(|(named, _)| named != artifact));
    let others = related(&listed_manifests(tenant, &others).await?).collect();
    names.extend(crate::provenance::names(tenant, &others).await?);
    Ok(names)
}
