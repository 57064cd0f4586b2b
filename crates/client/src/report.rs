//! Operation 7: report a K8S environment.

use http::{Method, StatusCode};

use super::body::ReportBody;
use super::client::Client;
use super::error::{Error, ServiceRequest};
use model::{EnvironmentName, words};

/// The interface's response to a report without a new snapshot.
const UNCHANGED: &str = "report processed, no new snapshots to create";

/// What a report to an environment does that the service does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnknown {
    /// It is rejected.
    Reject,
    /// It creates the environment, if the token may.
    Create,
}

words! {
    /// The result of an accepted report, with the label of its metric.
    Accepted {
        /// The service created a snapshot.
        NewSnapshot "new_snapshot",
        /// The running artifacts are those of the current snapshot.
        Unchanged "unchanged",
        /// The response does not tell; the interface permits this.
        Unspecified "accepted",
    }
}

impl Client {
    /// The request of [`Client::report_k8s`].
    #[must_use]
    pub fn report_k8s_request(&self, environment: &EnvironmentName, if_unknown: IfUnknown) -> ServiceRequest {
        let mut request = self.request(Method::PUT, &["environments", environment.as_str(), "report", "K8S"]);
        if if_unknown == IfUnknown::Create {
            request.url.query_pairs_mut().append_pair("create", "true");
        }
        request
    }

    /// PUTs a report: `/environments/{org}/{env_name}/report/K8S`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] unless the response is a 2xx without a body or with JSON.
    pub async fn report_k8s(
        &self,
        environment: &EnvironmentName,
        if_unknown: IfUnknown,
        report: &impl ReportBody,
    ) -> Result<Accepted, Error> {
        let success = self.put_report(self.report_k8s_request(environment, if_unknown), report).await?;
        Ok(match (success.body.as_str(), success.status) {
            // Also with 201: the interface does not say which status it comes with.
            (Some(UNCHANGED), _) => Accepted::Unchanged,
            (_, StatusCode::CREATED) => Accepted::NewSnapshot,
            _ => Accepted::Unspecified,
        })
    }
}
