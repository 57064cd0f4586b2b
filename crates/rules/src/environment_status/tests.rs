use super::*;
use crate::policy::PolicyVersion;
use crate::policy::facts::{AllowListEntry, AllowListSubject, ApprovalEvidence};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn allowed(subject: AllowListSubject, until: Option<i64>) -> AllowListEntry {
    let (reason, author) = ("audit".to_owned(), "kim".to_owned());
    AllowListEntry { subject, reason, author, until: until.map(at) }
}

fn reported(names: &[&str]) -> ReportedArtifacts {
    let reported = |&name: &&str| {
        let artifact = ReportedArtifact { name: name.into(), pods: 1, namespaces: vec![] };
        (Fingerprint::from_content(name.as_bytes()), artifact)
    };
    names.iter().map(reported).collect()
}

fn artifact(name: &str) -> Fingerprint {
    Fingerprint::from_content(name.as_bytes())
}

/// A policy without requirements, or one that requires an approval.
fn policy(approval: bool) -> Vec<Arc<Policy>> {
    let name = PolicyVersion { name: "approved".to_owned(), version: 1 };
    let text = format!("{{_schema: x/v1, artifacts: {{approval: {{required: {approval}}}}}}}");
    vec![Arc::new(Policy::parse(name, &text).unwrap())]
}

fn approved() -> Evidence {
    let approvals = vec![ApprovalEvidence { environment: None, created_by: None, approvers: vec![] }];
    Evidence { approvals, ..Evidence::default() }
}

/// The evaluation of `prod` at a time.
fn evaluate(
    policies: &[Arc<Policy>],
    allowed: Vec<AllowListEntry>,
    names: &[&str],
    evidence: &[(Fingerprint, Evidence)],
    now: i64,
) -> Evaluation {
    let (environment, allowed) = ("prod".parse().unwrap(), AllowList(allowed));
    let requirements = Requirements { environment: Some(&environment), policies, allowed: &allowed };
    let evidence = evidence.iter().cloned().collect();
    let none = ExpectedArtifacts::default();
    Evaluation::new(requirements, reported(names), &BTreeMap::new(), &evidence, none, at(now))
}

#[test]
fn environment_is_evaluated_with_a_reason_for_each_artifact() {
    let allowed = vec![allowed(AllowListSubject::Artifact(artifact("one")), None)];
    let Evaluation { status, counts, expiry, .. } = evaluate(&policy(true), allowed, &["one", "two"], &[], 1);
    assert_eq!(status.compliance, Compliance::NonCompliant);
    let one = &status.artifacts[&artifact("one")].verdict;
    assert!(one.is_allowed);
    assert_eq!(Reason::join(&one.reasons, "; "), "allowed by kim: audit");
    assert_eq!(
        Reason::join(&status.artifacts[&artifact("two")].verdict.reasons, "; "),
        "approved v1: not approved"
    );
    assert_eq!(counts, ComplianceCounts { compliant: 1, unknown: 0, non_compliant: 1 });
    assert_eq!(expiry, Expiry::default());
    let Evaluation { status, counts, .. } = evaluate(&[], vec![], &["one", "two"], &[], 1);
    let two = &status.artifacts[&artifact("two")].verdict;
    assert_eq!((status.compliance, two), (Compliance::Unknown, &Verdict::UNKNOWN));
    assert_eq!(counts.unknown, 2);
}

#[test]
fn artifact_must_fulfill_all_policies() {
    let name = PolicyVersion { name: "rules".to_owned(), version: 2 };
    let named = Policy::parse(name, "{_schema: x/v1, artifacts: {provenance: {required: true}}}").unwrap();
    let both = [policy(true), vec![Arc::new(named)]].concat();
    let evaluated = evaluate(&both, vec![], &["one"], &[], 1).status;
    let reasons = &evaluated.artifacts[&artifact("one")].verdict.reasons;
    assert_eq!(
        Reason::join(reasons, "; "),
        "approved v1: not approved; rules v2: no flow holds the artifact"
    );
    let evaluated = evaluate(&both, vec![], &["one"], &[(artifact("one"), approved())], 1).status;
    assert_eq!(evaluated.compliance, Compliance::NonCompliant);
}

