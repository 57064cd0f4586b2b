//! The API server that the tests were given: requests in JSON, and kubeconfigs that lead there.
//!
//! Nothing here knows what the program makes of a pod.

use std::path::{Path, PathBuf};

use http::Method;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::Namespace;

/// The variable that names the cluster.
const VARIABLE: &str = "SUPERCARGO_TEST_KUBECONFIG";

/// A cluster, and the right to do everything there.
#[derive(Clone)]
pub struct Cluster {
    kubeconfig: Kubeconfig,
    client: kube::Client,
}

/// What the API server said.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub json: Value,
}

/// The kubeconfig that a variable names, or what is missing.
pub fn kubeconfig_path(variable: Option<String>) -> Result<PathBuf, String> {
    let path = variable.filter(|path| !path.is_empty()).map(PathBuf::from).ok_or_else(|| {
        format!(
            "{VARIABLE} is not set: this test needs a cluster, and the variable has to name a kubeconfig \
             of one where namespaces may be made; tests/README.md says how to get one"
        )
    })?;
    // Where a test runs is cargo's choice, and a person meant the root of the package.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if path.is_file() { Ok(path) } else { Err(format!("{VARIABLE} names {}: no file", path.display())) }
}

impl Cluster {
    /// The one that the variable names.
    pub async fn given() -> Self {
        let path = kubeconfig_path(std::env::var(VARIABLE).ok()).unwrap_or_else(|why| panic!("{why}"));
        Self::at(Kubeconfig::read_from(path).unwrap()).await
    }

    /// The one that a kubeconfig leads to. The client lives as long as the runtime that this runs on.
    pub async fn at(kubeconfig: Kubeconfig) -> Self {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await.unwrap();
        Self { kubeconfig, client: kube::Client::try_from(config).unwrap() }
    }

    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The same cluster for another runtime.
    pub async fn again(&self) -> Self {
        Self::at(self.kubeconfig.clone()).await
    }

    /// The kubeconfig that was given.
    pub fn kubeconfig(&self) -> String {
        serde_json::to_string(&self.kubeconfig).unwrap()
    }

    /// A kubeconfig with this token in place of whoever the given one is.
    pub fn kubeconfig_of(&self, token: &str) -> String {
        let mut kubeconfig = serde_json::to_value(&self.kubeconfig).unwrap();
        for user in kubeconfig["users"].as_array_mut().unwrap() {
            user["user"] = json!({ "token": token });
        }
        kubeconfig.to_string()
    }

    /// One request.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let is_patch = method == Method::PATCH;
        let kind = if is_patch { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json")
            .header("content-type", kind)
            .body(Body::from(body))
            .unwrap();
        let answer = self.client.send(request).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        // Proxies and overloaded servers say what they have to say in other words.
        let said = |_| Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Answer { status, json: serde_json::from_slice(&bytes).unwrap_or_else(said) }
    }

    pub async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, None).await.expect(200)
    }

    /// Creates an object: what became of it.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        self.ask(Method::POST, path, Some(object)).await.expect(201)
    }

    /// A namespace that nobody else uses.
    pub async fn namespace(&self) -> Namespace {
        Namespace::create(self).await
    }

    /// Whether somebody fills namespaces, and empties those that are deleted. An API server alone has
    /// nobody.
    pub async fn has_controllers(&self) -> bool {
        let path = "/api/v1/namespaces/kube-system/serviceaccounts/default";
        self.ask(Method::GET, path, None).await.status == 200
    }

    /// Whether it has streaming lists. One that has not may refuse them, or take them for watches.
    pub async fn can_stream(&self, namespace: &Namespace) -> bool {
        let path = format!(
            "{}/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true\
             &resourceVersionMatch=NotOlderThan&timeoutSeconds=2",
            namespace.path()
        );
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let is_taken = answer.status().is_success();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        is_taken && String::from_utf8_lossy(&bytes).contains("k8s.io/initial-events-end")
    }
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }
}
