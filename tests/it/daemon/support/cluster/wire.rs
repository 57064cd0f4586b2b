//! Encodes responses like the Go encoder of Kubernetes 1.36, which writes empty fields unless they are pointers. Checked
//! against recorded responses (`tests/fixtures/README.md`).

use bytes::Bytes;

use crate::daemon::support::cluster::pod::{Container, Kind, Pod};
use crate::daemon::support::cluster::state::Namespaces;
use crate::fake::Reply;
use crate::fake::kube::PROTOBUF;
use crate::fake::pods::{self, Message};

/// The content type of a watch.
pub const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn message() -> Message {
    Message::default()
}

/// `metav1.Time`.
fn time(seconds: i64) -> Message {
    message().number(1, seconds.cast_unsigned()).number(2, 0)
}

/// Encodes a pod without its envelope.
pub fn encode(pod: &Pod, resource_version: u64) -> Bytes {
    let mut metadata = message()
        .text(1, &pod.name)
        .empty([2])
        .text(3, &pod.namespace)
        .empty([4])
        .text(5, &pod.uid)
        .text(6, &resource_version.to_string())
        .number(7, 1)
        .message(8, &time(pod.created));
    if pod.is_being_deleted {
        metadata = metadata.message(9, &time(pod.created + 60)).number(10, 30);
    }
    metadata = metadata.message(11, &message().text(1, "app").text(2, &pod.name));
    if pod.padding > 0 {
        let annotation = message().text(1, "example.com/padding").text(2, &"x".repeat(pod.padding));
        metadata = metadata.message(12, &annotation);
    }
    if pod.is_excluded {
        let annotation = message().text(1, "supercargo.dev/exclude").text(2, "true");
        metadata = metadata.message(12, &annotation);
    }
    for owner in &pod.owners {
        let api_version = if owner.kind == "Job" { "batch/v1" } else { "apps/v1" };
        let owner = message()
            .text(1, &owner.kind)
            .text(3, &owner.name)
            .text(4, "7f3e1c9a-0b1d-4c2e-9f00-5a6b7c8d9e0f")
            .text(5, api_version)
            .number(6, 1)
            .number(7, 1);
        metadata = metadata.message(13, &owner);
    }
    let pod = message().message(1, &metadata).message(2, &spec(pod)).message(3, &status(pod));
    Bytes::copy_from_slice(pod.encoded())
}

fn containers(pod: &Pod, kind: Kind) -> impl Iterator<Item = &Container> {
    pod.containers.iter().filter(move |container| container.kind == kind)
}

fn spec(pod: &Pod) -> Message {
    let container = |container: &Container| {
        message()
            .text(1, &container.name)
            .text(2, &container.image)
            .empty([5, 8])
            .text(13, "/dev/termination-log")
            .text(14, "IfNotPresent")
            .zero([16, 17, 18])
            .text(20, "File")
    };
    let mut spec = message();
    for regular in containers(pod, Kind::Regular) {
        spec = spec.message(2, &container(regular));
    }
    spec = spec.text(3, "Always").number(4, 30).text(6, "ClusterFirst").empty([8, 9]).text(10, "node-a");
    spec = spec.zero([11, 12, 13]).empty([14, 16, 17]).text(19, "default-scheduler");
    for init in containers(pod, Kind::Init) {
        spec = spec.message(20, &container(init));
    }
    spec = spec.empty([24]).zero([25]).number(30, 1).text(31, "PreemptLowerPriority");
    for ephemeral in containers(pod, Kind::Ephemeral) {
        spec = spec.message(34, &message().message(1, &container(ephemeral)).empty([2]));
    }
    spec
}

