//! Decodes a document of pods in any serde format: a `List`, a `PodList` or one `Pod`.
//!
//! Called by `file` and `list`. Items are decoded one at a time, so that an invalid one does not affect
//! others. `kubectl` writes `items` before `kind`, so [`Document`] is validated at its end.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::messages::{ListMeta, Pod};
use super::unreadable::{PodName, Unreadable};
use model::escape::Escaped;

/// Callback for each item: its index, and the pod.
pub(super) type Each<'a> = dyn FnMut(usize, Result<Pod, Unreadable>) + 'a;

/// A part of a document that is decoded later: raw text for JSON, a tree for YAML.
pub(super) trait Part: DeserializeOwned {
    /// Decodes the part. Errors contain the path in it.
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String>;
}

impl Part for Box<RawValue> {
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        let decoded = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(self.get()));
        decoded.map_err(|error| {
            let text = error.inner().to_string();
            // Line and column are relative to this part, so they are removed.
            error_at(error.path(), text.split(" at line ").next().unwrap_or_default())
        })
    }
}

impl Part for Value {
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_path_to_error::deserialize(self)
            .map_err(|error| error_at(error.path(), &error.inner().to_string()))
    }
}

fn error_at(path: &serde_path_to_error::Path, problem: &str) -> String {
    if path.iter().len() == 0 { format!(": {problem}") } else { format!(".{path}: {problem}") }
}

/// The fields of a document, without its items.
#[derive(Debug)]
pub(super) struct Document<P> {
    kind: Option<P>,
    metadata: Option<P>,
    spec: Option<P>,
    status: Option<P>,
    message: Option<P>,
    /// The document has a key `items`.
    is_list: bool,
    /// The first item of another kind than Pod.
    other_item: Option<OtherItem>,
    /// The first item without a kind: valid in a `PodList`, invalid in a `List`.
    item_without_kind: Option<usize>,
}

#[derive(Debug)]
struct OtherItem {
    index: usize,
    description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("expected a List, a PodList or a Pod, got no \"kind\"")]
    NoKind,
    #[error("expected a List, a PodList or a Pod, got a {}", Escaped(.0))]
    OtherKind(String),
    #[error("expected pods, got an error of an API server: {}", Escaped(.0))]
    Status(String),
    #[error("expected \"items\" in the {0}")]
    NoItems(String),
    #[error("expected a Pod, got items[{index}]: {}", Escaped(description))]
    OtherItem { index: usize, description: String },
    #[error("invalid metadata: {}", Escaped(.0))]
    Metadata(String),
    #[error("expected \"kind\": \"Pod\" in items[{0}], got no \"kind\"")]
    ItemWithoutKind(usize),
    #[error("expected the whole list, got one page of a longer list (metadata.continue)")]
    OnePage,
}

#[derive(Debug)]
pub(super) enum Pods {
    /// The metadata of a list, whose items were passed to the callback.
    List(ListMeta),
    One(Box<Result<Pod, Unreadable>>),
}

/// Reads a document and passes each item to the callback.
pub(super) fn read<'de, P: Part, D: Deserializer<'de>>(
    from: D,
    each: &mut Each<'_>,
) -> Result<Document<P>, D::Error> {
    let document = Document {
        kind: None,
        metadata: None,
        spec: None,
        status: None,
        message: None,
        is_list: false,
        other_item: None,
        item_without_kind: None,
    };
    from.deserialize_any(DocumentVisitor { document, each })
}

impl<P: Part> Document<P> {
    /// Validates the document.
    pub(super) fn into_pods(self) -> Result<Pods, DocumentError> {
        let Some(Ok(kind)) = self.kind.as_ref().map(Part::decode::<String>) else {
            return Err(DocumentError::NoKind);
        };
        match kind.as_str() {
            "List" | "PodList" => match (&self.other_item, self.item_without_kind) {
                _ if !self.is_list => Err(DocumentError::NoItems(kind)),
                (Some(OtherItem { index, description }), _) => {
                    Err(DocumentError::OtherItem { index: *index, description: description.clone() })
                }
                (None, Some(index)) if kind == "List" => Err(DocumentError::ItemWithoutKind(index)),
                _ => match self.metadata.as_ref().map(Part::decode::<Option<ListMeta>>) {
                    Some(Err(problem)) => Err(DocumentError::Metadata(problem)),
                    Some(Ok(Some(metadata))) => Ok(Pods::List(metadata)),
                    Some(Ok(None)) | None => Ok(Pods::List(ListMeta::default())),
                },
            },
            "Pod" => Ok(Pods::One(Box::new(self.into_pod()))),
            "Status" => Err(DocumentError::Status(match self.message.as_ref().map(Part::decode::<String>) {
                Some(Ok(message)) => message,
                _ => "no message".to_owned(),
            })),
            _ => Err(DocumentError::OtherKind(kind)),
        }
    }

