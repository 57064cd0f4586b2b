//! Lists trails (operation 1), with everything that their compliance depends on.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use super::columns::Json;
use super::row_limit::PageBudget;
use super::transaction::{fetch_all, fetch_for_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::verdict::LatestAttestation;
use crate::domain::model::{
    AnyJson, Fingerprint, FreeForm, GitCommit, Page, Template, TemplateBody, Timestamp,
};
use crate::store::from_row::all_from_rows;

/// Filters of a list of trails.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// By flow.
    pub flow: Option<&'a str>,
    /// By name.
    pub name: Option<&'a str>,
    /// By key and value of a tag of the flow.
    pub tag: Option<(&'a str, &'a str)>,
    /// By attested artifact.
    pub fingerprint: Option<Fingerprint>,
}

/// A trail.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Trail {
    /// Its identifier.
    pub id: Uuid,
    /// The flow that it is in.
    pub flow: String,
    /// Its name.
    pub name: String,
    /// When its first attestation was received.
    pub created_at: Timestamp,
    /// When its last attestation was received.
    pub last_modified_at: Timestamp,
    /// The name of the first reporter's token.
    pub created_by: String,
    /// The commit of the latest attestation that has one.
    #[sqlx(rename = "git_commit_info", try_from = "Json<Option<GitCommit>>")]
    pub commit: Option<GitCommit>,
    /// Its description.
    pub description: String,
    /// The page of a pipeline.
    pub origin_url: String,
    /// Free-form data.
    pub user_data: AnyJson,
    /// URLs by name.
    pub external_urls: FreeForm,
    /// The template that it was begun with; `None`: the current one of its flow.
    #[sqlx(flatten, try_from = "OwnTemplateRow")]
    pub template: Option<Template>,
    /// The reported artifacts by their names in the template.
    #[sqlx(skip)]
    pub artifacts: BTreeMap<String, Fingerprint>,
    /// The current attestations.
    #[sqlx(skip)]
    pub latest: Vec<LatestAttestation>,
    /// The repository that it was begun with.
    repository: Option<Uuid>,
    /// The repositories that it and its attestations name.
    #[sqlx(skip)]
    pub repositories: BTreeSet<Uuid>,
}

/// A page of trails, newest first, with the tags of all flows.
#[derive(Debug, Clone)]
pub struct Trails {
    /// The page.
    pub trails: Vec<Trail>,
    /// The tags of the flows.
    pub tags: HashMap<String, BTreeMap<String, String>>,
    /// The current templates of their flows, by flow.
    pub templates: HashMap<String, Template>,
}

#[derive(sqlx::FromRow)]
struct OwnTemplateRow {
    template: Option<Uuid>,
    template_version: Option<i64>,
    template_content: Json<Option<TemplateBody>>,
}