fn status(pod: &Pod) -> Message {
    let container = |container: &Container| {
        let is_running = !container.image_id.is_empty() && !pod.is_ended();
        let state = match (container.image_id.as_str(), pod.is_ended()) {
            ("", _) => message().message(1, &message().text(1, "ContainerCreating").empty([2])),
            (_, false) => message().message(2, &message().message(1, &time(pod.created + 1))),
            (_, true) => message().message(
                3,
                &message()
                    .zero([1, 2])
                    .text(3, "Completed")
                    .empty([4])
                    .message(5, &time(pod.created + 1))
                    .message(6, &time(pod.created + 2))
                    .empty([7]),
            ),
        };
        message()
            .text(1, &container.name)
            .message(2, &state)
            .empty([3])
            .number(4, u64::from(is_running))
            .zero([5])
            .text(6, &container.image)
            .text(7, &container.image_id)
            .empty([8])
            .number(9, u64::from(is_running))
    };
    let mut status = message().text(1, &pod.phase).empty([3, 4, 5, 6]);
    for regular in containers(pod, Kind::Regular) {
        status = status.message(8, &container(regular));
    }
    status = status.text(9, "BestEffort");
    for init in containers(pod, Kind::Init) {
        status = status.message(10, &container(init));
    }
    status = status.empty([11]);
    for ephemeral in containers(pod, Kind::Ephemeral) {
        status = status.message(13, &container(ephemeral));
    }
    status.empty([14]).zero([17])
}

/// The metadata of a list. `next` is the token of the next page and the number of remaining pods.
pub fn list_meta(revision: u64, next: Option<&(String, u64)>) -> Message {
    let metadata = message().empty([1]).text(2, &revision.to_string());
    match next {
        None => metadata.empty([3]),
        Some((token, remaining)) => metadata.text(3, token).number(4, *remaining),
    }
}

/// A list of encoded pods.
pub fn list<'a>(metadata: &Message, pods: impl Iterator<Item = &'a Bytes>) -> Reply {
    let list = pods.fold(message().message(1, metadata), |list, pod| list.bytes(2, pod));
    crate::fake::kube::protobuf(200, list.in_envelope("PodList"))
}

pub fn namespace(name: &str, revision: u64) -> Reply {
    let metadata = message()
        .text(1, name)
        .empty([2, 3, 4])
        .text(5, "0c558854-1f14-4c86-ac4c-3f62f048bad0")
        .text(6, &revision.to_string())
        .zero([7])
        .message(8, &time(1_795_000_000));
    let spec = message().text(1, "kubernetes");
    let namespace =
        message().message(1, &metadata).message(2, &spec).message(3, &message().text(1, "Active"));
    crate::fake::kube::protobuf(200, namespace.in_envelope("Namespace"))
}

/// The metadata of all namespaces.
pub fn namespaces(namespaces: &Namespaces, revision: u64) -> Reply {
    let metadata = namespaces.iter().map(|(name, labels)| pods::namespace(name, labels, revision));
    crate::fake::kube::protobuf(200, pods::metadata_list(metadata, revision))
}

/// A frame of a watch with the metadata of a namespace.
pub fn namespace_event(kind: &str, name: &str, labels: &[&str], revision: u64) -> Bytes {
    frame(kind, &pods::namespace(name, labels, revision).in_envelope("PartialObjectMetadata"))
}

/// A frame of a watch: event type and object in its envelope.
pub fn frame(kind: &str, envelope: &[u8]) -> Bytes {
    let event = message().text(1, kind).message(2, &message().bytes(1, envelope));
    let length = u32::try_from(event.encoded().len()).unwrap();
    [&length.to_be_bytes(), event.encoded()].concat().into()
}

/// A frame with an encoded pod.
pub fn event(kind: &str, pod: &Bytes) -> Bytes {
    let type_meta = message().text(1, "v1").text(2, "Pod");
    let unknown = message().message(1, &type_meta).bytes(2, pod).empty([3, 4]);
    frame(kind, &[b"k8s\0", unknown.encoded()].concat())
}

/// Kind of a bookmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bookmark {
    Progress,
    /// End of the initial list of a streaming list.
    InitialEventsEnd,
}

