//! Looks up whether a namespace exists, and the identity of the cluster. A list of pods cannot tell an empty namespace from
//! a missing one.

use http::StatusCode;

use super::connect::Cluster;
use super::document::Kind;
use super::error::{ClusterRequest, Error, Permission};
use super::messages::Namespace;
use super::object::ACCEPT;
use super::protobuf;
use super::status::Encoding;
use crate::live::confirmation::Existence;
use model::NamespaceName;

/// Maximum size of a response, in bytes. API servers do not store larger objects.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The namespace that exists in every cluster and is never deleted.
const SYSTEM_NAMESPACE: &str = "kube-system";

impl Cluster {
    /// Returns [`Existence::Exists`] or [`Existence::Missing`]. Requires permission to get the namespace, which
    /// a `Role` in it can grant.
    ///
    /// # Errors
    ///
    /// [`Error`] for any response other than the namespace or 404.
    pub async fn namespace(&self, name: &NamespaceName) -> Result<Existence, Error> {
        match self.get_namespace(name.as_str()).await {
            Ok((_, encoding, body)) if kind(encoding, &body).as_deref() == Some("Namespace") => {
                Ok(Existence::Exists)
            }
            Ok((request, ..)) => {
                Err(Error::UnexpectedResponse { request, problem: "expected a Namespace".into() })
            }
            Err(Error::Answered { status: StatusCode::NOT_FOUND, .. }) => Ok(Existence::Missing),
            Err(error) => Err(error),
        }
    }

    /// The UID of the namespace `kube-system`, which identifies the cluster. Requires permission to get the namespace.
    ///
    /// # Errors
    ///
    /// [`Error`] for any response other than a namespace with a UID.
    pub async fn identity(&self) -> Result<String, Error> {
        let (request, encoding, body) = self.get_namespace(SYSTEM_NAMESPACE).await?;
        let namespace: Option<Namespace> = match encoding {
            Encoding::Protobuf => protobuf::unwrap(&body),
            Encoding::Json => serde_json::from_slice(&body).ok(),
            Encoding::Other => None,
        };
        let uid = namespace.and_then(|namespace| namespace.metadata).map(|metadata| metadata.uid);
        let without_uid = || Error::UnexpectedResponse { request, problem: "expected a UID".into() };
        uid.filter(|uid| !uid.is_empty()).ok_or_else(without_uid)
    }

    /// Gets a namespace. The body may be cut off after [`MAX_BYTES`].
    async fn get_namespace(&self, name: &str) -> Result<(ClusterRequest, Encoding, Vec<u8>), Error> {
        let path = format!("/api/v1/namespaces/{name}");
        let request = self.request(&path, Permission::GetNamespace(name.to_owned()));
        let (encoding, body) = self.read(&request, &path, ACCEPT, MAX_BYTES).await?;
        Ok((request, encoding, body))
    }
}

/// The kind of the object in a response.
fn kind(encoding: Encoding, body: &[u8]) -> Option<String> {
    match encoding {
        Encoding::Protobuf => protobuf::kind(body),
        Encoding::Json => serde_json::from_slice::<Kind>(body).ok()?.kind,
        Encoding::Other => None,
    }
}
