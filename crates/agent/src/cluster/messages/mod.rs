//! The Kubernetes messages, reduced to the fields that are used.
//!
//! Field numbers: `k8s.io/api/core/v1/generated.proto` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`. Other fields are skipped without allocation.
//! Protobuf, JSON and YAML decode to the same types, which convert to the views of `live`.

mod annotations;
mod pod;

use std::collections::HashMap;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};

pub(super) use self::pod::Pod;
use crate::live::labels::NamespaceView;
use model::null_is_default;

/// `metav1.PartialObjectMetadata` of a namespace.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct Namespace {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<NamespaceMeta>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NamespaceMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "5")]
    pub(super) uid: String,
    #[prost(string, tag = "6")]
    pub(super) resource_version: String,
    #[prost(map = "string, string", tag = "11")]
    #[serde(deserialize_with = "null_is_default")]
    labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct ListMeta {
    #[prost(string, tag = "2")]
    #[serde(rename = "resourceVersion", deserialize_with = "null_is_default")]
    pub(super) resource_version: String,
    #[prost(string, tag = "3")]
    #[serde(rename = "continue", deserialize_with = "null_is_default")]
    pub(super) continue_token: String,
}

/// `runtime.TypeMeta`, in the envelope of every protobuf response.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TypeMeta {
    #[prost(string, tag = "2")]
    pub(super) kind: String,
}

/// `runtime.Unknown`: the envelope, after the magic `k8s\0`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub(super) type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) raw: Bytes,
}

/// `metav1.Status`: an error of an API server.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    #[prost(string, tag = "3")]
    #[serde(deserialize_with = "null_is_default")]
    pub(super) message: String,
    #[prost(string, tag = "4")]
    #[serde(deserialize_with = "null_is_default")]
    pub(super) reason: String,
    #[prost(message, optional, tag = "5")]
    pub(super) details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    #[serde(deserialize_with = "null_is_default")]
    pub(super) code: i32,
}

/// `metav1.StatusDetails`.
#[derive(Clone, Copy, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StatusDetails {
    #[prost(int32, tag = "5")]
    #[serde(deserialize_with = "null_is_default")]
    pub(super) retry_after_seconds: i32,
}

/// `metav1.WatchEvent`: a frame of a watch in protobuf.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchFrame {
    #[prost(string, tag = "1")]
    pub(super) r#type: String,
    #[prost(message, optional, tag = "2")]
    pub(super) object: Option<RawExtension>,
}

/// `runtime.RawExtension`, which contains another envelope.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) raw: Bytes,
}

/// The object of a bookmark. Only bookmarks decode annotations, because those of pods can be large.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct Bookmark {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<BookmarkMeta>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct BookmarkMeta {
    #[prost(string, tag = "6")]
    #[serde(deserialize_with = "null_is_default")]
    pub(super) resource_version: String,
    #[prost(map = "string, string", tag = "12")]
    #[serde(deserialize_with = "null_is_default")]
    pub(super) annotations: HashMap<String, String>,
}

/// The name of an otherwise unreadable pod.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NamedOnly {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<NameMeta>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NameMeta {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) namespace: Vec<u8>,
}

impl From<Namespace> for NamespaceView {
    fn from(namespace: Namespace) -> Self {
        let NamespaceMeta { name, labels, .. } = namespace.metadata.unwrap_or_default();
        Self { name, labels }
    }
}

/// Decodes a string as bytes.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    optional_text(from).map(Option::unwrap_or_default)
}

/// Decodes a string as bytes; `None` if it is absent.
fn optional_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(String::into_bytes))
}

/// Replaces invalid UTF-8 by U+FFFD, as API servers do in JSON. A client can store invalid UTF-8 in a pod by
/// protobuf, and must not be able to hide the pod that way.
pub(super) fn lossy_string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
