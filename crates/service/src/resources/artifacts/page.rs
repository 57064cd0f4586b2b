//! The page of an artifact: its origin, attestations and approvals, and the environments where it runs or ran.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};

use crate::engine::artifact_details::ArtifactHistory;
use crate::engine::found_attestations::FoundAttestations;
use crate::http::parameters::Parameters;
use crate::layout::parts::attestation::content;
use crate::layout::parts::environment_status::CurrentStatus;
use crate::layout::parts::environment_status::verdict_reason;
use crate::layout::parts::escape::{link, text, url_link};
use crate::layout::parts::format::{count, result_badge, timestamp};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::{empty, first_rows_note, latest_note, table};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::rules::{self, RuleResults};
use crate::layout::parts::urls::{self, EnvironmentLinks};
use crate::layout::session::OrganizationPage;
use crate::resources::artifacts::approval_form;
use crate::site::{PageSite, Site};
use ::rules::compliance::Compliance;
use model::image_id::short_name;
use model::reason::{Reason, refusal};
use model::{Fingerprint, GitCommit, PlatformManifest, RelatedDigests, repository_page};
use store::artifacts::flows::ArtifactFlow;
use store::artifacts::{CurrentRun, PastRun};
use store::attestations::lists::{AttestationSummary, SignedAttestation};
use store::bootstrap::KnownNames;
use store::provenance::Source;
use store::{AtMost, Tenant};

const MAX_RULE_ENVIRONMENTS: usize = 10;

/// Maximum number of environments in the first sentence.
const MAX_NAMED: usize = 3;

struct ArtifactData {
    names: AtMost<String>,
    sources: AtMost<Source>,
    conflicting_claims: AtMost<Source>,
    signed: Vec<SignedAttestation>,
    /// The commit of the first attestation that has one, if no source is known.
    commit: Option<GitCommit>,
    /// The flows that attested or reported it.
    flows: Vec<ArtifactFlow>,
    history: ArtifactHistory,
    /// The rules of the environments where it runs, with their results, of the first environments.
    rules: Vec<(String, Vec<RuleResults>)>,
    digests: RelatedDigests,
    /// Environments that were declared or reported, and flows.
    known_names: KnownNames,
}

/// The page; 404 unless the artifact ran, was reported or attested, or has an approval.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: fingerprint, user, .. }: OrganizationPage<String>,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let parameters = Parameters::read(&uri, &approval_form::PARAMETERS)?;
    let artifact: Fingerprint = fingerprint.parse().map_err(|_| Refusal::NotFound)?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let mut known = ArtifactData::read(&site, tenant, artifact).await?;
    if known.is_empty() {
        return Err(Refusal::NotFound);
    }
    let digests: BTreeSet<_> = [&known.digests.image_indexes, &known.digests.image_manifests]
        .into_iter()
        .flatten()
        .map(|other| other.fingerprint)
        .chain([artifact])
        .collect();
    if let Some(reasons) = known.first_reasons() {
        let found = FoundAttestations::read(&site, tenant, &digests, reasons.iter()).await?;
        drop(transaction);
        found.complete(reasons.iter_mut()).await;
    }
    let digest = artifact.to_string();
    let mut reported = known.flows.iter().filter_map(|flow| flow.report.as_ref());
    let reported = reported.next().map_or("Artifact", |report| report.filename.as_str());
    let name = known.names.listed.first().map_or(reported, String::as_str);
    let content = html! {
        (approval_form::confirmation(&known.history.approvals.listed, &parameters, name)?)
        h1 { (text(name)) }
        (verdict_in_words(&site, name, &known.history.current_runs))
        dl {
            dt { "Digest" }
            dd { code.whole { "sha256:" (digest) } }
            @if known.names.listed.len() > 1 {
                dt { "Names" }
                dd {
                    ul.plain { @for name in &known.names.listed { li { (text(name)) } } }
                    (latest_note(known.names.cut_at(), "names"))
                }
            }
            (image_digests(&site, &organization, &known))
            (sources(&known))
            @for signed in &known.signed {
                dt { (text(&signed.attestation_name)) }
                dd { (text(&signed.evidence.to_string())) }
            }
        }
        (conflicting_claims(&known.conflicting_claims))
        (current_runs(&site, &organization, &known.history.current_runs))
        (rule_results(&site, &organization, &known))
        (reports(&site, &organization, &known.flows))
        (attestations(&site, &organization, &known.history.attestations))
        @if known.flows.is_empty() && known.digests.is_empty() {
            p {
                "No flow knows this digest. It may be the digest of an image configuration, which no registry has: runtimes report "
                "it for imported images, images built on the node, and on CRI-O images known only by their ID."
            }
        }
        (approval_form::section(&site, &user, artifact, &known.history.approvals, &flows(&known), &known.known_names))
        (past_runs(&site, &organization, &known.history.past_runs))
    };
    let path = ["search", &organization, "sha", &digest];
    let alternate = Alternate::new(&site, &path, &[], &["get", "artifact", &digest]);
    // The operation knows no artifacts that only have approvals.
    let is_known = !(known.names.listed.is_empty() && known.flows.is_empty());
    let navigation = Navigation { alternate: Some(&alternate).filter(|_| is_known), ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, name, Some(&user), navigation, &content))
}

