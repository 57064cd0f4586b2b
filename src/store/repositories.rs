//! Records the repositories that attestations name, and closes them.

use sqlx::types::Uuid;

use super::attestations::{NewAttestation, RecordError};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{
    KnownRepository, Provider, RepositoryInfo, RepositoryMatch, Text, Timestamp, UrlText, at_provider,
    match_repository,
};
use crate::store::from_row::{all_from_rows, one_from_row};

/// A repository that an attestation names.
#[derive(sqlx::FromRow)]
pub(super) struct RecordedRepository {
    pub(super) id: Uuid,
    /// The first URL that an attestation of a flow named: of a flow that owns the repository, or else of the flow that named
    /// the repository first.
    pub(super) url: Option<String>,
    /// Describes a new repository, or a changed URL or provider.
    #[sqlx(skip)]
    pub(super) change: Option<String>,
}

#[derive(sqlx::FromRow)]
struct RepositoryRow {
    provider: String,
    url: Option<String>,
    is_closed: bool,
}

impl Transaction {
    /// Creates a repository, or completes it. Called for each attestation that names one.
    pub(super) async fn record_repository(
        &mut self,
        new: &NewAttestation<'_>,
        named: &RepositoryInfo,
        at: Timestamp,
    ) -> Result<RecordedRepository, RecordError> {
        let rows = self.lock_repositories(new.organization, named.name.as_str()).await?;
        let (closed, open): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_closed);
        let known =
            |row: RepositoryRow| KnownRepository { provider: row.provider.parse().ok(), url: row.url };
        let open: Vec<_> = open.into_iter().map(known).collect();
        let (before, provider) = match match_repository(&open, named)? {
            RepositoryMatch::Existing(provider) | RepositoryMatch::New(provider) => (provider, provider),
            RepositoryMatch::Adopted(provider) => (None, Some(provider)),
        };
        if closed.iter().any(|row| row.provider == provider_name(provider)) {
            return Err(RecordError::Closed);
        }
        let known = open.iter().find(|known| known.provider == before);
        let mut recorded = self.upsert_repository(new, named, before, provider, at).await?;
        if known.is_none_or(|known| known.url != recorded.url || before != provider) {
            let (at, url) = (at_provider(provider), recorded.url.as_deref().unwrap_or("without a URL"));
            recorded.change =
                Some(format!("flow {} named the repository {}{at}: {url}", new.flow, named.name));
        }
        Ok(recorded)
    }

    /// Locks a repository name and returns the repositories that have it. SQLite has a single writer; PostgreSQL takes
    /// an advisory lock with two keys, which never equals one with a single key, such as that of verdicts
    /// (<https://www.postgresql.org/docs/15/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS>).
    async fn lock_repositories(
        &mut self,
        organization: &str,
        name: &str,
    ) -> Result<Vec<RepositoryRow>, Error> {
        const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext($1), hashtext($2))";
        const SELECT: &str = "
            SELECT provider, url, closed_at IS NOT NULL AS is_closed FROM repositories
            WHERE organization = $1 AND name = $2";
        if let Self::Postgres(transaction) = self {
            sqlx::query(LOCK).bind(organization).bind(name).execute(&mut **transaction).await?;
        }
        Ok(on!(self, |connection| {
            sqlx::query(SELECT)
                .bind(organization)
                .bind(name)
                .fetch_all(connection)
                .await
                .and_then(all_from_rows)?
        }))
    }

    /// Inserts a repository, or completes the one that is stored with the provider `before`. Fields of an earlier
    /// attestation stay.
    async fn upsert_repository(
        &mut self,
        new: &NewAttestation<'_>,
        named: &RepositoryInfo,
        before: Option<Provider>,
        provider: Option<Provider>,
        at: Timestamp,
    ) -> Result<RecordedRepository, Error> {
        const UPSERT: &str = "
            INSERT INTO repositories
                (id, organization, provider, name, url, external_id, description, created_at, flow, reported_by,
                 is_url_of_owner)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $12)
            ON CONFLICT (organization, name, provider) DO UPDATE
            SET provider = $11,
                url = CASE WHEN excluded.is_url_of_owner AND NOT repositories.is_url_of_owner THEN excluded.url
                           WHEN COALESCE(repositories.flow, excluded.flow) = excluded.flow
                           THEN COALESCE(repositories.url, excluded.url)
                           ELSE repositories.url END,
                is_url_of_owner = repositories.is_url_of_owner OR excluded.is_url_of_owner,
                external_id = COALESCE(repositories.external_id, excluded.external_id),
                description = COALESCE(repositories.description, excluded.description)
            RETURNING id, url";
        let text = |text: &Option<Text>| text.as_ref().map(|t| t.as_str().to_owned());
        Ok(on!(self, |connection| {
            let upsert = sqlx::query(UPSERT).bind(Uuid::now_v7()).bind(new.organization);
            let upsert = upsert.bind(provider_name(before)).bind(named.name.as_str());
            let upsert = upsert.bind(named.url.as_ref().map(UrlText::as_str));
            let upsert = upsert.bind(text(&named.id)).bind(text(&named.description)).bind(at.micros());
            let upsert = upsert.bind(new.flow).bind(new.reported_by).bind(provider_name(provider));
            let upsert = upsert.bind(new.owned.is_owner && named.url.is_some());
            upsert.fetch_one(connection).await.and_then(one_from_row)?
        }))
    }

    /// Closes or reopens a repository. Attestations must not name a closed one, and it is the origin of no artifact: other
    /// claims count instead. Returns whether the repository exists.
    pub async fn set_repository_closed(
        &mut self,
        organization: &str,
        name: &str,
        provider: Option<Provider>,
        closed_at: Option<Timestamp>,
    ) -> Result<bool, Error> {
        const UPDATE: &str = "
            UPDATE repositories SET closed_at = $1 WHERE organization = $2 AND name = $3 AND provider = $4
            RETURNING id";
        const DELETE: &str = "DELETE FROM provenance WHERE organization = $1 AND repository = $2";
        const RESTORE: &str = "
            INSERT INTO provenance (organization, repository, fingerprint, commit_sha, commit_url, recorded_at, flow,
                                    reported_by, priority, is_owner)
            SELECT organization, repository, fingerprint, commit_sha, commit_url, recorded_at, flow, reported_by,
                   priority, priority > 0
            FROM (SELECT c.*, ROW_NUMBER() OVER (PARTITION BY c.fingerprint
                                                 ORDER BY c.priority DESC, c.recorded_at, c.flow) AS place
                  FROM claims one
                    JOIN claims c ON c.organization = one.organization AND c.fingerprint = one.fingerprint
                    JOIN repositories r ON r.id = c.repository AND r.closed_at IS NULL
                  WHERE one.organization = $1 AND one.repository = $2
                    AND NOT EXISTS (SELECT 1 FROM provenance p
                                    WHERE p.organization = one.organization AND p.fingerprint = one.fingerprint))
              AS remaining
            WHERE place = 1";
        self.lock_repositories(organization, name).await?;
        let id: Option<Uuid> = on!(self, |connection| {
            let update = sqlx::query_scalar(UPDATE).bind(closed_at.map(Timestamp::micros)).bind(organization);
            update.bind(name).bind(provider_name(provider)).fetch_optional(connection).await?
        });
        let Some(id) = id else { return Ok(false) };
        let changes = if closed_at.is_some() { &[DELETE, RESTORE][..] } else { &[RESTORE] };
        for change in changes {
            on!(self, |connection| {
                sqlx::query(*change).bind(organization).bind(id).execute(connection).await?;
            });
        }
        Ok(true)
    }
}

/// The stored name of a provider; empty if unknown.
fn provider_name(provider: Option<Provider>) -> &'static str {
    provider.map_or("", Provider::as_str)
}
