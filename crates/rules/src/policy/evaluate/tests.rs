use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::policy::authorship::Authorship;
use crate::policy::facts::{ApprovalEvidence, Evidence, TrailEvidence};
use crate::policy::{LatestNeeded, Needs, PolicyVersion};
use model::{EnvironmentName, Fingerprint, SignedEvidence};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

const NOW: i64 = 1_000_000;

fn policy(artifacts: &str) -> Policy {
    let name = PolicyVersion { name: "rules".to_owned(), version: 2 };
    Policy::parse(name, &format!("_schema: https://example.com/v1\nartifacts: {{{artifacts}}}")).unwrap()
}

/// An attestation `flow/name:type`; a `-` at the end: it fails.
fn attested(evidence: &mut Evidence, text: &str, created_at: i64) {
    let (passes, text) = text.strip_suffix('-').map_or((true, text), |text| (false, text));
    let (flow, rest) = text.split_once('/').unwrap();
    let (name, kind) = rest.split_once(':').unwrap();
    let flow = evidence.flows.entry(flow.to_owned()).or_insert_with_key(|flow| FlowEvidence {
        tags: Arc::new(BTreeMap::from([("of".to_owned(), flow.clone())])),
        ..FlowEvidence::default()
    });
    let created_at = at(created_at);
    let latest = AttestationEvidence {
        kind: kind.to_owned(),
        passes,
        created_at,
        tests: 5,
        skipped: 2,
        signed: None,
        trail: None,
    };
    flow.attestations.insert(name.to_owned(), latest);
}

fn evidence(attestations: &[&str]) -> Evidence {
    let mut evidence = Evidence::default();
    for text in attestations {
        attested(&mut evidence, text, NOW - 100);
    }
    evidence
}

/// The result of each rule as `outcome: resolutions`, and the reasons.
fn evaluate(policy: &Policy, evidence: &Evidence) -> (Vec<String>, Vec<String>) {
    let environment: EnvironmentName = "prod".parse().unwrap();
    let fingerprint = Fingerprint::from_content(b"cart");
    let facts = Facts {
        environment: Some(&environment),
        name: "shop/cart:1",
        fingerprint: &fingerprint,
        namespaces: &[],
        evidence,
    };
    let evaluated = policy.evaluate(&facts, at(NOW));
    let rules = evaluated.rules.iter().map(|rule| {
        let resolutions: Vec<_> = rule
            .resolutions
            .iter()
            .map(|found| {
                let place = [found.flow, found.trail].into_iter().flatten().collect::<Vec<_>>().join("/");
                let code = serde_json::to_value(&found.code).unwrap();
                let code = code["type"].as_str().unwrap();
                format!("{code}{}{place}", if place.is_empty() { "" } else { " " })
            })
            .collect();
        format!("{:?}: {}", rule.outcome, resolutions.join(", "))
    });
    assert_eq!(evaluated.is_fulfilled(), evaluated.reasons().next().is_none());
    for rule in evaluated.reasons().map(|reason| reason.rule.unwrap()) {
        assert_eq!(evaluated.rules[rule.number - 1].outcome, Outcome::NotSatisfied, "{rule:?}");
    }
    (rules.collect(), evaluated.reasons().map(|reason| reason.to_string()).collect())
}

