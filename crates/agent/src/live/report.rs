//! Serializes a report.
//!
//! The body is never in memory as a whole: it is generated once for its length and hash, and once more while
//! `client` sends it. The same snapshot always yields the same bytes. Neighbors mostly share a workload, so
//! their common bytes are serialized once and copied.

use client::ReportBody;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use serde::Serialize;

use super::live_set::{Cursor, Snapshot, Tally};
use model::{ArtifactView, Workload};

/// Minimum size of a chunk except the last, in bytes.
const CHUNK: usize = 64 * 1024;

const OPENING: &[u8] = br#"{"type":"K8S","artifacts":["#;
const CLOSING: &[u8] = b"]}";
/// First key of an artifact; the other keys are in [`Common`].
const POD_NAME: &[u8] = br#"{"podName":"#;

/// The body of operation 7 (interface, "K8S report"): one JSON object, no line break.
#[derive(Debug, Clone)]
pub struct Report {
    snapshot: Snapshot,
    content_length: u64,
    hash: u64,
}

#[derive(Debug)]
pub struct Chunks {
    snapshot: Snapshot,
    next: Next,
    common: Common,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Opening,
    /// More artifacts, preceded by a comma.
    Artifacts(Cursor),
    End,
}

/// Serialized fields that consecutive artifacts share.
#[derive(Debug, Default)]
struct Common {
    source: Option<(Arc<str>, Arc<Workload>)>,
    /// The bytes between the name and the time.
    middle: Vec<u8>,
    /// The bytes after the time.
    end: Vec<u8>,
}

impl Report {
    /// A report of this snapshot. Computes its length and hash.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let mut length = OPENING.len() + CLOSING.len() + snapshot.len().saturating_sub(1);
        let (mut hasher, mut common, mut common_hash) = (DefaultHasher::new(), Common::default(), 0);
        let mut escaped_name = Vec::new();
        hasher.write_u64(snapshot.excluded);
        for artifact in &snapshot {
            if common.is_outdated(&artifact) {
                common.set(&artifact);
                common_hash = common.hash();
            }
            length += POD_NAME.len() + common.middle.len() + common.end.len();
            length += if is_plain(artifact.pod_name) {
                artifact.pod_name.len() + 2
            } else {
                escaped_name.clear();
                write(&mut escaped_name, artifact.pod_name);
                escaped_name.len()
            };
            length += decimal_len(artifact.created_at);
            hasher.write(artifact.pod_name.as_bytes());
            // Separator: no name contains this byte.
            hasher.write_u8(0xff);
            hasher.write_i64(artifact.created_at);
            hasher.write_u64(common_hash);
        }
        Self { snapshot, content_length: length as u64, hash: hasher.finish() }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshot.is_empty()
    }

    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.snapshot.tally
    }

    /// Hash of the content and the number of excluded pods. Within a process, equal reports have equal hashes.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl ReportBody for Report {
    type Chunks = Chunks;

    fn content_length(&self) -> u64 {
        self.content_length
    }

    fn excluded_pods(&self) -> u64 {
        self.snapshot.excluded
    }

    /// In chunks of about 64 KiB.
    fn chunks(&self) -> Chunks {
        Chunks { snapshot: self.snapshot.clone(), next: Next::Opening, common: Common::default() }
    }
}

impl Iterator for Chunks {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut chunk = Vec::with_capacity(CHUNK + CHUNK / 16);
        let (cursor, mut is_first) = match self.next {
            Next::End => return None,
            Next::Opening => {
                chunk.extend_from_slice(OPENING);
                (Cursor::default(), true)
            }
            Next::Artifacts(cursor) => (cursor, false),
        };
        let mut artifacts = self.snapshot.iter_from(cursor);
        while chunk.len() < CHUNK {
            let Some(artifact) = artifacts.next() else {
                chunk.extend_from_slice(CLOSING);
                self.next = Next::End;
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
        self.next = Next::Artifacts(artifacts.cursor());
        Some(chunk)
    }
}

impl Common {
    fn is_outdated(&self, artifact: &ArtifactView<'_>) -> bool {
        self.source.as_ref().is_none_or(|(namespace, workload)| {
            !Arc::ptr_eq(namespace, artifact.namespace) || !Arc::ptr_eq(workload, artifact.workload)
        })
    }

