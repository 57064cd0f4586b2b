//! `supercargo agent`.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use regex::Regex;

use super::{Failure, Service, address, duration};
use crate::agent::daemon::{self, Witnessing};
use crate::agent::environment::read_config;
use crate::agent::gather::Source;
use crate::agent::once::{self, Destination};
use crate::agent::retry::Deadline;
use crate::agent::{Environment, OwnPod, Plan, Summary};
use crate::api::{self, Client};
use crate::cluster::{self, Access, Cluster, PodsFile};
use crate::domain::live::collapse::Counting;
use crate::domain::live::confirmation::Emptiness;
use crate::domain::live::selection::{Contradiction, Selection};
use crate::domain::model::{EnvironmentName, NamespaceName};
use crate::domain::retry::Backoff;
use crate::process::{listener, signals};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("environments").required(true).args(["environment", "config"]),
    after_help = EXAMPLES,
)]
pub(super) struct Agent {
    /// Report once and exit, instead of watching
    #[arg(long)]
    once: bool,
    /// Environment to report to
    #[arg(long, value_name = "NAME")]
    environment: Option<EnvironmentName>,
    /// File that lists several environments and their namespaces
    #[arg(long, value_name = "FILE", conflicts_with_all = ["namespace", "namespace_regex", "exclude_namespace", "exclude_namespace_regex"])]
    config: Option<PathBuf>,
    /// Report an environment also where no pod is in its namespaces, or these do not exist
    #[arg(long)]
    allow_empty: bool,
    /// Which containers count
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    containers: Containers,
    /// Leave out the pod that this runs in: the one of `SUPERCARGO_POD_NAME` and `SUPERCARGO_POD_UID`,
    /// which the downward API fills in
    #[arg(long, conflicts_with = "pods_from")]
    exclude_self: bool,

    /// Namespace to report; at most 50, and a Role in each is enough
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Namespaces (default: all)")]
    namespace: Vec<NamespaceName>,
    /// Report the namespaces in whose name this expression is found
    #[arg(long, value_name = "REGEX", help_heading = "Namespaces (default: all)")]
    namespace_regex: Vec<Regex>,
    /// Namespace to leave out
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Namespaces (default: all)")]
    exclude_namespace: Vec<NamespaceName>,
    /// Leave out the namespaces in whose name this expression is found
    #[arg(long, value_name = "REGEX", help_heading = "Namespaces (default: all)")]
    exclude_namespace_regex: Vec<Regex>,

    /// Read the pods from what `kubectl get pods -A -o json` or `-o yaml` printed; - for stdin
    #[arg(long, value_name = "FILE", requires = "once", conflicts_with_all = ["kubeconfig", "context"], help_heading = "Cluster")]
    pods_from: Option<PathBuf>,
    /// Kubeconfig to use; without it KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,

    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    once_only: OnceOnly,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "With --once")]
struct OnceOnly {
    /// How long all of it may take, second tries included: 90s, 10m; a day at most
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration, requires = "once")]
    timeout: Duration,
    /// Print each report, one per line, instead of sending it
    #[arg(long, requires = "once")]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "While it watches")]
struct Watching {
    /// Report this often although nothing changed, so that the service knows that the agent lives
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = interval, conflicts_with = "once")]
    interval: Duration,
    /// Wait this long for more changes before they are reported
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration, conflicts_with = "once")]
    debounce: Duration,
    /// Report strictly what runs now, without the pods that came and went since the last report
    #[arg(long, conflicts_with = "once")]
    no_witness: bool,
    /// Address for /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDR", value_parser = address, conflicts_with = "once")]
    listen: Option<SocketAddr>,
    /// Divides every duration, for tests
    #[arg(long, hide = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "once")]
    hasten: u32,
}

const EXAMPLES: &str = "\
Examples:
  Watch the cluster of the current kubeconfig, and report it whenever it changes:
    export SUPERCARGO_BASE_URL=https://compliance.example.com
    export SUPERCARGO_ORG=acme SUPERCARGO_TOKEN_FILE=token
    supercargo agent --environment prod --listen 127.0.0.1:8082
  See what would be reported for it:
    supercargo agent --once --dry-run --environment prod
  Report two namespaces, once:
    supercargo agent --once --environment prod --namespace shop,pay
  Report what kubectl sees:
    kubectl get pods -A -o json >pods.json
    supercargo agent --once --environment prod --pods-from pods.json

Exit codes: see supercargo --help";

/// How long a credential plugin may take at the start.
const CONFIGURING: Duration = Duration::from_mins(1);

