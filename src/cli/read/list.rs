//! `supercargo list`.
//!
//! A resource is an operation and the columns of its table.

use clap::Subcommand;

use super::actions::NOTIFICATIONS;
use super::approvals::APPROVALS;
use super::columns::Format::{Ago, Commit, Compliant, Count, Custom, Digest, Passes, Seconds, State, Text};
use super::columns::{Column, environment_state};
use super::common::{Common, environment, organization};
use super::digests;
use super::digests_in_use;
use super::pages::Pages;
use super::period::Period;
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::fingerprints::DigestPrefix;
use client::{Operation, Resource};
use model::escape::Escaped;
use model::{EnvironmentName, Fingerprint, FlowName, RepositoryName};

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ListResource {
    /// List the trails of the organization, newest first
    #[command(after_help = TRAILS_EXAMPLES)]
    Trails {
        /// Filter by flow
        #[arg(long, value_name = "NAME")]
        flow: Option<FlowName>,
        /// Filter by tag of the flow
        #[arg(long, value_name = "KEY=VALUE", value_parser = tag)]
        flow_tag: Option<String>,
        /// Filter by artifact: hexadecimal digits, at least 7, sha256:… or name@sha256:…
        #[arg(long, value_name = "DIGEST")]
        fingerprint: Option<DigestPrefix>,
        #[command(flatten)]
        pages: Pages,
    },
    /// List the attestations of a flow, newest first
    #[command(after_help = ATTESTATIONS_EXAMPLE)]
    Attestations {
        /// Flow name
        flow: FlowName,
        #[command(flatten)]
        period: Period,
        #[command(flatten)]
        pages: Pages,
    },
    /// List environments
    #[command(
        after_help = "Example:\n  List the environments of a team:\n    supercargo list environments --tag team:shop"
    )]
    Environments {
        /// Part of the name, ignoring case
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Tag, as key or key:value; may be repeated
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// List the agents that report an environment, latest first
    #[command(
        after_help = "Example:\n  List the agents that report an environment, with their versions:\n    supercargo list agents prod"
    )]
    Agents {
        /// Environment name
        environment: EnvironmentName,
        #[command(flatten)]
        common: Common,
    },
    /// List the snapshots of an environment, newest first
    #[command(
        after_help = "Example:\n  List the latest ten snapshots:\n    supercargo list snapshots prod --interval ~9..NOW"
    )]
    Snapshots {
        /// Environment name
        environment: EnvironmentName,
        /// Snapshots A..B, each a number, ~N (before the latest) or NOW
        #[arg(long, value_name = "A..B")]
        interval: Option<String>,
        /// List the oldest first
        #[arg(long)]
        reverse: bool,
        #[command(flatten)]
        pages: Pages,
    },
    /// List the events of an environment, newest first
    #[command(
        after_help = "Example:\n  List the changes of the last day:\n    supercargo list events prod --start 1d --all"
    )]
    Events {
        /// Environment name
        environment: EnvironmentName,
        /// From this snapshot or time on, such as 7, 2w or 2026-10-03T14:00Z
        #[arg(long, value_name = "TIME")]
        start: Option<String>,
        /// Up to this snapshot or time
        #[arg(long, value_name = "TIME")]
        end: Option<String>,
        /// List the oldest first
        #[arg(long)]
        reverse: bool,
        #[command(flatten)]
        pages: Pages,
    },
    /// List flows
    #[command(after_help = "Example:\n  List the flows of a team:\n    supercargo list flows --name shop")]
    Flows {
        /// Part of the name, ignoring case
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// List the artifacts of a flow or repository, newest first
    #[command(
        after_help = "Example:\n  List the latest artifacts of a flow:\n    supercargo list artifacts --flow cart"
    )]
    Artifacts {
        /// Flow name
        #[arg(
            long,
            value_name = "NAME",
            required_unless_present = "repository",
            conflicts_with = "repository"
        )]
        flow: Option<FlowName>,
        /// Repository with its owner, such as acme/cart
        #[arg(long, value_name = "NAME")]
        repository: Option<RepositoryName>,
        #[command(flatten)]
        pages: Pages,
    },
    /// List the digests that run in any environment
    #[command(after_help = DIGESTS_EXAMPLE)]
    Digests {
        /// List also digests that ran within this time, such as 12h, 30d or 4w
        #[arg(long, value_name = "AGE", value_parser = digests_in_use::since)]
        since: Option<i64>,
        #[command(flatten)]
        common: Common,
    },
    /// List policies
    #[command(
        after_help = "Example:\n  List policies and the environments that they apply to:\n    supercargo list policies"
    )]
    Policies(Common),
    /// List the notification actions of the organization
    #[command(
        after_help = "Example:\n  List all actions with all their fields:\n    supercargo list actions -o yaml"
    )]
    Actions(Common),
    /// List the approvals of an artifact
    #[command(after_help = APPROVALS_EXAMPLE)]
    Approvals {
        /// Flow name
        flow: FlowName,
        /// Digest of the artifact, as hexadecimal digits, at least 7, sha256:… or name@sha256:…
        #[arg(value_name = "DIGEST")]
        fingerprint: DigestPrefix,
        #[command(flatten)]
        common: Common,
    },
    /// List the audit log, newest first
    #[command(after_help = AUDIT_EXAMPLE)]
    Audit {
        #[command(flatten)]
        period: Period,
        #[command(flatten)]
        pages: Pages,
    },
}

