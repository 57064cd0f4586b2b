//! The messages of a pod, and its [`PodView`].

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::annotations::Annotations;
use super::{lossy_string, optional_text, text};
use crate::live::pod::{ContainerKind, ContainerView, Phase, PodView};
use model::{OwnerReference, null_is_default};

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct Pod {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cluster) metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cluster) spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cluster) status: Option<PodStatus>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cluster) struct ObjectMeta {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "text")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    #[serde(deserialize_with = "text")]
    namespace: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    #[serde(deserialize_with = "text")]
    uid: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    #[serde(deserialize_with = "text")]
    pub(in crate::cluster) resource_version: Vec<u8>,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "12")]
    annotations: Option<Annotations>,
    #[prost(message, repeated, tag = "13")]
    #[serde(deserialize_with = "null_is_default")]
    owner_references: Vec<Owner>,
}

/// `metav1.Time`: seconds of Unix time in protobuf, RFC 3339 in JSON.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// `metav1.OwnerReference`. An absent field is `None`.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Owner {
    #[prost(bytes = "vec", optional, tag = "1")]
    #[serde(deserialize_with = "optional_text")]
    kind: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    #[serde(deserialize_with = "optional_text")]
    name: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    #[serde(deserialize_with = "optional_text")]
    uid: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    #[serde(deserialize_with = "optional_text")]
    api_version: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "6")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    block_owner_deletion: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cluster) struct PodSpec {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "null_is_default")]
    volumes: Vec<Volume>,
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "null_is_default")]
    containers: Vec<Container>,
    #[prost(message, repeated, tag = "20")]
    #[serde(deserialize_with = "null_is_default")]
    init_containers: Vec<Container>,
    #[prost(message, repeated, tag = "34")]
    #[serde(deserialize_with = "null_is_default")]
    ephemeral_containers: Vec<EphemeralContainer>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct Container {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "text")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(deserialize_with = "text")]
    image: Vec<u8>,
}

/// The source is a nested message in protobuf, and inlined in JSON.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(from = "InlinedVolume")]
struct Volume {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    source: Option<VolumeSource>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct VolumeSource {
    #[prost(message, optional, tag = "30")]
    image: Option<ImageVolumeSource>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct ImageVolumeSource {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "text")]
    reference: Vec<u8>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InlinedVolume {
    #[serde(deserialize_with = "text")]
    name: Vec<u8>,
    image: Option<ImageVolumeSource>,
}

/// The common part is a nested message in protobuf, and inlined in JSON.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(transparent)]
struct EphemeralContainer {
    #[prost(message, optional, tag = "1")]
    common: Option<Container>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cluster) struct PodStatus {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "text")]
    phase: Vec<u8>,
    #[prost(message, repeated, tag = "8")]
    #[serde(deserialize_with = "null_is_default")]
    container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    #[serde(deserialize_with = "null_is_default")]
    init_container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "13")]
    #[serde(deserialize_with = "null_is_default")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "text")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    #[serde(deserialize_with = "text")]
    image: Vec<u8>,
    #[prost(bytes = "vec", tag = "7")]
    #[serde(rename = "imageID", deserialize_with = "text")]
    image_id: Vec<u8>,
    #[prost(message, repeated, tag = "12")]
    #[serde(rename = "volumeMounts", deserialize_with = "null_is_default")]
    volume_mounts: Vec<VolumeMountStatus>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeMountStatus {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "text")]
    name: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    volume_status: Option<VolumeStatus>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct VolumeStatus {
    #[prost(message, optional, tag = "1")]
    image: Option<ImageVolumeStatus>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ImageVolumeStatus {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "text")]
    image_ref: Vec<u8>,
}

impl From<Pod> for PodView {
    fn from(pod: Pod) -> Self {
        let metadata = pod.metadata.unwrap_or_default();
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let phase = Phase::from_status(&lossy_string(status.phase));
        let ephemeral = spec.ephemeral_containers.into_iter().filter_map(|c| c.common);
        // Names are unique across the three lists (Kubernetes documentation, "Pod v1 core").
        let mut specified: Vec<Container> =
            spec.containers.into_iter().chain(spec.init_containers).chain(ephemeral).collect();
        specified.sort_by(|one, other| one.name.cmp(&other.name));
        let mut image_of = |name: &[u8]| {
            let at = specified.partition_point(|container| *container.name < *name);
            let found = specified.get_mut(at).filter(|container| container.name == name);
            found.map_or_else(String::new, |container| lossy_string(std::mem::take(&mut container.image)))
        };
        let mut mounts = Vec::new();
        let mut containers: Vec<_> = [
            (ContainerKind::Init, status.init_container_statuses),
            (ContainerKind::App, status.container_statuses),
            (ContainerKind::Ephemeral, status.ephemeral_container_statuses),
        ]
        .into_iter()
        .flat_map(|(kind, statuses)| statuses.into_iter().map(move |status| (kind, status)))
        .map(|(kind, status)| {
            mounts.extend(status.volume_mounts);
            ContainerView {
                kind,
                spec_image: image_of(&status.name),
                name: lossy_string(status.name),
                image: lossy_string(status.image),
                image_id: lossy_string(status.image_id),
            }
        })
        .collect();
        containers.extend(image_volumes(spec.volumes, mounts));
        Self {
            namespace: lossy_string(metadata.namespace),
            name: lossy_string(metadata.name),
            uid: lossy_string(metadata.uid),
            // Go encodes the zero time as `null` in JSON and as an empty message in protobuf.
            created_at: metadata.creation_timestamp.map(|t| t.seconds).filter(|&seconds| seconds != 0),
            phase,
            owners: metadata.owner_references.into_iter().map(Into::into).collect(),
            containers,
            is_excluded: metadata.annotations.is_some_and(|annotations| annotations.excludes),
        }
    }
}

