//! Synthetic pods in the protobuf encoding of an API server.
//!
//! Written from the protobuf specification and the published field numbers of Kubernetes; shares no code with the
//! decoder.

/// A message under construction.
#[derive(Default, Clone)]
pub struct Message(Vec<u8>);

/// From already encoded fields.
impl From<Vec<u8>> for Message {
    fn from(fields: Vec<u8>) -> Self {
        Self(fields)
    }
}

impl Message {
    pub fn text(self, number: u8, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }

    pub fn message(self, number: u8, message: &Message) -> Self {
        self.bytes(number, &message.0)
    }

    pub fn number(mut self, number: u8, value: u64) -> Self {
        varint(&mut self.0, u64::from(number) << 3);
        varint(&mut self.0, value);
        self
    }

    pub fn bytes(mut self, number: u8, bytes: &[u8]) -> Self {
        varint(&mut self.0, u64::from(number) << 3 | 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds empty strings, as a Go server does for unset fields.
    pub fn empty(self, numbers: impl IntoIterator<Item = u8>) -> Self {
        numbers.into_iter().fold(self, |message, number| message.text(number, ""))
    }

    /// Adds zeros (or `false`), as a Go server does for unset fields.
    pub fn zero(self, numbers: impl IntoIterator<Item = u8>) -> Self {
        numbers.into_iter().fold(self, |message, number| message.number(number, 0))
    }

    pub fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// Wraps the message in the envelope of a response.
    pub fn in_envelope(&self, kind: &str) -> Vec<u8> {
        let version = if kind.starts_with("PartialObjectMetadata") { "meta.k8s.io/v1" } else { "v1" };
        let type_meta = Message::default().text(1, version).text(2, kind);
        let unknown = Message::default().message(1, &type_meta).message(2, self).text(3, "").text(4, "");
        [b"k8s\0", unknown.0.as_slice()].concat()
    }
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// A pod of a `ReplicaSet`, with an annotation of `padding` bytes.
pub fn pod(namespace: &str, name: &str, owner: &str, image: &str, digest: &str, padding: usize) -> Message {
    let owner = Message::default()
        .text(1, "ReplicaSet")
        .text(3, owner)
        .text(4, "7f3e1c9a-0b1d-4c2e-9f00-5a6b7c8d9e0f")
        .text(5, "apps/v1")
        .number(6, 1)
        .number(7, 1);
    let annotation = Message::default().text(1, "example.com/padding").text(2, &"x".repeat(padding));
    let metadata = Message::default()
        .text(1, name)
        .text(3, namespace)
        .text(5, "0c558854-1f14-4c86-ac4c-3f62f048bad0")
        .message(8, &Message::default().number(1, 1_795_257_028))
        .message(12, &annotation)
        .message(13, &owner);
    let container = Message::default().text(1, "app").text(2, image);
    let spec = Message::default().message(2, &container).text(10, "node-a");
    let repository = image.split(':').next().unwrap();
    let status = Message::default()
        .text(1, "app")
        .number(4, 1)
        .text(6, image)
        .text(7, &format!("{repository}@sha256:{digest}"));
    let status = Message::default().text(1, "Running").message(8, &status);
    Message::default().message(1, &metadata).message(2, &spec).message(3, &status)
}

/// A label that makes a namespace unreadable, except its name.
pub const UNREADABLE: &str = "unreadable";

/// The metadata of a namespace with labels such as `team=a`.
pub fn namespace(name: &str, labels: &[&str], resource_version: u64) -> Message {
    let uid = "0c558854-1f14-4c86-ac4c-3f62f048bad0";
    let metadata = Message::default().text(1, name).empty([2, 3, 4]).text(5, uid);
    let metadata = metadata.text(6, &resource_version.to_string()).zero([7]);
    let metadata = metadata.message(8, &Message::default().number(1, 1_795_000_000).number(2, 0));
    let own = format!("kubernetes.io/metadata.name={name}");
    let labels = labels.iter().copied().chain([own.as_str()]);
    let metadata = labels.fold(metadata, |metadata, label| {
        let (key, value) = label.split_once('=').unwrap_or((label, ""));
        let key = if key == UNREADABLE { b"\xff" } else { key.as_bytes() };
        metadata.message(11, &Message::default().bytes(1, key).text(2, value))
    });
    Message::default().message(1, &metadata)
}

/// A list response with the metadata of all namespaces.
pub fn metadata_list(namespaces: impl IntoIterator<Item = Message>, resource_version: u64) -> Vec<u8> {
    let metadata = Message::default().empty([1]).text(2, &resource_version.to_string()).empty([3]);
    let list = Message::default().message(1, &metadata);
    let list = namespaces.into_iter().fold(list, |list, namespace| list.message(2, &namespace));
    list.in_envelope("PartialObjectMetadataList")
}

/// A list response with the token of the next page.
pub fn list<'a>(pods: impl IntoIterator<Item = &'a Message>, token: &str) -> Vec<u8> {
    let metadata = Message::default().text(2, "301").text(3, token);
    let list =
        pods.into_iter().fold(Message::default().message(1, &metadata), |list, pod| list.message(2, pod));
    list.in_envelope("PodList")
}
