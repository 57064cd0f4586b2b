//! Entry points of `crate::fuzzing`: the parsers of the service, and a service without a listener.

#![expect(clippy::expect_used, reason = "a failure is a finding")]

use std::path::Path;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderValue, Method, Request};
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;
use url::Url;

use super::app::App;
use super::bootstrap::{self, BootstrapError};
use super::http::json;
use super::http::links::Links;
use super::http::problem::Problem;
use super::http::routes;
use super::limits::Limits;
use super::log_signer::LogSigner;
use super::maintenance::clock::Clock;
use super::operations::attest::data::AttestationData;
use crate::domain::evidence::attestation_type::AttestationType;
use crate::domain::evidence::snapshot::report::{K8sReport, NormalizedReport};
use crate::domain::model::{Fingerprint, SentAttestation};
use crate::store::{Store, Timeouts};

/// A rejected input.
#[derive(Debug)]
pub(crate) struct Rejection {
    /// The status of the response.
    pub(crate) status: u16,
    /// The error.
    pub(crate) text: String,
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self { status: problem.status().as_u16(), text: problem.text() }
    }
}

/// Reads `data_json` of one type. Returns it with its other members as JSON.
pub(crate) fn attestation<T: AttestationType>(
    bytes: &[u8],
) -> Result<(SentAttestation<T>, String), Rejection> {
    let AttestationData { sent, other, .. } = AttestationData::read(bytes)?;
    Ok((sent, other))
}

/// Reads the body of a report.
pub(crate) fn report(bytes: &[u8]) -> Result<NormalizedReport, Rejection> {
    json::read_with::<K8sReport<'_>, _>("the report", bytes, NormalizedReport::parse).map_err(Rejection::from)
}

/// Reads a bootstrap file, and the files that it refers to.
pub(crate) fn bootstrap(path: &Path) -> Result<(), BootstrapError> {
    bootstrap::read(path)
}

/// A service in memory with a report and an attestation, and an administrator's requests to it.
pub(crate) struct TestedService {
    runtime: Runtime,
    router: Router,
    session: HeaderValue,
}

const TOKEN: &str = "fuzzing";
const FINGERPRINT: &str = "d2e6651c569df157e459eed7ac3eba959f1369a8907d141d3e91675ee51373f5";

impl TestedService {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let router = runtime.block_on(router());
        let mut service = Self { runtime, router, session: HeaderValue::from_static("") };
        let report = format!(
            r#"{{"artifacts":[{{"podName":"web-1","namespace":"shop","digests":{{"shop/web:1":"{FINGERPRINT}"}},"creationTimestamp":1795257028}}]}}"#
        );
        let put = service.request(
            Method::PUT,
            "/api/v2/environments/acme/prod/report/K8S",
            &[(CONTENT_TYPE, "application/json")],
            &report,
        );
        assert_eq!(put.expect("a request").0, 201);
        let attested = format!(
            r#"{{"attestation_name":"unit-tests","junit_results":[{{"failures":0,"errors":0,"total":4}}],"artifact_fingerprint":"{FINGERPRINT}","git_commit_info":{{"sha1":"b80d913a5e7c4f2186d0c9b7e3a1f5d42c68097b","branch":"main"}},"repo_info":{{"name":"acme/cart","url":"https://github.com/acme/cart"}}}}"#
        );
        let form = format!(
            "--b\r\nContent-Disposition: form-data; name=\"data_json\"\r\n\r\n{attested}\r\n--b--\r\n"
        );
        let form_type = [(CONTENT_TYPE, "multipart/form-data; boundary=b")];
        let path = "/api/v2/attestations/acme/cart/trail/build-42/junit";
        let posted = service.request(Method::POST, path, &form_type, &form).expect("a request");
        assert_eq!(posted.0, 201, "{}", String::from_utf8_lossy(&posted.1));
        let from = [(ORIGIN, "http://127.0.0.1"), (CONTENT_TYPE, "application/x-www-form-urlencoded")];
        let signed = service.request(Method::POST, "/ui/sign-in", &from, &format!("token={TOKEN}"));
        let (status, _, cookie) = signed.expect("a request");
        assert_eq!(status, 303);
        service.session = cookie.expect("a session");
        service
    }

    /// Status and body of the response to a GET; `None` for an invalid target.
    pub(crate) fn get(&self, target: &str) -> Option<(u16, Bytes)> {
        let (status, body, _) = self.request(Method::GET, target, &[], "")?;
        Some((status, body))
    }

    fn request(
        &self,
        method: Method,
        target: &str,
        headers: &[(axum::http::HeaderName, &str)],
        body: &str,
    ) -> Option<(u16, Bytes, Option<HeaderValue>)> {
        let request = Request::builder().method(method).uri(target).header(COOKIE, &self.session);
        let request = request.header(AUTHORIZATION, format!("Bearer {TOKEN}")).header(HOST, "127.0.0.1");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
        let request = request.body(Body::from(body.to_owned())).ok()?;
        self.runtime.block_on(async {
            let Ok(answer) = self.router.clone().oneshot(request).await;
            let status = answer.status().as_u16();
            let cookie = answer.headers().get(SET_COOKIE).cloned();
            Some((status, answer.into_body().collect().await.ok()?.to_bytes(), cookie))
        })
    }
}

async fn router() -> Router {
    let store = Store::open(&"sqlite::memory:".parse().expect("a URL"), Timeouts::default())
        .await
        .expect("a database");
    let links = Links::new(Url::parse("http://127.0.0.1").expect("a URL"), false);
    let signer = LogSigner::new(&links, None);
    let app = App::new(store, &Limits::default(), Clock::default(), links, signer, vec![]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let bootstrap = format!(
        "generation: 1\norganizations:\n- name: acme\n  tokens:\n  - {{name: fuzzing, role: admin, sha256: {}}}\n  \
         flows:\n  - {{name: cart, tags: {{team: shop}}}}\n  environments:\n  - name: prod\n    policy:\n      attestations:\n      - {{flow: cart, name: unit-tests}}\n",
        Fingerprint::from_content(TOKEN.as_bytes())
    );
    std::fs::write(file.path(), bootstrap).expect("a bootstrap file");
    bootstrap::load(&app, file.path()).await.expect("a bootstrap file that can be used");
    routes::router(app)
}
