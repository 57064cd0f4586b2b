use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use model::OwnerReference;

const A: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";
const B: &str = "54c5b3dd459d5ef778bb2fa1e23a5fb0e1b62ae66970bcb436e8f81a1a1a8e41";

fn container(image: &str, image_id: &str) -> ContainerView {
    ContainerView {
        image: image.into(),
        image_id: image_id.into(),
        spec_image: image.into(),
        ..Default::default()
    }
}

fn pod(containers: Vec<ContainerView>) -> PodView {
    PodView {
        namespace: "shop".into(),
        name: "web".into(),
        created_at: Some(1),
        containers,
        ..Default::default()
    }
}

/// The serialized names and digests of the artifact.
fn digests(containers: Vec<ContainerView>) -> String {
    let workload = collapse(pod(containers), Counting::All, &[]).workload.unwrap();
    serde_json::to_string(&workload.digests).unwrap()
}

#[test]
fn name_is_taken_from_status_then_specification_then_repository() {
    let image_id = format!("reg.io/team/app@sha256:{A}");
    for (image, spec_image, image_id, name) in [
        ("nginx:1", "nginx:2", &image_id, "docker.io/library/nginx:1".to_owned()),
        ("", "nginx:2", &image_id, "docker.io/library/nginx:2".to_owned()),
        (&format!("sha256:{B}"), "nginx:2", &image_id, "docker.io/library/nginx:2".to_owned()),
        (B, &format!("sha256:{B}"), &image_id, "reg.io/team/app".to_owned()),
        ("", "", &A.to_owned(), format!("sha256:{A}")),
    ] {
        let view = ContainerView { spec_image: spec_image.into(), ..container(image, image_id) };
        assert_eq!(digests(vec![view]), format!(r#"{{"{name}":"{A}"}}"#));
    }
}

#[test]
fn container_with_another_repository_in_its_status_has_two_names() {
    for (image, spec_image, has_two) in [
        ("mirror.io/nginx:1", "nginx:1", true),
        ("reg.io/web:1", "reg.io/web-next:1", true),
        ("nginx:1", "nginx:2", false),
        ("docker.io/library/nginx:1", "nginx", false),
        ("reg.io/web:1", &format!("reg.io/web@sha256:{A}"), false),
        ("", "nginx:1", false),
        (&format!("sha256:{A}"), "nginx:1", false),
        ("reg.io/a\nb", "nginx:1", false),
    ] {
        let view = ContainerView { spec_image: spec_image.into(), ..container(image, A) };
        let pod = pod(vec![view]);
        assert_eq!(containers_with_two_names(&pod, Counting::All).count() == 1, has_two, "{image:?}");
        let init = ContainerView { kind: ContainerKind::Init, ..pod.containers[0].clone() };
        let pod = PodView { containers: vec![init], ..pod };
        assert_eq!(containers_with_two_names(&pod, Counting::App).count(), 0);
    }
}

#[test]
fn containers_with_the_same_image_are_one_entry() {
    let image_id = format!("nginx@sha256:{A}");
    let both = vec![container("nginx", &image_id), container("docker.io/nginx", &image_id)];
    assert_eq!(digests(both), format!(r#"{{"docker.io/library/nginx":"{A}"}}"#));
}

#[test]
fn moved_tag_keeps_both_digests() {
    let (a, b) = (format!("m@sha256:{A}"), format!("m@sha256:{B}"));
    assert_eq!(
        digests(vec![container("reg.io/m:1", &a), container("reg.io/m:1", &b)]),
        format!(r#"{{"reg.io/m:1@sha256:{B}":"{B}","reg.io/m:1@sha256:{A}":"{A}"}}"#)
    );
    // A pin to one digest with another running digest: the index of a tag and the image of its platform.
    let pinned = format!("reg.io/m@sha256:{A}");
    assert_eq!(
        digests(vec![container(&pinned, &a), container(&pinned, &b)]),
        format!(r#"{{"reg.io/m@sha256:{B}":"{B}","reg.io/m@sha256:{A}":"{A}"}}"#)
    );
}

#[test]
fn pin_that_equals_the_name_of_another_container_keeps_both_digests() {
    let c = "00".repeat(32);
    let names = digests(vec![
        container("reg.io/m", &format!("m@sha256:{A}")),
        container("reg.io/m", &format!("m@sha256:{B}")),
        container(&format!("reg.io/m@sha256:{A}"), &c),
    ]);
    let pin = |h: &str| format!(r#""reg.io/m@sha256:{h}":"{h}""#);
    assert_eq!(names, format!("{{{},{},{}}}", pin(&c), pin(B), pin(A)));
}

#[test]
fn name_above_the_maximum_length_is_ignored() {
    let image_id = format!("reg.io/team/app@sha256:{A}");
    let long = format!("reg.io/{}", "a".repeat(MAX_NAME_BYTES));
    assert_eq!(digests(vec![container(&long, &image_id)]), format!(r#"{{"reg.io/team/app":"{A}"}}"#));
}

/// Pods of the maximum size that an API server accepts.
#[test]
fn pod_with_many_owners_or_containers_is_limited_to_16_kib() {
    let owner = |name: String| OwnerReference {
        api_version: Some("v1".into()),
        kind: Some("k".into()),
        name: Some(name.into()),
        uid: Some("u".into()),
        controller: Some(false),
        block_owner_deletion: Some(false),
    };
    let few = vec![container("reg.io/a", A)];
    let many: Vec<_> = (0..16_000)
        .map(|n| ContainerView {
            name: n.to_string(),
            ..container(&format!("reg.io/{n}"), &format!("{n:064x}"))
        })
        .collect();
    for (owners, containers) in [
        ((0..75_000).map(|n| owner(n.to_string())).collect(), few.clone()),
        (vec![owner("\u{1}".repeat(1_500_000)), owner("\"".repeat(1_500_000))], few.clone()),
        (vec![], many.clone()),
    ] {
        let had = containers.len();
        let collapsed = collapse(PodView { owners, ..pod(containers) }, Counting::All, &[]);
        let workload = collapsed.workload.unwrap();
        let size = serde_json::to_vec(&workload.digests).unwrap().len()
            + serde_json::to_vec(&workload.owners).unwrap().len();
        assert!(size <= 18 * 1024, "{size}");
        let dropped = (had - collapsed.containers.len()) as u64;
        let too_many = (dropped > 0).then_some((ContainerSkip::TooMany, dropped));
        assert_eq!(*collapsed.skipped, *too_many.as_slice());
    }
    // Remembered containers are limited too, even if each status contains others.
    let mut remembered = collapse(pod(many.clone()), Counting::All, &[]).containers;
    for containers in many.chunks(500).skip(1) {
        remembered = collapse(pod(containers.to_vec()), Counting::All, &remembered).containers;
    }
    assert!(remembered.len() < 128, "{}", remembered.len());
}

/// A container cannot be hidden by many others.
#[test]
fn image_of_the_last_of_many_containers_is_reported() {
    let owner = OwnerReference {
        api_version: Some("apps/v1".into()),
        kind: Some("ReplicaSet".into()),
        name: Some("web-7d".into()),
        uid: Some("u".into()),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let many = |n: usize, image: &dyn Fn(usize) -> String| -> Vec<_> {
        (0..n)
            .map(|n| ContainerView {
                name: format!("sidecar-{n:03}"),
                ..container(&image(n), &format!("reg.io/a@sha256:{A}"))
            })
            .collect()
    };
    let last = ContainerView { name: "z".into(), ..container("reg.io/b:1", &format!("reg.io/b@sha256:{B}")) };
    for (name, mut containers, too_many) in [
        ("one image", many(120, &|_| "reg.io/a:1".to_owned()), 0),
        ("one image, an API server's limit", many(6_000, &|_| "reg.io/a:1".to_owned()), 0),
        ("one digest under many names", many(6_000, &|n| format!("reg.io/a:{n:07}")), 5_896),
    ] {
        containers.push(last.clone());
        let view = PodView { owners: vec![owner.clone()], ..pod(containers) };
        let collapsed = collapse(view.clone(), Counting::All, &[]);
        let workload = collapsed.workload.as_ref().unwrap();
        let digests: BTreeSet<_> = workload.digests.iter().map(|(_, digest)| digest.to_string()).collect();
        assert_eq!(digests, [A, B].map(str::to_owned).into(), "{name}");
        assert_eq!(workload.owners.len(), usize::from(too_many == 0), "{name}");
        let skipped = (too_many > 0).then_some((ContainerSkip::TooMany, too_many));
        assert_eq!(*collapsed.skipped, *skipped.as_slice(), "{name}");

        // The same after a reboot, when the status has no image IDs.
        let mut rebooted = view;
        rebooted.containers.iter_mut().for_each(|container| container.image_id.clear());
        let again = collapse(rebooted, Counting::All, &collapsed.containers);
        assert_eq!(again.workload.as_ref().unwrap().digests, workload.digests, "{name}");
    }
}

#[test]
fn pod_with_fifty_containers_and_two_owners_fits() {
    let containers = (0..50).map(|n| ContainerView {
        name: format!("sidecar-of-the-payment-gateway-{n:02}"),
        ..container(&format!("123456789012.dkr.ecr.eu-central-1.amazonaws.com/payments/gateway/sidecar-{n:02}:2026.11.22-b80d913a5e7c"), A)
    });
    let owner = OwnerReference {
        api_version: Some("argoproj.io/v1alpha1".into()),
        kind: Some("Rollout".into()),
        name: Some("payment-gateway-of-the-production-cluster-5d8f7c9b64".into()),
        uid: Some("0b1f1c9e-6f5e-4c8a-9d55-1f0f6a3c7b21".into()),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let view = PodView { owners: vec![owner; 2], ..pod(containers.collect()) };
    let collapsed = collapse(view, Counting::All, &[]);
    let workload = collapsed.workload.unwrap();
    assert_eq!((collapsed.containers.len(), workload.owners.len(), &*collapsed.skipped), (50, 2, &[][..]));
}

#[test]
fn init_and_ephemeral_containers_and_volumes_are_excluded_by_counting_app() {
    let of = |kind, image: &str| ContainerView { kind, ..container(image, &format!("x@sha256:{A}")) };
    let all = pod(vec![
        of(ContainerKind::Init, "init"),
        of(ContainerKind::App, "app"),
        of(ContainerKind::Ephemeral, "debug"),
        of(ContainerKind::Volume, "model"),
    ]);
    let names = |counting| {
        let workload = collapse(all.clone(), counting, &[]).workload.unwrap();
        workload.digests.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(Counting::All),
        ["app", "debug", "init", "model"].map(|name| format!("docker.io/library/{name}"))
    );
    assert_eq!(names(Counting::App), ["docker.io/library/app"]);
}

#[test]
fn volume_is_reported_under_its_reference_and_keeps_its_digest() {
    let of = |kind, name: &str, spec_image: &str, image_id: &str| ContainerView {
        kind,
        name: name.into(),
        image: String::new(),
        image_id: image_id.into(),
        spec_image: spec_image.into(),
    };
    let app = of(ContainerKind::App, "model", "app", A);
    let volume = |image_id: &str| of(ContainerKind::Volume, "volume/model", "reg.io/model:1", image_id);
    let app_digest = format!(r#""docker.io/library/app":"{A}""#);
    // Without a digest yet, as for a container.
    let view = pod(vec![app.clone(), volume("")]);
    let collapsed = collapse(view, Counting::All, &[]);
    assert_eq!(*collapsed.skipped, [(ContainerSkip::NotStarted, 1)]);
    let both = pod(vec![app.clone(), volume(&format!("reg.io/model@sha256:{B}"))]);
    let known = collapse(both, Counting::All, &[]);
    for collapsed in [&known, &collapse(pod(vec![app, volume("")]), Counting::All, &known.containers)] {
        let digests = serde_json::to_string(&collapsed.workload.as_ref().unwrap().digests).unwrap();
        assert_eq!(digests, format!(r#"{{{app_digest},"reg.io/model:1":"{B}"}}"#));
        assert_eq!(*collapsed.skipped, []);
    }
}

#[test]
fn pod_is_skipped_with_a_reason() {
    let ok = container("a", A);
    let sha512 = container("a", &format!("a@sha512:{A}{A}"));
    let waiting = container("a", "");
    for (view, reason) in [
        (PodView { phase: Phase::from_status("Succeeded"), ..pod(vec![ok.clone()]) }, PodSkip::Ended),
        (PodView { phase: Phase::from_status("Failed"), ..pod(vec![ok.clone()]) }, PodSkip::Ended),
        (pod(vec![]), PodSkip::NotStarted),
        (pod(vec![waiting.clone()]), PodSkip::NotStarted),
        (pod(vec![waiting.clone(), sha512.clone()]), PodSkip::NoDigest),
        (PodView { name: String::new(), ..pod(vec![ok.clone()]) }, PodSkip::Unreadable),
        (PodView { namespace: String::new(), ..pod(vec![ok.clone()]) }, PodSkip::Unreadable),
        (PodView { created_at: None, ..pod(vec![ok.clone()]) }, PodSkip::Unreadable),
    ] {
        assert_eq!(collapse(view, Counting::All, &[]).workload, Err(reason));
    }
}

#[test]
fn pod_is_reported_in_every_other_phase() {
    for phase in ["Pending", "Running", "Unknown", "", "SomethingNew"] {
        let view = PodView { phase: Phase::from_status(phase), ..pod(vec![container("a", A)]) };
        assert!(collapse(view, Counting::All, &[]).workload.is_ok(), "{phase}");
    }
}

#[test]
fn skipped_containers_and_config_digests_are_counted() {
    let collapsed = collapse(
        pod(vec![
            container("a", A),
            container("b", ""),
            container("c", "junk"),
            container("d", "d@sha512:00"),
        ]),
        Counting::All,
        &[],
    );
    assert_eq!(collapsed.config_digests(), 1);
    assert_eq!(
        *collapsed.skipped,
        [(ContainerSkip::NotStarted, 1), (ContainerSkip::OtherAlgorithm, 1), (ContainerSkip::NoDigest, 1)]
    );
    assert!(collapsed.workload.is_ok());
}

#[test]
fn container_keeps_its_digest_until_it_has_another() {
    let named = |name: &str, image_id: &str| ContainerView { name: name.into(), ..container(name, image_id) };
    let known = collapse(pod(vec![named("a", A), named("b", B)]), Counting::All, &[]);
    let [a, b] = [("docker.io/library/a", A), ("docker.io/library/b", B)];
    for (containers, digests, skipped) in [
        (vec![named("a", ""), named("b", "")], vec![a, b], &[][..]),
        (vec![named("a", "")], vec![a, b], &[]),
        (vec![], vec![a, b], &[]),
        (vec![named("b", A)], vec![a, (b.0, A)], &[]),
        // The replacement has no known digest: the old digest is kept and the skip is counted.
        (vec![named("a", "junk"), named("b", B)], vec![a, b], &[(ContainerSkip::NoDigest, 1)]),
        (vec![named("a", A), named("c", "")], vec![a, b], &[(ContainerSkip::NotStarted, 1)]),
    ] {
        let collapsed = collapse(pod(containers), Counting::All, &known.containers);
        let workload = collapsed.workload.unwrap();
        let kept: Vec<_> = workload.digests.iter().map(|(name, digest)| (name, digest.to_string())).collect();
        let digests: Vec<_> = digests.into_iter().map(|(name, digest)| (name, digest.to_owned())).collect();
        assert_eq!(kept, digests);
        assert_eq!(*collapsed.skipped, *skipped);
    }
}

/// Names and image IDs at the edge of the grammar, and arbitrary text.
fn any_text() -> impl Strategy<Value = String> {
    let hex = prop_oneof![Just(A.to_owned()), Just(B.to_owned()), "[0-9a-fA-F]{60,66}"];
    let prefix = prop_oneof![
        Just(""),
        Just("sha256:"),
        Just("docker://sha256:"),
        Just("docker-pullable://r:5/a@sha256:"),
        Just("a@sha512:"),
        Just("a@sha256:"),
        Just("r.io/m@sha256:"),
        Just("@"),
        Just("://"),
    ];
    prop_oneof![
        3 => (prefix, hex).prop_map(|(prefix, hex)| format!("{prefix}{hex}")),
        2 => prop_oneof![Just("nginx"), Just("r.io/m:1"), Just("r.io/m"), Just("")].prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn any_container() -> impl Strategy<Value = ContainerView> {
    let kind = prop_oneof![Just(ContainerKind::App), Just(ContainerKind::Init), Just(ContainerKind::Volume)];
    (kind, any_text(), any_text(), any_text(), any_text()).prop_map(
        |(kind, name, image, image_id, spec_image)| ContainerView { kind, name, image, image_id, spec_image },
    )
}

proptest! {
    #[test]
    fn arbitrary_pod_does_not_panic_and_keeps_every_digest(
        containers in proptest::collection::vec(any_container(), 0..6),
        name in any::<String>(),
        owner in any::<Option<String>>(),
    ) {
        let owners = vec![OwnerReference {
            name: owner.map(Into::into), api_version: None, kind: None, uid: None,
            controller: None, block_owner_deletion: None,
        }; 30];
        let wanted: BTreeSet<_> =
            containers.iter().filter_map(|c| image_id::parse(&c.image_id).ok()).map(|id| id.digest).collect();
        let view = PodView { name, owners, ..pod(containers) };
        match collapse(view, Counting::All, &[]).workload {
            Ok(workload) => {
                let kept: BTreeSet<_> = workload.digests.iter().map(|(_, digest)| digest).collect();
                prop_assert_eq!(kept, wanted);
                let json = serde_json::to_value(&workload.digests).unwrap();
                for digest in json.as_object().unwrap().values() {
                    let digest = digest.as_str().unwrap();
                    prop_assert!(digest.len() == 64 && digest.bytes().all(|b| b"0123456789abcdef".contains(&b)));
                }
            }
            Err(PodSkip::Unreadable) => {}
            Err(_) => prop_assert!(wanted.is_empty()),
        }
    }

    #[test]
    fn order_of_containers_does_not_matter(
        containers in proptest::collection::vec(any_container(), 0..6),
        seed in any::<prop::sample::Index>(),
    ) {
        let mut turned = containers.clone();
        turned.reverse();
        if !turned.is_empty() {
            let by = seed.index(turned.len());
            turned.rotate_left(by);
        }
        prop_assert_eq!(
            collapse(pod(containers), Counting::All, &[]).workload,
            collapse(pod(turned), Counting::All, &[]).workload
        );
    }
}
