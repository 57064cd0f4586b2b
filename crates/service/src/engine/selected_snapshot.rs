//! Selects a snapshot by an expression, and reads what ran then.
//!
//! Called by the operations that read, compare or export snapshots, and by the page that compares them. The latest snapshot is read as of now, an earlier one
//! as of its receipt, and a point in time as of that time.

use std::collections::{BTreeMap, HashMap};

use sqlx::types::Uuid;

use crate::engine::not_found;
use crate::http::problem::Problem;
use crate::site::Site;
use model::{EnvironmentName, EnvironmentSnapshot, Fingerprint, SnapshotExpression, Timestamp, pluralize};
use rules::compliance::Compliance;
use rules::environment_status::Verdict;
use rules::history_coverage::HistoryCoverage;
use rules::snapshot::report::Pod;
use store::Tenant;
use store::artifacts::flows::KnownArtifact;
use store::environments::EnvironmentOverview;
use store::environments::contents::PodWorkload;
use store::environments::timeline::{AvailableSnapshots, Snapshot};

/// A snapshot of an environment, and what ran.
#[derive(Debug)]
pub(crate) struct SelectedSnapshot {
    pub(crate) environment: EnvironmentOverview,
    pub(crate) snapshot: Snapshot,
    pub(crate) content: Content,
    /// The time for which pods and verdicts are read.
    pub(crate) at: Timestamp,
    pub(crate) is_latest: bool,
    /// The known part of that time.
    pub(crate) coverage: HistoryCoverage,
    /// Whether that time is now.
    is_current: bool,
    /// Whether the stored verdicts are valid at that time.
    is_confirmed: bool,
}

/// The pods of each artifact, by namespace and name, with the first of the artifact's names.
pub(crate) type Artifacts = BTreeMap<Fingerprint, (Box<str>, Vec<Pod>)>;

/// What ran in an environment at a point in time.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) artifacts: Artifacts,
    pub(crate) pods: usize,
    pub(crate) workloads: HashMap<Fingerprint, PodWorkload>,
    pub(crate) verdicts: HashMap<Fingerprint, Verdict>,
    /// The flows and origins of artifacts.
    pub(crate) known: HashMap<Fingerprint, KnownArtifact>,
}

/// A pod counts once for each artifact in it.
fn by_artifact(pods: &[Pod], workloads: &HashMap<Fingerprint, PodWorkload>) -> Artifacts {
    let mut artifacts = Artifacts::new();
    for pod in pods {
        let Some(workload) = workloads.get(&pod.workload) else { continue };
        let mut of_pod: BTreeMap<Fingerprint, &str> = BTreeMap::new();
        for (name, artifact) in &workload.digests {
            // Keeps the first name, since the names are sorted.
            of_pod.entry(*artifact).or_insert(name);
        }
        for (artifact, name) in of_pod {
            let (known, pods) = artifacts.entry(artifact).or_insert_with(|| (name.into(), Vec::new()));
            if name < &**known {
                *known = name.into();
            }
            pods.push(pod.clone());
        }
    }
    artifacts
}

impl Content {
    pub(crate) async fn read(
        tenant: &mut Tenant<'_>,
        environment: Uuid,
        at: Timestamp,
    ) -> Result<Self, store::Error> {
        let (pods, workloads) = store::environments::contents::pods(tenant, environment, at).await?;
        let verdicts = store::environments::contents::verdicts(tenant, environment, Some(at)).await?;
        let fingerprints =
            workloads.values().flat_map(|workload| workload.digests.values().copied()).collect();
        let known = store::artifacts::flows::known(tenant, &fingerprints).await?;
        let artifacts = by_artifact(&pods, &workloads);
        Ok(Self { artifacts, pods: pods.len(), workloads, verdicts, known })
    }
}

pub(crate) async fn environment(
    tenant: &mut Tenant<'_>,
    name: &EnvironmentName,
) -> Result<EnvironmentOverview, Problem> {
    match store::environments::overview(tenant, name.as_str()).await? {
        Some(environment) => Ok(environment),
        None => Err(not_found::environment(tenant, name.as_str()).await),
    }
}

/// The reason why a snapshot is not available.
fn unavailable(
    name: &EnvironmentName,
    expression: &SnapshotExpression,
    number: i64,
    available: &AvailableSnapshots,
    last: i64,
) -> String {
    if last == 0 {
        return format!("environment \"{name}\" has no snapshot: it was never reported");
    }
    let asked = match expression {
        SnapshotExpression::Behind(_) if number > 0 => format!("{expression} (#{number})"),
        expression => expression.to_string(),
    };
    let first = available.first.unwrap_or(1);
    let removed = available.horizon_at.filter(|_| (1..first).contains(&number));
    if let Some(horizon) = removed {
        return format!(
            "snapshot {asked} of environment \"{name}\" was removed by retention, like all data that ended before \
             {horizon}; the first available is {first} of {last}"
        );
    }
    let count = pluralize((last - first + 1).unsigned_abs(), "snapshot");
    let numbers = if first == last { format!("#{last}") } else { format!("#{first} to #{last}") };
    format!("snapshot {asked} of environment \"{name}\" not found: it has {count}, {numbers}")
}