/// Policy, attestations, result, reasons.
type Case<'a> = (&'a str, &'a [&'a str], &'a str, &'a [&'a str]);

fn check(cases: &[Case<'_>]) {
    for (artifacts, attestations, result, reasons) in cases {
        let (results, found) = evaluate(&policy(artifacts), &evidence(attestations));
        assert_eq!(results.join("; "), *result, "{artifacts} {attestations:?}");
        assert_eq!(found, *reasons, "{artifacts} {attestations:?}");
    }
}

#[test]
fn attestation_rule_is_satisfied_in_whichever_flow_holds_the_artifact() {
    const UNIT: &str = "attestations: [{name: unit, type: junit}]";
    check(&[
        (UNIT, &["cart/unit:junit"], "Satisfied: rule_satisfied cart", &[]),
        (
            "attestations: [{name: unit, type: \"*\"}, {name: unit, type: junit}]",
            &["cart/unit:generic"],
            "Satisfied: rule_satisfied cart; NotSatisfied: missing_attestation cart",
            &["rules v2: unit (junit) of the flow cart is missing"],
        ),
        (UNIT, &["web/unit:junit"], "Satisfied: rule_satisfied web", &[]),
        (UNIT, &[], "NotSatisfied: missing_attestation", &["rules v2: unit (junit) is missing"]),
        (
            UNIT,
            &["cart/lint:junit", "cart/unit:generic"],
            "NotSatisfied: missing_attestation cart",
            &["rules v2: unit (junit) of the flow cart is missing"],
        ),
        (
            UNIT,
            &["cart/unit:junit-"],
            "NotSatisfied: non_compliant_attestation cart",
            &["rules v2: unit (junit) of the flow cart failed"],
        ),
        // Another flow also holds the artifact.
        (
            UNIT,
            &["cart/unit:junit", "deploy/smoke:generic"],
            "Satisfied: rule_satisfied cart, missing_attestation deploy",
            &[],
        ),
        // A failure is not hidden by a success in another flow.
        (
            UNIT,
            &["cart/unit:junit-", "web/unit:junit"],
            "NotSatisfied: non_compliant_attestation cart, rule_satisfied web",
            &["rules v2: unit (junit) of the flow cart failed"],
        ),
    ]);
}

#[test]
fn attestation_rule_matches_name_and_type() {
    const TYPE: &str = "attestations: [{type: junit}]";
    const NAME: &str = "attestations: [{name: unit, type: \"*\", for_control: C-1}]";
    const EXISTS: &str = "attestations: [{name: unit, type: junit, must_be_compliant: false}]";
    check(&[
        (TYPE, &["cart/unit:junit", "cart/scan:snyk-"], "Satisfied: rule_satisfied cart", &[]),
        (
            TYPE,
            &["cart/e2e:junit-", "cart/unit:junit"],
            "NotSatisfied: non_compliant_attestation cart",
            &["rules v2: e2e (junit) of the flow cart failed"],
        ),
        (
            TYPE,
            &["cart/scan:snyk"],
            "NotSatisfied: missing_attestation cart",
            &["rules v2: an attestation of type junit of the flow cart is missing"],
        ),
        (NAME, &["cart/unit:custom:x"], "Satisfied: rule_satisfied cart", &[]),
        (
            NAME,
            &["cart/x:junit"],
            "NotSatisfied: missing_attestation cart",
            &["rules v2: unit of the flow cart is missing (control C-1)"],
        ),
        (EXISTS, &["cart/unit:junit-"], "Satisfied: rule_satisfied cart", &[]),
    ]);
}

#[test]
fn condition_selects_the_flows_and_a_condition_without_result_applies() {
    const IF: &str = "attestations: [{name: unit, type: junit, if: '${{ flow.tags.of == \"cart\" }}'}]";
    const WHEN: &str = "attestations: [{name: unit, type: junit, when: 'flow.tags.level == \"1\"'}]";
    check(&[
        (IF, &["web/lint:junit"], "Ignored: rule_not_applicable web", &[]),
        (IF, &[], "Ignored: rule_not_applicable", &[]),
        (
            IF,
            &["cart/unit:junit", "web/x:junit"],
            "Satisfied: rule_satisfied cart, rule_not_applicable web",
            &[],
        ),
        (
            IF,
            &["cart/x:junit", "web/unit:junit"],
            "NotSatisfied: missing_attestation cart, rule_not_applicable web",
            &["rules v2: unit (junit) of the flow cart is missing"],
        ),
        (WHEN, &["cart/unit:junit"], "Satisfied: failed_condition cart, rule_satisfied cart", &[]),
        (
            WHEN,
            &["cart/x:junit"],
            "NotSatisfied: failed_condition cart, missing_attestation cart",
            &[
                "rules v2: the attestation rule applies: failed to evaluate the condition: No such key: level of the flow cart",
                "rules v2: unit (junit) of the flow cart is missing",
            ],
        ),
    ]);
}

#[test]
fn provenance_is_required_except_for_exceptions() {
    const REQUIRED: &str = "provenance: {required: true}";
    const EXEMPT: &str =
        "provenance: {required: true, exceptions: [{if: '${{ matches(artifact.name, \"^shop/\") }}'}]}";
    const FAILS: &str = "provenance: {required: true, exceptions: [{when: 'flow.name == \"x\"'}]}";
    const MISSING: &[&str] = &["rules v2: no flow holds the artifact"];
    check(&[
        (REQUIRED, &["cart/x:generic-"], "Satisfied: rule_satisfied cart", &[]),
        (REQUIRED, &[], "NotSatisfied: missing_provenance", MISSING),
        (EXEMPT, &[], "Ignored: rule_not_applicable", &[]),
        // An exception without a result does not relax the policy.
        (FAILS, &[], "NotSatisfied: missing_provenance", MISSING),
        ("provenance: {required: false}", &[], "Ignored: rule_not_applicable", &[]),
    ]);
}

#[test]
fn each_trail_must_comply_except_for_exceptions() {
    let rule = "trail-compliance: {required: true, exceptions: [{if: '${{ flow.name == \"legacy\" }}'}]}";
    for (trails, result, reasons) in [
        (&[][..], "NotSatisfied: missing_trail", &["rules v2: no trail holds the artifact"][..]),
        (&[("cart", "t1", true)], "Satisfied: rule_satisfied cart/t1", &[]),
        (
            &[("cart", "t1", true), ("cart", "t2", false)],
            "NotSatisfied: rule_satisfied cart/t1, non_compliant_in_trail cart/t2",
            &["rules v2: the trail t2 of the flow cart is not compliant"],
        ),
        (&[("legacy", "t1", false)], "Ignored: rule_not_applicable legacy/t1", &[]),
        (
            &[("cart", "t1", true), ("legacy", "t1", false)],
            "Satisfied: rule_satisfied cart/t1, rule_not_applicable legacy/t1",
            &[],
        ),
    ] {
        let mut evidence = Evidence::default();
        for (flow, name, is_compliant) in trails {
            let trail = TrailEvidence { name: (*name).to_owned(), is_compliant: *is_compliant };
            evidence.flows.entry((*flow).to_owned()).or_default().trails.push(trail);
        }
        let (results, found) = evaluate(&policy(rule), &evidence);
        assert_eq!(
            (results.concat().as_str(), found),
            (result, reasons.iter().map(|&r| r.to_owned()).collect())
        );
    }
}

#[test]
fn attestation_counts_until_it_is_too_old_and_within_its_limits() {
    let environment: EnvironmentName = "prod".parse().unwrap();
    let fingerprint = Fingerprint::from_content(b"cart");
    for (limits, ages, expected, expires_in) in [
        ("max_age: 2h", &[("cart/unit:junit", 100)][..], "", Some(7_100)),
        (
            "max_age: 100s",
            &[("cart/unit:junit", 100)],
            "unit (junit) of the flow cart is too old since 1970-01-12 13:46:40 UTC",
            None,
        ),
        ("max_age: 2m", &[("cart/unit:junit", 100), ("web/unit:junit", 50)], "", Some(70)),
        ("max_age: 2m", &[("cart/unit:junit", 300), ("web/unit:junit", 50)], "", Some(70)),
        ("max_age: 2m", &[("cart/unit:junit-", 300)], "unit (junit) of the flow cart failed", None),
        ("min_tests: 5, max_skipped: 2", &[("cart/unit:junit", 1)], "", None),
        (
            "min_tests: 6",
            &[("cart/unit:junit", 1)],
            "unit (junit) of the flow cart has too few tests: 5, expected at least 6",
            None,
        ),
        (
            "max_skipped: 1",
            &[("cart/unit:junit", 1)],
            "unit (junit) of the flow cart has too many skipped tests: 2, expected at most 1",
            None,
        ),
    ] {
        let mut evidence = Evidence::default();
        for (text, age) in ages {
            attested(&mut evidence, text, NOW - age);
        }
        let policy = policy(&format!("attestations: [{{name: unit, type: junit, {limits}}}]"));
        let facts = Facts {
            environment: Some(&environment),
            name: "shop/cart:1",
            fingerprint: &fingerprint,
            namespaces: &[],
            evidence: &evidence,
        };
        let evaluated = policy.evaluate(&facts, at(NOW));
        let reasons: Vec<_> = evaluated.reasons().map(|reason| reason.to_string()).collect();
        assert_eq!(reasons.concat().trim_start_matches("rules v2: "), expected, "{limits} {ages:?}");
        assert_eq!(evaluated.expires_at, expires_in.map(|seconds| at(NOW + seconds)), "{limits} {ages:?}");
        // At its expiry, the result differs.
        if let Some(end) = evaluated.expires_at {
            assert!(!policy.evaluate(&facts, end).is_fulfilled());
            assert!(policy.evaluate(&facts, end.earlier(std::time::Duration::from_micros(1))).is_fulfilled());
        }
    }
}

#[test]
fn age_of_evidence_counts_from_its_signature_if_that_has_a_proven_time() {
    let policy = policy("attestations: [{name: vsa, type: vsa, max_age: 2m}]");
    assert!(Needs::new([&policy]).reads_signature("cart", "vsa"));
    for (signed_at, expected) in [
        (None, "Satisfied: rule_satisfied cart"),
        (Some(NOW - 110), "Satisfied: rule_satisfied cart"),
        (Some(NOW - 120), "NotSatisfied: expired_attestation cart"),
        // The clock of a log may be ahead: the attestation is not younger.
        (Some(NOW + 50), "Satisfied: rule_satisfied cart"),
    ] {
        let mut evidence = evidence(&["cart/vsa:vsa"]);
        let signed = SignedEvidence {
            trust: "github".to_owned(),
            issuer: None,
            subject: None,
            key: None,
            predicate_type: None,
            builder: None,
            source: None,
            commit: None,
            signed_at: signed_at.map(at),
        };
        let flow = evidence.flows.get_mut("cart").unwrap();
        flow.attestations.get_mut("vsa").unwrap().signed = Some(signed);
        assert_eq!(evaluate(&policy, &evidence).0, [expected], "{signed_at:?}");
    }
}

#[test]
fn approvals_count_persons_of_the_environment_other_than_the_author() {
    let approved = |environment: Option<&str>, approvers: &[&str]| ApprovalEvidence {
        environment: environment.map(|name| name.parse().unwrap()),
        created_by: None,
        approvers: approvers.iter().map(|&name| name.to_owned()).collect(),
    };
    let author = &["Kim Doe <kim@example.com>", "kimd"][..];
    let signed_in =
        |name: &str| ApprovalEvidence { created_by: Some("sso/8f2".to_owned()), ..approved(None, &[name]) };
    for (rule, approvals, authors, expected) in [
        (
            "{count: 2}",
            vec![signed_in("sso/8f2 (Kim)"), signed_in("sso/8f2 (Lee)")],
            author,
            "approved by 1 of 2 persons",
        ),
        (
            "{not_author: true}",
            vec![signed_in("sso/8f2 (Lee) <KIM@example.com>")],
            author,
            "not approved by others than the author",
        ),
        ("{not_author: true}", vec![signed_in("sso/8f2 (Lee) <lee@example.com>")], author, ""),
        (
            "{not_author: true}",
            vec![signed_in("sso/8f2 (kim doe) <kim@work.example.com>")],
            author,
            "not approved by others than the author",
        ),
        (
            "{not_author: true}",
            vec![signed_in("sso/8f2 (Kim Doe)")],
            author,
            "not approved by others than the author",
        ),
        ("{}", vec![], author, "not approved"),
        ("{}", vec![approved(Some("dev"), &["kim"])], author, "not approved"),
        ("{}", vec![approved(Some("dev"), &["kim"]), approved(Some("prod"), &["kim"])], author, ""),
        ("{}", vec![approved(None, &[])], author, ""),
        ("{required: false, count: 2}", vec![], author, ""),
        (
            "{count: 2}",
            vec![approved(None, &["kim"]), approved(None, &["kim"])],
            author,
            "approved by 1 of 2 persons",
        ),
        ("{count: 2}", vec![approved(None, &["kim", "lee"])], author, ""),
        ("{not_author: true}", vec![], &[], "not approved by others than the author"),
        (
            "{not_author: true}",
            vec![approved(None, &["lee"])],
            &[],
            "not approved: the author of the commit is unknown: the flow cart names none",
        ),
        ("{not_author: true}", vec![approved(None, &["lee"])], author, ""),
        (
            "{not_author: true}",
            vec![approved(None, &["KIM DOE"])],
            author,
            "not approved by others than the author",
        ),
        (
            "{not_author: true}",
            vec![approved(None, &["kim@example.com"])],
            author,
            "not approved by others than the author",
        ),
        (
            "{not_author: true}",
            vec![approved(None, &["K. <kim@example.com>"])],
            author,
            "not approved by others than the author",
        ),
        (
            "{not_author: true}",
            vec![approved(None, &["kimd"])],
            author,
            "not approved by others than the author",
        ),
        (
            "{count: 2, not_author: true}",
            vec![approved(None, &["kimd", "lee"])],
            author,
            "approved by 1 of 2 persons by others than the author",
        ),
    ] {
        let names: Vec<_> = authors.iter().map(|&author| author.to_owned()).collect();
        let (at, flow) = (Timestamp::EPOCH, "cart".to_owned());
        let authorship = Authorship {
            held: [(flow.clone(), at)].into(),
            owners: BTreeSet::new(),
            named: [NamedAuthor { at, flow, names }].into(),
        };
        let evidence = Evidence { approvals, authorship, ..Evidence::default() };
        let (_, reasons) = evaluate(&policy(&format!("approval: {rule}")), &evidence);
        assert_eq!(reasons.concat().trim_start_matches("rules v2: "), expected, "{rule} {evidence:?}");
    }
}

#[test]
fn attestation_rule_of_a_flow_ignores_other_flows() {
    const FLOW: &str = "attestations: [{name: unit, type: \"*\", flow: cart}]";
    const ANY_NAME: &str = "attestations: [{type: junit, flow: cart}]";
    const MISSING: &[&str] = &["rules v2: unit of the flow cart is missing"];
    const FAILS: &[&str] = &["rules v2: unit of the flow cart failed"];
    let (satisfied, missing) = ("Satisfied: rule_satisfied cart", "NotSatisfied: missing_attestation cart");
    check(&[
        (FLOW, &["cart/unit:junit"], satisfied, &[]),
        (FLOW, &[], missing, MISSING),
        (FLOW, &["web/unit:junit"], missing, MISSING),
        (FLOW, &["cart/unit:junit", "web/unit:junit-", "cart/lint:junit-"], satisfied, &[]),
        (
            FLOW,
            &["cart/unit:junit-", "web/unit:junit"],
            "NotSatisfied: non_compliant_attestation cart",
            FAILS,
        ),
        (ANY_NAME, &["cart/e2e:junit", "web/unit:junit-"], satisfied, &[]),
    ]);
    let any = policy(ANY_NAME);
    assert_eq!(Needs::new([&any]).latest, LatestNeeded::All);
}