impl ArtifactData {
    async fn read(site: &Site, tenant: &mut Tenant<'_>, artifact: Fingerprint) -> Result<Self, store::Error> {
        let history = ArtifactHistory::read(tenant, artifact).await?;
        let mut rules = Vec::new();
        for run in history.current_runs.listed.iter().take(MAX_RULE_ENVIRONMENTS) {
            let (environment, reported) =
                (&run.environment.name, [(artifact, run.artifact.reported.clone())].into());
            let results = rules::evaluate(site, tenant, environment, &reported).await?;
            rules.push((environment.clone(), results));
        }
        let sources = store::provenance::sources(tenant, artifact).await?;
        let commit = if sources.listed.is_empty() {
            store::attestations::lists::first_commit(tenant, artifact).await?
        } else {
            None
        };
        let mut flows = store::artifacts::flows::known(tenant, &[artifact].into()).await?;
        let listed = store::image_indexes::listed_manifests(tenant, &[artifact].into()).await?;
        Ok(Self {
            names: store::artifacts::image_names(tenant, artifact).await?,
            sources,
            conflicting_claims: store::provenance::conflicting_claims(tenant, artifact).await?,
            signed: store::attestations::lists::signed(tenant, &[artifact].into()).await?,
            commit,
            flows: flows.remove(&artifact).unwrap_or_default().flows,
            history,
            rules,
            digests: RelatedDigests::new(&listed, artifact),
            known_names: store::bootstrap::known_names(tenant).await?,
        })
    }

    /// The reasons of the first environment where it does not comply.
    fn first_reasons(&mut self) -> Option<&mut Vec<Reason>> {
        let mut verdicts = self.history.current_runs.listed.iter_mut().map(|run| &mut run.artifact.verdict);
        let failing = verdicts.find(|verdict| verdict.compliance == Compliance::NonCompliant)?;
        Some(&mut failing.reasons)
    }

    fn is_empty(&self) -> bool {
        self.names.listed.is_empty()
            && self.flows.is_empty()
            && self.history.attestations.listed.is_empty()
            && self.history.approvals.listed.is_empty()
            && self.digests.is_empty()
    }
}

/// Where it may not run and why, or where it may.
fn verdict_in_words(site: &Site, name: &str, runs: &AtMost<CurrentRun>) -> Markup {
    let now = site.now();
    let of = |wanted: Compliance| {
        let runs = runs
            .listed
            .iter()
            .filter(move |run| CurrentStatus::from_run(run, site, now).compliance() == wanted);
        runs.collect::<Vec<_>>()
    };
    let (failing, compliant) = (of(Compliance::NonCompliant), of(Compliance::Compliant));
    let names = |runs: &[&CurrentRun]| {
        let named = runs.iter().take(MAX_NAMED).map(|run| run.environment.name.as_str());
        let named = named.collect::<Vec<_>>().join(", ");
        if runs.len() > MAX_NAMED { format!("{named} and {} more", runs.len() - MAX_NAMED) } else { named }
    };
    html! {
        p.lead {
            @if let Some(first) = failing.first() {
                @let findings: Vec<_> = first.artifact.verdict.reasons.iter().map(Reason::finding).collect();
                strong.bad { (text(&refusal(short_name(name), Some(&first.environment.name), &findings))) }
                @if let [_, others @ ..] = failing.as_slice() && !others.is_empty() { "; nor in " (text(&names(others))) }
            } @else if !compliant.is_empty() {
                "Complies in " (text(&names(&compliant)))
            } @else if runs.listed.is_empty() {
                "Does not run anywhere"
            } @else {
                "No verdict: no policy applies where it runs, or no current report confirms one"
            }
        }
    }
}

