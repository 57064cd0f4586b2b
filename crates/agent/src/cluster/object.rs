//! The kinds of objects that are listed and watched: pods, and the metadata of namespaces.
//!
//! `watch` chooses the kind; `list`, `events` and `protobuf` decode it.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::document::{self, Pods};
use super::messages::{ListMeta, Namespace, Pod, lossy_string};
use super::unreadable::Unreadable;
use crate::live::labels::NamespaceView;
use crate::live::pod::PodView;

/// Accept header: prefers protobuf.
pub(super) const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json;q=0.5";

/// An object that is listed and watched.
pub(super) trait Object: prost::Message + Default + DeserializeOwned + Into<Self::View> {
    /// Kind of the object in events.
    const KIND: &'static str;
    const LIST: &'static str;
    /// Accept header of a list.
    const ACCEPT: &'static str;
    /// Accept header of a watch.
    const ACCEPT_EVENTS: &'static str;
    /// The fields that supercargo reads.
    type View;

    /// Takes the resourceVersion, which is not part of the view.
    fn take_resource_version(&mut self) -> String;

    fn read_json(_: &[u8], _: &mut dyn FnMut(Result<Self, Unreadable>)) -> Result<ListMeta, String> {
        Err("expected Kubernetes protobuf, got JSON".to_owned())
    }
}

impl Object for Pod {
    const KIND: &'static str = "Pod";
    const LIST: &'static str = "PodList";
    const ACCEPT: &'static str = ACCEPT;
    const ACCEPT_EVENTS: &'static str =
        "application/vnd.kubernetes.protobuf;stream=watch, application/json;q=0.5";
    type View = PodView;

    fn take_resource_version(&mut self) -> String {
        let version = self.metadata.as_mut().map(|metadata| std::mem::take(&mut metadata.resource_version));
        lossy_string(version.unwrap_or_default())
    }

    fn read_json(json: &[u8], each: &mut dyn FnMut(Result<Self, Unreadable>)) -> Result<ListMeta, String> {
        let mut json = serde_json::Deserializer::from_slice(json);
        let read = document::read::<Box<RawValue>, _>(&mut json, &mut |_, pod| each(pod));
        let document = read.and_then(|document| json.end().map(|()| document)).map_err(|e| e.to_string())?;
        match document.into_pods() {
            Ok(Pods::List(metadata)) => Ok(metadata),
            Ok(Pods::One(_)) => Err("expected a list, got a Pod".to_owned()),
            Err(problem) => Err(problem.to_string()),
        }
    }
}

/// Only metadata is requested (Kubernetes documentation, "Kubernetes API Concepts", Alternate representations).
impl Object for Namespace {
    const KIND: &'static str = "PartialObjectMetadata";
    const LIST: &'static str = "PartialObjectMetadataList";
    const ACCEPT: &'static str =
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    const ACCEPT_EVENTS: &'static str =
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    type View = NamespaceView;

    fn take_resource_version(&mut self) -> String {
        let metadata = self.metadata.as_mut();
        metadata.map(|metadata| std::mem::take(&mut metadata.resource_version)).unwrap_or_default()
    }
}