/// The mounted volumes with an image, each once, with the first known digest.
fn image_volumes(
    volumes: Vec<Volume>,
    mounts: Vec<VolumeMountStatus>,
) -> impl Iterator<Item = ContainerView> {
    let image = |volume: Volume| Some((volume.name, volume.source?.image?.reference));
    let mut references: BTreeMap<_, _> = volumes.into_iter().filter_map(image).collect();
    let mut mounted = BTreeMap::<_, Vec<u8>>::new();
    for VolumeMountStatus { name, volume_status } in mounts {
        let image = volume_status.and_then(|status| status.image);
        if image.is_some() || references.contains_key(&name) {
            let known = mounted.entry(name).or_default();
            if known.is_empty() {
                *known = image.unwrap_or_default().image_ref;
            }
        }
    }
    mounted.into_iter().map(move |(name, image_ref)| ContainerView {
        kind: ContainerKind::Volume,
        spec_image: lossy_string(references.remove(&name).unwrap_or_default()),
        name: format!("volume/{}", lossy_string(name)),
        image: String::new(),
        image_id: lossy_string(image_ref),
    })
}

impl From<InlinedVolume> for Volume {
    fn from(InlinedVolume { name, image }: InlinedVolume) -> Self {
        Self { name, source: image.map(|image| VolumeSource { image: Some(image) }) }
    }
}

impl From<Owner> for OwnerReference {
    fn from(owner: Owner) -> Self {
        let boxed = |text: Option<Vec<u8>>| text.map(|text| lossy_string(text).into_boxed_str());
        Self {
            api_version: boxed(owner.api_version),
            kind: boxed(owner.kind),
            name: boxed(owner.name),
            uid: boxed(owner.uid),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(|_| {
            serde::de::Error::invalid_value(
                serde::de::Unexpected::Str(&text),
                &"a time such as 2026-01-31T12:00:00Z",
            )
        })?;
        Ok(Self { seconds: time.as_second() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &str) -> ContainerStatus {
        ContainerStatus { name: name.into(), ..Default::default() }
    }

    fn specified(name: &str, image: &str) -> Container {
        Container { name: name.into(), image: image.into() }
    }

    /// About the maximum size of an event.
    #[test]
    fn each_of_300_000_statuses_gets_the_image_of_its_container_spec() {
        let names: Vec<_> = (0..300_000).map(|n| format!("{n:x}")).collect();
        let containers = names.iter().map(|name| specified(name, name)).collect();
        let container_statuses = names.iter().rev().map(|name| status(name)).collect();
        let view = PodView::from(Pod {
            spec: Some(PodSpec { containers, ..Default::default() }),
            status: Some(PodStatus { container_statuses, ..Default::default() }),
            ..Default::default()
        });
        assert_eq!(view.containers.len(), names.len());
        assert!(view.containers.iter().all(|container| container.spec_image == container.name));
    }

    #[test]
    fn duplicate_container_name_gets_the_first_image_once() {
        let spec = PodSpec {
            containers: vec![specified("b", "first"), specified("b", "second")],
            init_containers: vec![specified("b", "third"), specified("a", "init")],
            ephemeral_containers: vec![EphemeralContainer { common: Some(specified("c", "debug")) }],
            ..Default::default()
        };
        let status = PodStatus {
            init_container_statuses: vec![status("a")],
            container_statuses: vec![status("b"), status("b"), status("d")],
            ephemeral_container_statuses: vec![status("c")],
            ..Default::default()
        };
        let view = PodView::from(Pod { spec: Some(spec), status: Some(status), ..Default::default() });
        let images: Vec<_> =
            view.containers.iter().map(|c| (c.name.as_str(), c.spec_image.as_str())).collect();
        assert_eq!(images, [("a", "init"), ("b", "first"), ("b", ""), ("d", ""), ("c", "debug")]);
    }

    #[test]
    fn image_of_a_volume_is_read_once_from_json_too() {
        let mount =
            |name, status| serde_json::json!({"name": name, "mountPath": "/m", "volumeStatus": status});
        let digest = serde_json::json!({"image": {"imageRef": "reg.io/model@sha256:1"}});
        let image = |name| serde_json::json!({"name": name, "image": {"reference": "reg.io/model:1"}});
        let pod = serde_json::json!({
            "spec": {"volumes": [image("model"), image("pulled"), image("unmounted"), {"name": "tmp", "emptyDir": {}}]},
            "status": {"containerStatuses": [
                {"name": "a", "volumeMounts": [mount("model", ().into()), mount("tmp", ().into())]},
                {"name": "model", "volumeMounts": [mount("model", digest), mount("pulled", ().into())]},
                {"name": "c", "volumeMounts": null},
            ]},
        });
        let view = PodView::from(serde_json::from_value::<Pod>(pod).unwrap());
        let volume = |name: &str, image_id: &str| ContainerView {
            kind: ContainerKind::Volume,
            name: format!("volume/{name}"),
            image: String::new(),
            image_id: image_id.to_owned(),
            spec_image: "reg.io/model:1".to_owned(),
        };
        assert_eq!(view.containers[3..], [volume("model", "reg.io/model@sha256:1"), volume("pulled", "")]);
    }
}
