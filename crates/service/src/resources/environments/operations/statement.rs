//! Export what ran in an environment as a signed in-toto statement: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use serde_json::{Value, json};

use crate::engine::selected_snapshot::SelectedSnapshot;
use crate::http::blocking::compute;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::envelope::{Envelope, RUNNING_ARTIFACTS, STATEMENT_V1};
use model::reason::Reason;
use model::{EnvironmentSnapshot, Fingerprint, SnapshotExpression};
use rules::history_coverage::HistoryCoverage;
use rules::policy::PolicyVersion;

/// Export what ran as an in-toto statement in a DSSE envelope, signed by the service. Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/snapshots/{org}/{env_name}/{snapshot}/statement",
    tag = "environments",
    params(("snapshot" = inline(SnapshotExpression), Path, description = "As to get a snapshot")),
    responses(
        (status = 200, description = "The envelope", body = Envelope),
        (status = 404, description = "No such environment or snapshot, it was removed, nothing ran, or the service has no signing key", body = ErrorBody),
    ),
)]
pub(crate) async fn export_statement(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (String, String)>,
    uri: Uri,
) -> Result<axum::Json<Envelope>, Problem> {
    let (name, expression) = rest;
    let (environment, expression) =
        (Problem::parse("env_name", &name)?, Problem::parse("snapshot", &expression)?);
    let of = EnvironmentSnapshot { environment, expression };
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let selected = SelectedSnapshot::read(&site, tenant, &of).await?;
    let policies = store::policies::at(tenant, of.environment.as_str(), selected.at).await?;
    drop(transaction);
    if selected.content.artifacts.is_empty() {
        let problem = format!(
            "no artifact ran in environment \"{}\" at {}: a statement needs one",
            of.environment, selected.at
        );
        return Err(Problem::not_found(problem));
    }
    let sign = move || {
        let statement = statement(&site, &organization, &selected, &policies);
        site.log_signer.sign_statement(statement.to_string().as_bytes())
    };
    // Many artifacts take long to write: use a blocking thread.
    let envelope = compute(sign).await?.ok_or_else(|| {
        Problem::not_found("the service signs no statements: it has no signing key (serve --signing-key)")
    })?;
    envelope.map(axum::Json).map_err(|_| Problem::defect())
}

/// The statement (in-toto, Statement v1).
fn statement(
    site: &Site,
    organization: &str,
    selected: &SelectedSnapshot,
    policies: &[(PolicyVersion, Fingerprint)],
) -> Value {
    let (snapshot, content) = (&selected.snapshot, &selected.content);
    let digest = |sha256: &Fingerprint| json!({ "sha256": sha256 });
    let subject = content.artifacts.iter();
    let subject = subject.map(|(artifact, (name, _))| json!({"name": name, "digest": digest(artifact)}));
    let artifacts = content.artifacts.iter().map(|(artifact, (name, pods))| {
        let known = content.known.get(artifact);
        let reasons = content.verdicts.get(artifact).map_or(&[][..], |verdict| &verdict.reasons);
        json!({
            "name": name, "digest": digest(artifact), "pods": pods.len(),
            "compliance": selected.compliance(artifact).as_str(),
            "reasons": reasons.iter().map(Reason::with_text).collect::<Vec<_>>(),
            "flow": known.and_then(|known| known.flow()),
            "commit": known.and_then(|known| known.commit(None).0),
        })
    });
    let policies = policies.iter().map(
        |(policy, sha256)| json!({"name": policy.name, "version": policy.version, "digest": digest(sha256)}),
    );
    let gaps = snapshot.gaps.iter();
    let gaps = gaps.map(|gap| json!({"from": gap.from.iso_8601(), "to": gap.to.iso_8601()}));
    json!({
        "_type": STATEMENT_V1,
        "subject": subject.collect::<Vec<_>>(),
        "predicateType": RUNNING_ARTIFACTS,
        "predicate": {
            "service": site.links.base(),
            "organization": organization,
            "environment": selected.environment.name,
            "snapshot": snapshot.number,
            "receivedAt": snapshot.received_at.iso_8601(),
            "reportedBy": snapshot.reported_by,
            "asOf": selected.at.iso_8601(),
            "issuedAt": site.now().iso_8601(),
            "isComplete": selected.coverage == HistoryCoverage::Known,
            "warning": selected.coverage.warning(),
            "gaps": gaps.collect::<Vec<_>>(),
            "compliance": selected.environment_compliance().as_str(),
            "policies": policies.collect::<Vec<_>>(),
            "artifacts": artifacts.collect::<Vec<_>>(),
        },
    })
}
