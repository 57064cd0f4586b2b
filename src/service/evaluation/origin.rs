//! Checks the repository and the artifacts that a request of a flow names, before it is recorded.

use std::collections::BTreeSet;

use super::audit::Audit;
use crate::domain::escape::Escaped;
use crate::domain::evidence::ownership::{self, NamedOrigin, Owned, OwnershipViolation};
use crate::domain::model::{Fingerprint, FlowName, GitCommit, RepositoryInfo, TrailName, UrlText};
use crate::service::access::Caller;
use crate::service::app::App;
use crate::service::http::problem::Problem;
use crate::store::Transaction;
use crate::store::provenance::ClaimEffect;
use crate::store::repositories::RecordError;

/// The ownership of the flow, or why the request is refused.
pub(crate) async fn check(
    transaction: &mut Transaction,
    organization: &str,
    flow: &FlowName,
    (repository, commit): (Option<&RepositoryInfo>, Option<&GitCommit>),
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Result<Owned, OwnershipViolation>, Problem> {
    let declared = transaction.ownerships(organization).await?;
    let urls = [
        repository.and_then(|repository| repository.url.as_ref()).map(UrlText::as_str),
        commit.and_then(|commit| commit.url.as_ref()).map(UrlText::as_str),
    ];
    // An identifier may mean a repository that was recorded under another name.
    let recorded = match repository {
        Some(repository) => transaction.recorded_name(organization, repository).await?,
        None => None,
    };
    let sent = repository.map(|repository| repository.name.as_str());
    for repository in [sent].into_iter().chain(recorded.as_deref().map(Some)) {
        let origin = NamedOrigin { repository, urls };
        if let Err(violation) = ownership::check_origin(flow.as_str(), origin, &declared) {
            return Ok(Err(violation));
        }
    }
    let Some(own) = declared.get(flow.as_str()) else { return Ok(Ok(Owned::default())) };
    let names = if own.images.is_empty() {
        Vec::new()
    } else {
        transaction.names_of_images(organization, artifacts).await?
    };
    let names = names.iter().map(|(artifact, name)| (*artifact, name.as_str()));
    Ok(own.check_images(names).map(|artifacts| Owned { is_owner: true, artifacts }))
}

/// Records a refused request in the audit log, once an hour if it is repeated.
pub(crate) async fn refuse(
    app: &App,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    violation: &OwnershipViolation,
) -> Result<Problem, Problem> {
    let audit =
        Audit::from_token(&caller.name, organization, format!("attestation in {flow} refused: {violation}"));
    let (mut transaction, now) = (app.site.store.write().await?, app.site.now());
    if audit.record_once(&mut transaction, now).await? {
        transaction.commit().await?;
        audit.log();
    }
    Ok(Problem::forbidden(violation))
}

/// The response if a repository cannot be recorded.
pub(crate) fn recording_problem(error: RecordError) -> Problem {
    match error {
        RecordError::Ambiguous(error) => Problem::field("repo_info.provider", &error),
        RecordError::Closed => Problem::field("repo_info.name", &error),
        RecordError::Store(error) => error.into(),
    }
}

/// The message about a trail that does not exist.
pub(crate) fn missing_trail(flow: &FlowName, trail: &TrailName) -> String {
    format!("trail \"{trail}\" of flow \"{flow}\" not found: begin the trail first")
}

/// Describes a request that names another origin than recorded, for the audit log and the operator.
pub(crate) fn warning(what: &str, flow: &FlowName, claim: ClaimEffect) -> Option<String> {
    let ClaimEffect { conflicts, replaced } = claim;
    let replaces = (replaced > 0)
        .then(|| format!("{what} in flow {flow} replaced the origin of {replaced} of its artifacts"));
    let conflict = || {
        format!("{what} in flow {flow} names another origin than recorded for {conflicts} of its artifacts")
    };
    replaces.or_else(|| (conflicts > 0).then(conflict))
}

/// Logs a warning, after the commit.
pub(crate) fn log_warning(
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    warning: Option<&str>,
    claim: ClaimEffect,
) {
    let Some(warning) = warning else { return };
    let (token, ClaimEffect { conflicts, replaced }) = (Escaped(&caller.name), claim);
    tracing::warn!(
        token = %token, flow = flow.as_str(), conflicts, replaced,
        "{organization}: {}: see the pages of the artifacts", Escaped(warning)
    );
}
