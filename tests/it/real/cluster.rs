//! The API server that `SUPERCARGO_TEST_KUBECONFIG` names: JSON requests, and kubeconfigs. Imports nothing of the
//! program.

use std::path::{Path, PathBuf};

use http::Method;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::real::Namespace;

/// The variable that names the cluster.
const VARIABLE: &str = "SUPERCARGO_TEST_KUBECONFIG";

/// A cluster, with permission for everything.
#[derive(Clone)]
pub struct Cluster {
    kubeconfig: Kubeconfig,
    client: kube::Client,
}

/// A response of the API server.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub json: Value,
}

/// Path of the kubeconfig that the variable names.
pub fn kubeconfig_path(variable: Option<String>) -> Result<PathBuf, String> {
    let path = variable.filter(|path| !path.is_empty()).map(PathBuf::from).ok_or_else(|| {
        format!(
            "{VARIABLE} is not set: this test needs a cluster; set the variable to a kubeconfig with permission \
             to create namespaces (see docs/reference/testing.md)"
        )
    })?;
    // Relative paths are relative to the root of the package, not to cargo's working directory.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{VARIABLE} names {}, which is not a file", path.display()))
    }
}

impl Cluster {
    /// The cluster that the variable names.
    pub async fn from_variable() -> Self {
        let path = kubeconfig_path(std::env::var(VARIABLE).ok()).unwrap_or_else(|error| panic!("{error}"));
        Self::from_kubeconfig(Kubeconfig::read_from(path).unwrap()).await
    }

    /// The cluster of a kubeconfig. The client lives as long as the current runtime.
    pub async fn from_kubeconfig(kubeconfig: Kubeconfig) -> Self {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await.unwrap();
        Self { kubeconfig, client: kube::Client::try_from(config).unwrap() }
    }

    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// A new client for the same cluster, for another runtime.
    pub async fn reconnect(&self) -> Self {
        Self::from_kubeconfig(self.kubeconfig.clone()).await
    }

    /// The kubeconfig that the variable names.
    pub fn kubeconfig(&self) -> String {
        serde_json::to_string(&self.kubeconfig).unwrap()
    }

    /// A kubeconfig with this token instead of the configured user.
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        let mut kubeconfig = serde_json::to_value(&self.kubeconfig).unwrap();
        for user in kubeconfig["users"].as_array_mut().unwrap() {
            user["user"] = json!({ "token": token });
        }
        kubeconfig.to_string()
    }

    pub async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let is_patch = method == Method::PATCH;
        let content_type = if is_patch { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json")
            .header("content-type", content_type)
            .body(Body::from(body))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        // Proxies and overloaded servers may respond with plain text.
        let text = |_| Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Response { status, json: serde_json::from_slice(&bytes).unwrap_or_else(text) }
    }

    pub async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, None).await.expect(200)
    }

    /// Creates an object and returns it.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        self.request(Method::POST, path, Some(object)).await.expect(201)
    }

    /// Creates a namespace for one test.
    pub async fn namespace(&self) -> Namespace {
        Namespace::create(self).await
    }

    /// Whether controllers run, which create service accounts and empty deleted namespaces. An API server alone has none.
    pub async fn has_controllers(&self) -> bool {
        let path = "/api/v1/namespaces/kube-system/serviceaccounts/default";
        self.request(Method::GET, path, None).await.status == 200
    }

    /// Whether the API server supports streaming lists. Others reject them, or treat them as watches.
    pub async fn can_stream(&self, namespace: &Namespace) -> bool {
        let path = format!(
            "{}/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true\
             &resourceVersionMatch=NotOlderThan&timeoutSeconds=2",
            namespace.path()
        );
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let response = self.client.send(request).await.unwrap();
        let is_accepted = response.status().is_success();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        is_accepted && String::from_utf8_lossy(&bytes).contains("k8s.io/initial-events-end")
    }
}

impl Response {
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }
}
