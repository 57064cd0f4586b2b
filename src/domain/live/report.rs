//! The writer of a report's bytes.
//!
//! A report is never held whole: `api` walks it once to count, for an exact Content-Length, and
//! once to send. The same snapshot gives the same bytes in every walk. Neighbours mostly run the same,
//! so what they have in common is written once and copied from then on.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use serde::Serialize;

use super::live_set::{Place, Snapshot};
use crate::domain::model::{ArtifactView, Workload};

/// How large a chunk grows before it is handed out, in bytes; one artifact may exceed it.
const CHUNK: usize = 64 * 1024;

const OPENING: &[u8] = br#"{"type":"K8S","artifacts":["#;
const CLOSING: &[u8] = b"]}";
/// What an artifact begins with; the rest of its keys are in [`Common`].
const POD_NAME: &[u8] = br#"{"podName":"#;

/// The body of operation 7 (interface, "K8S report"): one JSON object, no line break.
#[derive(Debug, Clone)]
pub struct Report {
    snapshot: Snapshot,
    content_length: u64,
    hash: u64,
}

/// The bytes of a report, in order.
#[derive(Debug)]
pub struct Chunks {
    snapshot: Snapshot,
    next: Next,
    common: Common,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Opening,
    /// The next artifacts, behind a comma.
    Artifacts(Place),
    Nothing,
}

/// What an artifact has in common with those before it, as it is written.
#[derive(Debug, Default)]
struct Common {
    of: Option<(Arc<str>, Arc<Workload>)>,
    /// From behind the name to the time.
    middle: Vec<u8>,
    /// From behind the time to the end.
    end: Vec<u8>,
}

impl Report {
    /// The report of what a snapshot holds; it is walked once, to know its length and hash.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let mut length = OPENING.len() + CLOSING.len() + snapshot.len().saturating_sub(1);
        let (mut hasher, mut common, mut common_hash) = (DefaultHasher::new(), Common::default(), 0);
        let mut odd_name = Vec::new();
        for artifact in &snapshot {
            if common.is_outdated(&artifact) {
                common.set(&artifact);
                common_hash = common.hash();
            }
            length += POD_NAME.len() + common.middle.len() + common.end.len();
            length += if is_plain(artifact.pod_name) {
                artifact.pod_name.len() + 2
            } else {
                odd_name.clear();
                write(&mut odd_name, artifact.pod_name);
                odd_name.len()
            };
            length += decimals(artifact.created_at);
            hasher.write(artifact.pod_name.as_bytes());
            // No name holds this byte, so that none runs into what follows.
            hasher.write_u8(0xff);
            hasher.write_i64(artifact.created_at);
            hasher.write_u64(common_hash);
        }
        Self { snapshot, content_length: length as u64, hash: hasher.finish() }
    }

    /// How many artifacts it reports.
    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot.len()
    }

    /// Whether it reports none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshot.is_empty()
    }

    /// The length of the body in bytes.
    #[must_use]
    pub fn content_length(&self) -> u64 {
        self.content_length
    }

    /// A hash of all that it says: within a process, two reports have the same one where their bytes
    /// are the same.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The body in chunks of about 64 KiB.
    #[must_use]
    pub fn chunks(&self) -> Chunks {
        Chunks { snapshot: self.snapshot.clone(), next: Next::Opening, common: Common::default() }
    }
}

impl Iterator for Chunks {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut chunk = Vec::with_capacity(CHUNK + CHUNK / 16);
        let (place, mut is_first) = match self.next {
            Next::Nothing => return None,
            Next::Opening => {
                chunk.extend_from_slice(OPENING);
                (Place::default(), true)
            }
            Next::Artifacts(place) => (place, false),
        };
        let mut walk = self.snapshot.walk_from(place);
        while chunk.len() < CHUNK {
            let Some(artifact) = walk.next() else {
                chunk.extend_from_slice(CLOSING);
                self.next = Next::Nothing;
                return Some(chunk);
            };
            if !is_first {
                chunk.push(b',');
            }
            is_first = false;
            if self.common.is_outdated(&artifact) {
                self.common.set(&artifact);
            }
            chunk.extend_from_slice(POD_NAME);
            if is_plain(artifact.pod_name) {
                chunk.push(b'"');
                chunk.extend_from_slice(artifact.pod_name.as_bytes());
                chunk.push(b'"');
            } else {
                write(&mut chunk, artifact.pod_name);
            }
            chunk.extend_from_slice(&self.common.middle);
            write(&mut chunk, &artifact.created_at);
            chunk.extend_from_slice(&self.common.end);
        }
        self.next = Next::Artifacts(walk.place());
        Some(chunk)
    }
}

impl Common {
    fn is_outdated(&self, artifact: &ArtifactView<'_>) -> bool {
        self.of.as_ref().is_none_or(|(namespace, workload)| {
            !Arc::ptr_eq(namespace, artifact.namespace) || !Arc::ptr_eq(workload, artifact.workload)
        })
    }

