//! Trails: a page of them, with all that their verdicts need.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::verdict::Latest;
use crate::domain::model::{Fingerprint, GitCommit, Page, Template, Timestamp};

/// Which trails are listed; what is `None` does not matter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// Those of this flow.
    pub flow: Option<&'a str>,
    /// Those of this name.
    pub name: Option<&'a str>,
    /// Those of flows with this tag.
    pub tag: Option<(&'a str, &'a str)>,
    /// Those with an attestation of this artifact.
    pub fingerprint: Option<Fingerprint>,
}

/// A trail as it was recorded.
#[derive(Debug, Clone)]
pub struct Trail {
    /// Its identifier.
    pub id: Uuid,
    /// The flow that it is in.
    pub flow: String,
    /// Its name.
    pub name: String,
    /// When its first attestation came.
    pub created_at: Timestamp,
    /// When its last one came.
    pub last_modified_at: Timestamp,
    /// The token of the first one.
    pub created_by: String,
    /// The commit of the latest attestation that has one.
    pub commit: Option<GitCommit>,
    /// The latest attestation of each name.
    pub latest: Vec<Latest>,
    /// The repositories that its attestations name.
    pub repositories: BTreeSet<Uuid>,
}

/// A page of trails, newest first, with what their flows say.
#[derive(Debug, Clone)]
pub struct Trails {
    /// The page.
    pub trails: Vec<Trail>,
    /// How many there are in all.
    pub total: u64,
    /// The tags of the flows.
    pub tags: HashMap<String, BTreeMap<String, String>>,
    /// The templates that stand, by flow.
    pub templates: HashMap<String, Template>,
}

type Row = (Uuid, String, String, i64, i64, String, Option<String>);
type AttestationRow = (Uuid, Uuid, String, String, Option<Uuid>, bool, String);

/// The condition of a filter. A clause that is not wanted is not there, so that each combination
/// has the plan that suits it.
macro_rules! filtered {
    ($query:ident, $organization:ident, $filter:ident) => {
        $query.push(" FROM ");
        // First what leads to few: SQLite takes a CROSS JOIN as it stands, and by itself would go through all trails.
        if let Some(fingerprint) = $filter.fingerprint {
            $query.push("(SELECT DISTINCT trail FROM attested_artifacts WHERE organization = ");
            $query.push_bind($organization).push(" AND fingerprint = ");
            $query.push_bind(fingerprint.bytes().to_vec()).push(") x CROSS JOIN ");
        }
        $query.push("trails t WHERE t.organization = ").push_bind($organization);
        if let Some(flow) = $filter.flow {
            $query.push(" AND t.flow = ").push_bind(flow);
        }
        if let Some(name) = $filter.name {
            $query.push(" AND t.name = ").push_bind(name);
        }
        if let Some((tag, value)) = $filter.tag {
            $query.push(" AND t.flow IN (SELECT flow FROM flow_tags WHERE organization = ");
            $query.push_bind($organization).push(" AND closed_at IS NULL AND tag = ").push_bind(tag);
            $query.push(" AND tag_value = ").push_bind(value).push(")");
        }
        if $filter.fingerprint.is_some() {
            $query.push(" AND t.id = x.trail");
        }
    };
}

/// ` IN ($1, …)` for the trails of a page.
macro_rules! of_trails {
    ($query:ident, $trails:ident) => {
        $query.push(" (");
        let mut list = $query.separated(", ");
        for trail in $trails {
            list.push_bind(trail.id);
        }
        $query.push(")");
    };
}

