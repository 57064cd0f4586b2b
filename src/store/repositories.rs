//! Repositories, as attestations name them.

use sqlx::types::Uuid;

use super::attestations::RecordError;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{Known, Meant, Provider, RepositoryInfo, Text, Timestamp, UrlText, meant};

impl Transaction {
    /// The repository, created or brought up to date.
    pub(super) async fn repository(
        &mut self,
        organization: &str,
        named: &RepositoryInfo,
        at: Timestamp,
    ) -> Result<Uuid, RecordError> {
        let name = named.name.as_str();
        let known = self.known_repositories(organization, name).await?;
        let (before, provider) = match meant(&known, named)? {
            Meant::Known(provider) | Meant::New(provider) => (provider, provider),
            Meant::Adopted(provider) => (None, Some(provider)),
        };
        Ok(self.keep_repository(organization, named, before, provider, at).await?)
    }

    /// The repositories of a name. Until the transaction ends nobody else can add one: on SQLite nobody
    /// else writes, on PostgreSQL the name is locked.
    async fn known_repositories(&mut self, organization: &str, name: &str) -> Result<Vec<Known>, Error> {
        const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))";
        const SELECT: &str = "SELECT provider, url FROM repositories WHERE organization = $1 AND name = $2";
        if let Self::Postgres(transaction) = self {
            sqlx::query(LOCK).bind(organization).bind(name).execute(&mut **transaction).await?;
        }
        let rows: Vec<(String, Option<String>)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(name).fetch_all(connection).await?
        });
        Ok(rows.into_iter().map(|(provider, url)| Known { provider: provider.parse().ok(), url }).collect())
    }

    /// Writes down what is known of a repository, which was kept under `before`.
    async fn keep_repository(
        &mut self,
        organization: &str,
        named: &RepositoryInfo,
        before: Option<Provider>,
        provider: Option<Provider>,
        at: Timestamp,
    ) -> Result<Uuid, Error> {
        const KEEP: &str = "
            INSERT INTO repositories (id, organization, provider, name, url, external_id, description, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (organization, name, provider) DO UPDATE
            SET provider = $9,
                url = COALESCE(excluded.url, repositories.url),
                external_id = COALESCE(excluded.external_id, repositories.external_id),
                description = COALESCE(excluded.description, repositories.description)
            RETURNING id";
        let word = |provider: Option<Provider>| provider.map_or("", Provider::as_str);
        let text = |text: &Option<Text>| text.as_ref().map(|t| t.as_str().to_owned());
        Ok(on!(self, |connection| {
            let keep = sqlx::query_scalar(KEEP).bind(Uuid::now_v7()).bind(organization).bind(word(before));
            let keep = keep.bind(named.name.as_str()).bind(named.url.as_ref().map(UrlText::as_str));
            let keep = keep.bind(text(&named.id)).bind(text(&named.description)).bind(at.micros());
            keep.bind(word(provider)).fetch_one(connection).await?
        }))
    }
}
