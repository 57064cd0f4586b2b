//! Whether a namespace exists: what a list of its pods does not say.

use http::StatusCode;

use super::answer::{ACCEPT, Encoding};
use super::connect::Cluster;
use super::error::{Error, Right};
use crate::domain::confirmation::Existence;
use crate::domain::model::NamespaceName;

impl Cluster {
    /// Asks whether a namespace exists: [`Existence::Exists`] or [`Existence::Missing`]. The right to get it is enough, and a `Role` in it grants
    /// that.
    ///
    /// # Errors
    ///
    /// [`Error`] where the API server does not say.
    pub async fn namespace(&self, name: &NamespaceName) -> Result<Existence, Error> {
        let path = format!("/api/v1/namespaces/{name}");
        let request = self.request(&path, Right::GetNamespace(name.clone()));
        match self.get(request.clone(), &path, ACCEPT).await {
            Ok(answer) if answer.encoding != Encoding::Other => Ok(Existence::Exists),
            Ok(_) => {
                Err(Error::Garbled { request, problem: "it is neither Kubernetes protobuf nor JSON".into() })
            }
            Err(Error::Answered { status: StatusCode::NOT_FOUND, .. }) => Ok(Existence::Missing),
            Err(error) => Err(error),
        }
    }
}
