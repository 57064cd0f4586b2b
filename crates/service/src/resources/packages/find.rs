//! Finds where a package runs, for the page and the operation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use sbom::{Answer, Requirement};
use serde::Serialize;
use sqlx::types::Uuid;

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::site::Site;
use model::{Fingerprint, PointInTime, Timestamp};
use rules::validity::Validity;
use store::packages::{ImageRun, PackageName, SearchedImages, StoredPackage};

/// Maximum length of a name or a version, in characters.
const MAX_CHARS: usize = 512;

/// Maximum number of packages on a page.
pub(super) const MAX_FOUND: usize = 100;

/// The parameters of a search.
pub(super) const PARAMETERS: [&str; 5] = ["name", "version", "purl_type", "at", "after"];

pub(super) struct PackageQuery {
    name: PackageName,
    version: Option<Requirement>,
    /// In lower case.
    purl_type: Option<String>,
    /// `None`: now.
    at: Option<Timestamp>,
    after: Option<Position>,
}

/// The place of a package in the results: they are sorted by these fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    environment: String,
    fingerprint: Fingerprint,
    package: Uuid,
}

/// A page of the running packages that match.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct FoundPackages {
    /// By environment and image
    pub(super) data: Vec<FoundPackage>,
    /// The value of `after` for the next page; `null` on the last one
    pub(super) next: Option<String>,
    /// Number of matches on all pages
    pub(super) matches: usize,
    /// The time for which the search was made
    pub(super) at: Timestamp,
    /// Number of images that ran then, and how many of them have no bill of materials
    pub(super) running_images: u64,
    pub(super) images_without_bill: u64,
    /// Number of environments whose history at that time was removed by the retention
    pub(super) environments_without_history: u64,
}

/// A package of an image in an environment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct FoundPackage {
    pub(super) environment: String,
    /// Whether the environment was not reported at the time: the image ran before, and may not have run any more
    pub(super) is_silent: bool,
    /// Namespace and owner of each, such as shop/deploy/cart
    pub(super) workloads: BTreeSet<String>,
    /// The name of the image
    pub(super) image: String,
    pub(super) fingerprint: Fingerprint,
    pub(super) package: StoredPackage,
    /// Whether the version could not be compared with the requested one: unknown, or of an ecosystem without a known order
    pub(super) is_unclear: bool,
    /// Since when the environment runs the image
    pub(super) started_at: Timestamp,
    /// The commit that the image was built from
    pub(super) git_commit: Option<String>,
    pub(super) commit_url: Option<String>,
    pub(super) html_url: String,
}

impl PackageQuery {
    pub(super) fn parse(parameters: &Parameters, now: Timestamp) -> Result<Self, Problem> {
        let text = |field: &'static str| match parameters.field(field) {
            Some(text) if text.chars().count() > MAX_CHARS => {
                Err(Problem::field(field, &format!("expected at most {MAX_CHARS} characters")))
            }
            text => Ok(text),
        };
        let Some(name) = text("name")? else {
            return Err(Problem::field("name", "expected the name of a package, such as log4j-core"));
        };
        if name.starts_with("pkg:") {
            let expected = "expected a name such as log4j-core or org.apache.logging.log4j:log4j-core, with version and purl_type apart";
            return Err(Problem::field("name", expected));
        }
        let version = text("version")?.map(|version| Problem::parse("version", version)).transpose()?;
        let at: Option<PointInTime> =
            parameters.field("at").map(|at| Problem::parse("at", at)).transpose()?;
        let at = at.map(|at| at.resolve(now));
        if at.is_some_and(|at| at > now) {
            return Err(Problem::field("at", "expected a time in the past"));
        }
        Ok(Self {
            name: PackageName::new(name),
            version,
            purl_type: text("purl_type")?.map(str::to_lowercase),
            at,
            after: parameters.parsed("after")?,
        })
    }

    /// Whether a package matches. One that may is listed, so that it is not overlooked.
    fn check(&self, package: &StoredPackage) -> Answer {
        if self.purl_type.as_ref().is_some_and(|purl_type| *purl_type != package.purl_type) {
            return Answer::No;
        }
        self.version
            .as_ref()
            .map_or(Answer::Yes, |version| version.check(&package.purl_type, &package.version))
    }
}