#[test]
fn allow_listed_artifact_is_compliant_until_the_entry_expires() {
    let image = || AllowListSubject::Image("registry.k8s.io/**".parse().unwrap());
    let name = "registry.k8s.io/coredns/coredns:v1.11.1";
    for (policies, subject, until, expected) in [
        (policy(true), image(), None, Compliance::Compliant),
        (policy(true), image(), Some(11), Compliance::Compliant),
        (policy(true), image(), Some(10), Compliance::NonCompliant),
        (policy(true), AllowListSubject::Artifact(artifact(name)), Some(11), Compliance::Compliant),
        (policy(true), AllowListSubject::Artifact(artifact("x")), None, Compliance::NonCompliant),
        (
            policy(true),
            AllowListSubject::Image("registry.k8s.io/pause".parse().unwrap()),
            None,
            Compliance::NonCompliant,
        ),
        (vec![], image(), None, Compliance::Compliant),
        (vec![], image(), Some(10), Compliance::Unknown),
        (policy(false), image(), Some(10), Compliance::Compliant),
    ] {
        let entry = allowed(subject, until);
        let status = evaluate(&policies, vec![entry.clone()], &[name], &[], 10).status;
        assert_eq!(status.compliance, expected, "{policies:?} {entry:?}");
    }
}

#[test]
fn environment_with_too_few_artifacts_is_not_compliant() {
    let prod = "prod".parse().unwrap();
    for (policies, min_artifacts, expected) in [
        (policy(false), None, Compliance::Compliant),
        (policy(false), Some(1), Compliance::Compliant),
        (policy(false), Some(2), Compliance::Unknown),
        (policy(true), Some(2), Compliance::NonCompliant),
    ] {
        let limits = ExpectedArtifacts { min_artifacts, ..ExpectedArtifacts::default() };
        let allowed = AllowList::default();
        let requirements = Requirements { environment: Some(&prod), policies: &policies, allowed: &allowed };
        let (kept, evidence) = (BTreeMap::new(), BTreeMap::new());
        let evaluated =
            Evaluation::new(requirements, reported(&["one"]), &kept, &evidence, limits, at(1)).status;
        let is_absent = min_artifacts == Some(2);
        assert_eq!((evaluated.compliance, evaluated.absence.is_some()), (expected, is_absent));
    }
}

#[test]
fn status_expires_with_the_first_entry_or_attestation_that_a_running_artifact_relies_on() {
    let entry = |name, until| allowed(AllowListSubject::Artifact(artifact(name)), until);
    let entries = || {
        vec![
            entry("one", Some(3)),
            entry("one", None),
            entry("two", Some(5)),
            entry("two", Some(9)),
            entry("gone", Some(2)),
        ]
    };
    let evidence = [(artifact("one"), approved())];
    for (now, compliant_until, evaluate_at) in
        [(1, Some(5), Some(3)), (3, Some(5), Some(5)), (5, Some(9), Some(9)), (9, None, None)]
    {
        let evaluated = evaluate(&policy(true), entries(), &["one", "two"], &evidence, now);
        let expected = Expiry { compliant_until: compliant_until.map(at), evaluate_at: evaluate_at.map(at) };
        assert_eq!(evaluated.expiry, expected, "{now}");
    }
    let name = PolicyVersion { name: "rules".to_owned(), version: 1 };
    let text = "{_schema: x/v1, artifacts: {attestations: [{name: unit, type: junit, max_age: 10s}]}}";
    let fresh = vec![Arc::new(Policy::parse(name, text).unwrap())];
    let mut evidence = Evidence::default();
    let flow = evidence.flows.entry("cart".to_owned()).or_default();
    let latest = crate::policy::facts::AttestationEvidence {
        kind: "junit".to_owned(),
        passes: true,
        created_at: at(2),
        tests: 0,
        skipped: 0,
        signed: None,
        trail: None,
    };
    flow.attestations.insert("unit".to_owned(), latest);
    let evidence = [(artifact("one"), evidence)];
    for (entries, now, compliant_until, evaluate_at) in [
        (vec![], 11, Some(12), Some(12)),
        (vec![], 12, None, None),
        // The artifact relies on neither alone.
        (vec![entry("one", Some(20))], 11, None, Some(12)),
        (vec![entry("one", Some(20))], 12, Some(20), Some(20)),
    ] {
        let evaluated = evaluate(&fresh, entries, &["one"], &evidence, now);
        let expected = Expiry { compliant_until: compliant_until.map(at), evaluate_at: evaluate_at.map(at) };
        assert_eq!(evaluated.expiry, expected, "{now}");
    }
}
