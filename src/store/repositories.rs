//! Records the repositories that attestations name.

use sqlx::types::Uuid;

use super::attestations::RecordError;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{
    KnownRepository, Provider, RepositoryInfo, RepositoryMatch, Text, Timestamp, UrlText, match_repository,
};
use crate::store::from_row::all_from_rows;

impl Transaction {
    /// Creates or updates a repository. Called for each attestation that names one.
    pub(super) async fn record_repository(
        &mut self,
        organization: &str,
        named: &RepositoryInfo,
        at: Timestamp,
    ) -> Result<Uuid, RecordError> {
        let name = named.name.as_str();
        let known = self.lock_repositories(organization, name).await?;
        let (before, provider) = match match_repository(&known, named)? {
            RepositoryMatch::Existing(provider) | RepositoryMatch::New(provider) => (provider, provider),
            RepositoryMatch::Adopted(provider) => (None, Some(provider)),
        };
        Ok(self.upsert_repository(organization, named, before, provider, at).await?)
    }

    /// Locks a repository name and returns the repositories that have it. SQLite has a single writer; PostgreSQL takes
    /// an advisory lock with two keys, which never equals one with a single key, such as that of verdicts
    /// (<https://www.postgresql.org/docs/15/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS>).
    async fn lock_repositories(
        &mut self,
        organization: &str,
        name: &str,
    ) -> Result<Vec<KnownRepository>, Error> {
        const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext($1), hashtext($2))";
        const SELECT: &str = "SELECT provider, url FROM repositories WHERE organization = $1 AND name = $2";
        if let Self::Postgres(transaction) = self {
            sqlx::query(LOCK).bind(organization).bind(name).execute(&mut **transaction).await?;
        }
        let rows: Vec<(String, Option<String>)> = on!(self, |connection| {
            sqlx::query(SELECT)
                .bind(organization)
                .bind(name)
                .fetch_all(connection)
                .await
                .and_then(all_from_rows)?
        });
        Ok(rows
            .into_iter()
            .map(|(provider, url)| KnownRepository { provider: provider.parse().ok(), url })
            .collect())
    }

    /// Inserts a repository, or updates the one that is stored with the provider `before`.
    async fn upsert_repository(
        &mut self,
        organization: &str,
        named: &RepositoryInfo,
        before: Option<Provider>,
        provider: Option<Provider>,
        at: Timestamp,
    ) -> Result<Uuid, Error> {
        const UPSERT: &str = "
            INSERT INTO repositories (id, organization, provider, name, url, external_id, description, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (organization, name, provider) DO UPDATE
            SET provider = $9,
                url = COALESCE(excluded.url, repositories.url),
                external_id = COALESCE(excluded.external_id, repositories.external_id),
                description = COALESCE(excluded.description, repositories.description)
            RETURNING id";
        let name = |provider: Option<Provider>| provider.map_or("", Provider::as_str);
        let text = |text: &Option<Text>| text.as_ref().map(|t| t.as_str().to_owned());
        Ok(on!(self, |connection| {
            let upsert =
                sqlx::query_scalar(UPSERT).bind(Uuid::now_v7()).bind(organization).bind(name(before));
            let upsert = upsert.bind(named.name.as_str()).bind(named.url.as_ref().map(UrlText::as_str));
            let upsert = upsert.bind(text(&named.id)).bind(text(&named.description)).bind(at.micros());
            upsert.bind(name(provider)).fetch_one(connection).await?
        }))
    }
}
