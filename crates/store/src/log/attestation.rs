//! The parts of records from other tables: the artifacts of an attestation, the origins that it determined, and its file; the
//! attestations and the origin of a reported artifact; the manifests of an image index.

use serde_json::{Map, Value, json};
use sqlx::types::Uuid;

use crate::database::transaction::{fetch_all, fetch_optional_scalar, fetch_scalars};
use crate::log::contradictions::{is_latest_contradicted, is_origin_contradicted};
use crate::{Error, Tenant, Transaction};
use model::log::Kind;
use model::{Fingerprint, GitCommit, ReportedArtifact};

/// An attested artifact, with the claim of the attestation's flow and repository.
#[derive(sqlx::FromRow)]
struct ArtifactRow {
    fingerprint: Fingerprint,
    trail: Uuid,
    claimed_by: Option<Uuid>,
    /// The hash of the author whom the attestation is the first to name.
    author: Option<Fingerprint>,
    author_at: Option<i64>,
    url: Option<String>,
    reported_by: Option<String>,
    recorded_at: Option<i64>,
    #[sqlx(flatten)]
    commit: ClaimedCommit,
}

#[derive(sqlx::FromRow)]
struct ClaimedCommit {
    commit_sha: Option<String>,
    commit_url: Option<String>,
    /// Number of derived rows that differ from what they are derived from.
    contradictions: i64,
}

