//! Operation 7: report a K8S environment.

use http::Method;

use super::client::Client;
use super::error::{Error, Request};
use crate::domain::live::report::Report;
use crate::domain::model::EnvironmentName;

/// What a service did with a report that it accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It made a new snapshot.
    NewSnapshot,
    /// It runs what it already knew.
    Unchanged,
    /// It did not say: the interface leaves the other outcomes open.
    Unsaid,
}

impl Client {
    /// The request that [`Client::report_k8s`] makes.
    #[must_use]
    pub fn report_k8s_request(&self, environment: &EnvironmentName) -> Request {
        let organization = self.organization().as_str();
        self.request(Method::PUT, &["environments", organization, environment.as_str(), "report", "K8S"])
    }

    /// PUTs a report: `/environments/{org}/{env_name}/report/K8S`.
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 2xx with no body or JSON.
    pub async fn report_k8s(
        &self,
        environment: &EnvironmentName,
        report: &Report,
    ) -> Result<Accepted, Error> {
        let success = self.put_report(self.report_k8s_request(environment), report).await?;
        let says = success.body.as_str().unwrap_or_default();
        Ok(if says.contains("no new snapshot") {
            Accepted::Unchanged
        } else if success.status == http::StatusCode::CREATED || says.contains("new snapshot") {
            Accepted::NewSnapshot
        } else {
            Accepted::Unsaid
        })
    }
}