impl FoundPackages {
    pub(super) async fn read(site: &Site, organization: &str, query: &PackageQuery) -> Result<Self, Problem> {
        let now = site.now();
        let at = query.at.unwrap_or(now);
        let mut transaction = site.store.read().await?;
        let tenant = &mut transaction.of(organization);
        let SearchedImages { running, with_bill, packages: mut images } =
            store::packages::containing(tenant, query.at, &query.name).await?;
        let ids = images.values().flatten().copied().collect();
        let mut packages: HashMap<Uuid, (StoredPackage, Answer)> = HashMap::new();
        for package in store::packages::named(tenant, ids, &query.name).await? {
            let answer = query.check(&package);
            if answer != Answer::No {
                packages.insert(package.id, (package, answer));
            }
        }
        images.retain(|_, ids| {
            ids.retain(|id| packages.contains_key(id));
            !ids.is_empty()
        });
        let runs =
            if images.is_empty() { Vec::new() } else { store::packages::runs(tenant, query.at).await? };
        let mut found: Vec<(Position, &ImageRun)> = Vec::new();
        for run in &runs {
            let position = |package: &Uuid| Position {
                environment: run.environment.clone(),
                fingerprint: run.fingerprint,
                package: *package,
            };
            found.extend(images.get(&run.fingerprint).into_iter().flatten().map(|id| (position(id), run)));
        }
        let matches = found.len();
        found.retain(|(position, _)| query.after.as_ref().is_none_or(|after| position > after));
        // Sorted here: the database's order depends on its locale.
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let is_last = found.len() <= MAX_FOUND;
        found.truncate(MAX_FOUND);
        let next = found.last().filter(|_| !is_last).map(|(last, _)| last.to_string());

        let shown: BTreeSet<Fingerprint> = found.iter().map(|(_, run)| run.fingerprint).collect();
        let known = store::artifacts::flows::known(tenant, &shown).await?;
        let mut in_environments: BTreeMap<Uuid, BTreeSet<Fingerprint>> = BTreeMap::new();
        for (_, run) in &found {
            in_environments.entry(run.environment_id).or_default().insert(run.fingerprint);
        }
        let mut workloads = HashMap::new();
        for (id, images) in in_environments {
            let owners = store::environments::contents::owners(tenant, id, at, &images).await?;
            workloads.insert(id, owners);
        }
        let without_history = match query.at {
            Some(at) => store::packages::environments_without_history(tenant, at).await?,
            None => 0,
        };
        drop(transaction);
        let data = found.iter().filter_map(|(position, run)| {
            let (package, answer) = packages.get(&position.package)?;
            let owners = workloads.get(&run.environment_id).and_then(|owners| owners.get(&run.fingerprint));
            let known = known.get(&run.fingerprint);
            let (commit, commit_url) = known.map_or((None, None), |known| known.commit(None));
            let validity = Validity::new(run.last_report_at, run.silent_after, site.silent_after, None);
            // Later reports tell nothing of a gap before them.
            let is_after_reports = run.last_report_at.is_none_or(|last| query.at.is_none() || at >= last);
            Some(FoundPackage {
                environment: run.environment.clone(),
                is_silent: run.is_in_gap || (is_after_reports && validity.is_silent(at)),
                workloads: owners
                    .into_iter()
                    .flatten()
                    .map(|owner| format!("{}/{}", owner.namespace, owner.owner.short()))
                    .collect(),
                image: run.image.clone(),
                fingerprint: run.fingerprint,
                package: package.clone(),
                is_unclear: *answer == Answer::Unclear,
                started_at: run.started_at,
                git_commit: commit.map(str::to_owned),
                commit_url: commit_url.map(str::to_owned),
                html_url: site.links.artifact_page(organization, run.fingerprint),
            })
        });
        Ok(Self {
            data: data.collect(),
            next,
            matches,
            at,
            running_images: running,
            images_without_bill: running - with_bill,
            environments_without_history: without_history,
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.package.simple(), self.fingerprint, self.environment)
    }
}

impl FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let position = || {
            let (package, rest) = text.split_once('/')?;
            let (fingerprint, environment) = rest.split_once('/')?;
            Some(Self {
                environment: environment.to_owned(),
                fingerprint: Fingerprint::from_hex(fingerprint)?,
                package: Uuid::try_parse(package).ok()?,
            })
        };
        position().ok_or("expected the value of `next` of a page")
    }
}
