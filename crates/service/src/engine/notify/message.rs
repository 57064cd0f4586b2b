//! A notification as it is sent, and the errors of sending it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use sqlx::types::Uuid;
use url::Url;

use crate::site::Site;
use model::escape::Escaped;
use model::reason::RuleReference;
use model::{GitCommit, Text, Trigger};
use rules::event::{AffectedArtifact, MAX_OWNERS, NamespacedOwner};
use rules::notification::{Content, DISPLAYED_DIGITS, EventContent, MAX_LISTED_ARTIFACTS, Notification};
use store::artifacts::flows::KnownArtifact;
use store::notifications::outbox::Recipients;

/// A notification, in all formats.
pub(crate) struct Message<'a> {
    /// As a webhook gets it.
    pub(crate) notification: Notification<'a>,
    /// The affected artifacts, as people see them; none for a webhook.
    pub(crate) artifacts: Vec<ShownArtifact>,
}

/// An affected artifact, as people see it.
pub(crate) struct ShownArtifact {
    /// Name, digest and reasons, in one escaped line.
    pub(crate) line: String,
    /// Owner, flow, commit and author, in one escaped line; empty if they are unknown.
    pub(crate) origin: String,
    /// Label and URL of the page of the artifact, of the commit, and of the rules of the reasons.
    pub(crate) links: Vec<(&'static str, String)>,
}

impl ShownArtifact {
    /// The lines that are not empty.
    pub(crate) fn lines(&self) -> Vec<&str> {
        [self.line.as_str(), &self.origin].into_iter().filter(|line| !line.is_empty()).collect()
    }

