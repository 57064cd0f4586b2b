//! The operations that attest: one for each type.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::attest;
use crate::domain::model::{
    CustomFields, FlowName, GenericFields, JiraFields, JunitFields, PullRequestFields, SentAttestation,
    SnykFields, SonarFields, SystemFields, TrailName,
};
use crate::service::access::{Admitted, Attest};
use crate::service::app::App;
use crate::service::http::problem::{ErrorBody, Problem};

/// Declares an operation, with its form for the OpenAPI document.
macro_rules! attest_operation {
    ($(#[$doc:meta])* $operation:ident, $form:ident, $fields:ty, $path:literal, $flow:literal, $trail:literal) => {
        /// The form, for the OpenAPI document.
        #[derive(utoipa::ToSchema)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "describes the form in the OpenAPI document")]
        pub(crate) struct $form {
            /// The attestation, a JSON object
            data_json: SentAttestation<$fields>,
            /// A file to store with the attestation
            #[schema(value_type = Option<String>, format = Binary)]
            attachment_file: Option<Vec<u8>>,
        }

        $(#[$doc])*
        #[utoipa::path(
            post,
            path = $path,
            tag = "attestations",
            params(
                ("flow_name" = inline(FlowName), Path, description = $flow),
                ("trail_name" = inline(TrailName), Path, description = $trail),
            ),
            request_body(content = $form, content_type = "multipart/form-data"),
            responses(
                (status = 201, description = "Recorded", body = String, content_type = "application/json"),
                (status = 404, description = "No such trail", body = ErrorBody),
            ),
        )]
        pub(crate) async fn $operation(
            State(app): State<App>,
            admitted: Admitted<Attest, (String, String)>,
            headers: HeaderMap,
            body: Body,
        ) -> Result<Response, Problem> {
            attest::<$fields>(&app, admitted, &headers, body).await
        }
    };
}

attest_operation! {
    /// Attest JUnit test results in a trail.
    attest_junit, JunitForm, JunitFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/junit",
    "Flow; its first attestation creates it", "Trail; its first attestation creates it"
}

attest_operation! {
    /// Attest in a trail with a verdict. Not in the interface.
    attest_generic, GenericForm, GenericFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/generic", "Flow", "Trail"
}

attest_operation! {
    /// Attest data of a type that the organization defines. Not in the interface.
    attest_custom, CustomForm, CustomFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/custom", "Flow", "Trail"
}

attest_operation! {
    /// Attest a software bill of materials or a decision. Not in the interface.
    attest_system, SystemForm, SystemFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/system", "Flow", "Trail"
}

attest_operation! {
    /// Attest the results of a vulnerability scan. Not in the interface.
    attest_snyk, SnykForm, SnykFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/snyk", "Flow", "Trail"
}

attest_operation! {
    /// Attest the issues that a commit refers to. Not in the interface.
    attest_jira, JiraForm, JiraFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/jira", "Flow", "Trail"
}

attest_operation! {
    /// Attest the result of a code analysis. Not in the interface.
    attest_sonar, SonarForm, SonarFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/sonar", "Flow", "Trail"
}

attest_operation! {
    /// Attest the pull requests of a commit. Not in the interface.
    attest_pull_request, PullRequestForm, PullRequestFields,
    "/attestations/{org}/{flow_name}/trail/{trail_name}/pull_request", "Flow", "Trail"
}