/// The other digests of the image.
fn image_digests(site: &Site, organization: &str, known: &ArtifactData) -> Markup {
    let link = |other: &PlatformManifest| {
        let page = site.links.artifact_page(organization, other.fingerprint);
        html! { a href=(page) { code.whole { "sha256:" (other.fingerprint) } } }
    };
    let RelatedDigests { image_indexes, image_manifests } = &known.digests;
    html! {
        @for index in image_indexes {
            dt { "Image index" }
            dd { "manifest " (text(&index.platform)) " of index " (link(index)) }
        }
        @for manifest in image_manifests {
            dt { "Manifest" }
            dd { (text(&manifest.platform)) " " (link(manifest)) }
        }
    }
}

fn sources(known: &ArtifactData) -> Markup {
    html! {
        @for source in &known.sources.listed {
            dt { "Repository" }
            dd {
                (link(&page_of(source), &text(&source.name)))
                ", named by flow " (text(&source.flow)) ", token " (text(&source.reported_by)) ", "
                (timestamp(source.recorded_at))
            }
            @if let Some(sha) = &source.commit_sha {
                dt { "Commit" }
                dd { (link(source.commit_url.as_deref().unwrap_or_default(), &commit_hash(sha))) }
            }
        }
        @if known.sources.has_more {
            dt { "Repositories" }
            dd { (latest_note(known.sources.cut_at(), "repositories")) }
        }
        @if let Some((sha, url)) = known.commit.as_ref().and_then(|commit| Some((commit.sha1.as_ref()?, &commit.url))) {
            dt { "Commit" }
            dd { (link(url.as_ref().map_or("", |url| url.as_str()), &commit_hash(sha))) }
        }
    }
}

/// The page of a repository, of which a client may have named a remote.
fn page_of(source: &Source) -> String {
    let url = source.url.as_deref().unwrap_or_default();
    repository_page(url).unwrap_or_else(|| url.to_owned())
}

/// Other origins that flows named. Their URLs are text: a link would lead where the recorded origin does not.
fn conflicting_claims(claims: &AtMost<Source>) -> Markup {
    let rows = html! {
        @for claim in &claims.listed {
            tr {
                th scope="row" { (text(&claim.flow)) }
                td { (text(&claim.name)) }
                td { (text(claim.url.as_deref().unwrap_or_default())) }
                td { @if let Some(sha) = &claim.commit_sha { (commit_hash(sha)) } }
                td { (text(&claim.reported_by)) }
                td { (timestamp(claim.recorded_at)) }
            }
        }
    };
    html! {
        @if !claims.listed.is_empty() {
            section {
                h2 { "Conflicting origins" }
                p { "These flows named another origin than the recorded one, which they cannot change." }
                (table("Conflicting origins", &["Flow", "Repository", "URL", "Commit", "By", "Recorded"], &rows))
                (latest_note(claims.cut_at(), "origins"))
            }
        }
    }
}

fn commit_hash(sha: &str) -> Markup {
    html! { code.whole { (sha) } }
}

/// The environments where the artifact runs.
fn current_runs(site: &Site, organization: &str, runs: &AtMost<CurrentRun>) -> Markup {
    let now = site.now();
    let rows = html! {
        @for run in &runs.listed {
            @let status = CurrentStatus::from_run(run, site, now);
            @let links = EnvironmentLinks { site, organization, environment: &run.environment.name };
            tr {
                th scope="row" { (links.link()) }
                td { (status.badge()) }
                td { (text(&verdict_reason(Some(&run.artifact.verdict), status.compliance(), ""))) }
                td { (run.artifact.reported.pods) }
                td { (timestamp(run.started_at)) }
            }
        }
    };
    html! {
        section {
            h2 { "Running in" }
            @if runs.listed.is_empty() { p { "The artifact is not running." } }
            @else { (table("Running in", &["Environment", "Compliance", "Reason", "Pods", "Since"], &rows)) }
            (latest_note(runs.cut_at(), "environments"))
        }
    }
}

