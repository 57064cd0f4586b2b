//! Image IDs and references.

use std::collections::BTreeSet;

use super::report;
use agent::live::collapse::{Collapsed, Container, Counting, collapse};
use agent::live::live_set::LiveSet;
use agent::live::pod::{ContainerView, PodView};
use agent::live::selection::Selection;
use model::image_id::digest_of;
use model::{Digests, Fingerprint};

/// Three lines are one container: `status.imageID`, `status.image` and the image of the specification.
pub fn image(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.split('\n').take(30).collect();
    let containers = lines.chunks(3).enumerate().map(|(n, lines)| {
        let line = |n: usize| lines.get(n).copied().unwrap_or_default().to_owned();
        ContainerView {
            name: n.to_string(),
            image_id: line(0),
            image: line(1),
            spec_image: line(2),
            ..ContainerView::default()
        }
    });
    let pod = pod_of(containers.collect());
    let expected: BTreeSet<Fingerprint> =
        pod.containers.iter().filter_map(|c| digest_of(&c.image_id)).collect();
    for (digest, container) in pod.containers.iter().filter_map(|c| Some((digest_of(&c.image_id)?, c))) {
        let hex = digest.to_string();
        assert!(hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{hex}");
        assert!(
            container.image_id.to_ascii_lowercase().ends_with(&hex),
            "{hex} is not in {:?}",
            container.image_id
        );
        assert_eq!(digest_of(&hex), Some(digest));
    }

    let collapsed = collapse(pod.clone(), Counting::All, &[]);
    let digests = digests(&collapsed);
    let reported: BTreeSet<Fingerprint> =
        digests.iter().flat_map(Digests::iter).map(|(_, digest)| digest).collect();
    assert_eq!(reported, expected, "reported digests");

    let mut reversed = pod.clone();
    reversed.containers.reverse();
    assert_eq!(
        self::digests(&collapse(reversed, Counting::All, &[])),
        digests,
        "the order of containers has no effect"
    );
    assert_eq!(
        self::digests(&without_image_ids(&pod, &collapsed.containers)),
        digests,
        "digests are remembered after a reboot of the node"
    );

    for (name, digest) in digests.iter().flat_map(Digests::iter) {
        assert!(!name.is_empty() && !name.contains(char::is_control), "{name:?}");
        // A full name is kept for the image IDs of every runtime.
        let image_id = format!("sha256:{digest}");
        let again =
            pod_of(vec![ContainerView { image_id, image: name.to_owned(), ..ContainerView::default() }]);
        let again = self::digests(&collapse(again, Counting::All, &[]));
        let again: Vec<_> = again.iter().flat_map(Digests::iter).collect();
        assert_eq!(again, [(name, digest)]);
    }

    let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
    live_set.apply(None, pod);
    report::assert_accepted(&live_set, vec![]);
}

fn pod_of(containers: Vec<ContainerView>) -> PodView {
    PodView {
        namespace: "shop".into(),
        name: "web".into(),
        created_at: Some(1),
        containers,
        ..PodView::default()
    }
}

fn digests(collapsed: &Collapsed) -> Option<Digests> {
    collapsed.workload.as_ref().ok().map(|workload| workload.digests.clone())
}

/// Collapses the pod as the kubelet reports it after a reboot, without image IDs.
fn without_image_ids(pod: &PodView, remembered: &[Container]) -> Collapsed {
    let mut pod = pod.clone();
    for container in &mut pod.containers {
        container.image_id.clear();
    }
    collapse(pod, Counting::All, remembered)
}
