//! Whether a namespace exists: what a list of its pods does not say.

use http::StatusCode;

use super::answer::Encoding;
use super::connect::Cluster;
use super::error::{Error, Right};
use crate::domain::model::NamespaceName;

/// Whether a namespace is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// It is.
    Exists,
    /// It is not.
    Missing,
}

impl Cluster {
    /// Asks whether a namespace exists. The right to get it is enough, and a `Role` in it grants
    /// that.
    ///
    /// # Errors
    ///
    /// [`Error`] where the API server does not say.
    pub async fn namespace(&self, name: &NamespaceName) -> Result<Namespace, Error> {
        let path = format!("/api/v1/namespaces/{name}");
        let request = self.request(&path, Right::GetNamespace(name.clone()));
        match self.get(request.clone(), &path).await {
            Ok(answer) if answer.encoding != Encoding::Other => Ok(Namespace::Exists),
            Ok(_) => {
                Err(Error::Garbled { request, problem: "it is neither Kubernetes protobuf nor JSON".into() })
            }
            Err(Error::Answered { status: StatusCode::NOT_FOUND, .. }) => Ok(Namespace::Missing),
            Err(error) => Err(error),
        }
    }
}
