//! `supercargo issuer`: prints the block of the bootstrap file that trusts the tokens of a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::exit::Failure;
use crate::cli::output::write;
use agent::cluster::{Access, Cluster, ClusterIssuer, ClusterTimeouts, OnInsecure};
use model::escape::Escaped;
use model::{EnvironmentName, NamespaceName};

#[derive(Debug, Args)]
#[command(subcommand_required = true)]
pub(crate) struct Issuer {
    #[command(subcommand)]
    command: IssuerCommand,
}

#[derive(Debug, Subcommand)]
enum IssuerCommand {
    /// Print an entry of `issuers` in the bootstrap file: the issuer of a cluster, its keys, and a rule for its agent
    #[command(after_help = EXAMPLES)]
    FromContext(FromContext),
}

#[derive(Debug, Args)]
struct FromContext {
    /// Kubeconfig context
    context: String,
    /// Path to the kubeconfig (default: KUBECONFIG, or ~/.kube/config)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Name of the issuer (default: the context, without what precedes its last slash)
    #[arg(long, value_name = "NAME")]
    name: Option<EnvironmentName>,
    /// Audience of the projected token of the agent
    #[arg(long, value_name = "TEXT", default_value = "supercargo")]
    audience: String,
    /// Environment that the agent reports; repeatable (default: the name of the issuer)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    environment: Vec<EnvironmentName>,
    /// Permit the agent to create these environments
    #[arg(long)]
    create: bool,
    /// Namespace of the agent
    #[arg(long, value_name = "NAME", default_value = "supercargo")]
    namespace: NamespaceName,
    /// Service account of the agent
    #[arg(long, value_name = "NAME", default_value = "supercargo")]
    service_account: NamespaceName,
    /// Omit the keys: the service requests them from the issuer, and follows their rotation
    #[arg(long)]
    without_keys: bool,
}

const EXAMPLES: &str = "\
Examples:
  Trust the agent of a cluster, which reports prod-eu and stage-eu:
    supercargo issuer from-context eu --environment prod-eu,stage-eu
  Append an entry for each cluster to a file that ends with `issuers:`:
    for context in $(kubectl config get-contexts -o name); do
      supercargo issuer from-context \"$context\"
    done >>bootstrap.yaml";

/// For a credential plugin.
const CONFIGURATION_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
#[error("the context \"{}\" is no name of an issuer: set --name", Escaped(.0))]
struct NoName(String);

impl Issuer {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let IssuerCommand::FromContext(from) = &self.command;
        let name = from.name()?;
        let access = Access {
            kubeconfig: from.kubeconfig.clone(),
            context: Some(from.context.clone()),
            on_insecure: OnInsecure::Warn,
        };
        let cluster = Cluster::configure(access, ClusterTimeouts::default(), CONFIGURATION_TIMEOUT).await?;
        let issuer = cluster.issuer().await.map_err(Failure::cluster)?;
        write(&from.entry(&name, &issuer))
    }
}

impl FromContext {
    fn name(&self) -> Result<EnvironmentName, Failure> {
        let of_context = || {
            let name = self.context.rsplit('/').next().unwrap_or_default();
            name.parse().map_err(|_| Failure::usage(NoName(self.context.clone())))
        };
        self.name.clone().map_or_else(of_context, Ok)
    }

    /// The entry, indented as below `issuers` of an organization. A text in JSON is one in YAML.
    fn entry(&self, name: &EnvironmentName, issuer: &ClusterIssuer) -> String {
        let (name, url, audience) = (json!(name), json!(issuer.url), json!(self.audience));
        let own = std::slice::from_ref(&name);
        let named: Vec<_> = self.environment.iter().map(|environment| json!(environment)).collect();
        let environments = json!(if named.is_empty() { own } else { &named });
        let subject = json!(format!("system:serviceaccount:{}:{}", self.namespace, self.service_account));
        let mut keys = String::new();
        if !self.without_keys {
            let listed = issuer.keys.iter().map(|key| format!("            - {}\n", json!(key)));
            keys.push_str("        jwks:\n          keys:\n");
            keys.extend(listed);
        }
        let create = if self.create { "            create: true\n" } else { "" };
        format!(
            "      - name: {name}
        issuer: {url}
        audience: {audience}
{keys}        rules:
          - claims: {{sub: {subject}}}
            role: report
            environments: {environments}
{create}"
        )
    }
}