    fn set(&mut self, artifact: &ArtifactView<'_>) {
        let Self { of, middle, end } = self;
        *of = Some((Arc::clone(artifact.namespace), Arc::clone(artifact.workload)));
        middle.clear();
        middle.extend_from_slice(br#","namespace":"#);
        write(middle, &**artifact.namespace);
        middle.extend_from_slice(br#","digests":"#);
        write(middle, &artifact.workload.digests);
        middle.extend_from_slice(br#","creationTimestamp":"#);
        end.clear();
        end.extend_from_slice(br#","owners":"#);
        write(end, &artifact.workload.owners);
        end.push(b'}');
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.middle);
        hasher.write(&self.end);
        hasher.finish()
    }
}

/// Whether a text stands in JSON as it is.
fn is_plain(text: &str) -> bool {
    // Counting has no way out of the loop, so that it is done for many letters at once.
    text.bytes().filter(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\').count() == 0
}

/// How long a number is in decimal.
fn decimals(number: i64) -> usize {
    let digits = number.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(number < 0)
}

#[expect(clippy::expect_used, reason = "see the message")]
fn write<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(bytes, value)
        .expect("writing to memory cannot fail, and an artifact's keys are strings");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::live::collapse::Counting;
    use crate::domain::live::live_set::Roster;
    use crate::domain::live::pod::{ContainerView, PodView};
    use crate::domain::live::selection::Selection;
    use crate::domain::model::{Artifact, Digests, Fingerprint, OwnerReference};

    fn report(pods: usize) -> Report {
        let owner = OwnerReference {
            api_version: Some("apps/v1".into()),
            kind: Some("ReplicaSet".into()),
            name: Some("web\"".into()),
            uid: None,
            controller: Some(true),
            block_owner_deletion: None,
        };
        let image_id = format!("sha256:{}", "0a".repeat(32));
        let container = ContainerView { image: "nginx".into(), image_id, ..Default::default() };
        let mut roster = Roster::new(vec![Selection::default()], Counting::All);
        for n in 0..pods {
            let pod = PodView {
                namespace: "shop".into(),
                name: format!("web-{n:05}"),
                created_at: Some(1_795_257_028),
                owners: vec![owner.clone()],
                containers: vec![container.clone()],
                ..Default::default()
            };
            roster.apply(None, pod);
        }
        Report::new(roster.snapshot(0, vec![]))
    }

    /// A report of artifacts as they are.
    fn report_of(artifacts: Vec<Artifact>) -> Report {
        Report::new(Roster::new(vec![Selection::default()], Counting::All).snapshot(0, artifacts))
    }

    fn bytes(report: &Report) -> Vec<u8> {
        report.chunks().flatten().collect()
    }

    /// The same by serde alone.
    fn plainly(artifacts: &[Artifact]) -> Vec<u8> {
        let json = |value: &str| serde_json::to_string(value).unwrap();
        let artifacts = artifacts.iter().map(|a| {
            format!(
                r#"{{"podName":{},"namespace":{},"digests":{},"creationTimestamp":{},"owners":{}}}"#,
                json(&a.pod_name),
                json(&a.namespace),
                serde_json::to_string(&a.workload.digests).unwrap(),
                a.created_at,
                serde_json::to_string(&a.workload.owners).unwrap(),
            )
        });
        let artifacts: Vec<_> = artifacts.collect();
        format!(r#"{{"type":"K8S","artifacts":[{}]}}"#, artifacts.join(",")).into_bytes()
    }

    fn odd_text() -> impl Strategy<Value = String> {
        prop_oneof![Just("web".to_owned()), Just("w\"\\\u{1}\u{7f}ä".to_owned()), any::<String>()]
    }

    prop_compose! {
        fn artifact()(
            namespace in "[ab\"]",
            pod_name in odd_text(),
            created_at in prop_oneof![Just(0), Just(1_795_257_028), any::<i64>()],
            image in odd_text(),
            digest in 0_u8..2,
        ) -> Artifact {
            let digests: Digests = [(image.into(), Fingerprint::from([digest; 32]))].into_iter().collect();
            let workload = Arc::new(Workload { digests, owners: [].into() });
            Artifact { namespace: namespace.into(), pod_name: pod_name.into(), created_at, workload }
        }
    }

    proptest! {
        #[test]
        fn whatever_a_report_says_is_escaped_and_counted_and_hashed(
            mut some in proptest::collection::vec(artifact(), 0..5),
            others in proptest::collection::vec(artifact(), 0..5),
        ) {
            some.sort_by(|one, other| one.view().report_order(&other.view()));
            let (one, other) = (report_of(some.clone()), report_of(others));
            let body = bytes(&one);
            prop_assert_eq!(body.len() as u64, one.content_length());
            // What left twice, and just so, is said once.
            let mut once: Vec<Artifact> = Vec::new();
            for artifact in &some {
                if !once.contains(artifact) {
                    once.push(artifact.clone());
                }
            }
            prop_assert_eq!(one.len(), once.len());
            prop_assert_eq!(String::from_utf8(body.clone()), String::from_utf8(plainly(&once)));
            prop_assert_eq!(body == bytes(&other), one.hash() == other.hash());
            prop_assert_eq!(one.hash(), report_of(some).hash());
        }
    }

    #[test]
    fn a_report_has_the_fields_of_the_interface_and_leaves_out_what_kubernetes_left_out() {
        let body: Vec<u8> = report(1).chunks().flatten().collect();
        insta::assert_snapshot!(String::from_utf8(body).unwrap(), @r#"{"type":"K8S","artifacts":[{"podName":"web-00000","namespace":"shop","digests":{"docker.io/library/nginx":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"},"creationTimestamp":1795257028,"owners":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web\"","controller":true}]}]}"#);
        assert_eq!(report(0).chunks().flatten().collect::<Vec<u8>>(), br#"{"type":"K8S","artifacts":[]}"#);
    }

    #[test]
    fn the_length_is_known_before_and_no_chunk_is_much_larger_than_64_kib() {
        let report = report(5_000);
        let chunks: Vec<_> = report.chunks().collect();
        assert!(chunks.len() > 5 && chunks.iter().all(|c| c.len() < 68 * 1024));
        let body = chunks.concat();
        assert_eq!(body.len() as u64, report.content_length());
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["artifacts"].as_array().unwrap().len(), 5_000);
        assert_eq!(json["artifacts"][4_999]["podName"], "web-04999");
    }
}