/// An artifact that was reported later belongs to the record of its report. `latest_attestations` and `provenance` are derived
/// from attestations and claims.
///
/// `IS NOT DISTINCT FROM` uses no index of PostgreSQL. Without statistics, it expects one row for an organization and a
/// repository, and would read all artifacts of the repository for each.
const SELECT: &str = concat!(
    "SELECT x.fingerprint, x.trail, c.attestation AS claimed_by, c.url, c.commit_sha, c.commit_url, c.reported_by,
           c.recorded_at, n.author, n.created_at AS author_at,
           CAST(CASE WHEN ",
    is_latest_contradicted!(),
    " THEN 1 ELSE 0 END + CASE WHEN ",
    is_origin_contradicted!(),
    " THEN 1 ELSE 0 END AS BIGINT) AS contradictions
    FROM attestations a JOIN attested_artifacts x ON x.organization = a.organization AND x.attestation = a.id
        AND (x.report IS NULL OR NOT EXISTS
             (SELECT 1 FROM reported_artifacts q
              WHERE q.id = x.report AND q.organization = x.organization AND q.fingerprint = x.fingerprint))
      LEFT JOIN claims c ON c.organization = x.organization AND c.fingerprint = x.fingerprint AND c.flow = a.flow
        AND c.repository IS NOT DISTINCT FROM a.repository
      LEFT JOIN artifact_authors n ON n.organization = x.organization AND n.fingerprint = x.fingerprint
        AND n.flow = a.flow AND n.attestation = a.id
      LEFT JOIN latest_attestations l ON l.organization = x.organization AND l.fingerprint = x.fingerprint
        AND l.flow = a.flow AND l.name = a.name
      LEFT JOIN provenance p ON p.organization = x.organization AND p.fingerprint = x.fingerprint
        AND p.repository IS NOT DISTINCT FROM a.repository
    WHERE a.organization = $1 AND a.id = $2 ORDER BY x.fingerprint"
);

/// The origin that the report of an artifact determined, whose commit may be added later, and those whose commit it added.
const REPORTED_ORIGIN: &str = concat!(
    "SELECT c.repository, c.url, c.reported_by, c.commit_sha, c.commit_url, CAST(CASE WHEN ",
    is_origin_contradicted!(),
    " THEN 1 ELSE 0 END AS BIGINT) AS contradictions
    FROM reported_artifacts x JOIN claims c ON c.organization = x.organization AND c.fingerprint = x.fingerprint
      AND c.flow = x.flow
      AND ((c.attestation IS NULL AND c.recorded_at = x.created_at) OR c.commit_report = x.id)
      LEFT JOIN provenance p ON p.organization = c.organization AND p.fingerprint = c.fingerprint
        AND p.repository IS NOT DISTINCT FROM c.repository
    WHERE x.organization = $1 AND x.id = $2 ORDER BY c.repository"
);

/// An author whom the report of an artifact names first, or an attestation that it linked.
#[derive(sqlx::FromRow)]
struct ReportedAuthor {
    sha256: Fingerprint,
    attestation: Option<Uuid>,
    at: i64,
}

impl ReportedAuthor {
    fn record(self) -> Value {
        let Self { sha256, attestation, at } = self;
        json!({"sha256": sha256, "attestation": attestation.map(|id| id.to_string()), "at": at})
    }
}

#[derive(sqlx::FromRow)]
struct OriginRow {
    repository: Uuid,
    url: Option<String>,
    reported_by: String,
    #[sqlx(flatten)]
    commit: ClaimedCommit,
}

impl OriginRow {
    fn record(self, commit: Option<&str>) -> Value {
        let mut record = Map::new();
        record.insert("repository".into(), self.repository.to_string().into());
        record.insert("url".into(), self.url.into());
        record.insert("reported_by".into(), self.reported_by.into());
        self.commit.add_to(&mut record, commit);
        record.into()
    }
}

impl ArtifactRow {
    /// A claim belongs to the record of the attestation that recorded it, and its commit to that of each attestation that
    /// names the commit: a later attestation may add it.
    fn record(self, attestation: Uuid, commit: Option<&str>) -> Value {
        let mut record = Map::new();
        record.insert("fingerprint".into(), json!(self.fingerprint));
        record.insert("trail".into(), self.trail.to_string().into());
        if self.claimed_by == Some(attestation) {
            let claim =
                json!({"url": self.url, "reported_by": self.reported_by, "recorded_at": self.recorded_at});
            record.insert("claim".into(), claim);
        }
        if let Some(author) = self.author {
            record.insert("author".into(), json!({"sha256": author, "at": self.author_at}));
        }
        self.commit.add_to(&mut record, commit);
        record.into()
    }
}

impl ClaimedCommit {
    /// Adds the commit if the record names it, and the contradictions if there are any.
    fn add_to(self, record: &mut Map<String, Value>, named: Option<&str>) {
        if self.commit_sha.is_some() && self.commit_sha.as_deref() == named {
            record.insert("commit".into(), json!({"sha": self.commit_sha, "url": self.commit_url}));
        }
        if self.contradictions > 0 {
            record.insert("contradictions".into(), self.contradictions.into());
        }
    }
}

/// Adds the parts of other tables to a record: the artifacts of an attestation; the attestations that the report of an
/// artifact linked, and the origins that it determined; the manifests of an image index.
pub(crate) async fn add_related(
    tenant: &mut Tenant<'_>,
    kind: Kind,
    id: Uuid,
    record: &mut Map<String, Value>,
) -> Result<(), Error> {
    const LINKS: &str = "
        SELECT y.attestation FROM reported_artifacts x
          JOIN attested_artifacts y ON y.organization = x.organization AND y.fingerprint = x.fingerprint
            AND y.report = x.id
        WHERE x.organization = $1 AND x.id = $2 ORDER BY y.attestation";
    const AUTHORS: &str = "
        SELECT n.author AS sha256, n.attestation, n.created_at AS at FROM artifact_authors n
        WHERE n.organization = $1 AND n.report = $2 ORDER BY n.created_at, n.author";
    const MANIFESTS: &str = "
        SELECT m.fingerprint, m.platform FROM image_indexes x
          JOIN image_manifests m ON m.organization = x.organization AND m.image_index = x.fingerprint
        WHERE x.organization = $1 AND x.id = $2 ORDER BY m.fingerprint";
    match kind {
        Kind::Attestation => {
            let commit = record.get("git_commit_info").and_then(Value::as_str);
            let commit = commit.and_then(|commit| serde_json::from_str::<GitCommit>(commit).ok()?.sha1);
            let rows: Vec<ArtifactRow> = fetch_all!(tenant.tx, SELECT, tenant.name, id);
            let artifacts = rows.into_iter().map(|row| row.record(id, commit.as_deref()));
            record.insert("artifacts".to_owned(), artifacts.collect());
        }
        Kind::Artifact => {
            let links: Vec<Uuid> = fetch_scalars!(tenant.tx, LINKS, tenant.name, id);
            let origins: Vec<OriginRow> = fetch_all!(tenant.tx, REPORTED_ORIGIN, tenant.name, id);
            let sent = record.get("content").and_then(Value::as_str);
            let sent = sent.and_then(|content| serde_json::from_str::<ReportedArtifact>(content).ok());
            let commit = sent.and_then(|sent| sent.commit().sha1);
            let links = links.into_iter().map(|attestation| Value::from(attestation.to_string()));
            record.insert("attestations".to_owned(), links.collect());
            let origins = origins.into_iter().map(|origin| origin.record(commit.as_deref()));
            record.insert("origins".to_owned(), origins.collect());
            let authors: Vec<ReportedAuthor> = fetch_all!(tenant.tx, AUTHORS, tenant.name, id);
            if !authors.is_empty() {
                record
                    .insert("authors".to_owned(), authors.into_iter().map(ReportedAuthor::record).collect());
            }
        }
        Kind::ImageIndex => {
            let rows: Vec<(Fingerprint, String)> = fetch_all!(tenant.tx, MANIFESTS, tenant.name, id);
            let manifests = rows.into_iter();
            let manifests =
                manifests.map(|(digest, platform)| json!({"fingerprint": digest, "platform": platform}));
            record.insert("manifests".to_owned(), manifests.collect());
        }
        _ => {}
    }
    Ok(())
}

/// Replaces the hash of the attached file by that of its stored content. Returns the size of the file in bytes; `None` if
/// it is missing.
pub(crate) async fn check_attachment(
    transaction: &mut Transaction,
    record: &mut Map<String, Value>,
) -> Result<Option<usize>, Error> {
    const SELECT: &str = "SELECT content FROM attachments WHERE organization = $1 AND sha256 = $2";
    let text = |name: &str| record.get(name).and_then(Value::as_str);
    let (Some(organization), Some(sha256)) = (text("organization"), text("attachment")) else {
        return Ok(Some(0));
    };
    let Some(sha256) = Fingerprint::from_hex(sha256) else { return Ok(Some(0)) };
    let content: Option<Vec<u8>> = fetch_optional_scalar!(transaction, SELECT, organization, sha256);
    let Some(content) = content else { return Ok(None) };
    record.insert("attachment".to_owned(), json!(Fingerprint::from_content(&content)));
    Ok(Some(content.len()))
}
