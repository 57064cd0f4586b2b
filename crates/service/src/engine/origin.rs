//! Checks the repository and the artifacts that a request of a flow names, before it is recorded.

use std::collections::BTreeSet;

use crate::engine::audit::Audit;
use crate::engine::guard::Evaluating;
use crate::http::problem::Problem;
use crate::identity::access::Caller;
use model::escape::Escaped;
use model::{Fingerprint, FlowName, GitCommit, RepositoryInfo, Timestamp, TrailName, UrlText};
use rules::ownership::{self, NamedOrigin, Owned, OwnershipViolation};
use store::Tenant;
use store::provenance::OriginEffect;
use store::repositories::RecordError;

/// The ownership of the flow, if the request is not refused. A refused request is recorded in the audit log, once an hour if it
/// is repeated.
pub(crate) async fn check<'a>(
    mut evaluating: Evaluating<'a>,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    repository: Option<&RepositoryInfo>,
    commit: Option<&GitCommit>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<(Evaluating<'a>, Owned), Problem> {
    let transaction = &mut evaluating.transaction;
    let violation =
        match owned(&mut transaction.of(organization), flow, repository, commit, artifacts).await? {
            Ok(owned) => return Ok((evaluating, owned)),
            Err(violation) => violation,
        };
    let site = &evaluating.app.site;
    drop(evaluating);
    let audit =
        Audit::from_token(&caller.name, organization, format!("attestation in {flow} refused: {violation}"));
    let mut transaction = site.store.write().await?;
    if audit.record_once(&mut transaction, site.now()).await? {
        transaction.commit().await?;
        audit.log();
    }
    Err(Problem::forbidden(&violation))
}

/// The ownership of the flow, or why the request is refused.
async fn owned(
    tenant: &mut Tenant<'_>,
    flow: &FlowName,
    repository: Option<&RepositoryInfo>,
    commit: Option<&GitCommit>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Result<Owned, OwnershipViolation>, Problem> {
    let declared = store::provenance::ownerships(tenant).await?;
    let urls = [
        repository.and_then(|repository| repository.url.as_ref()).map(UrlText::as_str),
        commit.and_then(|commit| commit.url.as_ref()).map(UrlText::as_str),
    ];
    // An identifier may mean a repository that was recorded under another name.
    let recorded = match repository {
        Some(repository) => store::repositories::recorded_name(tenant, repository).await?,
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
        store::image_indexes::names(tenant, artifacts).await?
    };
    let names = names.iter().map(|(artifact, name)| (*artifact, name.as_str()));
    Ok(own.check_images(names).map(|artifacts| Owned { is_owner: true, artifacts }))
}

/// The response if a repository cannot be recorded.
impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Ambiguous(error) => Self::field("repo_info.provider", &error),
            RecordError::Closed => Self::field("repo_info.name", &error),
            RecordError::Store(error) => error.into(),
        }
    }
}

/// The message about a trail that does not exist.
pub(crate) fn missing_trail(flow: &FlowName, trail: &TrailName) -> String {
    format!("trail \"{trail}\" of flow \"{flow}\" not found: begin the trail first")
}

/// Commits an attestation or report, `what`, with its effects in the audit log. Warns if it names another origin than recorded.
pub(crate) async fn commit_with_warning(
    mut evaluating: Evaluating<'_>,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    what: &str,
    effect: OriginEffect,
    at: Timestamp,
) -> Result<(), Problem> {
    let OriginEffect { conflicts, replaced, repository } = effect;
    let warning = if replaced > 0 {
        Some(format!("{what} in flow {flow} replaced the origin of {replaced} of its artifacts"))
    } else if conflicts > 0 {
        Some(format!(
            "{what} in flow {flow} names another origin than recorded for {conflicts} of its artifacts"
        ))
    } else {
        None
    };
    for change in repository.into_iter().chain(warning.clone()) {
        evaluating.audit(Audit::from_token(&caller.name, organization, change), at).await?;
    }
    evaluating.commit().await?;
    if let Some(warning) = warning {
        tracing::warn!(
            token = %Escaped(&caller.name), flow = flow.as_str(), conflicts, replaced,
            "{organization}: {}: see the pages of the artifacts", Escaped(&warning)
        );
    }
    Ok(())
}
