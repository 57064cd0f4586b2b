//! Generates pods in the format of `kubectl get pods -A -o json`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::data::{self, Data, Image, PODS, hash};
use super::error::Result;
use super::files::Files;

/// The pods that each environment of the history runs.
#[derive(Debug, Default)]
pub(super) struct Pods(BTreeMap<(String, String), Workload>);

/// The pods of one image in one environment: its version, and the creation time of each pod.
#[derive(Debug, Default)]
struct Workload {
    version: String,
    created: Vec<Timestamp>,
}

impl Pods {
    /// Scales an image at this time. Another version replaces all of its pods.
    pub(super) fn scale(
        &mut self,
        environment: &str,
        image: &str,
        version: &str,
        pods: usize,
        now: Timestamp,
    ) {
        let workload = self.0.entry((environment.to_owned(), image.to_owned())).or_default();
        if workload.version != version {
            *workload = Workload { version: version.to_owned(), created: Vec::new() };
        }
        workload.created.resize(pods, now);
    }

    /// The list of an environment's pods.
    pub(super) fn list(&self, data: &Data, environment: &str) -> Result<Value> {
        let mut items = Vec::new();
        for ((_, image), workload) in self.0.iter().filter(|((name, _), _)| name == environment) {
            let image = data.image(image)?;
            let created = workload.created.iter().enumerate();
            items.extend(created.map(|(n, created)| pod(environment, image, &workload.version, n, *created)));
        }
        Ok(list(&items))
    }
}

/// Writes the pods of the steps: of the cluster before and after the rollout of web:1.5.0, and of the storefront with
/// that version and with an untested one.
pub(super) fn write(data: &Data, files: &Files) -> Result<()> {
    let (web, cache, now) = (data.image("web")?, data.image("redis")?, data::now());
    let web = |environment, version| (0..2).map(move |n| pod(environment, web, version, n, now));
    let mut cluster: Value = serde_json::from_str(PODS)?;
    let is_web = |pod: &Value| pod.pointer("/metadata/labels/app").and_then(Value::as_str) == Some("web");
    if let Some(items) = cluster.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|pod| !is_web(pod));
        items.extend(web("demo", "1.5.0"));
    }
    files.write("pods.json", PODS)?;
    files.write("pods-after.json", &cluster.to_string())?;
    for (name, version) in [("storefront", "1.5.0"), ("storefront-untested", "1.6.0")] {
        let mut pods: Vec<_> = web("storefront", version).collect();
        pods.push(pod("storefront", cache, "8.2", 0, now));
        files.write(&format!("{name}.json"), &list(&pods).to_string())?;
    }
    Ok(())
}

fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// A running pod. Its name and its UID follow from the arguments.
fn pod(environment: &str, image: &Image, version: &str, number: usize, created: Timestamp) -> Value {
    let Image { name, namespace, kind, .. } = image;
    let seed = format!("{environment} {name} {version} {number} {created}");
    // A new version makes a new ReplicaSet, and each run of a CronJob a new Job.
    let (kind, owner) = match kind.as_str() {
        "Deployment" => {
            // Kubernetes writes hashes with other characters.
            let hash = hash(&format!("{name} {version}"), 9).replace(['0', '1', '2', '3', 'a', 'e'], "b");
            ("ReplicaSet", format!("{name}-{hash}"))
        }
        "Job" => ("Job", format!("{name}-{}", created.as_second() / 60)),
        kind => (kind, name.clone()),
    };
    let pod = match kind {
        "StatefulSet" | "Pod" => format!("{owner}-{number}"),
        _ => format!("{owner}-{}", hash(&seed, 5)),
    };
    let owners = json!([{
        "apiVersion": if kind == "Job" { "batch/v1" } else { "apps/v1" },
        "kind": kind, "name": owner, "uid": uid(&format!("{environment} {owner}")), "controller": true,
    }]);
    let reference = image.reference(version);
    let (repository, _) = reference.rsplit_once(':').unwrap_or((&reference, ""));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod,
            "namespace": namespace,
            "uid": uid(&seed),
            "creationTimestamp": created.to_string(),
            "ownerReferences": if kind == "Pod" { json!([]) } else { owners },
        },
        "spec": { "containers": [{ "name": name, "image": reference }] },
        "status": { "phase": "Running", "containerStatuses": [{
            "name": name,
            "image": reference,
            "imageID": format!("{repository}@sha256:{}", image.digest(version)),
        }] },
    })
}

fn uid(text: &str) -> String {
    Uuid::parse_str(&hash(text, 32)).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pods: &Value) -> Vec<String> {
        let items = pods["items"].as_array().unwrap();
        items.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn scaling_keeps_pods_and_a_new_version_replaces_them() {
        let (data, mut pods) = (Data::read().ok().unwrap(), Pods::default());
        let mut run = |version, count, seconds| {
            let now = Timestamp::from_second(seconds).unwrap();
            pods.scale("production", "checkout", version, count, now);
            [pods.list(&data, "production"), pods.list(&data, "staging")].map(|list| list.ok().unwrap())
        };
        let first = names(&run("1", 2, 60)[0]);
        let more = names(&run("1", 3, 120)[0]);
        assert_eq!((more.len(), &more[..2]), (3, &first[..]));
        assert_eq!(names(&run("1", 1, 180)[0]), first[..1]);
        let [next, staging] = run("2", 2, 240);
        assert!(names(&next).iter().all(|name| !more.contains(name)));
        assert_eq!(names(&staging), [""; 0]);
        assert_eq!(next["items"][0]["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(next["items"][0]["metadata"]["creationTimestamp"], "1970-01-01T00:04:00Z");
    }
}
