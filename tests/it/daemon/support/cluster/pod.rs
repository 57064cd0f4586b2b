//! A builder of pods.

use std::collections::BTreeMap;

/// A pod of a [`crate::daemon::support::cluster::Cluster`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    /// Empty until the pod is added to a cluster.
    pub uid: String,
    /// Unix seconds; zero until the pod is added to a cluster.
    pub created: i64,
    pub phase: String,
    pub owners: Vec<Owner>,
    pub containers: Vec<Container>,
    pub is_being_deleted: bool,
    /// Size of a padding annotation.
    pub padding: usize,
    /// Whether it has the annotation that excludes it.
    pub is_excluded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub kind: String,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Regular,
    Init,
    Ephemeral,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub kind: Kind,
    pub name: String,
    /// In both spec and status.
    pub image: String,
    /// `imageID` of the status; empty before the container starts.
    pub image_id: String,
}

/// 64 hexadecimal digits: a repeated digit, or a number.
pub struct Digest(pub String);

impl From<char> for Digest {
    fn from(digit: char) -> Self {
        Self(digit.to_string().repeat(64))
    }
}

impl From<usize> for Digest {
    fn from(number: usize) -> Self {
        Self(format!("{number:064x}"))
    }
}

/// A running pod without a container.
pub fn pod(namespace: &str, name: &str) -> Pod {
    Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
        created: 0,
        phase: "Running".to_owned(),
        owners: Vec::new(),
        containers: Vec::new(),
        is_being_deleted: false,
        padding: 0,
        is_excluded: false,
    }
}

impl Pod {
    /// Adds a container with this image. The image name needs a registry, so that it is reported unchanged.
    pub fn image(self, image: &str, digest: impl Into<Digest>) -> Self {
        self.container(Kind::Regular, image, &digest.into().0)
    }

    pub fn init_image(self, image: &str, digest: impl Into<Digest>) -> Self {
        self.container(Kind::Init, image, &digest.into().0)
    }

    pub fn ephemeral_image(self, image: &str, digest: impl Into<Digest>) -> Self {
        self.container(Kind::Ephemeral, image, &digest.into().0)
    }

    fn container(mut self, kind: Kind, image: &str, digest: &str) -> Self {
        let registry = image.split('/').next().unwrap();
        assert!(registry.contains('.') && registry != "docker.io", "{image} has no registry");
        assert!(!image.contains('@'), "{image} has a digest");
        let repository = image.rsplit_once(':').map_or(image, |(repository, _)| repository);
        let name = format!("c{}", self.containers.len());
        let image_id = format!("{repository}@sha256:{digest}");
        self.containers.push(Container { kind, name, image: image.to_owned(), image_id });
        self
    }

    pub fn owner(mut self, kind: &str, name: &str) -> Self {
        self.owners.push(Owner { kind: kind.to_owned(), name: name.to_owned() });
        self
    }

    pub fn uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.uid);
        self
    }

    /// Sets the creation time in Unix seconds.
    pub fn created(mut self, at: i64) -> Self {
        self.created = at;
        self
    }

    pub fn phase(mut self, phase: &str) -> Self {
        phase.clone_into(&mut self.phase);
        self
    }

    /// All containers have succeeded.
    pub fn ended(self) -> Self {
        self.phase("Succeeded")
    }

    pub fn failed(self) -> Self {
        self.phase("Failed")
    }

    /// No container has started.
    pub fn pending(self) -> Self {
        self.phase("Pending").without_image_ids()
    }

    /// Clears image IDs, as in statuses that a kubelet rebuilds after a reboot.
    pub fn without_image_ids(mut self) -> Self {
        for container in &mut self.containers {
            container.image_id.clear();
        }
        self
    }

    /// The deletion waits for a finalizer or the grace period.
    pub fn being_deleted(mut self) -> Self {
        self.is_being_deleted = true;
        self
    }

    /// Enlarges the pod by this many bytes.
    pub fn padded(mut self, bytes: usize) -> Self {
        self.padding = bytes;
        self
    }

    /// Adds or removes the annotation that excludes the pod.
    pub fn excluded(mut self, is_excluded: bool) -> Self {
        self.is_excluded = is_excluded;
        self
    }

    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Image and digest by container name, for containers with a digest.
    pub fn running(&self) -> BTreeMap<String, (String, String)> {
        let digest_of = |container: &Container| {
            let (_, digest) = container.image_id.split_once("@sha256:")?;
            Some((container.name.clone(), (container.image.clone(), digest.to_owned())))
        };
        self.containers.iter().filter_map(digest_of).collect()
    }
}