impl Transaction {
    /// About how many bytes a page of trails takes at most, as JSON: their commits, and their latest attestations, each
    /// of which is told again for each of its targets. There are no more of those than commas between them.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn size_of_trails(
        &mut self,
        organization: &str,
        filter: Filter<'_>,
        page: Page,
    ) -> Result<u64, Error> {
        let size: i64 = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "WITH page AS (SELECT t.id, COALESCE(octet_length(t.git_commit_info), 0) AS size",
            );
            filtered!(query, organization, filter);
            query.push(" ORDER BY t.created_at DESC, t.id DESC LIMIT ").push_bind(page.size());
            query.push(" OFFSET ").push_bind(page.offset()).push(
                ") SELECT CAST(COALESCE((SELECT SUM(size) FROM page), 0) + COALESCE((
                     SELECT SUM(octet_length(a.targets)
                                + (300 + 6 * octet_length(a.name))
                                  * (1 + LENGTH(a.targets) - LENGTH(REPLACE(a.targets, ',', ''))))
                     FROM page CROSS JOIN attestations a
                     WHERE a.superseded_by IS NULL AND a.trail = page.id), 0) AS BIGINT)",
            );
            query.build_query_scalar().fetch_one(connection).await?
        });
        Ok(size.unsigned_abs())
    }

    /// A page of trails.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn trails(
        &mut self,
        organization: &str,
        filter: Filter<'_>,
        page: Page,
    ) -> Result<Trails, Error> {
        let total: i64 = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("SELECT COUNT(*)");
            filtered!(query, organization, filter);
            query.build_query_scalar().fetch_one(connection).await?
        });
        let rows: Vec<Row> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT t.id, t.flow, t.name, t.created_at, t.last_modified_at, t.created_by, t.git_commit_info",
            );
            filtered!(query, organization, filter);
            query.push(" ORDER BY t.created_at DESC, t.id DESC LIMIT ").push_bind(page.size());
            query.push(" OFFSET ").push_bind(page.offset());
            query.build_query_as().fetch_all(connection).await?
        });
        let mut trails = rows.into_iter().map(Trail::new).collect::<Result<Vec<_>, _>>()?;
        if !trails.is_empty() {
            self.read_attestations(&mut trails).await?;
        }
        Ok(Trails {
            tags: self.tags(organization).await?,
            templates: self.templates(organization).await?,
            trails,
            total: total.unsigned_abs(),
        })
    }

    async fn read_attestations(&mut self, trails: &mut [Trail]) -> Result<(), Error> {
        let ids = &*trails;
        let latest: Vec<AttestationRow> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT trail, id, name, kind, overrides, is_compliant, targets FROM attestations
                 WHERE superseded_by IS NULL AND trail IN",
            );
            of_trails!(query, ids);
            query.push(" ORDER BY created_at, id");
            query.build_query_as().persistent(false).fetch_all(connection).await?
        });
        let repositories: Vec<(Uuid, Uuid)> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT DISTINCT trail, repository FROM attestations WHERE repository IS NOT NULL AND trail IN",
            );
            of_trails!(query, ids);
            query.build_query_as().persistent(false).fetch_all(connection).await?
        });
        let mut places: HashMap<Uuid, &mut Trail> =
            trails.iter_mut().map(|trail| (trail.id, trail)).collect();
        for (trail, id, name, kind, overrides, passes, targets) in latest {
            let targets = serde_json::from_str(&targets).map_err(|_| Error::Unreadable("targets"))?;
            let overrides = overrides.map(|id| id.to_string());
            let latest = Latest { id: id.to_string(), name, kind, overrides, passes, targets };
            if let Some(trail) = places.get_mut(&trail) {
                trail.latest.push(latest);
            }
        }
        for (trail, repository) in repositories {
            if let Some(trail) = places.get_mut(&trail) {
                trail.repositories.insert(repository);
            }
        }
        Ok(())
    }

    /// The tags of an organization's flows: there are as many as a person wrote into a file.
    async fn tags(&mut self, organization: &str) -> Result<HashMap<String, BTreeMap<String, String>>, Error> {
        const SELECT: &str =
            "SELECT flow, tag, tag_value FROM flow_tags WHERE organization = $1 AND closed_at IS NULL";
        let rows: Vec<(String, String, String)> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let mut tags: HashMap<String, BTreeMap<String, String>> = HashMap::new();
        for (flow, tag, value) in rows {
            tags.entry(flow).or_default().insert(tag, value);
        }
        Ok(tags)
    }

    async fn templates(&mut self, organization: &str) -> Result<HashMap<String, Template>, Error> {
        const SELECT: &str = "
            SELECT flow, id, version, content FROM flow_templates WHERE organization = $1 AND closed_at IS NULL";
        let rows: Vec<(String, Uuid, i64, String)> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        rows.into_iter()
            .map(|(flow, id, version, content)| {
                let body = serde_json::from_str(&content).map_err(|_| Error::Unreadable("a template"))?;
                Ok((flow, Template { id: id.to_string(), version, body }))
            })
            .collect()
    }
}

impl Trail {
    fn new((id, flow, name, created_at, last_modified_at, created_by, commit): Row) -> Result<Self, Error> {
        let commit = commit.map(|commit| serde_json::from_str(&commit)).transpose();
        Ok(Self {
            id,
            flow,
            name,
            created_at: Timestamp::from_micros(created_at),
            last_modified_at: Timestamp::from_micros(last_modified_at),
            created_by,
            commit: commit.map_err(|_| Error::Unreadable("a commit"))?,
            latest: Vec::new(),
            repositories: BTreeSet::new(),
        })
    }
}
