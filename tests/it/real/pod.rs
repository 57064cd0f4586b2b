//! A builder of pods that no scheduler binds, with an explicit status.

use serde_json::{Value, json};

/// A pod with one container.
#[derive(Clone)]
pub struct Pod {
    name: String,
    image: String,
    digest: Option<char>,
    phase: &'static str,
    owners: Vec<Value>,
}

/// A running pod with this image, and a digest of repeated digits.
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

    /// The image is still being pulled.
    pub fn pulling(mut self) -> Self {
        (self.phase, self.digest) = ("Pending", None);
        self
    }

    /// Adds an existing object as owner; the garbage collector removes pods whose owner is missing. The owner is not marked
    /// as controller, since a controller would count its pods.
    pub fn owner(mut self, kind: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        self.owners.push(json!({
            "apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
        }));
        self
    }

    /// The object to create.
    pub fn manifest(&self) -> Value {
        json!({
            "metadata": {"name": self.name, "ownerReferences": self.owners},
            "spec": {
                "schedulerName": "supercargo-test-none",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "app", "image": self.image}],
            },
        })
    }

    /// The status that a kubelet would set.
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
