//! The pods of environments that are made up, as `kubectl get pods -A -o json` would print them. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::table::Image;
use crate::domain::model::Fingerprint;

/// What runs where.
#[derive(Debug, Default)]
pub(super) struct Pods(BTreeMap<(&'static str, &'static str), Running>);

/// The pods of an image in an environment.
#[derive(Debug)]
struct Running {
    image: Image,
    version: &'static str,
    /// When each came.
    since: Vec<Timestamp>,
}

impl Pods {
    /// From now on an environment runs so many pods of a version: those of another go, and of this one no more come or
    /// go than have to.
    pub(super) fn run(
        &mut self,
        environment: &'static str,
        image: &Image,
        version: &'static str,
        pods: usize,
        now: Timestamp,
    ) {
        let new = || Running { image: image.clone(), version, since: Vec::new() };
        let running = self.0.entry((environment, image.name)).or_insert_with(new);
        if running.version != version {
            *running = new();
        }
        running.since.resize(pods, now);
    }

    /// An environment's pods.
    pub(super) fn of(&self, environment: &str) -> Value {
        let of_it = self.0.iter().filter(|((name, _), _)| *name == environment);
        let pods = of_it.flat_map(|(_, running)| {
            running.since.iter().enumerate().map(|(n, since)| running.pod(environment, n, *since))
        });
        json!({ "apiVersion": "v1", "kind": "List", "items": pods.collect::<Vec<_>>() })
    }
}

impl Running {
    fn pod(&self, environment: &str, number: usize, since: Timestamp) -> Value {
        let Self { image: Image { name, namespace, kind, .. }, version, .. } = self;
        let seed = format!("{environment} {name} {version} {number} {since}");
        // A workload is another with another version, and a Job each time.
        let (kind, owner) = match *kind {
            "Deployment" => ("ReplicaSet", format!("{name}-{}", digits(&format!("{name} {version}"), 9))),
            "Job" => (*kind, format!("{name}-{}", since.as_second() / 60)),
            _ => (*kind, (*name).to_owned()),
        };
        let pod = match kind {
            "StatefulSet" | "Pod" => format!("{owner}-{number}"),
            _ => format!("{owner}-{}", digits(&seed, 5)),
        };
        let owners = json!([{ "apiVersion": if kind == "Job" { "batch/v1" } else { "apps/v1" }, "kind": kind,
            "name": owner, "uid": uid(&format!("{environment} {owner}")), "controller": true }]);
        let reference = self.image.reference(version);
        let (repository, _) = reference.rsplit_once(':').unwrap_or((&reference, ""));
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod,
                "namespace": namespace,
                "uid": uid(&seed),
                "creationTimestamp": since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "ownerReferences": if kind == "Pod" { json!([]) } else { owners },
            },
            "spec": { "containers": [{ "name": name, "image": reference }] },
            "status": { "phase": "Running", "containerStatuses": [{
                "name": name,
                "image": reference,
                "imageID": format!("{repository}@sha256:{}", self.image.digest(version)),
            }] },
        })
    }
}

/// So many hex digits that a text alone decides.
fn digits(text: &str, many: usize) -> String {
    let mut digits = Fingerprint::of(text.as_bytes()).to_string();
    digits.truncate(many);
    digits
}

/// Digits in the groups of a UUID.
fn uid(text: &str) -> String {
    let mut uid = digits(text, 32);
    for place in [20, 16, 12, 8] {
        uid.insert(place, '-');
    }
    uid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::past::table::Table;

    fn names(pods: &Pods, environment: &str) -> Vec<String> {
        let pods = pods.of(environment);
        let items = pods["items"].as_array().unwrap();
        items.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn pods_stay_when_there_are_more_or_fewer_of_them_and_are_others_with_another_version() {
        let (table, mut pods) = (Table::read().unwrap(), Pods::default());
        let (checkout, second) = (table.image("checkout").unwrap(), Timestamp::from_second);
        pods.run("production", checkout, "1", 2, second(60).unwrap());
        let first = names(&pods, "production");
        pods.run("production", checkout, "1", 3, second(120).unwrap());
        let more = names(&pods, "production");
        assert_eq!((more.len(), &more[..2]), (3, &first[..]));
        pods.run("production", checkout, "1", 1, second(180).unwrap());
        assert_eq!(names(&pods, "production"), first[..1]);
        pods.run("production", checkout, "2", 2, second(180).unwrap());
        assert!(names(&pods, "production").iter().all(|name| !more.contains(name)));
        assert_eq!(names(&pods, "staging"), [""; 0]);
        let pod = &pods.of("production")["items"][0];
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(pod["metadata"]["creationTimestamp"], "1970-01-01T00:03:00Z");
    }
}