const EXAMPLES: &str = "\
Examples:
  List the newest trails, and the trails of an artifact:
    supercargo list trails
    supercargo list trails --fingerprint \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Print all attestations of a flow in October as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

const TRAILS_EXAMPLES: &str = "\
Examples:
  List the newest trails of a flow, and the trails of an artifact:
    supercargo list trails --flow cart
    supercargo list trails --fingerprint \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

const ATTESTATIONS_EXAMPLE: &str = "\
Example:
  Print all attestations of a flow in October as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

const DIGESTS_EXAMPLE: &str = "\
Example:
  Print the digests that ran in the last 30 days, which a registry must keep:
    supercargo list digests --since 30d -o json";

const APPROVALS_EXAMPLE: &str = "\
Example:
  List the approvals of an artifact:
    supercargo list approvals cart \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

const AUDIT_EXAMPLE: &str = "\
Example:
  Print the audit log of October, with a token of role admin:
    supercargo list audit --from 2026-10-01 --to 2026-10-31 --all";

const TRAILS: &[Column] = &[
    Column::new("FLOW", "/flow/name", Text).key(),
    Column::new("TRAIL", "/name", Text).key(),
    Column::new("COMPLIANCE", "/is_compliant", Compliant),
    Column::new("COMMIT", "/git_commit_info/sha1", Commit),
    Column::new("BY", "/created_by", Text),
    Column::new("MODIFIED", "/last_modified_at", Ago),
];

const ATTESTATIONS: &[Column] = &[
    Column::new("NAME", "/attestation_name", Text),
    Column::new("TYPE", "/attestation_type", Text),
    Column::new("RESULT", "/is_compliant", Passes),
    Column::new("BY", "/reported_by", Text).optional(1),
    Column::new("RECEIVED", "/created_at", Ago),
    Column::new("ID", "/attestation_id", Text).key(),
];

const ENVIRONMENTS: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("COMPLIANCE", "/state", Custom(environment_state)),
    Column::new("SILENT", "/is_silent", Text),
    Column::new("LAST REPORT", "/last_reported_at", Ago),
    Column::new("CHANGED", "/last_changed_at", Ago).optional(2),
    Column::new("POLICIES", "/policies", Text).optional(3),
    Column::new("TAGS", "/tags", Text).optional(1),
];

const AGENTS: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("PROGRAM", "/user_agent", Text),
    Column::new("CLUSTER", "/cluster", Text),
    Column::new("FIRST REPORT", "/first_reported_at", Ago),
    Column::new("LAST REPORT", "/last_reported_at", Ago),
    Column::new("PODS", "/pods", Text),
    Column::new("OVERWRITTEN", "/is_overwritten", Text),
];

const SNAPSHOTS: &[Column] = &[
    Column::new("SNAPSHOT", "/index", Text).key(),
    Column::new("RECEIVED", "/from", Ago),
    Column::new("ENDED", "/to", Ago),
    Column::new("DURATION", "/duration", Seconds),
    Column::new("COMPLIANCE", "/compliance", State),
    Column::new("GAPS", "/gaps", Count),
    Column::new("BY", "/reported_by", Text),
];

const EVENTS: &[Column] = &[
    Column::new("WHEN", "/reported_at", Ago),
    Column::new("SNAPSHOT", "/snapshot_index", Text),
    Column::new("TYPE", "/type", Text),
    Column::new("ARTIFACT", "/artifact_name", Text),
    Column::new("DIGEST", "/sha256", Digest).optional(2),
    Column::new("FLOW", "/pipeline", Text).optional(1),
    Column::new("DESCRIPTION", "/description", Text),
];

const FLOWS: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("DESCRIPTION", "/description", Text),
    Column::new("COMPLIANCE", "/latest_state", State),
    Column::new("ACTIVITY", "/latest_activity_at", Ago),
    Column::new("TAGS", "/tags", Text),
];

const ARTIFACTS: &[Column] = &[
    Column::new("ARTIFACT", "/filename", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("COMMIT", "/git_commit", Commit),
    Column::new("COMPLIANCE", "/state", State),
    Column::new("CREATED", "/created_at", Ago),
];

const POLICIES: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("DESCRIPTION", "/description", Text),
    Column::new("ENVIRONMENTS", "/consuming_envs", Text),
    Column::new("VERSIONS", "/versions", Count),
    Column::new("CREATED", "/created_at", Ago),
];

