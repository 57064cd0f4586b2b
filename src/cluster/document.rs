//! A document that holds pods, in any format that serde reads: a `List`, a `PodList` or one `Pod`.
//!
//! Items are decoded one at a time, each alone, so that an odd one spoils no other. `kubectl`
//! writes keys in alphabetical order, `items` before `kind`, so what kind of list it is comes to
//! light only at the end; [`Document`] holds what is needed to judge it then.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::messages::{ListMeta, Pod};
use super::unreadable::{PodName, Unreadable};
use crate::domain::escape::Visible;

/// Takes an item's index and the pod, or why it cannot be read.
pub(super) type Each<'a> = dyn FnMut(usize, Result<Pod, Unreadable>) + 'a;

/// A part of a document, held until it is known what it is: JSON as its text, which is small and says
/// nothing of what is wrong inside, and YAML, which has no such text, as a tree.
pub(super) trait Part: DeserializeOwned {
    /// Decodes it; the error names the place in it.
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String>;
}

impl Part for Box<RawValue> {
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        let decoded = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(self.get()));
        decoded.map_err(|error| {
            let text = error.inner().to_string();
            // The line and column are those in this part, which nobody sees.
            place(error.path(), text.split(" at line ").next().unwrap_or_default())
        })
    }
}

impl Part for Value {
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_path_to_error::deserialize(self)
            .map_err(|error| place(error.path(), &error.inner().to_string()))
    }
}

fn place(path: &serde_path_to_error::Path, problem: &str) -> String {
    if path.iter().len() == 0 { format!(": {problem}") } else { format!(".{path}: {problem}") }
}

/// What a document holds beside its items.
#[derive(Debug)]
pub(super) struct Document<P> {
    kind: Option<P>,
    metadata: Option<P>,
    spec: Option<P>,
    status: Option<P>,
    message: Option<P>,
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
    #[error("it is one page of a longer list (metadata.continue); the whole list was expected")]
    OnePage,
}

/// What is left when a document is known to hold pods.
#[derive(Debug)]
pub(super) enum Pods {
    /// Its items were handed out while it was read; this is its metadata.
    List(ListMeta),
    /// It is one pod.
    One(Box<Result<Pod, Unreadable>>),
}

/// Reads a document and hands out its items as they come.
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
        foreign: None,
        unnamed: None,
    };
    from.deserialize_any(DocumentVisitor { document, each })
}

impl<P: Part> Document<P> {
    /// Judges a document that may be any of the three.
    pub(super) fn into_pods(self) -> Result<Pods, NoPods> {
        let Some(Ok(kind)) = self.kind.as_ref().map(Part::decode::<String>) else {
            return Err(NoPods::NoKind);
        };
        match kind.as_str() {
            "List" | "PodList" => match (&self.foreign, self.unnamed) {
                _ if !self.is_list => Err(NoPods::NoItems(kind)),
                (Some(Foreign { index, what }), _) => {
                    Err(NoPods::ForeignItem { index: *index, what: what.clone() })
                }
                (None, Some(index)) if kind == "List" => Err(NoPods::UnnamedItem(index)),
                _ => match self.metadata.as_ref().map(Part::decode::<Option<ListMeta>>) {
                    Some(Err(problem)) => Err(NoPods::Metadata(problem)),
                    Some(Ok(Some(metadata))) => Ok(Pods::List(metadata)),
                    Some(Ok(None)) | None => Ok(Pods::List(ListMeta::default())),
                },
            },
            "Pod" => Ok(Pods::One(Box::new(self.into_pod()))),
            "Status" => Err(NoPods::Status(match self.message.as_ref().map(Part::decode::<String>) {
                Some(Ok(message)) => message,
                _ => "without a message".to_owned(),
            })),
            _ => Err(NoPods::OtherKind(kind)),
        }
    }

    fn into_pod(self) -> Result<Pod, Unreadable> {
        let wrong = |key, problem| Unreadable {
            pod: None,
            problem: Visible(&format!("a Pod, at {key}{problem}")).to_string(),
        };
        Ok(Pod {
            metadata: part(self.metadata.as_ref()).map_err(|e| wrong("metadata", e))?,
            spec: part(self.spec.as_ref()).map_err(|e| wrong("spec", e))?,
            status: part(self.status.as_ref()).map_err(|e| wrong("status", e))?,
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

    /// What is one text is no file of pods, and may be a key: it is not shown.
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
                    self.document
                        .foreign
                        .get_or_insert(Foreign { index, what: described_item(&kind, &item) });
                }
                Ok(kind) => {
                    if kind.is_none() {
                        self.document.unnamed.get_or_insert(index);
                    }
                    (self.each)(index, decode(&item));
                }
                Err(problem) => {
                    let problem = Visible(&format!("at item{problem}")).to_string();
                    (self.each)(index, Err(Unreadable { pod: None, problem }));
                }
            }
            index += 1;
        }
        Ok(())
    }
}

/// What an item says that it is.
#[derive(Deserialize)]
pub(super) struct Kind {
    pub(super) kind: Option<String>,
}

/// By what an item is named in an error.
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

/// `a Deployment, "shop/web"`, of an item.
fn described_item<P: Part>(kind: &str, item: &P) -> String {
    let PodName { namespace, name } = name_of(item);
    format!("a {kind}, \"{namespace}/{name}\"")
}

/// Empty where there is none.
fn name_of<P: Part>(item: &P) -> PodName {
    let Name { namespace, name } = item.decode::<Named>().unwrap_or_default().metadata.unwrap_or_default();
    PodName { namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default() }
}

/// Decodes one pod; the error names the pod and the place in it.
pub(super) fn decode<P: Part>(item: &P) -> Result<Pod, Unreadable> {
    item.decode().map_err(|problem| {
        let named = described_item("Pod", item);
        let place =
            problem.strip_prefix('.').map_or_else(|| problem.clone(), |place| format!(", at {place}"));
        let problem = Visible(&format!("{named}{place}")).to_string();
        Unreadable { pod: name_of(item).known(), problem }
    })
}
