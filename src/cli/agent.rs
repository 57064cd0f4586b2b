//! `supercargo agent`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use regex::Regex;

use super::{Failure, Service};
use crate::agent::environment::read_config;
use crate::agent::gather::Source;
use crate::agent::once::{self, Destination, Plan};
use crate::agent::retry::Deadline;
use crate::agent::{Emptiness, Environment};
use crate::cluster::{self, Access, Cluster, PodsFile};
use crate::domain::collapse::Counting;
use crate::domain::model::{EnvironmentName, NamespaceName};
use crate::domain::outcome::Backoff;
use crate::domain::selection::{Contradiction, Selection};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("environments").required(true).args(["environment", "config"]),
    after_help = EXAMPLES,
)]
pub(super) struct Agent {
    /// Report once and exit
    #[arg(long, required = true)]
    once: bool,
    /// How long all of it may take, second tries included: 90s, 10m; a day at most
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// Print each report, one per line, instead of sending it
    #[arg(long)]
    dry_run: bool,

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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"], help_heading = "Cluster")]
    pods_from: Option<PathBuf>,
    /// Kubeconfig to use; without it KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  See what would be reported for the cluster of the current kubeconfig:
    supercargo agent --once --dry-run --environment prod
  Report two namespaces:
    export SUPERCARGO_BASE_URL=https://compliance.example.com
    export SUPERCARGO_ORG=acme SUPERCARGO_TOKEN_FILE=token
    supercargo agent --once --environment prod --namespace shop,pay
  Report what kubectl sees:
    kubectl get pods -A -o json >pods.json
    supercargo agent --once --environment prod --pods-from pods.json

Exit codes: see supercargo --help";

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Containers {
    /// Regular, init and ephemeral containers
    #[default]
    All,
    /// Regular containers alone
    App,
}

impl Agent {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Vec<Failure>> {
        let usage = |failure| vec![failure];
        let plan = self.plan().map_err(usage)?;
        // Before the cluster is asked for anything: a mistake here should not cost it a list.
        let client =
            if self.dry_run { None } else { Some(service.client().map_err(|e| vec![Failure::usage(e)])?) };
        let deadline = Deadline::after(self.timeout, Backoff::default());
        let source = self.source(deadline).await.map_err(usage)?;
        let mut stdout = io::stdout();
        let destination = match &client {
            Some(client) => Destination::Service(client),
            None => Destination::Output(&mut stdout),
        };
        let mut failures = once::run(&plan, &source, destination, deadline).await.err().unwrap_or_default();
        failures.retain(|failure| !is_closed_pipe(failure));
        if failures.is_empty() { Ok(()) } else { Err(failures.into_iter().map(Into::into).collect()) }
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
        Ok(Plan { environments, counting })
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
        let access = Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        let cluster = Cluster::configure(access, cluster::Patience::default(), deadline.left()).await;
        cluster.map(|cluster| Source::Cluster(Box::new(cluster))).map_err(Into::into)
    }
}

/// `| head -1` has seen enough: that is no failure.
fn is_closed_pipe(error: &once::Error) -> bool {
    matches!(error, once::Error::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|_| "a duration such as 90s or 10m was expected")?;
    Duration::try_from(duration)
        .ok()
        .filter(|d| !d.is_zero() && d.as_secs() <= 24 * 60 * 60)
        .ok_or_else(|| "a duration of more than nothing and at most a day was expected".to_owned())
}
