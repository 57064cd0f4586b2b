//! A list of pods from an API server: the driver of `domain::paging`.
//!
//! Pages are decoded as they arrive, one pod in memory at a time.

use std::time::Duration;

use http::StatusCode;
use kube::client::Body;
use serde_json::value::RawValue;

use super::answer::{ACCEPT, Encoding, message};
use super::connect::{Answer, Cluster};
use super::document::Pods;
use super::error::{Error, Request, Right};
use super::messages::ListMeta;
use super::protobuf::PodListReader;
use super::unreadable::Unreadable;
use super::{document, messages};
use crate::domain::model::NamespaceName;
use crate::domain::paging::{self, Ask, Paging, Step};
use crate::domain::pod::PodView;

/// How many pods a page holds.
const PAGE: u32 = 500;

/// The largest page that is read as JSON, in bytes. JSON is read whole; no API server sends it that
/// can send protobuf.
const MOST_JSON_BYTES: usize = 64 * 1024 * 1024;

/// What a list brings.
#[derive(Debug)]
pub enum Listed {
    /// A pod.
    Pod(PodView),
    /// A pod that cannot be read.
    Unreadable(Unreadable),
    /// The list begins again: what it brought so far is void.
    StartOver,
}

impl Cluster {
    /// Reads the pods of one namespace, or of the whole cluster, and hands out each as it comes.
    ///
    /// # Errors
    ///
    /// [`Error`] as soon as any part of the list fails; what was handed out until then is no
    /// complete list.
    pub async fn list_pods(
        &self,
        namespace: Option<&NamespaceName>,
        mut each: impl FnMut(Listed),
    ) -> Result<(), Error> {
        let path = path(namespace);
        let request = self.request(&path, Right::ListPods(namespace.cloned()));
        let mut paging = Paging::default();
        let mut ask = paging.first();
        loop {
            let answer = match self.page(&request, &format!("{path}{}", query(&ask)), &mut each).await {
                // It would lead here for ever.
                Ok(ListMeta { continue_token, .. }) if ask == Ask::Page(Some(continue_token.clone())) => {
                    let problem = "its continue token leads to itself".to_owned();
                    return Err(Error::Garbled { request, problem });
                }
                Ok(metadata) => paging::Answer::Read(metadata.continue_token),
                Err(Error::Answered { status: StatusCode::GONE, .. }) if ask != Ask::Whole => {
                    paging::Answer::Expired
                }
                Err(error) => return Err(self.cleaned(error)),
            };
            ask = match paging.after(answer) {
                Step::Complete => return Ok(()),
                Step::Ask(next) => next,
                Step::StartOver(next) => {
                    tracing::debug!("the continue token has expired; the list begins again");
                    each(Listed::StartOver);
                    next
                }
            };
        }
    }
}

impl Cluster {
    async fn page(
        &self,
        request: &Request,
        path_and_query: &str,
        each: &mut impl FnMut(Listed),
    ) -> Result<ListMeta, Error> {
        let mut answer = self.get(request.clone(), path_and_query, ACCEPT).await?;
        let hand_out = |pod: Result<messages::Pod, Unreadable>| {
            each(pod.map_or_else(Listed::Unreadable, |pod| Listed::Pod(pod.into())));
        };
        read(self, request, &mut answer, self.patience().frame, hand_out).await
    }
}

/// Without a resourceVersion a list is consistent (Kubernetes documentation, "Kubernetes API
/// Concepts", Resource versions).
pub(super) fn query(ask: &Ask) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    match ask {
        Ask::Whole => return String::new(),
        Ask::Page(None) => query.append_pair("limit", &PAGE.to_string()),
        Ask::Page(Some(token)) => {
            query.append_pair("limit", &PAGE.to_string()).append_pair("continue", token)
        }
    };
    format!("?{}", query.finish())
}

/// Reads one answer to its end, with no longer a pause in it than this: the list's metadata.
pub(super) async fn read(
    cluster: &Cluster,
    request: &Request,
    answer: &mut Answer,
    within: Duration,
    mut each: impl FnMut(Result<messages::Pod, Unreadable>),
) -> Result<ListMeta, Error> {
    let Answer { encoding, body } = answer;
    let garbled = |problem: String| Error::Garbled { request: request.clone(), problem };
    match encoding {
        Encoding::Protobuf => {
            let mut reader = PodListReader::default();
            while let Some(frame) = cluster.frame(request, body, within).await? {
                reader.feed(&frame, &mut each).map_err(|e| garbled(e.to_string()))?;
            }
            reader.finish().map_err(|e| garbled(e.to_string()))
        }
        Encoding::Json => {
            let mut json = Vec::new();
            while let Some(frame) = cluster.frame(request, body, within).await? {
                json.extend_from_slice(&frame);
                if json.len() > MOST_JSON_BYTES {
                    return Err(garbled(format!("it is JSON of more than {MOST_JSON_BYTES} bytes")));
                }
            }
            let mut json = serde_json::Deserializer::from_slice(&json);
            let read = document::read::<Box<RawValue>, _>(&mut json, &mut |_, pod| each(pod));
            let document = read.and_then(|document| json.end().map(|()| document));
            match document.map_err(|e| garbled(e.to_string()))?.into_pods() {
                Ok(Pods::List(metadata)) => Ok(metadata),
                Ok(Pods::One(_)) => Err(garbled("it is a Pod".to_owned())),
                Err(problem) => Err(garbled(problem.to_string())),
            }
        }
        Encoding::Other => Err(foreign(cluster, request, body, within).await),
    }
}

/// What to say of a success that is of no known encoding: how it begins.
pub(super) async fn foreign(
    cluster: &Cluster,
    request: &Request,
    body: &mut Body,
    within: Duration,
) -> Error {
    match cluster.frame(request, body, within).await {
        Ok(start) => {
            let start =
                message(Encoding::Other, &start.unwrap_or_default(), |text| cluster.without_secrets(text));
            let problem = format!("it is neither Kubernetes protobuf nor JSON, and begins with \"{start}\"");
            Error::Garbled { request: request.clone(), problem }
        }
        Err(error) => error,
    }
}

/// Where the pods of a namespace are, or all.
pub(super) fn path(namespace: Option<&NamespaceName>) -> String {
    match namespace {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        None => "/api/v1/pods".to_owned(),
    }
}
