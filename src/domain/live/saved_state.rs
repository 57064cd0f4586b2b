//! The content of the agent's state file: departed pods, and the revisions that they refer to.
//!
//! `agent` reads and writes the file. Its first line describes the rest, which has one pod per line.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::departed_pods::DepartedPod;
use super::departure::Revision;
use super::selection::Selection;
use crate::domain::model::Fingerprint;

/// Version of the format.
const VERSION: u32 = 1;

/// Maximum size of the file, in bytes.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Maximum size of the lines of pods, in bytes; further pods are left out. The first line fits into the rest.
const MAX_POD_BYTES: usize = 15 * 1024 * 1024;

/// Pods that were written longer ago are ignored: the service would record them at the time of the report.
const MAX_AGE: Duration = Duration::from_hours(7 * 24);

/// The cluster and the destination of an agent. The file of another agent is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// URL of the API server. In a pod, agents of other clusters may have the same one.
    pub cluster: String,
    /// URL of the service.
    pub service: String,
    /// Organization in the service.
    pub organization: String,
}

/// Departed pods that no accepted report contained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavedState {
    /// Revision of the live set.
    pub revision: Revision,
    /// The environments by name.
    pub environments: BTreeMap<String, SavedEnvironment>,
}

/// The departed pods of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedEnvironment {
    /// Fingerprint of its selection.
    pub selection: Fingerprint,
    /// The last accepted revision.
    pub accepted: Revision,
    /// Its departed pods, which have a line each.
    #[serde(skip)]
    pub pods: Vec<DepartedPod>,
}

/// The content of a file.
#[derive(Debug)]
pub struct Encoded {
    /// The first line.
    pub header: Vec<u8>,
    /// The other lines. Separate, because they can be large.
    pub lines: Vec<u8>,
    /// Number of pods that exceed the maximum size.
    pub left_out: u64,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header<E> {
    version: u32,
    /// Unix time in seconds.
    written_at: u64,
    origin: Origin,
    revision: Revision,
    /// The environments by name, without their pods.
    environments: E,
    /// SHA-256 of the other lines.
    sha256: Fingerprint,
}

/// The part of the first line that all versions have.
#[derive(Deserialize)]
struct AnyHeader {
    version: u32,
}

/// Any other line.
#[derive(Serialize, Deserialize)]
struct Line<E, P> {
    environment: E,
    pod: P,
}

/// Why a file is ignored.
#[derive(Debug, thiserror::Error)]
pub enum Ignored {
    /// The content is not what an agent wrote.
    #[error("it is corrupt")]
    Corrupt(#[source] Corruption),
    /// Another version of the program wrote the file.
    #[error("it has format {0}, expected {VERSION}")]
    Version(u32),
    /// The file was written too long ago.
    #[error("it was written {} h ago, expected at most {} h", .0.as_secs() / 3600, MAX_AGE.as_secs() / 3600)]
    Old(Duration),
    /// The file is from another cluster, service or organization.
    #[error(
        "it is from {} for {} of {}, expected {} for {} of {}",
        .0.cluster, .0.organization, .0.service, .1.cluster, .1.organization, .1.service
    )]
    Foreign(Box<Origin>, Box<Origin>),
}

/// The kind of a corruption.
#[derive(Debug, thiserror::Error)]
pub enum Corruption {
    /// A line is not JSON of the expected type.
    #[error(transparent)]
    Line(#[from] serde_json::Error),
    /// The pods are not those that were written.
    #[error("the checksum does not match")]
    Checksum,
}

impl SavedState {
    /// The content of the file; `now` is Unix time. If the pods exceed the maximum size, each environment gets the same
    /// share of it, and what others leave of theirs.
    ///
    /// # Errors
    ///
    /// Errors of serialization.
    pub fn encode(&self, origin: &Origin, now: Duration) -> Result<Encoded, serde_json::Error> {
        let (mut lines, mut left_out) = (Vec::new(), 0);
        let all: Vec<_> = self.environments.iter().map(|(name, saved)| (name, &saved.pods)).collect();
        // The size of the lines of each environment, its index, and that of its next pod.
        let mut queue: BinaryHeap<_> = (0..all.len()).map(|n| Reverse((0, n, 0))).collect();
        while let Some(Reverse((size, n, next))) = queue.pop() {
            let Some((environment, pods)) = all.get(n) else { continue };
            let Some(pod) = pods.get(next) else { continue };
            let end = lines.len();
            serde_json::to_writer(&mut lines, &Line { environment, pod })?;
            lines.push(b'\n');
            if lines.len() > MAX_POD_BYTES {
                lines.truncate(end);
                left_out += (pods.len() - next) as u64;
            } else {
                queue.push(Reverse((size + lines.len() - end, n, next + 1)));
            }
        }
        let header = Header {
            version: VERSION,
            written_at: now.as_secs(),
            origin: origin.clone(),
            revision: self.revision,
            environments: &self.environments,
            sha256: Fingerprint::from_content(&lines),
        };
        let mut header = serde_json::to_vec(&header)?;
        header.push(b'\n');
        Ok(Encoded { header, lines, left_out })
    }

