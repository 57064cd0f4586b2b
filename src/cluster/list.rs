//! The paths and queries of lists, and their answers: a page, or a whole list.
//!
//! Called by `watch`. Answers are decoded as they arrive, one pod in memory at a time.

use std::time::Duration;

use kube::client::Body;
use serde_json::value::RawValue;

use super::connect::{Answer, Cluster};
use super::document::Pods;
use super::error::{Error, Request};
use super::messages::ListMeta;
use super::protobuf::PodListReader;
use super::status::{Encoding, message};
use super::unreadable::Unreadable;
use super::{document, messages};
use crate::domain::live::pod::PodView;
use crate::domain::model::NamespaceName;

/// How many pods a page holds.
const PAGE: u32 = 500;

/// The largest page that is read as JSON, in bytes. JSON is read whole; no API server sends it that
/// can send protobuf.
const MOST_JSON_BYTES: usize = 64 * 1024 * 1024;

/// The query of a page: the first, or the one behind a continue token.
pub(super) fn page_query(token: Option<&str>) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &PAGE.to_string());
    if let Some(token) = token {
        query.append_pair("continue", token);
    }
    format!("?{}", query.finish())
}

/// Reads one answer to its end, with no longer a pause in it than this: the list's metadata.
pub(super) async fn read(
    cluster: &Cluster,
    request: &Request,
    answer: &mut Answer,
    within: Duration,
    mut each: impl FnMut(Result<PodView, Unreadable>),
) -> Result<ListMeta, Error> {
    let mut each = |pod: Result<messages::Pod, Unreadable>| each(pod.map(Into::into));
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