const AUDIT: &[Column] = &[
    Column::new("WHEN", "/at", Ago),
    Column::new("BY", "/actor", Text),
    Column::new("CHANGE", "/change", Text),
];

impl ListResource {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        match self {
            ListResource::Trails { flow, flow_tag, fingerprint, pages } => {
                let fingerprint = match fingerprint {
                    Some(prefix) => Some(digests::resolve(service, &pages.common, prefix).await?),
                    None => None,
                };
                let about =
                    flow.as_ref().map_or(Resource::Organization, |flow| Resource::Flow(flow.as_str()));
                let operation = Operation::new(about, &["trails"])
                    .with("flow", flow)
                    .with("flow_tag", flow_tag)
                    .with("fingerprint", fingerprint);
                let filter = trails_filter(flow.as_ref(), flow_tag.as_deref(), fingerprint);
                pages.list(service, &operation, "trail", TRAILS, &filter).await
            }
            ListResource::Attestations { flow, period, pages } => {
                let flow = flow.as_str();
                let operation = Operation::new(Resource::Flow(flow), &["attestations", flow]);
                let operation = period.restrict(operation)?;
                pages.list(service, &operation, "attestation", ATTESTATIONS, period.filter()).await
            }
            ListResource::Environments { name, tag, common } => {
                let operation = organization(&["environments"]).with("tag", tag).with("name", name);
                common.list(service, &operation, "environment", ENVIRONMENTS).await
            }
            ListResource::Agents { environment: name, common } => {
                let operation = environment(name, &["environments", name.as_str(), "agents"]);
                common.list(service, &operation, "agent", AGENTS).await
            }
            ListResource::Snapshots { environment: name, interval, reverse, pages } => {
                let operation = environment(name, &["snapshots", name.as_str()])
                    .with("reverse", [reverse])
                    .with("interval", interval);
                pages.list(service, &operation, "snapshot", SNAPSHOTS, "").await
            }
            ListResource::Events { environment: name, start, end, reverse, pages } => {
                let operation = environment(name, &["environments", name.as_str(), "events"])
                    .with("reverse", [reverse])
                    .with("start", start)
                    .with("end", end);
                pages.list(service, &operation, "event", EVENTS, "").await
            }
            ListResource::Flows { name, common } => {
                let case_sensitive = name.as_ref().map(|_| false);
                let operation = organization(&["flows"])
                    .with("search_by_name", name)
                    .with("case_sensitive", case_sensitive);
                common.list(service, &operation, "flow", FLOWS).await
            }
            ListResource::Artifacts { flow, repository, pages } => {
                // The arguments require one of them.
                let about = match (flow, repository) {
                    (Some(flow), _) => Resource::Flow(flow.as_str()),
                    (None, Some(name)) => Resource::Repository(name.as_str()),
                    (None, None) => Resource::Organization,
                };
                let operation = Operation::new(about, &["artifacts"])
                    .with("flow_name", flow)
                    .with("repo_name", repository);
                pages.list(service, &operation, "artifact", ARTIFACTS, "").await
            }
            ListResource::Digests { since, common } => digests_in_use::list(service, *since, common).await,
            ListResource::Policies(common) => {
                common.list(service, &organization(&["policies"]), "policy", POLICIES).await
            }
            ListResource::Actions(common) => {
                let operation = organization(&["organizations", "environments_notifications"]);
                common.list(service, &operation, "action", NOTIFICATIONS).await
            }
            ListResource::Approvals { flow, fingerprint, common } => {
                let fingerprint = digests::resolve(service, common, fingerprint).await?;
                let path = ["artifacts", flow.as_str(), &fingerprint.to_string(), "approvals"];
                let operation = Operation::new(Resource::Flow(flow.as_str()), &path);
                common.list(service, &operation, "approval", APPROVALS).await
            }
            ListResource::Audit { period, pages } => {
                let operation = period.restrict(organization(&["audit"]))?;
                pages.list(service, &operation, "audit entry", AUDIT, period.filter()).await
            }
        }
    }
}

/// Describes the filter of trails, because a misspelled one yields an empty list and no error.
fn trails_filter(flow: Option<&FlowName>, tag: Option<&str>, fingerprint: Option<Fingerprint>) -> String {
    let flow = flow.map(|flow| format!(" in the flow \"{flow}\""));
    let tag = tag.map(|tag| format!(" in flows with the tag {}", Escaped(tag)));
    let artifact = fingerprint.map(|fingerprint| format!(" with the artifact {fingerprint}"));
    let filter: String = [flow, tag, artifact].into_iter().flatten().collect();
    if filter.is_empty() { filter } else { format!("{filter}; remove the filter to list all trails") }
}

fn tag(text: &str) -> Result<String, &'static str> {
    let has_key = text.find('=').is_some_and(|length| length > 0);
    has_key.then(|| text.to_owned()).ok_or("expected a tag as key=value")
}
