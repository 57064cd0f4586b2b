//! Records the repositories that attestations name, and closes them.

use sqlx::types::Uuid;

use crate::database::from_row::one_from_row;
use crate::database::transaction::{execute, fetch_all, fetch_scalars, on};
use crate::precedence::precedes;
use crate::{Error, Tenant, Transaction};
use model::log::Kind;
use model::{
    AmbiguousRepository, KnownRepository, Provider, RepositoryInfo, RepositoryMatch, Text, Timestamp,
    UrlText, at_provider, match_repository,
};
use rules::ownership::Owned;

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct RecordedRepository {
    pub id: Uuid,
    /// The first URL that a request of a flow named: of a flow that owns the repository, or else of the flow that named the
    /// repository first.
    pub url: Option<String>,
    /// Describes a new repository, or a changed URL or provider.
    #[sqlx(skip)]
    pub change: Option<String>,
}

/// The flow and the token that name a repository.
#[derive(Debug, Clone, Copy)]
pub struct RepositorySource<'a> {
    pub flow: &'a str,
    /// The token's name.
    pub reported_by: &'a str,
    /// The repositories and images that the flow owns.
    pub owned: &'a Owned,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Ambiguous(#[from] AmbiguousRepository),
    /// An administrator closed its repository.
    #[error("the repository is closed: an administrator can reopen it")]
    Closed,
    #[error(transparent)]
    Store(#[from] Error),
}

#[derive(sqlx::FromRow)]
struct RepositoryRow {
    id: Uuid,
    #[sqlx(flatten)]
    known: KnownRepository,
    is_closed: bool,
    is_url_of_owner: bool,
    is_described: bool,
}

/// The name under which a repository was recorded, if its provider and identifier were recorded with another name.
pub async fn recorded_name(tenant: &mut Tenant<'_>, named: &RepositoryInfo) -> Result<Option<String>, Error> {
    let rows = lock(tenant, named).await?;
    let known: Vec<_> = rows.into_iter().map(|row| row.known).collect();
    let Ok(RepositoryMatch::Existing(index)) = match_repository(&known, named) else { return Ok(None) };
    let recorded = known.into_iter().nth(index).map(|repository| repository.name);
    Ok(recorded.filter(|name| name != named.name.as_str()))
}

/// The names of the open repositories.
pub async fn names(tenant: &mut Tenant<'_>) -> Result<Vec<String>, Error> {
    const SELECT: &str =
        "SELECT DISTINCT name FROM repositories WHERE organization = $1 AND closed_at IS NULL";
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name))
}

/// Creates a repository, or completes it. Called for each attestation that names one.
pub async fn record(
    tenant: &mut Tenant<'_>,
    new: RepositorySource<'_>,
    named: &RepositoryInfo,
    at: Timestamp,
) -> Result<RecordedRepository, RecordError> {
    let rows = lock(tenant, named).await?;
    let (closed, open): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_closed);
    let known: Vec<_> = open.iter().map(|row| row.known.clone()).collect();
    let row = |index: usize| open.get(index).ok_or(Error::Unreadable("a repository"));
    let (row, provider) = match match_repository(&known, named)? {
        RepositoryMatch::Existing(index) => (row(index)?, None),
        RepositoryMatch::Adopted(index, provider) => (row(index)?, Some(provider)),
        RepositoryMatch::New(key) => {
            // A closed repository must not return under its name or its identifier.
            if closed.iter().any(|row| row.known.is_reopened_by(named)) {
                return Err(RecordError::Closed);
            }
            let mut recorded = insert(tenant, new, named, &key, at).await?;
            tenant.tx.log().revision(tenant.name, Kind::Repository, recorded.id, at);
            let (provider, url) = (named.provider(), recorded.url.as_deref());
            recorded.change = Some(describe_change(new, named, provider.as_ref(), url));
            return Ok(recorded);
        }
    };
    if row.known.name != named.name.as_str() {
        insert_name(tenant, named, row.id, at).await?;
    }
    let before = row.known.url.clone();
    let adds_id = row.known.id.is_none() && named.id.is_some();
    let is_owner = new.owned.is_owner && named.url.is_some();
    let completes =
        adds_id || (named.description.is_some() && !row.is_described) || (is_owner && !row.is_url_of_owner);
    let mut recorded = complete(tenant, row.id, new, named, provider.as_ref()).await?;
    if completes || provider.is_some() || before != recorded.url {
        tenant.tx.log().revision(tenant.name, Kind::Repository, row.id, at);
    }
    if provider.is_some() || before != recorded.url {
        let provider = provider.or_else(|| row.known.provider());
        recorded.change = Some(describe_change(new, named, provider.as_ref(), recorded.url.as_deref()));
    }
    Ok(recorded)
}

