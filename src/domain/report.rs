//! The writer of a report's bytes.
//!
//! A report is never held whole: `api` walks it once to count, for an exact Content-Length, and
//! once to send. The same snapshot gives the same bytes in every walk.

use super::model::Artifact;
use super::roster::Snapshot;

/// How large a chunk grows before it is handed out, in bytes; one artifact may exceed it.
const CHUNK: usize = 64 * 1024;

/// The body of operation 7 (interface, "K8S report"): one JSON object, no line break.
#[derive(Debug, Clone)]
pub struct Report {
    snapshot: Snapshot,
    content_length: u64,
}

/// The bytes of a report, in order.
#[derive(Debug)]
pub struct Chunks {
    report: Report,
    next: Next,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Opening,
    Artifact(usize),
    Nothing,
}

impl Report {
    /// The report of what a snapshot holds; it is walked once, to know its length.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let unmeasured = Self { snapshot, content_length: 0 };
        let content_length = unmeasured.chunks().map(|chunk| chunk.len() as u64).sum();
        Self { content_length, ..unmeasured }
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

    /// The body in chunks of about 64 KiB.
    #[must_use]
    pub fn chunks(&self) -> Chunks {
        Chunks { report: self.clone(), next: Next::Opening }
    }
}

impl Iterator for Chunks {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let first = match self.next {
            Next::Nothing => return None,
            Next::Opening => 0,
            Next::Artifact(n) => n,
        };
        let mut chunk = Vec::with_capacity(CHUNK + CHUNK / 16);
        if matches!(self.next, Next::Opening) {
            chunk.extend_from_slice(br#"{"type":"K8S","artifacts":["#);
        }
        for (n, artifact) in (first..).zip(self.report.snapshot.iter_from(first)) {
            if chunk.len() >= CHUNK {
                self.next = Next::Artifact(n);
                return Some(chunk);
            }
            if n > 0 {
                chunk.push(b',');
            }
            write(&mut chunk, artifact);
        }
        chunk.extend_from_slice(b"]}");
        self.next = Next::Nothing;
        Some(chunk)
    }
}

#[expect(clippy::expect_used, reason = "see the message")]
fn write(chunk: &mut Vec<u8>, artifact: &Artifact) {
    serde_json::to_writer(chunk, artifact)
        .expect("writing to memory cannot fail, and an artifact's keys are strings");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::collapse::Collapsed;
    use crate::domain::model::{Fingerprint, OwnerReference, Workload};
    use crate::domain::roster::Gathering;
    use crate::domain::selection::Selection;

    fn report(pods: usize) -> Report {
        let mut gathering = Gathering::default();
        let owner = OwnerReference {
            api_version: Some("apps/v1".into()),
            kind: Some("ReplicaSet".into()),
            name: Some("web\"".into()),
            uid: None,
            controller: Some(true),
            block_owner_deletion: None,
        };
        let digests = [("docker.io/library/nginx".into(), Fingerprint::from_hex(&"0a".repeat(32)).unwrap())];
        let workload = Arc::new(Workload { digests: digests.into_iter().collect(), owners: [owner].into() });
        for n in 0..pods {
            let artifact = Artifact {
                namespace: "shop".into(),
                pod_name: format!("web-{n:05}").into(),
                created_at: 1_795_257_028,
                workload: Arc::clone(&workload),
            };
            gathering.add("shop", Collapsed { artifact: Ok(artifact), skipped: vec![], config_digests: 0 });
        }
        Report::new(Arc::new(gathering.finish().0).select(&Selection::default()))
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