    /// The state in a file; `now` is Unix time.
    ///
    /// # Errors
    ///
    /// [`Ignored`].
    pub fn decode(bytes: &[u8], origin: &Origin, now: Duration) -> Result<Self, Ignored> {
        let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
        let (first, lines) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let AnyHeader { version } = parse(first)?;
        if version != VERSION {
            return Err(Ignored::Version(version));
        }
        let header: Header<BTreeMap<String, SavedEnvironment>> = parse(first)?;
        if header.sha256 != Fingerprint::from_content(lines) {
            return Err(Ignored::Corrupt(Corruption::Checksum));
        }
        if header.origin != *origin {
            return Err(Ignored::Foreign(Box::new(header.origin), Box::new(origin.clone())));
        }
        let age = now.saturating_sub(Duration::from_secs(header.written_at));
        if age > MAX_AGE && !lines.is_empty() {
            return Err(Ignored::Old(age));
        }
        let mut state = Self { revision: header.revision, environments: header.environments };
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Line::<String, DepartedPod> { environment, pod } = parse(line)?;
            if let Some(saved) = state.environments.get_mut(&environment) {
                saved.pods.push(pod);
            }
        }
        Ok(state)
    }
}

impl SavedEnvironment {
    /// Keeps the pods of selected namespaces. Labels are not known yet: a namespace that they decide about is selected if
    /// the selection is the same as when the pod was saved. Returns the number of other pods.
    pub fn retain_selected(&mut self, selection: &Selection) -> u64 {
        let is_same = self.selection == selection.fingerprint();
        let before = self.pods.len();
        self.pods.retain(|pod| {
            let namespace = pod.namespace();
            selection.selects(namespace) || is_same && selection.label_selector_for(namespace).is_some()
        });
        (before - self.pods.len()) as u64
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, Ignored> {
    serde_json::from_slice(line).map_err(|error| Ignored::Corrupt(error.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::live::departed_pods::{Contents, DepartedPods, Limits};
    use crate::domain::live::departure::Departure;
    use crate::domain::model::{Artifact, Digests, OwnerReference, Workload};

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn origin(cluster: &str) -> Origin {
        let (service, organization) = ("https://compliance.example.com".to_owned(), "acme".to_owned());
        Origin { cluster: cluster.to_owned(), service, organization }
    }

    /// Departed pods, of which the service accepted none, although it accepted revision 1.
    fn departed_pods(count: usize, owner: &str) -> (DepartedPods, Revision) {
        let mut revision = Revision::default().next();
        let mut departed_pods = DepartedPods::new(Limits::default());
        departed_pods.report_accepted(revision, Contents::Running);
        for n in 0..count {
            let owner = OwnerReference {
                name: Some(owner.into()),
                controller: Some(true),
                ..OwnerReference::default()
            };
            let digests = Digests::from_iter([("registry/job:1".into(), Fingerprint::from_content(&[1]))]);
            let artifact = Artifact {
                namespace: ["shop", "pay"][n % 2].into(),
                pod_name: format!("job-{n}").into(),
                created_at: 1_700_000_000,
                workload: Arc::new(Workload { digests, owners: [owner].into() }),
            };
            let since = revision.next();
            revision = since.next();
            departed_pods.insert(Departure { artifact, since }, revision);
        }
        (departed_pods, revision)
    }

    fn state(count: usize, owner: &str) -> SavedState {
        let (departed_pods, revision) = departed_pods(count, owner);
        let (accepted, pods) = departed_pods.save();
        let saved = SavedEnvironment { selection: Selection::default().fingerprint(), accepted, pods };
        SavedState { revision, environments: [("prod".to_owned(), saved)].into() }
    }

    fn encode(state: &SavedState) -> Vec<u8> {
        let Encoded { header, lines, .. } = state.encode(&origin("a"), NOW).unwrap();
        [header, lines].concat()
    }

    #[test]
    fn restored_pods_are_kept_until_an_accepted_report_contains_them() {
        let (before, revision) = departed_pods(3, "job");
        let bytes = encode(&state(3, "job"));
        let mut state = SavedState::decode(&bytes, &origin("a"), NOW).unwrap();
        assert_eq!(state, self::state(3, "job"));
        let saved = state.environments.remove("prod").unwrap();
        let mut after = DepartedPods::new(Limits::default());
        after.restore(saved.accepted, saved.pods);
        assert_eq!((after.artifacts(), after.save()), (before.artifacts(), before.save()));
        after.report_accepted(revision, Contents::Running);
        assert_eq!(after.len(), 3);
        after.report_accepted(revision, Contents::RunningAndDeparted);
        assert!(after.is_empty());
    }

    #[test]
    fn pods_of_namespaces_by_labels_are_kept_only_if_the_selection_is_the_same() {
        let by_label = |selector: &str| Selection::default().with_labels(selector.parse().ok());
        let named = Selection::new(["pay".parse().unwrap()].into(), vec![], [].into(), vec![]).unwrap();
        let (all, named_or_a) = (Selection::default(), named.clone().with_labels("team=a".parse().ok()));
        for (before, now, kept) in [
            (&all, &all, 4),
            (&all, &named, 2),
            (&all, &by_label("team=b"), 0),
            (&all, &named_or_a, 2),
            (&by_label("team=a"), &by_label("team=a"), 4),
            (&by_label("team=a"), &by_label("team=b"), 0),
            (&by_label("team=a"), &all, 4),
        ] {
            let mut saved = state(4, "job").environments.remove("prod").unwrap();
            saved.selection = before.fingerprint();
            assert_eq!(
                (saved.retain_selected(now), saved.pods.len()),
                ((4 - kept) as u64, kept),
                "{before:?} {now:?}"
            );
        }
    }

    #[test]
    fn corrupt_old_and_foreign_files_are_ignored() {
        let bytes = encode(&state(2, "job"));
        let text = String::from_utf8(bytes.clone()).unwrap();
        let changed = |old: &str, new: &str| text.replace(old, new).into_bytes();
        let day = Duration::from_hours(24);
        for (bytes, cluster, now, expected) in [
            (Vec::new(), "a", NOW, "it is corrupt"),
            (b"environments: []".to_vec(), "a", NOW, "it is corrupt"),
            (bytes[..40].to_vec(), "a", NOW, "it is corrupt"),
            (bytes[..bytes.len() - 1].to_vec(), "a", NOW, "it is corrupt"),
            (changed("job-1", "job-2"), "a", NOW, "it is corrupt"),
            (changed("\"version\":1", "\"version\":2,\"new\":1"), "a", NOW, "it has format 2, expected 1"),
            (bytes.clone(), "a", NOW + day * 8, "it was written 192 h ago, expected at most 168 h"),
            (
                bytes.clone(),
                "b",
                NOW,
                "it is from a for acme of https://compliance.example.com, \
                 expected b for acme of https://compliance.example.com",
            ),
        ] {
            let error = SavedState::decode(&bytes, &origin(cluster), now).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        // The clock was set back.
        assert!(SavedState::decode(&bytes, &origin("a"), NOW.saturating_sub(day)).is_ok());
        // No pod ended for a long time.
        let bytes = encode(&state(0, "job"));
        assert_eq!(SavedState::decode(&bytes, &origin("a"), NOW + day * 30).unwrap(), state(0, "job"));
    }

    #[test]
    fn environments_share_the_maximum_size_equally() {
        let (large, small) = (state(1_000, &"x".repeat(16 * 1024)), state(10, "job"));
        let [large, small] = [large, small].map(|state| state.environments["prod"].clone());
        let kept = |environments: &[(&str, &SavedEnvironment)]| {
            let environments =
                environments.iter().map(|(name, saved)| ((*name).to_owned(), (*saved).clone())).collect();
            let state = SavedState { revision: Revision::default(), environments };
            let Encoded { header, lines, left_out } = state.encode(&origin("a"), NOW).unwrap();
            assert!((MAX_POD_BYTES - 32 * 1024..=MAX_POD_BYTES).contains(&lines.len()), "{}", lines.len());
            assert!(header.len() + lines.len() <= MAX_BYTES);
            let decoded = SavedState::decode(&[header, lines].concat(), &origin("a"), NOW).unwrap();
            let counts: Vec<_> = decoded.environments.values().map(|saved| saved.pods.len()).collect();
            let all: usize = state.environments.values().map(|saved| saved.pods.len()).sum();
            assert_eq!(left_out, (all - counts.iter().sum::<usize>()) as u64);
            counts
        };
        let [alone] = kept(&[("a", &large)])[..] else { panic!() };
        assert!((900..1_000).contains(&alone));
        let [a, b, c] = kept(&[("a", &large), ("b", &large), ("c", &small)])[..] else { panic!() };
        assert!(a.abs_diff(b) <= 1 && (alone - 2..=alone).contains(&(a + b)) && c == 10, "{a} {b} {c}");
    }
}