/// Locks a repository name, and returns the repositories with this name, in any case, or identifier. SQLite has a single writer;
/// PostgreSQL takes an advisory lock with two keys, which never equals one with a single key, such as that of verdicts
/// (<https://www.postgresql.org/docs/15/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS>).
async fn lock(tenant: &mut Tenant<'_>, named: &RepositoryInfo) -> Result<Vec<RepositoryRow>, Error> {
    // UNION, since each half uses its own index.
    const SELECT: &str = "
        SELECT id, provider, name, url, external_id, closed_at IS NOT NULL AS is_closed, is_url_of_owner,
               description IS NOT NULL AS is_described
        FROM repositories
        WHERE organization = $1 AND lower(name) = lower($2)
        UNION
        SELECT id, provider, name, url, external_id, closed_at IS NOT NULL AS is_closed, is_url_of_owner,
               description IS NOT NULL AS is_described
        FROM repositories
        WHERE organization = $1 AND external_id = $3
        ORDER BY provider, name";
    let (name, id) = (named.name.as_str(), named.id.as_ref().map(Text::as_str));
    lock_name(tenant, name).await?;
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, name, id))
}

async fn lock_name(tenant: &mut Tenant<'_>, name: &str) -> Result<(), Error> {
    const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext($1), hashtext(lower($2)))";
    if let Transaction::Postgres(transaction) = tenant.tx {
        sqlx::query(LOCK).bind(tenant.name).bind(name).execute(&mut **transaction).await?;
    }
    Ok(())
}

/// Inserts a repository. It may exist if neither it nor the new one has a provider and an identifier.
async fn insert(
    tenant: &mut Tenant<'_>,
    new: RepositorySource<'_>,
    named: &RepositoryInfo,
    key: &str,
    at: Timestamp,
) -> Result<RecordedRepository, Error> {
    const UPSERT: &str = "
        INSERT INTO repositories
            (id, organization, provider, name, url, external_id, description, created_at, flow, reported_by,
             is_url_of_owner)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        ON CONFLICT (organization, name, provider) DO UPDATE SET name = excluded.name
        RETURNING id, url";
    let text = |text: &Option<Text>| text.as_ref().map(|t| t.as_str().to_owned());
    Ok(on!(tenant.tx, |connection| {
        let upsert = sqlx::query(UPSERT).bind(crate::new_id()).bind(tenant.name);
        let upsert = upsert.bind(key).bind(named.name.as_str());
        let upsert = upsert.bind(named.url.as_ref().map(UrlText::as_str));
        let upsert = upsert.bind(text(&named.id)).bind(text(&named.description)).bind(at.micros());
        let upsert = upsert.bind(new.flow).bind(new.reported_by);
        let upsert = upsert.bind(new.owned.is_owner && named.url.is_some());
        upsert.fetch_one(connection).await.and_then(one_from_row)?
    }))
}

/// Completes a repository. Fields of an earlier attestation stay.
async fn complete(
    tenant: &mut Tenant<'_>,
    id: Uuid,
    new: RepositorySource<'_>,
    named: &RepositoryInfo,
    provider: Option<&Provider>,
) -> Result<RecordedRepository, Error> {
    const UPDATE: &str = "
        UPDATE repositories
        SET provider = COALESCE($1, provider),
            url = CASE WHEN $2 AND NOT is_url_of_owner THEN $3
                       WHEN flow = $4 THEN COALESCE(url, $3)
                       ELSE url END,
            is_url_of_owner = is_url_of_owner OR $2,
            external_id = COALESCE(external_id, $5),
            description = COALESCE(description, $6)
        WHERE organization = $7 AND id = $8 RETURNING id, url";
    let text = |text: &Option<Text>| text.as_ref().map(|t| t.as_str().to_owned());
    Ok(on!(tenant.tx, |connection| {
        let update = sqlx::query(UPDATE).bind(provider.map(Provider::as_str));
        let update = update.bind(new.owned.is_owner && named.url.is_some());
        let update = update.bind(named.url.as_ref().map(UrlText::as_str)).bind(new.flow);
        let update = update.bind(text(&named.id)).bind(text(&named.description));
        let update = update.bind(tenant.name).bind(id);
        update.fetch_one(connection).await.and_then(one_from_row)?
    }))
}