fn bookmark_metadata(revision: u64, kind: Bookmark) -> Message {
    let metadata = message().empty([1, 2, 3, 4, 5]).text(6, &revision.to_string()).zero([7]).empty([8]);
    if kind == Bookmark::InitialEventsEnd {
        return metadata.message(12, &message().text(1, "k8s.io/initial-events-end").text(2, "true"));
    }
    metadata
}

/// A bookmark of a watch for metadata.
pub fn metadata_bookmark(revision: u64, kind: Bookmark) -> Bytes {
    let object = message().message(1, &bookmark_metadata(revision, kind));
    frame("BOOKMARK", &object.in_envelope("PartialObjectMetadata"))
}

pub fn bookmark(revision: u64, kind: Bookmark) -> Bytes {
    let metadata = bookmark_metadata(revision, kind);
    let spec = message().empty([3, 6, 8, 9, 10]).zero([11, 12, 13]).empty([16, 17, 19, 24]);
    let status = message().empty([1, 3, 4, 5, 6, 9, 11, 14]).zero([17]);
    let pod = message().message(1, &metadata).message(2, &spec).message(3, &status);
    frame("BOOKMARK", &pod.in_envelope("Pod"))
}

/// A `metav1.Status` with a failure, for [`Status::reply`] or [`Status::event`].
pub struct Status {
    code: u16,
    message: String,
    reason: &'static str,
    details: Option<Message>,
    /// Continue token of a 410 for a list.
    token: String,
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reason, details: None, token: String::new() }
    }

    fn about(self, name: &str, kind: &str) -> Self {
        let details = message().text(1, name).empty([2]).text(3, kind).zero([5]).empty([6]);
        Self { details: Some(details), ..self }
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// `scope` is a namespace, or `None` for the cluster.
    pub fn forbidden(user: &str, verb: &str, resource: &str, name: &str, scope: Option<&str>) -> Self {
        let location =
            scope.map_or("at the cluster scope".to_owned(), |n| format!("in the namespace \"{n}\""));
        let object = if name.is_empty() { resource.to_owned() } else { format!("{resource} \"{name}\"") };
        let message = format!(
            "{object} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"\" {location}"
        );
        Self::new(403, "Forbidden", message).about(name, resource)
    }

    pub fn not_found(name: &str, resource: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} \"{name}\" not found")).about(name, resource)
    }

    pub fn bad_request(message: &str) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn too_old(requested: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {requested} ({oldest})"))
    }

    pub fn continue_expired(inconsistent: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
        Self { token: inconsistent, ..Self::new(410, "Expired", message) }
    }

    /// 422 for an invalid parameter of a list or watch.
    pub fn invalid(field: &str, reason: &str) -> Self {
        let text = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {reason}");
        let cause =
            message().text(1, "FieldValueForbidden").text(2, &format!("Forbidden: {reason}")).text(3, field);
        let details = message()
            .empty([1])
            .text(2, "meta.k8s.io")
            .text(3, "ListOptions")
            .message(4, &cause)
            .zero([5])
            .empty([6]);
        Self { details: Some(details), ..Self::new(422, "Invalid", text) }
    }

    pub fn no_streaming_lists() -> Self {
        Self::invalid(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        )
    }

    fn encoded(&self) -> Vec<u8> {
        let metadata = message().empty([1, 2]).text(3, &self.token);
        let mut status = message().message(1, &metadata).text(2, "Failure").text(3, &self.message);
        status = status.text(4, self.reason);
        if let Some(details) = &self.details {
            status = status.message(5, details);
        }
        status.number(6, u64::from(self.code)).in_envelope("Status")
    }

    pub fn reply(&self) -> Reply {
        Reply::Response(self.code, vec![("content-type", PROTOBUF.into())], self.encoded().into())
    }

    /// The ERROR frame of a watch.
    pub fn event(&self) -> Bytes {
        frame("ERROR", &self.encoded())
    }
}
