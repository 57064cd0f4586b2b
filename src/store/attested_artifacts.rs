//! What was attested of one artifact or in one trail, for people who look at it.

use sqlx::types::Uuid;

use super::row_limit::{AtMost, MOST, one_more_than};
use super::rows::{Bytes, rows};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, FreeForm, GitCommit, JunitResult, Timestamp};

/// An attestation as lists show it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its identifier.
    pub id: Uuid,
    /// Its flow.
    pub flow: String,
    /// Its trail.
    pub trail: String,
    /// Its name.
    pub name: String,
    /// Whether it passes.
    pub passes: bool,
    /// The results of all suites together.
    pub results: JunitResult,
    /// When it came.
    pub created_at: Timestamp,
    /// Whose token it came with.
    pub reported_by: String,
    /// Whether a later one took its place.
    pub is_superseded: bool,
    /// Whether a commit was tested.
    pub has_commit: bool,
}

/// An attestation with all that was kept of it but the file.
#[derive(Debug, Clone)]
pub struct Attested {
    /// Its identifier.
    pub id: Uuid,
    /// Its flow.
    pub flow: String,
    /// Its trail.
    pub trail: String,
    /// Its name.
    pub name: String,
    /// The artifacts of the template that it is about, each by its name.
    pub targets: Vec<String>,
    /// Whether it passes.
    pub passes: bool,
    /// The results, one a suite.
    pub results: Vec<JunitResult>,
    /// When it came.
    pub created_at: Timestamp,
    /// Whose token it came with.
    pub reported_by: String,
    /// Whether a later one took its place.
    pub is_superseded: bool,
    /// What a person wrote about it.
    pub description: String,
    /// Where it came from.
    pub origin_url: String,
    /// Anything.
    pub user_data: FreeForm,
    /// Addresses by name.
    pub external_urls: FreeForm,
    /// The commit that was tested.
    pub commit: Option<GitCommit>,
    /// How many bytes the file has that came with it, where one did.
    pub attachment: Option<i64>,
    /// What that file was called.
    pub attachment_name: Option<String>,
}

/// Results up to this length are read with a list; longer ones by themselves, one after the other.
const SHORT: i64 = 16 * 1024;

type ListedRow = (Uuid, String, String, String, bool, Option<String>, i64, String, bool, bool);

/// What lists read of attestations; what follows says which. `$1` is [`SHORT`], and a commit's hash is what is
/// written first of it.
macro_rules! listed {
    ($which:literal) => {
        concat!(
            "SELECT a.id, a.flow, t.name, a.name, a.is_compliant,
                    CASE WHEN LENGTH(a.results) <= $1 THEN a.results END, a.created_at, a.reported_by,
                    a.superseded_by IS NOT NULL,
                    a.git_commit_info IS NOT NULL AND a.git_commit_info LIKE '{\"sha1\":\"%'
             FROM attestations a JOIN trails t ON t.id = a.trail
             WHERE ",
            $which
        )
    };
}