/// Records a later name of a repository.
async fn insert_name(
    tenant: &mut Tenant<'_>,
    named: &RepositoryInfo,
    repository: Uuid,
    at: Timestamp,
) -> Result<(), Error> {
    const INSERT: &str = "
        INSERT INTO repository_names (organization, name, repository, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING";
    execute!(tenant.tx, INSERT, tenant.name, named.name.as_str(), repository, at);
    Ok(())
}

/// Closes or reopens a repository. Attestations must not name a closed one, and it is the origin of no artifact: other
/// claims count instead. Returns whether the repository exists.
pub async fn set_closed(
    tenant: &mut Tenant<'_>,
    name: &str,
    provider: Option<&Provider>,
    closed_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<bool, Error> {
    const UPDATE: &str = "
        UPDATE repositories SET closed_at = $1 WHERE organization = $2 AND name = $3 AND provider = $4
        RETURNING id";
    const DELETE: &str = "DELETE FROM provenance WHERE organization = $1 AND repository = $2";
    // Another claim counted meanwhile.
    const REPLACE: &str = concat!(
        "DELETE FROM provenance AS p WHERE organization = $1 AND EXISTS
          (SELECT 1 FROM claims c
           WHERE c.organization = p.organization AND c.fingerprint = p.fingerprint AND c.repository = $2 AND ",
        precedes!(),
        ")"
    );
    const RESTORE: &str = "
        INSERT INTO provenance (organization, repository, fingerprint, commit_sha, commit_url, recorded_at, flow,
                                reported_by, priority)
        SELECT organization, repository, fingerprint, commit_sha, commit_url, recorded_at, flow, reported_by,
               priority
        FROM (SELECT c.*, ROW_NUMBER() OVER (PARTITION BY c.fingerprint
                                             ORDER BY c.priority DESC, c.recorded_at, c.flow, c.repository) AS place
              FROM claims one
                JOIN claims c ON c.organization = one.organization AND c.fingerprint = one.fingerprint
                JOIN repositories r
                  ON r.organization = c.organization AND r.id = c.repository AND r.closed_at IS NULL
              WHERE one.organization = $1 AND one.repository = $2
                AND NOT EXISTS (SELECT 1 FROM provenance p
                                WHERE p.organization = one.organization AND p.fingerprint = one.fingerprint))
          AS remaining
        WHERE place = 1";
    lock_name(tenant, name).await?;
    let id: Option<Uuid> = on!(tenant.tx, |connection| {
        let update = sqlx::query_scalar(UPDATE).bind(closed_at.map(Timestamp::micros)).bind(tenant.name);
        update.bind(name).bind(provider.map_or("", Provider::as_str)).fetch_optional(connection).await?
    });
    let Some(id) = id else { return Ok(false) };
    tenant.tx.log().revision(tenant.name, Kind::Repository, id, now);
    let changes = if closed_at.is_some() { [DELETE, RESTORE] } else { [REPLACE, RESTORE] };
    for change in changes {
        execute!(tenant.tx, change, tenant.name, id);
    }
    Ok(true)
}

/// Describes a new repository, or a changed URL or provider, for the audit log.
fn describe_change(
    new: RepositorySource<'_>,
    named: &RepositoryInfo,
    provider: Option<&Provider>,
    url: Option<&str>,
) -> String {
    let (at, url) = (at_provider(provider), url.unwrap_or("without a URL"));
    format!("flow {} named the repository {}{at}: {url}", new.flow, named.name)
}
