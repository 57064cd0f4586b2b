//! Close and reopen a repository: extensions of the interface.

use http::Method;

use super::client::Client;
use super::error::Error;
use crate::domain::model::{Provider, RepositoryName};

impl Client {
    /// PUTs the state of a repository: `/repos/{org}/close/{repo_name}`, or `reopen`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] unless the response is a 2xx with JSON.
    pub async fn set_repository_closed(
        &self,
        repository: &RepositoryName,
        provider: Option<&Provider>,
        is_closed: bool,
    ) -> Result<(), Error> {
        let change = if is_closed { "close" } else { "reopen" };
        let path = ["repos", self.organization().as_str(), change, repository.as_str()];
        let mut request = self.request(Method::PUT, &path);
        if let Some(provider) = provider {
            request = request.with("provider", provider.as_str());
        }
        self.send(request).await.map(|_: serde_json::Value| ())
    }
}