    /// The affected artifacts of an event that are listed, with what is known of them now.
    pub(crate) async fn read(site: &Site, content: &EventContent) -> Result<Vec<Self>, store::Error> {
        let EventContent::Environment(event) = content else { return Ok(Vec::new()) };
        let (organization, listed) = (&event.organization, event.artifacts.iter().take(MAX_LISTED_ARTIFACTS));
        let artifacts: BTreeSet<_> = listed.clone().map(|artifact| artifact.fingerprint).collect();
        let mut transaction = site.store.read().await?;
        let tenant = &mut transaction.of(organization);
        let known = store::artifacts::flows::known(tenant, &artifacts).await?;
        let commits = store::artifacts::flows::attested_commits(tenant, &artifacts).await?;
        let rules = listed.clone().flat_map(AffectedArtifact::rules);
        let mut versions: BTreeMap<&str, i64> = BTreeMap::new();
        for name in rules.map(|rule| rule.policy_name.as_str()).collect::<BTreeSet<_>>() {
            let current = store::policies::current(tenant, name).await?;
            versions.extend(current.map(|current| (name, current.version)));
        }
        drop(transaction);
        let show = |(artifact, line): (&AffectedArtifact, String)| {
            let AffectedArtifact { fingerprint, owners, .. } = artifact;
            let known = known.get(fingerprint);
            let (hash, url) = known.map_or((None, None), |known| known.commit(None));
            let is_same = |commit: &&GitCommit| commit.sha1.as_deref() == hash;
            let commit =
                commits.get(fingerprint).and_then(|all| all.iter().find(is_same)).filter(|_| hash.is_some());
            let author = commit.and_then(|commit| commit.author.as_ref().or(commit.author_username.as_ref()));
            let origin = [
                run_by(owners),
                known.and_then(KnownArtifact::flow).map(|flow| format!("flow {flow}")),
                hash.map(|hash| {
                    format!("commit {}", hash.chars().take(DISPLAYED_DIGITS).collect::<String>())
                }),
                author.map(Text::as_str).map(|author| format!("author {author}")),
            ];
            let origin = origin.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let rules = artifact.rules().map(|RuleReference { policy_name, policy_version, number }| {
                let is_current = versions.get(policy_name.as_str()) == Some(policy_version);
                site.links.rule(organization, policy_name, is_current.then_some(*number))
            });
            let rules: BTreeSet<_> = rules.collect();
            let url = url.and_then(|url| url.parse::<Url>().ok());
            let url = url.filter(|url| matches!(url.scheme(), "https" | "http"));
            let links = [("artifact", site.links.artifact_page(organization, *fingerprint))].into_iter();
            let links = links.chain(url.map(|url| ("commit", url.into())));
            let links = links.chain(rules.into_iter().map(|url| ("policy", url)));
            Self { line, origin: Escaped(&origin).to_string(), links: links.collect() }
        };
        Ok(listed.zip(event.artifact_lines()).map(show).collect())
    }
}

/// Adds the owners of the affected artifacts to an event.
pub(crate) async fn add_owners(
    site: &Site,
    environment: Uuid,
    content: &mut EventContent,
) -> Result<(), store::Error> {
    let EventContent::Environment(Content { organization, trigger, occurred_at, artifacts, .. }) = content
    else {
        return Ok(());
    };
    if artifacts.is_empty() {
        return Ok(());
    }
    let before = || occurred_at.earlier(Duration::from_micros(1));
    let at = if *trigger == Trigger::ExitedArtifact { before() } else { *occurred_at };
    let affected = artifacts.iter().map(|artifact| artifact.fingerprint).collect();
    let mut transaction = site.store.read().await?;
    let mut owners =
        store::environments::contents::owners(&mut transaction.of(organization), environment, at, &affected)
            .await?;
    drop(transaction);
    for artifact in artifacts {
        let owners = owners.remove(&artifact.fingerprint).unwrap_or_default();
        artifact.owners = owners.into_iter().take(MAX_OWNERS).collect();
    }
    Ok(())
}

/// The first owner.
fn run_by(owners: &[NamespacedOwner]) -> Option<String> {
    let (NamespacedOwner { namespace, owner }, others) = owners.split_first()?;
    let others = if others.is_empty() { "" } else { " and others" };
    Some(format!("run by {owner} in {namespace}{others}"))
}

impl Message<'_> {
    /// Details, each an escaped line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let artifacts = self.artifacts.iter().flat_map(ShownArtifact::lines).map(str::to_owned);
        artifacts.chain(self.notes()).collect()
    }

    /// Details other than artifacts, each an escaped line.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notification.content.notes(self.notification.merged_events)
    }
}

/// The refused recipients, and why, in one line.
pub(crate) fn refusals(recipients: &Recipients) -> String {
    let refused =
        recipients.iter().filter_map(|(recipient, why)| Some(format!("{recipient}: {}", why.as_ref()?)));
    refused.collect::<Vec<_>>().join("; ")
}

/// A failed attempt. Messages contain no address and no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("HTTP status {status}")]
    Status { status: u16, retry_after: Option<Duration> },
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    #[error("failed to send the request")]
    Http(#[source] reqwest::Error),
    #[error("failed to resolve the address")]
    Address(#[source] io::Error),
    #[error("failed to send the mail")]
    Smtp(#[source] lettre::transport::smtp::Error),
    /// The server took the mail for none or some of the recipients, and may take it for the refused ones later.
    #[error("the mail server refused {}", refusals(refused))]
    Recipients { done: Recipients, refused: Recipients },
    #[error("failed to compose the mail")]
    Mail(#[source] lettre::error::Error),
    #[error("no mail server: set smtp in the bootstrap file")]
    NoMailServer,
    #[error("the address is not a URL")]
    NoUrl,
    #[error("this replica does not know the address")]
    Unknown,
    #[error("failed to parse the stored event")]
    Unreadable,
    #[error("failed to read the artifacts of the event")]
    Store(#[from] store::Error),
    #[error("PagerDuty has no incident of this event")]
    NoIncident,
    #[error("failed to serialize the notification")]
    Serialize(#[source] serde_json::Error),
}
