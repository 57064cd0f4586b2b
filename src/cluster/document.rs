//! A document that holds pods, in any format that serde reads: a `List`, a `PodList` or one `Pod`.
//!
//! Items are decoded one at a time, each alone, so that an odd one spoils no other. `kubectl`
//! writes keys in alphabetical order, `items` before `kind`, so what kind of list it is comes to
//! light only at the end; [`Document`] holds what is needed to judge it then.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::messages::{ListMeta, Pod};
use crate::domain::visible::Visible;

/// Takes an item's index and the pod, or why it cannot be read.
pub(super) type Each<'a> = dyn FnMut(usize, Result<Pod, String>) + 'a;

/// What a document holds beside its items.
#[derive(Debug, Default)]
pub(super) struct Document {
    kind: Option<Value>,
    metadata: Option<Value>,
    spec: Option<Value>,
    status: Option<Value>,
    message: Option<Value>,
    /// Whether there is a key `items`.
    is_list: bool,
    /// The first item that is of another kind than Pod.
    foreign: Option<Foreign>,
    /// The first item that names no kind: right in a `PodList`, wrong in a `List`.
    unnamed: Option<usize>,
}

#[derive(Debug)]
struct Foreign {
    index: usize,
    what: String,
}

/// Why a document does not hold pods.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPods {
    #[error("it has no \"kind\"; a List, a PodList or a Pod was expected")]
    NoKind,
    #[error("it is a {}; a List, a PodList or a Pod was expected", Visible(.0))]
    OtherKind(String),
    #[error("it is an error that an API server answered: {}", Visible(.0))]
    Status(String),
    #[error("it is a {0} without \"items\"")]
    NoItems(String),
    #[error("items[{index}] is {}; only pods can be reported", Visible(what))]
    ForeignItem { index: usize, what: String },
    #[error("its metadata cannot be read: {}", Visible(.0))]
    Metadata(String),
    #[error("items[{0}] has no \"kind\"; Pod was expected")]
    UnnamedItem(usize),
}

/// What is left when a document is known to hold pods.
#[derive(Debug)]
pub(super) enum Pods {
    /// Its items were handed out while it was read.
    List,
    /// It is one pod.
    One(Box<Result<Pod, String>>),
}

/// Reads a document and hands out its items as they come.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D, each: &mut Each<'_>) -> Result<Document, D::Error> {
    from.deserialize_any(DocumentVisitor { each })
}

impl Document {
    /// Judges a document that may be any of the three.
    pub(super) fn into_pods(self) -> Result<Pods, NoPods> {
        let Some(Value::String(kind)) = self.kind else { return Err(NoPods::NoKind) };
        match kind.as_str() {
            "List" | "PodList" => match (self.foreign, self.unnamed) {
                _ if !self.is_list => Err(NoPods::NoItems(kind)),
                (Some(Foreign { index, what }), _) => Err(NoPods::ForeignItem { index, what }),
                (None, Some(index)) if kind == "List" => Err(NoPods::UnnamedItem(index)),
                _ => Ok(Pods::List),
            },
            "Pod" => {
                let parts = [("metadata", self.metadata), ("spec", self.spec), ("status", self.status)];
                let pod =
                    parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
                Ok(Pods::One(Box::new(decode(Value::Object(pod)))))
            }
            "Status" => Err(NoPods::Status(match self.message {
                Some(Value::String(message)) => message,
                _ => "without a message".to_owned(),
            })),
            _ => Err(NoPods::OtherKind(kind)),
        }
    }

    /// Judges the answer to a list of pods: its continue token.
    pub(super) fn into_pod_list(mut self) -> Result<String, NoPods> {
        let metadata = self.metadata.take().unwrap_or_default();
        match self.into_pods()? {
            Pods::List => match Option::<ListMeta>::deserialize(metadata) {
                Ok(metadata) => Ok(metadata.unwrap_or_default().continue_token),
                Err(error) => Err(NoPods::Metadata(error.to_string())),
            },
            Pods::One(_) => Err(NoPods::OtherKind("Pod".into())),
        }
    }
}

struct DocumentVisitor<'a, 'f> {
    each: &'a mut Each<'f>,
}

impl<'de> Visitor<'de> for DocumentVisitor<'_, '_> {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a List, a PodList or a Pod")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => document.kind = Some(map.next_value()?),
                "metadata" => document.metadata = Some(map.next_value()?),
                "spec" => document.spec = Some(map.next_value()?),
                "status" => document.status = Some(map.next_value()?),
                "message" => document.message = Some(map.next_value()?),
                "items" => {
                    document.is_list = true;
                    map.next_value_seed(Items { document: &mut document, each: &mut *self.each })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(document)
    }
}

struct Items<'a, 'f> {
    document: &'a mut Document,
    each: &'a mut Each<'f>,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of pods")
    }

    /// Go writes an empty list as `null`.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(item) = items.next_element::<Value>()? {
            match item.get("kind").map(Value::as_str) {
                Some(Some("Pod")) => (self.each)(index, decode(item)),
                None => {
                    self.document.unnamed.get_or_insert(index);
                    (self.each)(index, decode(item));
                }
                Some(kind) => {
                    let what = described(kind.unwrap_or("thing whose kind is no text"), &item);
                    self.document.foreign.get_or_insert(Foreign { index, what });
                }
            }
            index += 1;
        }
        Ok(())
    }
}

/// `a Deployment, "shop/web"`.
fn described(kind: &str, item: &Value) -> String {
    let named = |key: &str| item.pointer(key).and_then(Value::as_str).unwrap_or_default();
    format!("a {kind}, \"{}/{}\"", named("/metadata/namespace"), named("/metadata/name"))
}

/// Decodes one pod; the error names the pod and the place in it.
fn decode(item: Value) -> Result<Pod, String> {
    let named = described("Pod", &item);
    serde_path_to_error::deserialize(item)
        .map_err(|error| Visible(&format!("{named}, at {}: {}", error.path(), error.inner())).to_string())
}
