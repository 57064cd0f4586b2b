//! Begins trails by operation.

use std::collections::BTreeSet;

use sqlx::types::Uuid;

use crate::database::columns::json;
use crate::database::transaction::{fetch_optional, fetch_scalars, on};
use crate::{Error, Tenant};
use model::log::Kind;
use model::{AnyJson, Fingerprint, FreeForm, GitCommit, Text, Timestamp, UrlText};

/// A trail to be begun, or changed: absent fields of an existing trail stay.
#[derive(Debug, Clone, Copy)]
pub struct NewTrail<'a> {
    pub flow: &'a str,
    pub name: &'a str,
    pub description: Option<&'a Text>,
    /// The page of a pipeline.
    pub origin_url: Option<&'a UrlText>,
    /// Free-form data.
    pub user_data: Option<&'a AnyJson>,
    /// URLs by name.
    pub external_urls: Option<&'a FreeForm>,
    pub commit: Option<&'a GitCommit>,
    /// The repository of the commit.
    pub repository: Option<Uuid>,
    pub template: Option<Uuid>,
    /// The token's name.
    pub reported_by: &'a str,
    /// The hash of the token.
    pub token: Fingerprint,
}

/// A trail, which may be locked until the transaction ends.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct StoredTrail {
    pub id: Uuid,
    /// When it last changed, or its last attestation was received.
    pub last_modified_at: Timestamp,
}

/// A trail; `None` if it does not exist.
pub async fn stored(tenant: &mut Tenant<'_>, flow: &str, name: &str) -> Result<Option<StoredTrail>, Error> {
    const SELECT: &str = "
        SELECT id, last_modified_at FROM trails WHERE organization = $1 AND flow = $2 AND name = $3";
    Ok(fetch_optional!(tenant.tx, SELECT, tenant.name, flow, name))
}

/// Creates a trail, or changes it.
pub async fn upsert(tenant: &mut Tenant<'_>, new: NewTrail<'_>, at: Timestamp) -> Result<(), Error> {
    const UPSERT: &str = "
        INSERT INTO trails
            (id, organization, flow, name, created_at, last_modified_at, created_by, created_by_token, description,
             origin_url, user_data, external_urls, git_commit_info, repository, template)
        VALUES ($1, $2, $3, $4, $5, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        ON CONFLICT (organization, flow, name) DO UPDATE
        SET last_modified_at = excluded.last_modified_at,
            description = COALESCE(excluded.description, trails.description),
            origin_url = COALESCE(excluded.origin_url, trails.origin_url),
            user_data = COALESCE(excluded.user_data, trails.user_data),
            external_urls = COALESCE(excluded.external_urls, trails.external_urls),
            git_commit_info = COALESCE(excluded.git_commit_info, trails.git_commit_info),
            repository = COALESCE(excluded.repository, trails.repository),
            template = COALESCE(excluded.template, trails.template)
        RETURNING id";
    let id: Uuid = on!(tenant.tx, |connection| {
        let upsert = sqlx::query_scalar(UPSERT).bind(crate::new_id()).bind(tenant.name).bind(new.flow);
        let upsert = upsert.bind(new.name).bind(at.micros()).bind(new.reported_by);
        let upsert = upsert.bind(new.token.bytes().as_slice()).bind(new.description.map(Text::as_str));
        let upsert = upsert.bind(new.origin_url.map(UrlText::as_str));
        let upsert = upsert.bind(new.user_data.map(AnyJson::as_str));
        let upsert = upsert.bind(new.external_urls.map(FreeForm::as_str));
        let upsert = upsert.bind(new.commit.map(json).transpose()?).bind(new.repository).bind(new.template);
        upsert.fetch_one(connection).await?
    });
    tenant.tx.log().revision(tenant.name, Kind::Trail, id, at);
    Ok(())
}

/// The artifacts that were attested or reported in a trail.
pub async fn artifacts_attested_in(
    tenant: &mut Tenant<'_>,
    trail: Uuid,
) -> Result<BTreeSet<Fingerprint>, Error> {
    const SELECT: &str = "
        SELECT DISTINCT x.fingerprint
        FROM attestations a JOIN attested_artifacts x ON x.organization = a.organization AND x.attestation = a.id
        WHERE a.organization = $1 AND a.trail = $2
        UNION SELECT fingerprint FROM reported_artifacts WHERE organization = $1 AND trail = $2";
    let artifacts: Vec<Fingerprint> = fetch_scalars!(tenant.tx, SELECT, tenant.name, trail);
    Ok(artifacts.into_iter().collect())
}
