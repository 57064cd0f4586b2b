//! `supercargo agent`: builds the plan, the cluster connection and the client, and starts `agent::daemon` or
//! `agent::once`.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use regex::Regex;
use tokio::time::timeout;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::values::{address, duration, interval};
use agent::cluster::{self, Access, Cluster, OnInsecure, PodsFile};
use agent::daemon::{self, TrackDeparted};
use agent::environment::read_config;
use agent::gather::Source;
use agent::live::collapse::Counting;
use agent::live::confirmation::Emptiness;
use agent::live::labels::LabelSelector;
use agent::live::selection::{Contradiction, Exclusion, Selection};
use agent::once::{self, Destination};
use agent::{EnvironmentConfig, OwnPod, Plan, Summary};
use client::{Client, Deadline, IfUnknown};
use model::escape::Escaped;
use model::retry::Backoff;
use model::{EnvironmentName, NamespaceName};
use runtime::{error_causes, listener, signals};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("environments").required(true).args(["environment", "config"]),
    after_help = EXAMPLES,
)]
#[expect(clippy::struct_excessive_bools, reason = "one flag each on the command line")]
pub(crate) struct Agent {
    /// Report once and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Environment to report to
    #[arg(long, value_name = "NAME")]
    environment: Option<EnvironmentName>,
    /// File that maps namespaces to several environments
    #[arg(long, value_name = "FILE", conflicts_with_all = ["namespace", "namespace_regex", "namespace_selector", "exclude_namespace", "exclude_namespace_regex"])]
    config: Option<PathBuf>,
    /// Create environments that the service does not know; needs a token that may
    #[arg(long)]
    create: bool,
    /// Report environments without pods, or whose namespaces do not exist
    #[arg(long)]
    allow_empty: bool,
    /// Exclude pods with the annotation `supercargo.dev/exclude: "true"`, and report their number
    #[arg(long)]
    allow_exclusion: bool,
    /// Containers to report
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    containers: Containers,
    /// Exclude the agent's own pod (`SUPERCARGO_POD_NAME` and `SUPERCARGO_POD_UID`)
    #[arg(long, conflicts_with = "pods_from")]
    exclude_self: bool,

    /// Namespace to report, at most 50; needs only a Role in each namespace
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Namespaces (default: all)")]
    namespace: Vec<NamespaceName>,
    /// Report namespaces whose names match
    #[arg(long, value_name = "REGEX", help_heading = "Namespaces (default: all)")]
    namespace_regex: Vec<Regex>,
    /// Report namespaces whose labels match, such as `team=a,env in (prod,test),!legacy`
    #[arg(long, value_name = "SELECTOR", help_heading = "Namespaces (default: all)")]
    namespace_selector: Option<LabelSelector>,
    /// Namespace to exclude
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Namespaces (default: all)")]
    exclude_namespace: Vec<NamespaceName>,
    /// Exclude namespaces whose names match
    #[arg(long, value_name = "REGEX", help_heading = "Namespaces (default: all)")]
    exclude_namespace_regex: Vec<Regex>,

    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    once_only: OnceOnly,
    #[command(flatten)]
    service: ServiceOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct ClusterOptions {
    /// Read pods from the output of `kubectl get pods -A -o json` or `-o yaml`; - for stdin
    #[arg(long, value_name = "FILE", requires = "once", conflicts_with_all = ["kubeconfig", "context", "cluster_identity", "strict"])]
    pods_from: Option<PathBuf>,
    /// Kubeconfig (default: KUBECONFIG, ~/.kube/config, or the pod's service account)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Kubeconfig context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Identify the cluster by the UID of the namespace kube-system; needs permission to get that namespace
    #[arg(long)]
    cluster_identity: bool,
    /// Reject a kubeconfig with insecure-skip-tls-verify, or plain http to another machine
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "With --once")]
struct OnceOnly {
    /// Timeout with retries, such as 90s or 10m; at most 24h
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration, requires = "once")]
    timeout: Duration,
    /// Print the reports, one per line, instead of sending them
    #[arg(long, requires = "once")]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Without --once")]
struct Watching {
    /// Maximum time between reports of unchanged pods, from 1s to 24h
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = interval, conflicts_with = "once")]
    interval: Duration,
    /// Time to collect changes before a report
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration, conflicts_with = "once")]
    debounce: Duration,
    /// Report running pods only
    #[arg(long, conflicts_with = "once")]
    no_departed_pods: bool,
    /// Address for /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDR", value_parser = address, conflicts_with = "once")]
    listen: Option<SocketAddr>,
    /// Divisor of all durations, for tests
    #[arg(long, hide = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "once")]
    time_scale: u32,
}