impl SelectedSnapshot {
    /// Reads the snapshot of an expression. Returns 404 if there is none, or if nothing is known of it.
    pub(crate) async fn read(
        site: &Site,
        tenant: &mut Tenant<'_>,
        EnvironmentSnapshot { environment: name, expression }: &EnvironmentSnapshot,
    ) -> Result<Self, Problem> {
        let environment = environment(tenant, name).await?;
        let clock = site.now();
        // The clock may have been set back since the last report.
        let now = environment.last_report_at.map_or(clock, |last| last.max(clock));
        let available = store::environments::timeline::available_snapshots(tenant, environment.id).await?;
        let (last, validity) = (environment.snapshot, environment.validity(site.silent_after));
        let (number, requested) = match expression {
            SnapshotExpression::Number(number) => (*number, None),
            SnapshotExpression::Behind(count) => (last - count, None),
            SnapshotExpression::At(time) => {
                let at = time.resolve(now);
                let history = store::environments::contents::history(tenant, environment.id, at).await?;
                let coverage = HistoryCoverage::new(at, now, &history, validity.silent_after);
                let Some(number) = history.snapshot.filter(|_| coverage.has_data()) else {
                    let why = coverage.warning().unwrap_or_else(|| "No snapshot is stored.".to_owned());
                    let problem = format!("no snapshot of environment \"{name}\" at {at}: {why}");
                    return Err(Problem::not_found(problem));
                };
                (number, Some((at, coverage)))
            }
        };
        let is_available = last > 0 && available.first.is_some_and(|first| first <= number) && number <= last;
        // Retention may remove a snapshot before an earlier one.
        let snapshot = match store::environments::timeline::snapshots(tenant, environment.id, number, number)
            .await?
            .pop()
        {
            Some(snapshot) if is_available || requested.is_some() => snapshot,
            _ => return Err(Problem::not_found(unavailable(name, expression, number, &available, last))),
        };
        let is_latest = number == last;
        let (at, coverage) = if let Some(requested) = requested {
            requested
        } else {
            let at = if is_latest { now } else { available.view_time(&snapshot) };
            let history = store::environments::contents::history(tenant, environment.id, at).await?;
            (at, HistoryCoverage::new(at, now, &history, validity.silent_after))
        };
        let is_current = at >= now;
        let is_confirmed = coverage == HistoryCoverage::Known && (!is_current || validity.is_valid(clock));
        let content = Content::read(tenant, environment.id, at).await?;
        Ok(Self { environment, snapshot, content, at, is_latest, coverage, is_current, is_confirmed })
    }

    /// The verdict on an artifact at the time of the snapshot.
    pub(crate) fn compliance(&self, artifact: &Fingerprint) -> Compliance {
        let stored = self.content.verdicts.get(artifact);
        let stored = stored.map_or(Compliance::Unknown, |verdict| verdict.compliance);
        stored.confirmed(self.is_confirmed)
    }

    /// The compliance of the environment at the time of the snapshot: that of its worst artifact; of an empty snapshot of
    /// the past, that at its receipt.
    pub(crate) fn environment_compliance(&self) -> Compliance {
        let worst = self.content.artifacts.keys().map(|artifact| self.compliance(artifact)).max();
        let past = worst.or(self.snapshot.compliance).unwrap_or(Compliance::Unknown);
        let stored = if self.is_current { self.environment.compliance } else { past };
        stored.confirmed(self.is_confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_counts_once_per_artifact_under_the_first_name() {
        let hash = |number: u8| Fingerprint::from([number; 32]);
        let workload = |number, digests: &[(&str, u8)]| PodWorkload {
            hash: hash(number),
            digests: digests.iter().map(|(name, number)| ((*name).into(), hash(*number))).collect(),
            owners: Vec::new(),
        };
        let pod = |number: u8| Pod {
            namespace: "shop".into(),
            name: "cart".into(),
            created_at: Timestamp::EPOCH,
            workload: hash(number),
        };
        let workloads = HashMap::from([
            (hash(8), workload(8, &[("b", 1), ("c", 1), ("d", 2)])),
            (hash(9), workload(9, &[("a", 1)])),
        ]);
        let artifacts = by_artifact(&[8, 8, 8, 9, 9].map(pod), &workloads);
        let totals: Vec<_> = artifacts.values().map(|(name, pods)| (&**name, pods.len())).collect();
        assert_eq!(totals, [("a", 5), ("d", 3)]);
    }
}
