//! Attestations: recorded, and listed.

use std::collections::BTreeSet;

use sqlx::types::Uuid;

use super::reports::json;
use super::transaction::{insert, on};
use super::{Error, Transaction};
use crate::domain::model::{
    Attestation, Fingerprint, FreeForm, JunitAttestation, Page, RepositoryInfo, Text, Timestamp,
};

/// The version of what is kept of an attestation.
const SCHEMA_VERSION: i64 = 1;

/// An attestation as it is about to be recorded.
#[derive(Debug)]
pub struct NewAttestation<'a> {
    /// The organization.
    pub organization: &'a str,
    /// The flow, which comes into being with its first trail.
    pub flow: &'a str,
    /// The trail, which comes into being with its first attestation.
    pub trail: &'a str,
    /// What was sent.
    pub sent: &'a JunitAttestation,
    /// Whether it passes.
    pub passes: bool,
    /// The repository that it names.
    pub repository: Option<&'a RepositoryInfo>,
    /// Where the commit can be seen.
    pub commit_url: Option<String>,
    /// The attachment's hash, and the file's name where one was given.
    pub attachment: Option<(Fingerprint, Option<&'a str>)>,
    /// The token's name.
    pub reported_by: &'a str,
    /// When it came.
    pub at: Timestamp,
}

/// Between which times a list's attestations were received.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// The first microsecond that counts.
    pub from: i64,
    /// The first that no longer does.
    pub until: i64,
}

