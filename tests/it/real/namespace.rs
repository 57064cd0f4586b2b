//! A namespace of one test, and its objects.

use http::Method;
use serde_json::{Value, json};

use crate::real::{Cluster, Pod};

/// A namespace, removed on drop, also after a failed test.
pub struct Namespace {
    pub name: String,
    cluster: Cluster,
}

/// Cluster-scoped objects that tests create with the name of the namespace.
const CLUSTER_KINDS: [&str; 2] = [
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{}",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/{}",
];

/// Namespaced objects that tests create, besides pods.
const KINDS: [&str; 4] = [
    "/apis/apps/v1/namespaces/{}/replicasets",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "/api/v1/namespaces/{}/serviceaccounts",
];

impl Namespace {
    pub async fn create(cluster: &Cluster) -> Self {
        let random = uuid::Uuid::now_v7().simple().to_string();
        let name = format!("supercargo-test-{}", &random[20..]);
        let labels = json!({"supercargo-test": "true", "pod-security.kubernetes.io/enforce": "privileged"});
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        cluster.create("/api/v1/namespaces", &namespace).await;
        let namespace = Self { name, cluster: cluster.clone() };
        // Pods are rejected without the service account, which a controller creates only later.
        let account = json!({"metadata": {"name": "default"}});
        let path = format!("{}/serviceaccounts", namespace.path());
        let response = cluster.request(Method::POST, &path, Some(&account)).await;
        assert!([201, 409].contains(&response.status), "{response:?}");
        namespace
    }

    /// The URL path of the core objects.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}", self.name)
    }

    /// Reads an object or collection below the namespace.
    pub async fn get(&self, path: &str) -> Value {
        self.cluster.get(&format!("{}/{path}", self.path())).await
    }

    /// Creates an object in this collection of the namespace.
    pub async fn create_object(&self, collection: &str, object: &Value) -> Value {
        self.cluster.create(&format!("{}/{collection}", self.path()), object).await
    }

    /// The same in another API group, for example `apps/v1`.
    pub async fn create_in_group(&self, group: &str, collection: &str, object: &Value) -> Value {
        self.cluster.create(&format!("/apis/{group}/namespaces/{}/{collection}", self.name), object).await
    }

    /// Creates a `ReplicaSet` with zero replicas.
    pub async fn replica_set(&self, name: &str) -> Value {
        let labels = json!({"supercargo-test-template": name});
        let spec = json!({
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "registry.example.com/none:1"}]},
            },
        });
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.create_in_group("apps/v1", "replicasets", &object).await
    }

    /// Creates a pod, and sets its status as a kubelet would.
    pub async fn add(&self, pod: &Pod) {
        self.create_object("pods", &pod.manifest()).await;
        self.set_status(pod).await;
    }

    pub async fn add_all(&self, pods: impl IntoIterator<Item = Pod>) {
        for pod in pods {
            self.add(&pod).await;
        }
    }

    /// Sets the status of an existing pod.
    pub async fn set_status(&self, pod: &Pod) {
        let path = format!("{}/pods/{}/status", self.path(), pod.name());
        self.cluster.request(Method::PATCH, &path, Some(&pod.status())).await.expect(200);
    }

    /// Deletes a pod without a grace period, as a kubelet does after its containers ended.
    pub async fn delete(&self, pod: &str) {
        let path = format!("{}/pods/{pod}", self.path());
        let options = json!({"gracePeriodSeconds": 0});
        self.cluster.request(Method::DELETE, &path, Some(&options)).await.expect(200);
    }

    /// Removes the namespace and its objects.
    async fn remove(&self, cluster: &Cluster) -> Result<(), String> {
        let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let delete = async |path: &str| {
            let response = cluster.request(Method::DELETE, path, Some(&options)).await;
            let is_gone = response.status < 300 || response.status == 404;
            if is_gone { Ok(()) } else { Err(format!("DELETE {path}: {response:?}")) }
        };
        for kind in CLUSTER_KINDS {
            delete(&kind.replace("{}", &self.name)).await?;
        }
        delete(&format!("{}/pods", self.path())).await?;
        let has_controllers = cluster.has_controllers().await;
        if !has_controllers {
            for kind in KINDS {
                delete(&kind.replace("{}", &self.name)).await?;
            }
        }
        delete(&self.path()).await?;
        if has_controllers {
            return Ok(());
        }
        // Without controllers, remove the finalizer.
        let mut namespace = cluster.request(Method::GET, &self.path(), None).await.json;
        namespace["spec"] = json!({"finalizers": []});
        cluster.request(Method::PUT, &format!("{}/finalize", self.path()), Some(&namespace)).await;
        let response = cluster.request(Method::GET, &self.path(), None).await;
        if response.status == 404 {
            Ok(())
        } else {
            Err(format!("{} was not removed: {response:?}", self.name))
        }
    }
}

/// On another thread, since the test's runtime cannot block during a drop.
impl Drop for Namespace {
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    fn drop(&mut self) {
        let removed = std::thread::scope(|scope| {
            let remove = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async { self.remove(&self.cluster.reconnect().await).await })
            };
            scope.spawn(remove).join().unwrap_or_else(|_| Err(format!("{} was not removed", self.name)))
        });
        match removed {
            Err(error) if std::thread::panicking() => eprintln!("{error}"),
            removed => removed.unwrap(),
        }
    }
}