impl From<OwnTemplateRow> for Option<Template> {
    fn from(row: OwnTemplateRow) -> Self {
        let ((id, version), body) = row.template.zip(row.template_version).zip(row.template_content.0)?;
        Some(Template { id: id.to_string(), version, body })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct AttestationRow {
    pub(super) trail: Uuid,
    id: Uuid,
    name: String,
    kind: String,
    overrides: Option<Uuid>,
    is_compliant: bool,
    has_verdict: bool,
    targets: Json<BTreeSet<String>>,
}

impl From<AttestationRow> for LatestAttestation {
    fn from(row: AttestationRow) -> Self {
        Self {
            id: row.id.to_string(),
            name: row.name,
            kind: row.kind,
            overrides: row.overrides.map(|id| id.to_string()),
            passes: row.has_verdict.then_some(row.is_compliant),
            targets: row.targets.0,
        }
    }
}

/// An artifact that was reported in a trail.
#[derive(sqlx::FromRow)]
struct ReportedRow {
    trail: Uuid,
    template_name: String,
    fingerprint: Fingerprint,
}

/// An attestation of a reported artifact.
#[derive(sqlx::FromRow)]
struct NamedRow {
    trail: Uuid,
    template_name: String,
    attestation: Uuid,
}

impl Trail {
    /// Adds the name of an artifact to an attestation by fingerprint that was recorded before the artifact was reported.
    fn name_targets(&mut self, name: &str, attestation: Uuid) {
        let attestation = attestation.to_string();
        for latest in self.latest.iter_mut().filter(|latest| latest.id == attestation) {
            latest.targets.insert(name.to_owned());
        }
    }
}

#[derive(sqlx::FromRow)]
struct TemplateRow {
    flow: String,
    id: Uuid,
    version: i64,
    content: Json<TemplateBody>,
}

/// Pushes `FROM` and `WHERE` of a filter. Only the clauses that are needed, so that each combination gets its own
/// query plan.
macro_rules! push_filter {
    ($query:ident, $organization:ident, $filter:ident) => {
        $query.push(" FROM ");
        // The CROSS JOIN makes SQLite start from the artifact's trails; it would scan all trails otherwise.
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

/// Pushes `($1, …)` with the identifiers of trails.
macro_rules! push_trails {
    ($query:ident, $organization:ident, $column:literal, $trails:ident) => {
        $query.push_bind($organization).push(concat!(" AND ", $column, " IN ("));
        let mut list = $query.separated(", ");
        for trail in $trails {
            list.push_bind(trail.id);
        }
        $query.push(")");
    };
}

/// The columns of [`Trail`].
pub(super) const COLUMNS: &str =
    "SELECT t.id, t.flow, t.name, t.created_at, t.last_modified_at, t.created_by, t.git_commit_info,
                        COALESCE(t.description, '') AS description, COALESCE(t.origin_url, '') AS origin_url,
                        COALESCE(t.user_data, '{}') AS user_data, COALESCE(t.external_urls, '{}') AS external_urls,
                        t.repository, t.template,
                        (SELECT f.version FROM flow_templates f
                         WHERE f.organization = t.organization AND f.id = t.template) AS template_version,
                        (SELECT f.content FROM flow_templates f
                         WHERE f.organization = t.organization AND f.id = t.template) AS template_content";

impl Transaction {
    /// The number of trails.
    pub async fn count_trails(&mut self, organization: &str, filter: Filter<'_>) -> Result<u64, Error> {
        let total: i64 = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("SELECT COUNT(*)");
            push_filter!(query, organization, filter);
            query.build_query_scalar().fetch_one(connection).await?
        });
        Ok(total.unsigned_abs())
    }

    /// A page of trails. Their size includes their current attestations once per target.
    pub async fn trails(
        &mut self,
        organization: &str,
        filter: Filter<'_>,
        page: Page,
    ) -> Result<Trails, Error> {
        let mut budget = PageBudget::of_page();
        let mut trails: Vec<Trail> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(COLUMNS);
            query.push(
                ", CAST(COALESCE(octet_length(t.git_commit_info), 0) + 6 * COALESCE(octet_length(t.description), 0)
                        + 6 * COALESCE(octet_length(t.origin_url), 0) + COALESCE(octet_length(t.user_data), 0)
                        + COALESCE(octet_length(t.external_urls), 0)
                        + 3 * COALESCE((SELECT octet_length(f.content) FROM flow_templates f
                                        WHERE f.organization = t.organization AND f.id = t.template), 0) AS BIGINT)
                   AS size",
            );
            push_filter!(query, organization, filter);
            query.push(" ORDER BY t.created_at DESC, t.id DESC LIMIT ").push_bind(page.size());
            query.push(" OFFSET ").push_bind(page.offset());
            budget.read(query.build().fetch(connection)).await?
        });
        if !trails.is_empty() {
            self.read_attestations(organization, &mut trails, &mut budget).await?;
        }
        let flows: BTreeSet<&str> = trails.iter().map(|trail| trail.flow.as_str()).collect();
        Ok(Trails {
            tags: self.tags(organization).await?,
            templates: self.templates(organization, flows).await?,
            trails,
        })
    }

    async fn read_attestations(
        &mut self,
        organization: &str,
        trails: &mut [Trail],
        budget: &mut PageBudget,
    ) -> Result<(), Error> {
        self.read_latest(organization, trails, budget).await?;
        for trail in &mut *trails {
            trail.repositories.extend(trail.repository);
        }
        let ids = &*trails;
        let repositories: Vec<(Uuid, Uuid)> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT DISTINCT trail, repository FROM attestations WHERE repository IS NOT NULL AND organization = ",
            );
            push_trails!(query, organization, "trail", ids);
            query.build().persistent(false).fetch_all(connection).await.and_then(all_from_rows)?
        });
        let reported: Vec<ReportedRow> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT trail, template_name, fingerprint FROM reported_artifacts
                 WHERE template_name IS NOT NULL AND organization = ",
            );
            push_trails!(query, organization, "trail", ids);
            query.push(" ORDER BY created_at, id");
            query.build().persistent(false).fetch_all(connection).await.and_then(all_from_rows)?
        });
        let mut by_id: HashMap<Uuid, &mut Trail> = trails.iter_mut().map(|trail| (trail.id, trail)).collect();
        for (trail, repository) in repositories {
            if let Some(trail) = by_id.get_mut(&trail) {
                trail.repositories.insert(repository);
            }
        }
        for row in reported {
            if let Some(trail) = by_id.get_mut(&row.trail) {
                trail.artifacts.insert(row.template_name, row.fingerprint);
            }
        }
        Ok(())
    }

    /// Reads the current attestations of trails.
    pub(super) async fn read_latest(
        &mut self,
        organization: &str,
        trails: &mut [Trail],
        budget: &mut PageBudget,
    ) -> Result<(), Error> {
        let ids = &*trails;
        let latest: Vec<AttestationRow> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                // Counts targets by the commas between them.
                "SELECT trail, id, name, kind, overrides, is_compliant, has_verdict, targets,
                        CAST(octet_length(targets)
                             + (300 + 6 * octet_length(name))
                               * (1 + LENGTH(targets) - LENGTH(REPLACE(targets, ',', ''))) AS BIGINT) AS size
                 FROM attestations
                 WHERE superseded_by IS NULL AND organization = ",
            );
            push_trails!(query, organization, "trail", ids);
            query.push(" ORDER BY created_at, id");
            budget.read(query.build().persistent(false).fetch(connection)).await?
        });
        // In this order, neither all reports of a trail nor all attestations of an artifact are read.
        let named: Vec<NamedRow> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT DISTINCT a.trail, r.template_name, a.id AS attestation
                 FROM attestations a CROSS JOIN attested_artifacts x CROSS JOIN reported_artifacts r
                 WHERE x.organization = a.organization AND x.attestation = a.id
                   AND r.organization = a.organization AND r.trail = a.trail AND r.fingerprint = x.fingerprint
                   AND r.template_name IS NOT NULL AND a.superseded_by IS NULL AND a.organization = ",
            );
            push_trails!(query, organization, "a.trail", ids);
            query.build().persistent(false).fetch_all(connection).await.and_then(all_from_rows)?
        });
        let mut by_id: HashMap<Uuid, &mut Trail> = trails.iter_mut().map(|trail| (trail.id, trail)).collect();
        for row in latest {
            if let Some(trail) = by_id.get_mut(&row.trail) {
                trail.latest.push(row.into());
            }
        }
        for NamedRow { trail, template_name, attestation } in named {
            if let Some(trail) = by_id.get_mut(&trail) {
                trail.name_targets(&template_name, attestation);
            }
        }
        Ok(())
    }

    /// The tags of an organization's flows. Few, because people write them.
    pub(super) async fn tags(
        &mut self,
        organization: &str,
    ) -> Result<HashMap<String, BTreeMap<String, String>>, Error> {
        const SELECT: &str =
            "SELECT flow, tag, tag_value FROM flow_tags WHERE organization = $1 AND closed_at IS NULL";
        let rows: Vec<(String, String, String)> = fetch_all!(self, SELECT, organization);
        let mut tags: HashMap<String, BTreeMap<String, String>> = HashMap::new();
        for (flow, tag, value) in rows {
            tags.entry(flow).or_default().insert(tag, value);
        }
        Ok(tags)
    }

    /// The current templates of flows.
    pub(super) async fn templates(
        &mut self,
        organization: &str,
        flows: impl IntoIterator<Item = &str>,
    ) -> Result<HashMap<String, Template>, Error> {
        const SELECT: &str = "
            SELECT flow, id, version, content FROM flow_templates
            WHERE closed_at IS NULL AND organization = ? AND flow IN (?)";
        let rows: Vec<TemplateRow> = fetch_for_all!(self, SELECT, flows, organization);
        let template = |TemplateRow { flow, id, version, content: Json(body) }| {
            (flow, Template { id: id.to_string(), version, body })
        };
        Ok(rows.into_iter().map(template).collect())
    }
}