impl Transaction {
    /// The attestations of an artifact, the latest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attestations_of_artifact(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<AtMost<Listed>, Error> {
        const SELECT: &str = listed!(
            "a.id IN (SELECT attestation FROM attested_artifacts WHERE organization = $3 AND fingerprint = $4)
             ORDER BY a.created_at DESC, a.id DESC LIMIT $2"
        );
        let rows: Vec<ListedRow> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(SHORT).bind(one_more_than(MOST)).bind(organization);
            select.bind(artifact.bytes().to_vec()).fetch_all(connection).await?
        });
        self.listed(rows).await
    }

    /// The attestations of a trail, those that count before those that no longer do, the latest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attestations_of_trail(&mut self, trail: Uuid) -> Result<AtMost<Listed>, Error> {
        const SELECT: &str = listed!(
            "a.trail = $3
             ORDER BY CASE WHEN a.superseded_by IS NULL THEN 0 ELSE 1 END, a.created_at DESC, a.id DESC
             LIMIT $2"
        );
        let rows: Vec<ListedRow> = on!(self, |connection| {
            sqlx::query_as(SELECT)
                .bind(SHORT)
                .bind(one_more_than(MOST))
                .bind(trail)
                .fetch_all(connection)
                .await?
        });
        self.listed(rows).await
    }

    /// Attestations, with the results that were too long to be read together.
    async fn listed(&mut self, rows: Vec<ListedRow>) -> Result<AtMost<Listed>, Error> {
        const RESULTS: &str = "SELECT results FROM attestations WHERE id = $1";
        let AtMost { listed: rows, has_more } = AtMost::of(MOST, rows);
        let mut listed = Vec::with_capacity(rows.len());
        for row in rows {
            let (id, flow, trail, name, passes, results, created, reported_by, is_superseded, has_commit) =
                row;
            let results: String = match results {
                Some(results) => results,
                None => on!(self, |connection| {
                    sqlx::query_scalar(RESULTS).bind(id).fetch_one(connection).await?
                }),
            };
            let results: Vec<JunitResult> =
                serde_json::from_str(&results).map_err(|_| Error::Unreadable("an attestation"))?;
            listed.push(Listed {
                id,
                flow,
                trail,
                name,
                passes,
                results: JunitResult::of_all(&results),
                created_at: Timestamp::from_micros(created),
                reported_by,
                is_superseded,
                has_commit,
            });
        }
        Ok(AtMost { listed, has_more })
    }

    /// One attestation of an organization.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attestation(&mut self, organization: &str, id: Uuid) -> Result<Option<Attested>, Error> {
        const SELECT: &str = "
            SELECT a.id, a.flow, t.name AS trail, a.name, a.targets, a.is_compliant, a.results, a.created_at,
                   a.reported_by, a.superseded_by IS NOT NULL AS is_superseded, a.description, a.origin_url,
                   a.user_data, a.external_urls, a.git_commit_info, a.attachment_name,
                   CAST(length(x.content) AS BIGINT) AS attachment
            FROM attestations a JOIN trails t ON t.id = a.trail
              LEFT JOIN attachments x ON x.organization = a.organization AND x.sha256 = a.attachment
            WHERE a.organization = $1 AND a.id = $2";
        let row: Option<Row> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(id).fetch_optional(connection).await?
        });
        row.map(Row::read).transpose()
    }

    /// The artifacts that an attestation is about.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn artifacts_of_attestation(&mut self, id: Uuid) -> Result<AtMost<Fingerprint>, Error> {
        let rows: Vec<(Bytes,)> = rows!(
            self,
            "hex(fingerprint)",
            "SELECT fingerprint FROM attested_artifacts WHERE attestation = $1 ORDER BY fingerprint LIMIT $2",
            |query| query.bind(id).bind(one_more_than(MOST))
        );
        Ok(AtMost::of(MOST, rows.into_iter().map(|(Bytes(artifact),)| artifact).collect()))
    }

    /// The file that came with an attestation.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attachment(&mut self, organization: &str, id: Uuid) -> Result<Option<Vec<u8>>, Error> {
        const SELECT: &str = "
            SELECT x.content FROM attestations a
              JOIN attachments x ON x.organization = a.organization AND x.sha256 = a.attachment
            WHERE a.organization = $1 AND a.id = $2";
        Ok(on!(self, |connection| {
            sqlx::query_scalar(SELECT).bind(organization).bind(id).fetch_optional(connection).await?
        }))
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    flow: String,
    trail: String,
    name: String,
    targets: String,
    is_compliant: bool,
    results: String,
    created_at: i64,
    reported_by: String,
    is_superseded: bool,
    description: String,
    origin_url: String,
    user_data: String,
    external_urls: String,
    git_commit_info: Option<String>,
    attachment_name: Option<String>,
    attachment: Option<i64>,
}

impl Row {
    fn read(self) -> Result<Attested, Error> {
        let unreadable = |_| Error::Unreadable("an attestation");
        let commit = self.git_commit_info.map(|commit| serde_json::from_str(&commit)).transpose();
        Ok(Attested {
            id: self.id,
            flow: self.flow,
            trail: self.trail,
            name: self.name,
            targets: serde_json::from_str(&self.targets).map_err(unreadable)?,
            passes: self.is_compliant,
            results: serde_json::from_str(&self.results).map_err(unreadable)?,
            created_at: Timestamp::from_micros(self.created_at),
            reported_by: self.reported_by,
            is_superseded: self.is_superseded,
            description: self.description,
            origin_url: self.origin_url,
            user_data: serde_json::from_str(&self.user_data).map_err(unreadable)?,
            external_urls: serde_json::from_str(&self.external_urls).map_err(unreadable)?,
            commit: commit.map_err(unreadable)?,
            attachment: self.attachment,
            attachment_name: self.attachment_name,
        })
    }
}