/// Each rule with its result, by environment.
fn rule_results(site: &Site, organization: &str, known: &ArtifactData) -> Markup {
    let rows = html! {
        @for (environment, rules) in &known.rules {
            @for rule in rules {
                tr {
                    (rule.heading(site, organization))
                    td { @for (outcome, reasons) in &rule.artifacts { (rules::outcome(*outcome, reasons)) } }
                    td { (EnvironmentLinks { site, organization, environment }.link()) }
                }
            }
        }
    };
    let cut_at =
        (known.history.current_runs.listed.len() > MAX_RULE_ENVIRONMENTS).then_some(MAX_RULE_ENVIRONMENTS);
    html! {
        @if known.rules.iter().any(|(_, rules)| !rules.is_empty()) {
            section {
                h2 { "Rules" }
                (table("Rules", &["Policy", "Rule", "Result", "Environment"], &rows))
                (first_rows_note(cut_at, "environments"))
            }
        }
    }
}

/// The last report of the artifact in each flow.
fn reports(site: &Site, organization: &str, flows: &[ArtifactFlow]) -> Markup {
    let rows = html! {
        @for (flow, report) in flows.iter().filter_map(|flow| Some((flow, flow.report.as_ref()?))) {
            tr {
                th scope="row" { (text(&flow.flow)) }
                td {
                    @if let Some(trail) = &flow.trail {
                        a href=(urls::trail(site, organization, &flow.flow, trail)) { (text(trail)) }
                    }
                }
                td { (text(report.filename.as_str())) }
                td { @if let Some(url) = flow.build_url() { (url_link(url)) } }
            }
        }
    };
    html! {
        @if flows.iter().any(|flow| flow.report.is_some()) {
            section {
                h2 { "Reports" }
                (table("Reports", &["Flow", "Last trail", "Name", "Build"], &rows))
            }
        }
    }
}

fn attestations(site: &Site, organization: &str, attestations: &AtMost<AttestationSummary>) -> Markup {
    let rows = html! {
        @for attested in &attestations.listed {
            @let trail = urls::trail(site, organization, &attested.flow, &attested.trail);
            tr.old[attested.is_superseded] {
                th scope="row" { a href={ (trail) "/attestations/" (attested.id) } { (text(&attested.name)) } }
                td { (result_badge(attested.passes)) @if attested.is_superseded { " superseded" } }
                td { (text(&attested.flow)) }
                td { a href=(trail) { (text(&attested.trail)) } }
                td { (content(attested)) }
                td { (timestamp(attested.created_at)) }
                td { (text(&attested.reported_by)) }
            }
        }
    };
    let columns = ["Name", "Result", "Flow", "Trail", "Tests", "Created", "By"];
    html! {
        section {
            h2 { "Attestations" }
            @if attestations.listed.is_empty() {
                (empty("No attestations.", "supercargo attest junit --flow FLOW --trail TRAIL --name unit-tests --fingerprint DIGEST RESULTS"))
            }
            @else { (table("Attestations", &columns, &rows)) }
            (latest_note(attestations.cut_at(), "attestations"))
        }
    }
}

/// The flows that reported, attested or approved the artifact.
fn flows(known: &ArtifactData) -> BTreeSet<&str> {
    let attested = known.flows.iter().map(|known| known.flow.as_str());
    attested.chain(known.history.approvals.listed.iter().map(|approval| approval.flow.as_str())).collect()
}

fn past_runs(site: &Site, organization: &str, runs: &AtMost<PastRun>) -> Markup {
    let rows = html! {
        @for run in &runs.listed {
            @let (first, last) = (run.first_snapshot, run.snapshot_index);
            @let links = EnvironmentLinks { site, organization, environment: &run.environment_name };
            tr {
                th scope="row" { (links.link()) }
                td { a href=(links.at(run.started_at)) { (timestamp(run.started_at)) } }
                td { (timestamp(run.exited_at)) }
                td {
                    (links.snapshot_link(first, run.current_snapshot))
                    @if first != last { " to " (links.snapshot_link(last, run.current_snapshot)) }
                }
            }
        }
    };
    let total = i64::try_from(runs.listed.len()).unwrap_or(i64::MAX);
    html! {
        section {
            h2 { "Past runs" }
            @if runs.listed.is_empty() { p { "No past runs within the retention." } }
            @else {
                (table(&count(total, "past run", "past runs"), &["Environment", "From", "Until", "Snapshots"], &rows))
            }
            (latest_note(runs.cut_at(), "runs"))
        }
    }
}