    fn set(&mut self, artifact: &ArtifactView<'_>) {
        let Self { source, middle, end } = self;
        *source = Some((Arc::clone(artifact.namespace), Arc::clone(artifact.workload)));
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

/// Whether a text needs no escape in JSON.
fn is_plain(text: &str) -> bool {
    // Counting instead of an early exit lets the compiler vectorize the loop.
    text.bytes().filter(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\').count() == 0
}

/// Number of decimal digits, including a sign.
fn decimal_len(number: i64) -> usize {
    let digits = number.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(number < 0)
}

#[expect(clippy::expect_used, reason = "serialization to memory cannot fail")]
fn write<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(bytes, value).expect("keys are strings and memory writes do not fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::live::collapse::Counting;
    use crate::live::live_set::LiveSet;
    use crate::live::pod::{ContainerView, PodView};
    use crate::live::selection::Selection;
    use model::{Artifact, Digests, Fingerprint, OwnerReference};

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
        let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
        for n in 0..pods {
            let pod = PodView {
                namespace: "shop".into(),
                name: format!("web-{n:05}"),
                created_at: Some(1_795_257_028),
                owners: vec![owner.clone()],
                containers: vec![container.clone()],
                ..Default::default()
            };
            live_set.apply(None, pod);
        }
        Report::new(live_set.snapshot(0, vec![]))
    }

    fn report_of(artifacts: Vec<Artifact>) -> Report {
        Report::new(LiveSet::new(vec![Selection::default()], Counting::All).snapshot(0, artifacts))
    }

    fn bytes(report: &Report) -> Vec<u8> {
        report.chunks().flatten().collect()
    }

    /// The expected bytes, without shared fields.
    fn expected(artifacts: &[Artifact]) -> Vec<u8> {
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

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![Just("web".to_owned()), Just("w\"\\\u{1}\u{7f}ä".to_owned()), any::<String>()]
    }

    prop_compose! {
        fn artifact()(
            namespace in "[ab\"]",
            pod_name in any_text(),
            created_at in prop_oneof![Just(0), Just(1_795_257_028), any::<i64>()],
            image in any_text(),
            digest in 0_u8..2,
        ) -> Artifact {
            let digests: Digests = [(image.into(), Fingerprint::from([digest; 32]))].into_iter().collect();
            let workload = Arc::new(Workload { digests, owners: [].into(), is_excluded: false });
            Artifact { namespace: namespace.into(), pod_name: pod_name.into(), created_at, workload }
        }
    }

    proptest! {
        #[test]
        fn body_length_and_hash_match_for_any_artifacts(
            mut some in proptest::collection::vec(artifact(), 0..5),
            others in proptest::collection::vec(artifact(), 0..5),
        ) {
            some.sort_by(|one, other| one.view().report_order(&other.view()));
            let (one, other) = (report_of(some.clone()), report_of(others));
            let body = bytes(&one);
            prop_assert_eq!(body.len() as u64, one.content_length());
            // Identical departed pods are reported once.
            let mut unique: Vec<Artifact> = Vec::new();
            for artifact in &some {
                if !unique.contains(artifact) {
                    unique.push(artifact.clone());
                }
            }
            prop_assert_eq!(one.len(), unique.len());
            prop_assert_eq!(String::from_utf8(body.clone()), String::from_utf8(expected(&unique)));
            prop_assert_eq!(body == bytes(&other), one.hash() == other.hash());
            prop_assert_eq!(one.hash(), report_of(some).hash());
        }
    }

    #[test]
    fn report_has_the_interface_fields_and_omits_absent_ones() {
        let body: Vec<u8> = report(1).chunks().flatten().collect();
        insta::assert_snapshot!(String::from_utf8(body).unwrap(), @r#"{"type":"K8S","artifacts":[{"podName":"web-00000","namespace":"shop","digests":{"docker.io/library/nginx":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"},"creationTimestamp":1795257028,"owners":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web\"","controller":true}]}]}"#);
        assert_eq!(report(0).chunks().flatten().collect::<Vec<u8>>(), br#"{"type":"K8S","artifacts":[]}"#);
    }

    #[test]
    fn content_length_is_exact_and_chunks_are_about_64_kib() {
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
