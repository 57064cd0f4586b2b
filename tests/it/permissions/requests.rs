//! Runs an agent in each case that changes its requests, and collects them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::shop::without_streaming_lists;
use crate::daemon::{DaemonBuilder, eventually, eventually_or};
use crate::permissions::Need;
use crate::program::once;
use crate::service::ADMIN;

/// Arguments and variables of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentOptions {
    /// Without `--once`, `--config`, `--listen` and options of the connection.
    pub args: Vec<String>,
    pub is_once: bool,
    /// Content of the `--config` file.
    pub config: Option<String>,
    pub env: Vec<(String, String)>,
}

impl AgentOptions {
    pub fn config(yaml: &str) -> Self {
        Self { config: Some(yaml.to_owned()), ..Self::default() }
    }

    pub fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    /// The values of an option.
    fn values_of(&self, option: &str) -> Vec<&str> {
        let values = self.args.iter().zip(self.args.iter().skip(1)).filter(|(name, _)| *name == option);
        values.flat_map(|(_, value)| value.split(',')).collect()
    }

    fn environments(&self) -> Vec<Value> {
        let Some(config) = &self.config else { return Vec::new() };
        let config: Value = serde_saphyr::from_str(config).unwrap();
        config["environments"].as_array().unwrap().clone()
    }

    fn environment_names(&self) -> Vec<String> {
        let values = self.values_of("--environment").into_iter().map(str::to_owned);
        let listed = self.environments().into_iter().map(|e| e["name"].as_str().unwrap().to_owned());
        values.chain(listed).collect()
    }

    fn named_namespaces(&self) -> BTreeSet<String> {
        let values = self.values_of("--namespace").into_iter().map(str::to_owned);
        let listed = self.environments().into_iter().flat_map(|environment| {
            let names = environment["namespaces"].as_array().cloned().unwrap_or_default();
            names.into_iter().map(|name| name.as_str().unwrap().to_owned())
        });
        values.chain(listed).collect()
    }

    fn args(&self) -> impl Iterator<Item = &str> {
        self.args.iter().map(String::as_str)
    }
}

/// Content of the named namespaces.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Pods,
    /// Without pods, the agent looks up whether they exist.
    Empty,
}

/// All requests of an agent with these options.
pub async fn requests(options: &AgentOptions) -> BTreeSet<Need> {
    let (streamed, paged) = tokio::join!(
        requests_with(options, Content::Pods, true),
        requests_with(options, Content::Pods, false)
    );
    let mut needs: BTreeSet<_> = streamed.into_iter().chain(paged).collect();
    // Only named namespaces are looked up.
    if !options.named_namespaces().is_empty() {
        let (streamed, paged) = tokio::join!(
            requests_with(options, Content::Empty, true),
            requests_with(options, Content::Empty, false)
        );
        needs.extend(streamed.into_iter().chain(paged));
    }
    needs
}

async fn requests_with(
    options: &AgentOptions,
    content: Content,
    has_streaming_lists: bool,
) -> BTreeSet<Need> {
    let cluster = Cluster::start();
    cluster.add(pod("elsewhere", "web-1").image("registry.example.com/web:1", 'a'));
    for namespace in options.named_namespaces() {
        cluster.create_namespace(&namespace);
        if content == Content::Pods {
            cluster.add(pod(&namespace, "web-1").image("registry.example.com/web:1", 'a'));
        }
    }
    if !has_streaming_lists {
        without_streaming_lists(&cluster);
    }
    let gate = Gate::without_service();
    if options.is_once {
        report_once(options, &cluster, &gate).await;
    } else {
        watch(options, &cluster, &gate).await;
    }
    let requests = cluster.requests();
    assert!(!requests.is_empty() && !cluster.api_requests().is_empty(), "{options:?}");
    requests.iter().map(Need::from_request).collect()
}

/// Runs a daemon until each environment is reported, or withheld permanently.
async fn watch(options: &AgentOptions, cluster: &Cluster, gate: &Gate) {
    let mut builder = DaemonBuilder::new(cluster, gate).args(options.args());
    builder = options.env.iter().fold(builder, |builder, (name, value)| builder.env(name, value));
    builder = match &options.config {
        Some(config) => builder.config(config),
        None => builder.without_environment(),
    };
    let daemon = builder.start();
    for name in options.environment_names() {
        let labels = format!("environment=\"{name}\"");
        let no_pods = format!("{labels},reason=\"no_pods\"");
        let is_done = async || {
            daemon.metric("supercargo_agent_last_accepted_timestamp_seconds", &labels).await > 0.0
                || daemon.count("supercargo_agent_withheld", &no_pods).await > 0
        };
        let log = || format!("it log {:#?}", daemon.log());
        eventually_or(&format!("{name} is reported or withheld"), is_done, log).await;
    }
    let watched = || {
        let requests = cluster.api_requests().into_iter();
        let watched = requests.filter(|request| request.is_about_pods() || request.is_about_labels());
        watched.map(|request| (request.resource, request.namespace)).collect::<BTreeSet<_>>().len()
    };
    eventually("all watches are open", async || cluster.open_watches() == watched()).await;
    daemon.stop().await;
}

async fn report_once(options: &AgentOptions, cluster: &Cluster, gate: &Gate) {
    let mut program = once().kubeconfig(&cluster.kubeconfig()).args(options.args());
    if let Some(config) = &options.config {
        program = program.file("config.yaml", config).args(["--config", "config.yaml"]);
    }
    program = options.env.iter().fold(program, |program, (name, value)| program.env(name, value));
    program = program
        .env("SUPERCARGO_BASE_URL", &gate.url())
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", ADMIN);
    let outcome = tokio::task::spawn_blocking(move || program.run()).await.unwrap();
    // Exit code 8: an environment without pods is withheld.
    assert!([0, 8].contains(&outcome.code), "{outcome:#?}");
}
