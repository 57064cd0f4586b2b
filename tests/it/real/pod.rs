//! Pods as a test writes them: bound to no node, wanted by no scheduler, and in the state that it names.

use serde_json::{Value, json};

/// A pod of one container.
#[derive(Clone)]
pub struct Pod {
    name: String,
    image: String,
    digest: Option<char>,
    phase: &'static str,
    owners: Vec<Value>,
}

/// One that runs this image; its digest is all this digit.
pub fn pod(name: &str, image: &str, digit: char) -> Pod {
    let image = format!("registry.example.com/{image}");
    Pod { name: name.to_owned(), image, digest: Some(digit), phase: "Running", owners: vec![] }
}

impl Pod {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn succeeded(mut self) -> Self {
        self.phase = "Succeeded";
        self
    }

    /// One whose image is still being pulled.
    pub fn pulling(mut self) -> Self {
        (self.phase, self.digest) = ("Pending", None);
        self
    }

    /// Owned by an object that is there: what nobody owns any more, a garbage collector takes away. The
    /// owner is no controller, or the cluster's own would count its pods.
    pub fn owner(mut self, kind: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        self.owners.push(json!({
            "apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
        }));
        self
    }

    /// What is created.
    pub fn manifest(&self) -> Value {
        json!({
            "metadata": {"name": self.name, "ownerReferences": self.owners},
            "spec": {
                "schedulerName": "supercargo-test-nobody",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "app", "image": self.image}],
            },
        })
    }

    /// What a kubelet says of it then.
    pub fn status(&self) -> Value {
        let at = "2026-01-01T00:00:00Z";
        let state = match self.phase {
            "Running" => json!({"running": {"startedAt": at}}),
            "Pending" => json!({"waiting": {"reason": "ContainerCreating"}}),
            _ => {
                json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}})
            }
        };
        let repository = self.image.rsplit_once(':').map_or(self.image.as_str(), |(name, _)| name);
        let digest = self.digest.map(|digit| digit.to_string().repeat(64));
        let id = digest.map_or(String::new(), |digest| format!("{repository}@sha256:{digest}"));
        json!({
            "status": {
                "phase": self.phase,
                "containerStatuses": [{
                    "name": "app", "image": self.image, "imageID": id, "restartCount": 0,
                    "ready": self.phase == "Running", "state": state,
                }],
            },
        })
    }
}
