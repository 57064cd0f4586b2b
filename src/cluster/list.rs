//! A list of pods from an API server: the driver of `domain::paging`.
//!
//! Pages are decoded as they arrive, one pod in memory at a time.

use http::StatusCode;
use serde_json::value::RawValue;

use super::answer::Encoding;
use super::connect::{Answer, Cluster};
use super::document::Pods;
use super::error::{Error, Request, Right};
use super::protobuf::PodListReader;
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
    /// A pod that cannot be read, and why.
    Unreadable(String),
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
        let path = match namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
            None => "/api/v1/pods".to_owned(),
        };
        let request = self.request(&path, Right::ListPods(namespace.cloned()));
        let mut paging = Paging::default();
        let mut ask = paging.first();
        loop {
            let answer = match read(self, &request, &format!("{path}{}", query(&ask)), &mut each).await {
                Ok(token) => paging::Answer::Read(token),
                Err(Error::Answered { status: StatusCode::GONE, .. }) if ask != Ask::Whole => {
                    paging::Answer::Expired
                }
                Err(error) => return Err(error),
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

/// Without a resourceVersion a list is consistent (Kubernetes documentation, "Kubernetes API
/// Concepts", Resource versions).
fn query(ask: &Ask) -> String {
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

/// Reads one answer to its end: the continue token in it.
async fn read(
    cluster: &Cluster,
    request: &Request,
    path_and_query: &str,
    each: &mut impl FnMut(Listed),
) -> Result<String, Error> {
    let Answer { encoding, mut body } = cluster.get(request.clone(), path_and_query).await?;
    let garbled = |problem: String| Error::Garbled { request: request.clone(), problem };
    match encoding {
        Encoding::Protobuf => {
            let mut reader = PodListReader::default();
            while let Some(frame) = cluster.frame(request, &mut body).await? {
                let fed = reader.feed(&frame, |pod| each(listed(pod.map_err(|e| e.to_string()))));
                fed.map_err(|e| garbled(e.to_string()))?;
            }
            reader.finish().map(|metadata| metadata.continue_token).map_err(|e| garbled(e.to_string()))
        }
        Encoding::Json => {
            let mut json = Vec::new();
            while let Some(frame) = cluster.frame(request, &mut body).await? {
                json.extend_from_slice(&frame);
                if json.len() > MOST_JSON_BYTES {
                    return Err(garbled(format!("it is JSON of more than {MOST_JSON_BYTES} bytes")));
                }
            }
            let mut json = serde_json::Deserializer::from_slice(&json);
            let read = document::read::<Box<RawValue>, _>(&mut json, &mut |_, pod| each(listed(pod)));
            let document = read.and_then(|document| json.end().map(|()| document));
            match document.map_err(|e| garbled(e.to_string()))?.into_pods() {
                Ok(Pods::List(token)) => Ok(token),
                Ok(Pods::One(_)) => Err(garbled("it is a Pod".to_owned())),
                Err(problem) => Err(garbled(problem.to_string())),
            }
        }
        Encoding::Other => {
            let start = cluster.frame(request, &mut body).await?.unwrap_or_default();
            let start = super::answer::message(Encoding::Other, &start);
            Err(garbled(format!("it is neither Kubernetes protobuf nor JSON, and begins with \"{start}\"")))
        }
    }
}

fn listed(pod: Result<messages::Pod, String>) -> Listed {
    match pod {
        Ok(pod) => Listed::Pod(pod.into()),
        Err(problem) => Listed::Unreadable(problem),
    }
}
