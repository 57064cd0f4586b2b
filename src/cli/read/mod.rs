//! `supercargo list` and `supercargo get`: one file per resource.
//!
//! A resource is an operation and columns: the response is printed as JSON or YAML, or its columns as a table. Transient
//! failures are retried.

mod access_review;
mod actions;
mod approvals;
mod attestations;
mod audit;
mod columns;
mod common;
mod download;
mod environments;
mod evidence;
mod live;
mod pages;
mod period;
mod statement;
mod trails;

pub(super) use self::approvals::decide;
pub(super) use self::columns::{Column, Format, Objects, at, fields, items, reason_text, table, text};
pub(super) use self::common::{Common, Requests, client};
pub(super) use self::download::Download;
pub(super) use self::environments::{Diff, warn};
pub(super) use self::evidence::Search;
pub(super) use self::statement::{Export, Verify};

use clap::{Args, Subcommand};

use super::exit::Failure;
use super::service::Service;

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES, subcommand_required = true)]
pub(super) struct List {
    #[command(subcommand)]
    resource: ListResource,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES, subcommand_required = true)]
pub(super) struct Get {
    #[command(subcommand)]
    resource: GetResource,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum ListResource {
    /// List the trails of the organization, newest first
    Trails(trails::Trails),
    /// List the attestations of a flow, newest first
    Attestations(attestations::Attestations),
    /// List environments
    Environments(environments::Environments),
    /// List the agents that report an environment, latest first
    Agents(environments::Agents),
    /// List the snapshots of an environment, newest first
    Snapshots(environments::Snapshots),
    /// List the events of an environment, newest first
    Events(environments::Events),
    /// List flows
    Flows(evidence::Flows),
    /// List the artifacts of a flow or repository, newest first
    Artifacts(evidence::Artifacts),
    /// List policies
    Policies(evidence::Policies),
    /// List the notification actions of the organization
    Notifications(actions::Notifications),
    /// List the approvals of an artifact
    Approvals(approvals::Approvals),
    /// List the audit log, newest first
    Audit(audit::Audit),
}

#[derive(Debug, Subcommand)]
enum GetResource {
    /// Show an environment
    Environment(environments::Environment),
    /// Show what runs, or ran, in an environment
    Snapshot(environments::Snapshot),
    /// Show the running artifacts of a repository in all environments
    LiveArtifacts(live::LiveArtifacts),
    /// Show who may make artifacts compliant in an environment
    AccessReview(access_review::AccessReview),
    /// Show a trail and its events
    Trail(trails::Trail),
    /// Show the flows of an artifact, and where it runs
    Artifact(evidence::Artifact),
    /// Show an attestation
    Attestation(attestations::Attestation),
    /// Show a policy
    Policy(evidence::Policy),
    /// Show an approval
    Approval(approvals::Approval),
    /// Show a notification action
    Action(actions::Action),
}

const LIST_EXAMPLES: &str = "\
Examples:
  List the newest trails, and the trails of an artifact:
    supercargo list trails
    supercargo list trails --fingerprint \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Print all attestations of a flow in October as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

const GET_EXAMPLES: &str = "\
Examples:
  Show the running artifacts of a repository and their compliance:
    supercargo get live-artifacts acme/cart
  Show the comments of an approval:
    supercargo get approval cart 12 -o yaml";

impl List {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let service = &self.service;
        match &self.resource {
            ListResource::Trails(trails) => trails.run(service).await,
            ListResource::Attestations(attestations) => attestations.run(service).await,
            ListResource::Environments(environments) => environments.run(service).await,
            ListResource::Agents(agents) => agents.run(service).await,
            ListResource::Snapshots(snapshots) => snapshots.run(service).await,
            ListResource::Events(events) => events.run(service).await,
            ListResource::Flows(flows) => flows.run(service).await,
            ListResource::Artifacts(artifacts) => artifacts.run(service).await,
            ListResource::Policies(policies) => policies.run(service).await,
            ListResource::Notifications(notifications) => notifications.run(service).await,
            ListResource::Approvals(approvals) => approvals.run(service).await,
            ListResource::Audit(audit) => audit.run(service).await,
        }
    }
}

impl Get {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let service = &self.service;
        match &self.resource {
            GetResource::Environment(environment) => environment.run(service).await,
            GetResource::Snapshot(snapshot) => snapshot.run(service).await,
            GetResource::LiveArtifacts(live) => live.run(service).await,
            GetResource::AccessReview(review) => review.run(service).await,
            GetResource::Trail(trail) => trail.run(service).await,
            GetResource::Artifact(artifact) => artifact.run(service).await,
            GetResource::Attestation(attestation) => attestation.run(service).await,
            GetResource::Policy(policy) => policy.run(service).await,
            GetResource::Approval(approval) => approval.run(service).await,
            GetResource::Action(action) => action.run(service).await,
        }
    }
}