    fn into_pod(self) -> Result<Pod, Unreadable> {
        let unreadable = |key, problem| Unreadable {
            pod: None,
            namespace: None,
            problem: Escaped(&format!("a Pod, at {key}{problem}")).to_string(),
        };
        Ok(Pod {
            metadata: part(self.metadata.as_ref()).map_err(|e| unreadable("metadata", e))?,
            spec: part(self.spec.as_ref()).map_err(|e| unreadable("spec", e))?,
            status: part(self.status.as_ref()).map_err(|e| unreadable("status", e))?,
        })
    }
}

fn part<P: Part, T: DeserializeOwned>(part: Option<&P>) -> Result<Option<T>, String> {
    part.map_or(Ok(None), Part::decode)
}

struct DocumentVisitor<'a, 'f, P> {
    document: Document<P>,
    each: &'a mut Each<'f>,
}

impl<'de, P: Part> Visitor<'de> for DocumentVisitor<'_, '_, P> {
    type Value = Document<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a List, a PodList or a Pod")
    }

    /// The text is not quoted, because it may be a key.
    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Document<P>, E> {
        Err(E::invalid_type(Unexpected::Other("text"), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document<P>, A::Error> {
        let Self { mut document, each } = self;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "items" if document.is_list => return Err(serde::de::Error::duplicate_field("items")),
                "kind" if document.kind.is_some() => return Err(serde::de::Error::duplicate_field("kind")),
                "metadata" if document.metadata.is_some() => {
                    return Err(serde::de::Error::duplicate_field("metadata"));
                }
                "kind" => document.kind = Some(map.next_value()?),
                "metadata" => document.metadata = Some(map.next_value()?),
                "spec" => document.spec = Some(map.next_value()?),
                "status" => document.status = Some(map.next_value()?),
                "message" => document.message = Some(map.next_value()?),
                "items" => {
                    document.is_list = true;
                    map.next_value_seed(Items { document: &mut document, each })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(document)
    }
}

struct Items<'a, 'f, P> {
    document: &'a mut Document<P>,
    each: &'a mut Each<'f>,
}

impl<'de, P: Part> DeserializeSeed<'de> for Items<'_, '_, P> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, P: Part> Visitor<'de> for Items<'_, '_, P> {
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
        while let Some(item) = items.next_element::<P>()? {
            let kind = item.decode::<Kind>().map(|item| item.kind);
            match kind {
                Ok(Some(kind)) if kind != "Pod" => {
                    let description = describe(&kind, &item);
                    self.document.other_item.get_or_insert(OtherItem { index, description });
                }
                Ok(kind) => {
                    if kind.is_none() {
                        self.document.item_without_kind.get_or_insert(index);
                    }
                    (self.each)(index, decode("Pod", &item));
                }
                Err(problem) => {
                    let problem = Escaped(&format!("at item{problem}")).to_string();
                    (self.each)(index, Err(Unreadable { pod: None, namespace: None, problem }));
                }
            }
            index += 1;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
pub(super) struct Kind {
    pub(super) kind: Option<String>,
}

/// The name of an item, for errors.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    metadata: Option<Name>,
}

/// Description of an item, for example `a Deployment, "shop/web"`.
fn describe<P: Part>(kind: &str, item: &P) -> String {
    let PodName { namespace, name } = name_of(item);
    format!("a {kind}, \"{namespace}/{name}\"")
}

/// The name of an item, or empty strings.
fn name_of<P: Part>(item: &P) -> PodName {
    let Name { namespace, name } = item.decode::<Named>().unwrap_or_default().metadata.unwrap_or_default();
    PodName { namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default() }
}

/// Decodes one object. Errors contain its name and the path in it.
pub(super) fn decode<P: Part, T: DeserializeOwned>(kind: &str, item: &P) -> Result<T, Unreadable> {
    item.decode().map_err(|problem| {
        let named = describe(kind, item);
        let place =
            problem.strip_prefix('.').map_or_else(|| problem.clone(), |place| format!(", at {place}"));
        let problem = Escaped(&format!("{named}{place}")).to_string();
        Unreadable { pod: name_of(item).non_empty(), namespace: None, problem }
    })
}
