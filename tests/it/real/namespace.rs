//! A namespace of one test: what is written there, and how it goes.

use http::Method;
use serde_json::{Value, json};

use super::{Cluster, Pod};

/// A namespace. It is removed when it is dropped, also by a test that failed.
pub struct Namespace {
    pub name: String,
    cluster: Cluster,
}

/// What a test may have made at the cluster scope, under the name of its namespace.
const CLUSTER_KINDS: [&str; 2] = [
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{}",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/{}",
];

/// What it may have put into the namespace beside pods.
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
        // No pod is admitted before its service account is there, and a controller makes it at its leisure.
        let account = json!({"metadata": {"name": "default"}});
        let path = format!("{}/serviceaccounts", namespace.path());
        let answer = cluster.ask(Method::POST, &path, Some(&account)).await;
        assert!([201, 409].contains(&answer.status), "{answer:?}");
        namespace
    }

    /// Where its core objects are.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}", self.name)
    }

    /// What the API server says of its pods, or of one.
    pub async fn get(&self, path: &str) -> Value {
        self.cluster.get(&format!("{}/{path}", self.path())).await
    }

    /// Creates an object in this collection below it.
    pub async fn create_object(&self, collection: &str, object: &Value) -> Value {
        self.cluster.create(&format!("{}/{collection}", self.path()), object).await
    }

    /// The same of another API group: `apps/v1`, `replicasets`.
    pub async fn create_in_group(&self, group: &str, collection: &str, object: &Value) -> Value {
        self.cluster.create(&format!("/apis/{group}/namespaces/{}/{collection}", self.name), object).await
    }

    /// Creates a `ReplicaSet` that wants no pods of its own.
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

    /// Creates a pod, and then has it be in the state that it names, as its kubelet would say.
    pub async fn add(&self, pod: &Pod) {
        self.create_object("pods", &pod.manifest()).await;
        self.say(pod).await;
    }

    pub async fn add_all(&self, pods: impl IntoIterator<Item = Pod>) {
        for pod in pods {
            self.add(&pod).await;
        }
    }

    /// Says the state of a pod that is there.
    pub async fn say(&self, pod: &Pod) {
        let path = format!("{}/pods/{}/status", self.path(), pod.name());
        self.cluster.ask(Method::PATCH, &path, Some(&pod.status())).await.expect(200);
    }

    /// Deletes a pod at once, as a kubelet does when its containers are gone.
    pub async fn delete(&self, pod: &str) {
        let path = format!("{}/pods/{pod}", self.path());
        let at_once = json!({"gracePeriodSeconds": 0});
        self.cluster.ask(Method::DELETE, &path, Some(&at_once)).await.expect(200);
    }

    /// Removes it, and says what is left, if anything is.
    async fn remove(&self, cluster: &Cluster) -> Result<(), String> {
        let gone = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let delete = async |path: &str| {
            let answer = cluster.ask(Method::DELETE, path, Some(&gone)).await;
            let is_gone = answer.status < 300 || answer.status == 404;
            if is_gone { Ok(()) } else { Err(format!("DELETE {path}: {answer:?}")) }
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
        // Nobody else lets go of it.
        let mut namespace = cluster.ask(Method::GET, &self.path(), None).await.json;
        namespace["spec"] = json!({"finalizers": []});
        cluster.ask(Method::PUT, &format!("{}/finalize", self.path()), Some(&namespace)).await;
        let answer = cluster.ask(Method::GET, &self.path(), None).await;
        if answer.status == 404 { Ok(()) } else { Err(format!("{} is still there: {answer:?}", self.name)) }
    }
}

/// On a thread of its own, since the test's runtime cannot wait while it drops something.
impl Drop for Namespace {
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    fn drop(&mut self) {
        let removed = std::thread::scope(|scope| {
            let remove = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async { self.remove(&self.cluster.again().await).await })
            };
            scope.spawn(remove).join().unwrap_or_else(|_| Err(format!("{} was not removed", self.name)))
        });
        match removed {
            Err(why) if std::thread::panicking() => eprintln!("{why}"),
            removed => removed.unwrap(),
        }
    }
}