const EXAMPLES: &str = "\
Examples:
  Watch the cluster of the current kubeconfig and report every change:
    export SUPERCARGO_BASE_URL=https://compliance.example.com
    export SUPERCARGO_ORG=acme SUPERCARGO_TOKEN_FILE=token
    supercargo agent --environment prod --listen 127.0.0.1:8082
  Print the report without sending it:
    supercargo agent --once --dry-run --environment prod
  Report two namespaces, once:
    supercargo agent --once --environment prod --namespace shop,pay
  Report the output of kubectl:
    kubectl get pods -A -o json >pods.json
    supercargo agent --once --environment prod --pods-from pods.json

Exit codes: see supercargo --help";

/// Timeout for reading the identity of the cluster at the start, before the first list.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for credential plugins at the start.
const CONFIGURATION_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error(
        "--exclude-self requires the variable {0}: set it with the downward API (fieldRef metadata.name, metadata.uid)"
    )]
    OwnPodUnknown(&'static str),
    #[error(
        "environment \"{}\" selects namespaces by labels, which the file of --pods-from does not contain: select them by name, or read the cluster", Escaped(.0.as_str())
    )]
    NoLabels(EnvironmentName),
    #[error("failed to install signal handlers")]
    Signals(#[source] io::Error),
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Containers {
    /// Regular, init and ephemeral containers, and images of volumes
    #[default]
    All,
    /// Regular containers only
    App,
}

impl Agent {
    /// Returns the summary of each report of `--once`; none for the daemon.
    pub(crate) async fn run(&self) -> Result<Vec<Summary>, Vec<Failure>> {
        let plan = self.plan()?;
        let timeouts = client::RequestTimeouts::scaled(self.watching.time_scale);
        // Validate the settings before listing the cluster.
        let client = if self.once_only.dry_run {
            None
        } else {
            Some(self.service.client("agent", timeouts).map_err(Failure::usage)?)
        };
        match client {
            Some(client) if !self.once => {
                self.watch(plan, client).await?;
                Ok(Vec::new())
            }
            client => self.report_once(&plan, client).await,
        }
    }

    async fn report_once(&self, plan: &Plan, client: Option<Client>) -> Result<Vec<Summary>, Vec<Failure>> {
        let deadline = Deadline::after(self.once_only.timeout, Backoff::default());
        let source = self.source(deadline).await?;
        let client = match (client, &source) {
            (Some(client), Source::Cluster(cluster)) => {
                Some(self.identify(client, cluster, deadline.remaining()).await)
            }
            (client, _) => client,
        };
        let mut stdout = io::stdout();
        let destination = match &client {
            Some(client) => Destination::Service(client),
            None => Destination::Output(&mut stdout),
        };
        once::run(plan, &source, destination, deadline).await.or_else(|mut failures| {
            failures.retain(|failure| !is_closed_pipe(failure));
            if failures.is_empty() {
                Ok(Vec::new())
            } else {
                Err(failures.into_iter().map(Into::into).collect())
            }
        })
    }

    async fn watch(&self, plan: Plan, client: Client) -> Result<(), Failure> {
        let shutdown = signals::shutdown(daemon::SHUTTING_DOWN)
            .map_err(|error| Failure::unexpected(AgentError::Signals(error)))?;
        let listener = match self.watching.listen {
            Some(address) => Some(listener::listen(address, " (--listen)").await.map_err(Failure::usage)?),
            None => None,
        };
        let Watching { interval, debounce, time_scale, .. } = self.watching;
        let mut timing = daemon::DaemonTiming::scaled(time_scale);
        (timing.cadence.interval, timing.cadence.debounce) = (interval / time_scale, debounce / time_scale);
        let connect = async {
            let cluster = self.cluster(CONFIGURATION_TIMEOUT).await?;
            let client = self.identify(client, &cluster, IDENTITY_TIMEOUT).await;
            Ok::<_, Failure>((cluster, client))
        };
        let (cluster, client) = tokio::select! {
            connected = connect => connected?,
            () = shutdown.cancelled() => return Ok(()),
        };
        let track_departed =
            if self.watching.no_departed_pods { TrackDeparted::Off } else { TrackDeparted::On };
        let setup = daemon::Setup { plan, cluster, client, listener, track_departed, timing };
        daemon::run(setup, shutdown).await.map_err(Into::into)
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let mut environments = match (&self.config, &self.environment) {
            (Some(file), _) => read_config(file).map_err(Failure::usage)?,
            (None, name) => {
                let single = name.iter().map(|name| self.single(name));
                single.collect::<Result<_, _>>().map_err(Failure::usage)?
            }
        };
        let by_labels = environments.iter().find(|environment| environment.selection.has_label_selector());
        if let Some(environment) = by_labels.filter(|_| self.cluster.pods_from.is_some()) {
            return Err(Failure::usage(AgentError::NoLabels(environment.name.clone())));
        }
        if self.allow_empty {
            for environment in &mut environments {
                environment.empty = Emptiness::Allowed;
            }
        }
        if self.allow_exclusion {
            for environment in &mut environments {
                let selection = std::mem::take(&mut environment.selection);
                environment.selection = selection.with_exclusion(Exclusion::Permitted);
            }
        }
        if self.create {
            for environment in &mut environments {
                environment.if_unknown = IfUnknown::Create;
            }
        }
        let counting = match self.containers {
            Containers::All => Counting::All,
            Containers::App => Counting::App,
        };
        let own_pod = self.own_pod().map_err(Failure::usage)?;
        Ok(Plan { environments, counting, own_pod })
    }

    fn single(&self, name: &EnvironmentName) -> Result<EnvironmentConfig, Contradiction> {
        let selection = Selection::new(
            self.namespace.iter().cloned().collect(),
            self.namespace_regex.clone(),
            self.exclude_namespace.iter().cloned().collect(),
            self.exclude_namespace_regex.clone(),
        )?;
        let selection = selection.with_labels(self.namespace_selector.clone());
        let (empty, if_unknown) = (Emptiness::Withheld, IfUnknown::Reject);
        Ok(EnvironmentConfig { name: name.clone(), selection, empty, if_unknown })
    }

    async fn source(&self, deadline: Deadline) -> Result<Source, Failure> {
        if let Some(file) = &self.cluster.pods_from {
            let file = PodsFile::from(file.clone());
            if file == PodsFile::Stdin && io::stdin().is_terminal() {
                tracing::info!("reading pods from standard input");
            }
            return Ok(Source::File(file));
        }
        self.cluster(deadline.remaining()).await.map(|cluster| Source::Cluster(Box::new(cluster)))
    }

    async fn cluster(&self, time_limit: Duration) -> Result<Cluster, Failure> {
        let on_insecure = if self.cluster.strict { OnInsecure::Reject } else { OnInsecure::Warn };
        let (kubeconfig, context) = (self.cluster.kubeconfig.clone(), self.cluster.context.clone());
        let access = Access { kubeconfig, context, on_insecure };
        Cluster::configure(access, cluster::ClusterTimeouts::scaled(self.watching.time_scale), time_limit)
            .await
            .map_err(Into::into)
    }

    /// Adds the identity of the cluster to the reports of a client, if it is to be sent and can be read.
    async fn identify(&self, client: Client, cluster: &Cluster, within: Duration) -> Client {
        if !self.cluster.cluster_identity {
            return client;
        }
        let within = within.min(IDENTITY_TIMEOUT);
        let cause = match timeout(within, cluster.identity()).await {
            Ok(Ok(identity)) => return client.with_cluster(&identity),
            Ok(Err(error)) => error_causes::with_hint(&error_causes::describe(&error), error.hint()),
            Err(_) => format!("timed out after {within:?}"),
        };
        tracing::warn!(
            "failed to read the identity of the cluster (--cluster-identity); reports omit it until a restart: {cause}"
        );
        client
    }

    /// The agent's own pod, with `--exclude-self`.
    fn own_pod(&self) -> Result<Option<OwnPod>, AgentError> {
        let variable =
            |name| std::env::var(name).ok().filter(|v| !v.is_empty()).ok_or(AgentError::OwnPodUnknown(name));
        if !self.exclude_self {
            return Ok(None);
        }
        Ok(Some(OwnPod { name: variable("SUPERCARGO_POD_NAME")?, uid: variable("SUPERCARGO_POD_UID")? }))
    }
}

/// A closed pipe, as in `| head -1`, is not a failure.
fn is_closed_pipe(error: &once::Error) -> bool {
    matches!(error, once::Error::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
}