impl Transaction {
    /// Keeps a file, once for each organization and content.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn insert_attachment(
        &mut self,
        organization: &str,
        sha256: Fingerprint,
        content: &[u8],
        at: Timestamp,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO attachments (organization, sha256, content, created_at) VALUES ($1, $2, $3, $4)
            ON CONFLICT DO NOTHING";
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(organization).bind(sha256.bytes().as_slice()).bind(content);
            insert.bind(at.micros()).execute(connection).await?;
        });
        Ok(())
    }

    /// Records an attestation, with the flow, trail and repository that it is the first to name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn insert_attestation(&mut self, new: &NewAttestation<'_>) -> Result<Uuid, Error> {
        let trail = self.trail(new).await?;
        let repository = match new.repository {
            Some(repository) => Some(self.repository(new, repository).await?),
            None => None,
        };
        let targets = json(&new.sent.template_targets());
        let before = self.latest(trail, new.sent.attestation_name.as_str(), &targets).await?;
        let id = Uuid::now_v7();
        self.insert_record(new, id, trail, repository, &targets, before).await?;
        if let Some(before) = before {
            const SUPERSEDE: &str = "UPDATE attestations SET superseded_by = $1 WHERE id = $2";
            on!(self, |connection| {
                sqlx::query(SUPERSEDE).bind(id).bind(before).execute(connection).await?;
            });
        }
        self.link(new, id, trail, repository, &new.sent.fingerprints()).await?;
        Ok(id)
    }

    /// The trail, created or brought up to date; locked until the transaction ends.
    async fn trail(&mut self, new: &NewAttestation<'_>) -> Result<Uuid, Error> {
        const FLOW: &str = "
            INSERT INTO flows (organization, name, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        const TRAIL: &str = "
            INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by,
                                git_commit_info)
            VALUES ($1, $2, $3, $4, $5, $5, $6, $7)
            ON CONFLICT (organization, flow, name) DO UPDATE
            SET last_modified_at = excluded.last_modified_at,
                git_commit_info = COALESCE(excluded.git_commit_info, trails.git_commit_info)
            RETURNING id";
        let commit = new.sent.git_commit_info.as_ref().map(json);
        on!(self, |connection| {
            let flow = sqlx::query(FLOW).bind(new.organization).bind(new.flow).bind(new.at.micros());
            flow.execute(connection).await?;
        });
        Ok(on!(self, |connection| {
            let trail = sqlx::query_scalar(TRAIL).bind(Uuid::now_v7()).bind(new.organization).bind(new.flow);
            let trail = trail.bind(new.trail).bind(new.at.micros()).bind(new.reported_by).bind(commit);
            trail.fetch_one(connection).await?
        }))
    }

    /// The repository, created or brought up to date. One whose provider nobody has said yet is the
    /// one that is named with a provider; and a name without one means the only one of that name.
    async fn repository(&mut self, new: &NewAttestation<'_>, named: &RepositoryInfo) -> Result<Uuid, Error> {
        const ADOPT: &str = "
            UPDATE repositories SET provider = $1 WHERE organization = $2 AND name = $3 AND provider = ''
              AND NOT EXISTS (SELECT 1 FROM repositories r
                              WHERE r.organization = $2 AND r.name = $3 AND r.provider = $1)";
        const PROVIDERS: &str = "SELECT provider FROM repositories WHERE organization = $1 AND name = $2";
        const REPOSITORY: &str = "
            INSERT INTO repositories (id, organization, provider, name, url, external_id, description, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (organization, name, provider) DO UPDATE
            SET url = COALESCE(excluded.url, repositories.url),
                external_id = COALESCE(excluded.external_id, repositories.external_id),
                description = COALESCE(excluded.description, repositories.description)
            RETURNING id";
        let name = named.name.as_str();
        let provider = if let Some(provider) = named.provider() {
            on!(self, |connection| {
                let adopt = sqlx::query(ADOPT).bind(provider.as_str()).bind(new.organization).bind(name);
                adopt.execute(connection).await?;
            });
            provider.as_str().to_owned()
        } else {
            let known: Vec<String> = on!(self, |connection| {
                sqlx::query_scalar(PROVIDERS).bind(new.organization).bind(name).fetch_all(connection).await?
            });
            <[String; 1]>::try_from(known).map(|[only]| only).unwrap_or_default()
        };
        let text = |text: &Option<Text>| text.as_ref().map(|t| t.as_str().to_owned());
        Ok(on!(self, |connection| {
            let repository = sqlx::query_scalar(REPOSITORY).bind(Uuid::now_v7()).bind(new.organization);
            let repository = repository.bind(provider).bind(name).bind(named.public_url());
            let repository = repository.bind(text(&named.id)).bind(text(&named.description));
            repository.bind(new.at.micros()).fetch_one(connection).await?
        }))
    }

    /// The latest attestation of a name in a trail.
    async fn latest(&mut self, trail: Uuid, name: &str, targets: &str) -> Result<Option<Uuid>, Error> {
        const LATEST: &str = "
            SELECT id FROM attestations
            WHERE trail = $1 AND superseded_by IS NULL AND name = $2 AND targets = $3";
        Ok(on!(self, |connection| {
            let latest = sqlx::query_scalar(LATEST).bind(trail).bind(name).bind(targets);
            latest.fetch_optional(connection).await?
        }))
    }

    async fn insert_record(
        &mut self,
        new: &NewAttestation<'_>,
        id: Uuid,
        trail: Uuid,
        repository: Option<Uuid>,
        targets: &str,
        overrides: Option<Uuid>,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO attestations
                (id, organization, flow, trail, name, kind, targets, created_at, reported_by, schema_version,
                 is_compliant, results, description, origin_url, user_data, annotations, external_urls,
                 git_commit_info, repository, attachment, attachment_name, overrides)
            VALUES ($1, $2, $3, $4, $5, 'junit', $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                    $19, $20, $21)";
        let sent = new.sent;
        let text = |text: &Option<Text>| text.as_ref().map_or("", |t| t.as_str()).to_owned();
        let object = |object: &Option<FreeForm>| object.as_ref().map_or("{}", FreeForm::as_str).to_owned();
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(id).bind(new.organization).bind(new.flow).bind(trail);
            let insert = insert.bind(sent.attestation_name.as_str()).bind(targets).bind(new.at.micros());
            let insert = insert.bind(new.reported_by).bind(SCHEMA_VERSION).bind(new.passes);
            let insert = insert.bind(json(&sent.junit_results)).bind(text(&sent.description));
            let insert = insert.bind(text(&sent.origin_url)).bind(object(&sent.user_data));
            let insert = insert.bind(object(&sent.annotations)).bind(object(&sent.external_urls));
            let insert = insert.bind(sent.git_commit_info.as_ref().map(json)).bind(repository);
            let insert = insert.bind(new.attachment.map(|(sha256, _)| sha256.bytes().to_vec()));
            let insert = insert.bind(new.attachment.and_then(|(_, name)| name)).bind(overrides);
            insert.execute(connection).await?;
        });
        Ok(())
    }

    /// Links artifacts to the attestation, and to the repository and commit that it names.
    async fn link(
        &mut self,
        new: &NewAttestation<'_>,
        id: Uuid,
        trail: Uuid,
        repository: Option<Uuid>,
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<(), Error> {
        const PROVENANCE: &str = "
            INSERT INTO provenance (organization, repository, fingerprint, commit_sha, commit_url, recorded_at)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (organization, repository, fingerprint) DO UPDATE
            SET commit_sha = COALESCE(excluded.commit_sha, provenance.commit_sha),
                commit_url = CASE WHEN excluded.commit_sha IS NULL THEN provenance.commit_url
                             ELSE excluded.commit_url END,
                recorded_at = excluded.recorded_at";
        insert!(
            self,
            "INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail) ",
            "",
            artifacts,
            |values, artifact| {
                values.push_bind(new.organization).push_bind(artifact.bytes().as_slice());
                values.push_bind(id).push_bind(trail);
            }
        );
        let Some(repository) = repository else { return Ok(()) };
        let commit = new.sent.git_commit_info.as_ref().and_then(|commit| commit.sha1.as_deref());
        for artifact in artifacts {
            on!(self, |connection| {
                let link = sqlx::query(PROVENANCE).bind(new.organization).bind(repository);
                let link =
                    link.bind(artifact.bytes().as_slice()).bind(commit).bind(new.commit_url.as_deref());
                link.bind(new.at.micros()).execute(connection).await?;
            });
        }
        Ok(())
    }

    /// A page of a flow's attestations, newest first, and how many there are; `None` where there is
    /// no such flow.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attestations(
        &mut self,
        organization: &str,
        flow: &str,
        span: Span,
        page: Page,
    ) -> Result<Option<(Vec<Attestation>, u64)>, Error> {
        const FLOW: &str = "SELECT COUNT(*) FROM flows WHERE organization = $1 AND name = $2";
        const COUNT: &str = "
            SELECT COUNT(*) FROM attestations
            WHERE organization = $1 AND flow = $2 AND created_at >= $3 AND created_at < $4";
        const SELECT: &str = "
            SELECT id, name, kind, created_at, description, attachment IS NOT NULL AS has_attachment,
                   is_compliant, origin_url, reported_by, schema_version, user_data
            FROM attestations
            WHERE organization = $1 AND flow = $2 AND created_at >= $3 AND created_at < $4
            ORDER BY created_at DESC, id DESC LIMIT $5 OFFSET $6";
        let exists: i64 = on!(self, |connection| {
            sqlx::query_scalar(FLOW).bind(organization).bind(flow).fetch_one(connection).await?
        });
        if exists == 0 {
            return Ok(None);
        }
        let total: i64 = on!(self, |connection| {
            let count = sqlx::query_scalar(COUNT).bind(organization).bind(flow);
            count.bind(span.from).bind(span.until).fetch_one(connection).await?
        });
        let rows: Vec<Row> = on!(self, |connection| {
            let select =
                sqlx::query_as(SELECT).bind(organization).bind(flow).bind(span.from).bind(span.until);
            select.bind(page.size()).bind(page.offset()).fetch_all(connection).await?
        });
        let attestations = rows.into_iter().map(Row::into_attestation).collect::<Result<_, _>>()?;
        Ok(Some((attestations, total.unsigned_abs())))
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    name: String,
    kind: String,
    created_at: i64,
    description: String,
    has_attachment: bool,
    is_compliant: bool,
    origin_url: String,
    reported_by: String,
    schema_version: i64,
    user_data: String,
}

impl Row {
    fn into_attestation(self) -> Result<Attestation, Error> {
        Ok(Attestation {
            attestation_id: self.id.to_string(),
            attestation_name: self.name,
            attestation_type: self.kind,
            created_at: Timestamp::from_micros(self.created_at),
            description: self.description,
            has_audit_package: self.has_attachment,
            is_compliant: self.is_compliant,
            origin_url: self.origin_url,
            reported_by: self.reported_by,
            schema_version: self.schema_version,
            user_data: serde_json::from_str(&self.user_data).map_err(|_| Error::Unreadable("user data"))?,
        })
    }
}