/// What the agent cannot do without.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error(
        "--exclude-self needs the variable {0}, and it is not set; the downward API fills it in (fieldRef metadata.name, metadata.uid)"
    )]
    OwnPodUnknown(&'static str),
    #[error("signals cannot be received")]
    Signals(#[source] io::Error),
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Containers {
    /// Regular, init and ephemeral containers
    #[default]
    All,
    /// Regular containers alone
    App,
}

impl Agent {
    /// Returns the summary of each report, if there is an end: `--once`.
    pub(super) async fn run(&self) -> Result<Vec<Summary>, Vec<Failure>> {
        let plan = self.plan().map_err(|failure| vec![failure])?;
        let patience = api::Patience::default().hastened(self.watching.hasten);
        // Before the cluster is asked for anything: a mistake here should not cost it a list.
        let client = if self.once_only.dry_run {
            None
        } else {
            Some(self.service.client(patience).map_err(|e| vec![Failure::usage(e)])?)
        };
        match client {
            Some(client) if !self.once => {
                self.watch(plan, client).await.map(|()| Vec::new()).map_err(|failure| vec![failure])
            }
            client => self.report_once(&plan, client.as_ref()).await,
        }
    }

    async fn report_once(&self, plan: &Plan, client: Option<&Client>) -> Result<Vec<Summary>, Vec<Failure>> {
        let deadline = Deadline::after(self.once_only.timeout, Backoff::default());
        let source = self.source(deadline).await.map_err(|failure| vec![failure])?;
        let mut stdout = io::stdout();
        let destination = match client {
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
        let shutdown = signals::shutdown(daemon::STOPPING)
            .map_err(|error| Failure::unexpected(AgentError::Signals(error)))?;
        let listener = match self.watching.listen {
            Some(address) => Some(listener::listen(address, " (--listen)").await.map_err(Failure::usage)?),
            None => None,
        };
        let mut policy = daemon::Policy::default();
        (policy.cadence.interval, policy.cadence.debounce) = (self.watching.interval, self.watching.debounce);
        let cluster = tokio::select! {
            cluster = self.cluster(CONFIGURING) => cluster?,
            () = shutdown.cancelled() => return Ok(()),
        };
        let witnessing = if self.watching.no_witness { Witnessing::Off } else { Witnessing::On };
        let setup = daemon::Setup {
            plan,
            cluster,
            client,
            listener,
            witnessing,
            policy: policy.hastened(self.watching.hasten),
        };
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
        if self.allow_empty {
            for environment in &mut environments {
                environment.empty = Emptiness::Allowed;
            }
        }
        let counting = match self.containers {
            Containers::All => Counting::All,
            Containers::App => Counting::App,
        };
        let own_pod = self.own_pod().map_err(Failure::usage)?;
        Ok(Plan { environments, counting, own_pod })
    }

    fn single(&self, name: &EnvironmentName) -> Result<Environment, Contradiction> {
        let selection = Selection::new(
            self.namespace.iter().cloned().collect(),
            self.namespace_regex.clone(),
            self.exclude_namespace.iter().cloned().collect(),
            self.exclude_namespace_regex.clone(),
        )?;
        Ok(Environment { name: name.clone(), selection, empty: Emptiness::Withheld })
    }

    async fn source(&self, deadline: Deadline) -> Result<Source, Failure> {
        if let Some(file) = &self.pods_from {
            let file = PodsFile::from(file.clone());
            if file == PodsFile::Stdin && io::stdin().is_terminal() {
                tracing::info!("reading pods from standard input");
            }
            return Ok(Source::File(file));
        }
        self.cluster(deadline.left()).await.map(|cluster| Source::Cluster(Box::new(cluster)))
    }

    async fn cluster(&self, within: Duration) -> Result<Cluster, Failure> {
        let access = Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        Cluster::configure(access, cluster::Patience::default().hastened(self.watching.hasten), within)
            .await
            .map_err(Into::into)
    }

    /// The pod that this runs in, where it is to be left out.
    fn own_pod(&self) -> Result<Option<OwnPod>, AgentError> {
        let variable =
            |name| std::env::var(name).ok().filter(|v| !v.is_empty()).ok_or(AgentError::OwnPodUnknown(name));
        if !self.exclude_self {
            return Ok(None);
        }
        Ok(Some(OwnPod { name: variable("SUPERCARGO_POD_NAME")?, uid: variable("SUPERCARGO_POD_UID")? }))
    }
}

/// `| head -1` has seen enough: that is no failure.
fn is_closed_pipe(error: &once::Error) -> bool {
    matches!(error, once::Error::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
}

/// A second at least: a heartbeat, and no flood.
fn interval(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|interval| match interval.as_secs() {
        0 => Err("an interval of a second at least was expected".to_owned()),
        _ => Ok(interval),
    })
}
