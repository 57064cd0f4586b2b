//! The chart's manifests: the agent takes what they say, and asks for all that they grant and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::daemon::cluster::{Ask, Cluster, Grant, pod};
use crate::daemon::gate::Gate;
use crate::daemon::shop::without_streaming_lists;
use crate::daemon::{Starting, eventually_or};
use crate::program::{once, supercargo};

/// A verb, a resource, and a namespace, or none for all of the cluster.
type Right = (&'static str, &'static str, Option<String>);

/// The objects of a file of manifests.
fn objects(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    // A comment comes first.
    text.split("\n---\n").skip(1).map(|object| serde_saphyr::from_str(object).unwrap()).collect()
}

/// Every render of the chart.
fn renders() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut renders: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect();
    renders.sort();
    assert!(renders.len() > 10, "{renders:?}");
    renders
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// The arguments of the container of a workload: both are named as its component.
fn arguments<'a>(objects: &'a [Value], kind: &str, component: &str) -> Option<Vec<&'a str>> {
    let workload = objects.iter().find(|object| {
        object["kind"] == kind && object["metadata"]["labels"]["app.kubernetes.io/component"] == component
    })?;
    let pods = if kind == "CronJob" { &workload["spec"]["jobTemplate"]["spec"] } else { &workload["spec"] };
    let containers = pods["template"]["spec"]["containers"].as_array().unwrap();
    let container = containers.iter().find(|container| container["name"] == component)?;
    Some(texts(&container["args"]))
}

/// What the roles grant. A role in a namespace is one for that alone.
fn granted(objects: &[Value]) -> BTreeSet<Right> {
    let word = |word: &str| {
        let words = ["list", "watch", "get", "pods", "namespaces"];
        *words.iter().find(|known| **known == word).unwrap_or_else(|| panic!("no agent asks for {word}"))
    };
    let mut rights = BTreeSet::new();
    for role in objects.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole") {
        let namespace = role["metadata"]["namespace"].as_str();
        assert_eq!(role["kind"] == "Role", namespace.is_some());
        for rule in role["rules"].as_array().unwrap() {
            assert_eq!(texts(&rule["apiGroups"]), [""]);
            let resources = texts(&rule["resources"]);
            // What has a name is a namespace, and a request about it is one in it.
            let names = texts(&rule["resourceNames"]);
            assert_eq!(resources == ["namespaces"], !names.is_empty(), "{rule}");
            assert!(names.iter().all(|name| namespace.is_none_or(|namespace| namespace == *name)), "{rule}");
            let places =
                if names.is_empty() { vec![namespace] } else { names.into_iter().map(Some).collect() };
            for resource in resources {
                for verb in texts(&rule["verbs"]) {
                    for place in places.iter().copied() {
                        rights.insert((word(verb), word(resource), place.map(str::to_owned)));
                    }
                }
            }
        }
    }
    rights
}

fn asked(cluster: &Cluster) -> BTreeSet<Right> {
    let right = |ask: Ask| {
        let (verb, resource) = ask.verb_and_resource();
        (verb, resource, ask.namespace)
    };
    cluster.asked().into_iter().map(right).collect()
}

/// A cluster that allows what is granted, and in which every namespace that is named is there and empty: so
/// the agent asks for all that it ever does.
fn cluster(granted: &BTreeSet<Right>, environments: &str) -> Cluster {
    let cluster = Cluster::start();
    without_streaming_lists(&cluster);
    let environments: Value = serde_saphyr::from_str(environments).unwrap();
    for environment in environments["environments"].as_array().unwrap() {
        for name in texts(&environment["namespaces"]) {
            cluster.create_namespace(name);
        }
    }
    cluster.add(pod("elsewhere", "web").image("registry.example.com/web:1", 'a'));
    cluster.allow_only(granted.iter().cloned().map(|(verb, resource, namespace)| Grant {
        verb,
        resource,
        namespace,
    }));
    cluster
}

/// Without those that say where something lies or is served.
fn portable<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let is_of_the_pod = |argument: &str| {
        ["agent", "--once"].contains(&argument)
            || argument.starts_with("--config=")
            || argument.starts_with("--listen=")
    };
    arguments.iter().copied().filter(|argument| !is_of_the_pod(argument)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_grants_what_the_agent_asks_for_and_nothing_else() {
    let mut kinds = BTreeSet::new();
    for render in renders() {
        let objects = objects(&render);
        let granted = granted(&objects);
        // Somebody else grants it, or there is no agent.
        if granted.is_empty() {
            continue;
        }
        let is_config = |object: &&Value| {
            object["kind"] == "ConfigMap" && object["data"]["environments.yaml"].is_string()
        };
        let environments = text(&objects.iter().find(is_config).unwrap()["data"]["environments.yaml"]);
        let cluster = cluster(&granted, environments);
        let why = || format!("{}: granted {granted:#?}, asked {:#?}", render.display(), asked(&cluster));
        if let Some(arguments) = arguments(&objects, "Deployment", "agent") {
            kinds.insert("Deployment");
            let gate = Gate::alone();
            let daemon = Starting::between(&cluster, &gate)
                .config(environments)
                .args(portable(&arguments))
                .env("SUPERCARGO_POD_NAME", "supercargo-0")
                .env("SUPERCARGO_POD_UID", "8f1d4f4c-55b2-4b43-9a34-3f5e8c2f3b1a")
                .start();
            eventually_or("it asks for all", async || asked(&cluster).is_superset(&granted), why).await;
            daemon.stop().await;
        } else {
            kinds.insert("CronJob");
            let arguments = arguments(&objects, "CronJob", "agent").unwrap();
            let run = once().kubeconfig(&cluster.kubeconfig()).file("environments.yaml", environments);
            let run =
                run.args(["--dry-run", "--config", "environments.yaml"]).args(portable(&arguments)).run();
            // Its namespaces are empty.
            run.says(8, &["no pod is in the namespace"]);
        }
        assert_eq!(asked(&cluster), granted, "{}", why());
    }
    assert_eq!(kinds, ["CronJob", "Deployment"].into());
}

#[test]
fn the_service_knows_the_arguments_that_the_chart_gives_it() {
    let mut kinds = BTreeSet::new();
    for render in renders() {
        let objects = objects(&render);
        for kind in ["Deployment", "StatefulSet"] {
            if let Some(arguments) = arguments(&objects, kind, "serve") {
                kinds.insert(kind);
                // Help is what it ends with once it has read the others.
                let read = supercargo().args(arguments).args(["--help"]).run();
                assert_eq!(read.code, 0, "{}: {}", render.display(), read.stderr);
            }
        }
    }
    assert_eq!(kinds, ["Deployment", "StatefulSet"].into());
}
