//! The requests of an agent that meets each of the cases in which it asks for something else.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Need;
use crate::daemon::cluster::{Ask, Cluster, pod};
use crate::daemon::gate::Gate;
use crate::daemon::shop::without_streaming_lists;
use crate::daemon::{Starting, eventually, eventually_or};
use crate::program::once;
use crate::service::ADMIN;

/// How an agent is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct How {
    /// Without `--once`, `--config`, `--listen`, and what leads to the cluster.
    pub args: Vec<String>,
    pub is_once: bool,
    /// What `--config` names.
    pub config: Option<String>,
    pub env: Vec<(String, String)>,
}

impl How {
    pub fn config(yaml: &str) -> Self {
        Self { config: Some(yaml.to_owned()), ..Self::default() }
    }

    pub fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    /// The values of an option.
    fn given(&self, option: &str) -> Vec<&str> {
        let values = self.args.iter().zip(self.args.iter().skip(1)).filter(|(name, _)| *name == option);
        values.flat_map(|(_, value)| value.split(',')).collect()
    }

    fn environments(&self) -> Vec<Value> {
        let Some(config) = &self.config else { return Vec::new() };
        let config: Value = serde_saphyr::from_str(config).unwrap();
        config["environments"].as_array().unwrap().clone()
    }

    /// The names of its environments.
    fn names(&self) -> Vec<String> {
        let given = self.given("--environment").into_iter().map(str::to_owned);
        let listed = self.environments().into_iter().map(|e| e["name"].as_str().unwrap().to_owned());
        given.chain(listed).collect()
    }

    /// The namespaces that it names.
    fn namespaces(&self) -> BTreeSet<String> {
        let given = self.given("--namespace").into_iter().map(str::to_owned);
        let listed = self.environments().into_iter().flat_map(|environment| {
            let names = environment["namespaces"].as_array().cloned().unwrap_or_default();
            names.into_iter().map(|name| name.as_str().unwrap().to_owned())
        });
        given.chain(listed).collect()
    }

    fn args(&self) -> impl Iterator<Item = &str> {
        self.args.iter().map(String::as_str)
    }
}

/// What the namespaces that are named hold.
#[derive(Clone, Copy, PartialEq)]
enum Holding {
    Pods,
    /// No pod, so that it has to be asked whether they exist.
    Nothing,
}

/// Every request of such an agent.
pub async fn asked(how: &How) -> BTreeSet<Need> {
    let (streamed, paged) =
        tokio::join!(asked_of(how, Holding::Pods, true), asked_of(how, Holding::Pods, false));
    let mut needs: BTreeSet<_> = streamed.into_iter().chain(paged).collect();
    // Only namespaces that are named are looked up.
    if !how.namespaces().is_empty() {
        let (streamed, paged) =
            tokio::join!(asked_of(how, Holding::Nothing, true), asked_of(how, Holding::Nothing, false));
        needs.extend(streamed.into_iter().chain(paged));
    }
    needs
}

async fn asked_of(how: &How, holding: Holding, has_streaming_lists: bool) -> BTreeSet<Need> {
    let cluster = Cluster::start();
    cluster.add(pod("elsewhere", "web-1").image("registry.example.com/web:1", 'a'));
    for namespace in how.namespaces() {
        cluster.create_namespace(&namespace);
        if holding == Holding::Pods {
            cluster.add(pod(&namespace, "web-1").image("registry.example.com/web:1", 'a'));
        }
    }
    if !has_streaming_lists {
        without_streaming_lists(&cluster);
    }
    let gate = Gate::alone();
    if how.is_once {
        report_once(how, &cluster, &gate).await;
    } else {
        watch(how, &cluster, &gate).await;
    }
    let requests = cluster.requests();
    assert!(!requests.is_empty() && !cluster.asked().is_empty(), "{how:?}");
    requests.iter().map(Need::of).collect()
}

/// Watches until each environment is reported, or is withheld for good.
async fn watch(how: &How, cluster: &Cluster, gate: &Gate) {
    let mut starting = Starting::between(cluster, gate).args(how.args());
    starting = how.env.iter().fold(starting, |starting, (name, value)| starting.env(name, value));
    starting = match &how.config {
        Some(config) => starting.config(config),
        None => starting.without_environment(),
    };
    let daemon = starting.start();
    for name in how.names() {
        let labels = format!("environment=\"{name}\"");
        let no_pods = format!("{labels},reason=\"no_pods\"");
        let is_settled = async || {
            daemon.metric("supercargo_agent_last_accepted_timestamp_seconds", &labels).await > 0.0
                || daemon.count("supercargo_agent_withheld", &no_pods).await > 0
        };
        let said = || format!("it said {:#?}", daemon.said());
        eventually_or(&format!("{name} is reported or withheld"), is_settled, said).await;
    }
    let watched = || {
        let pods = cluster.asked().into_iter().filter(Ask::is_about_pods);
        pods.map(|ask| ask.namespace).collect::<BTreeSet<_>>().len()
    };
    eventually("all watches are open", async || cluster.open_watches() == watched()).await;
    daemon.stop().await;
}

async fn report_once(how: &How, cluster: &Cluster, gate: &Gate) {
    let mut program = once().kubeconfig(&cluster.kubeconfig()).args(how.args());
    if let Some(config) = &how.config {
        program = program.file("config.yaml", config).args(["--config", "config.yaml"]);
    }
    program = how.env.iter().fold(program, |program, (name, value)| program.env(name, value));
    program = program
        .env("SUPERCARGO_BASE_URL", &gate.url())
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", ADMIN);
    let outcome = tokio::task::spawn_blocking(move || program.run()).await.unwrap();
    // 8: an environment without pods is withheld.
    assert!([0, 8].contains(&outcome.code), "{outcome:#?}");
}
