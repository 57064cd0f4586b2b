//! Why an artifact is not compliant, or allowed nevertheless, and why an environment runs too few artifacts.
//!
//! A reason is stored and sent as data. Its text is made where it is shown, and never parsed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Timestamp, words};

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema, utoipa::ToSchema))]
pub struct Reason {
    /// What was found.
    #[serde(flatten)]
    pub code: Code,
    /// The rule that is not satisfied.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<RuleReference>,
    /// The flow that the reason is about; none if no flow holds the artifact.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flow_name: Option<String>,
    /// The trail of `non_compliant_in_trail`. Other reasons name none, since a later trail would change them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trail_name: Option<String>,
    /// The name of the attestation; none if the rule accepts any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attestation_name: Option<String>,
    /// The type of the attestation; none if the rule accepts any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attestation_type: Option<String>,
    /// The control that the attestation is evidence for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub for_control: Option<String>,
    /// The platform of an image index that the reason is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub platform: Option<String>,
    /// What the attestation found. Added when it is sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attestation: Option<FoundAttestation>,
    /// The reason in words. Added when it is sent.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub text: String,
}

/// The attestation that a reason is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema, utoipa::ToSchema))]
pub struct FoundAttestation {
    /// Identifier, as `get attestation` takes it.
    pub attestation_id: String,
    /// Name of the trail that it was attested to.
    pub trail_name: String,
    /// URL of its page, for people who may sign in.
    pub html_url: String,
    /// The number of all tests; 0 for types without tests.
    pub tests: u32,
    /// The number of failed tests and of those with an error.
    pub failed: u32,
    /// The first failed tests, at most three. Empty if no file with them is attached.
    pub failed_tests: Vec<String>,
}

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema, utoipa::ToSchema))]
pub struct RuleReference {
    /// The policy.
    pub policy_name: String,
    /// The version of the policy.
    pub policy_version: i64,
    /// The number of the rule in the policy, from 1.
    pub number: usize,
}

/// What a rule found in one flow and trail, or another reason. `type` is the name of the interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema, utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Code {
    /// The rule is satisfied; no reason.
    RuleSatisfied,
    /// The rule does not apply; no reason.
    RuleNotApplicable,
    /// No flow holds the artifact.
    MissingProvenance,
    /// No trail holds the artifact.
    MissingTrail,
    /// The trail does not comply with the flow's template.
    NonCompliantInTrail,
    /// The attestation is missing.
    MissingAttestation,
    /// The latest attestation does not pass.
    NonCompliantAttestation,
    /// The latest attestation is too old.
    ExpiredAttestation {
        /// Since this time, in seconds of Unix time.
        #[cfg_attr(feature = "openapi", schemars(with = "f64"))]
        since: Timestamp,
    },
    /// The latest attestation has too few tests that ran.
    TooFewTests {
        /// Their number.
        tests: u32,
        /// The minimum.
        min_tests: u32,
    },
    /// The latest attestation has too many skipped tests.
    TooManySkippedTests {
        /// Their number.
        skipped: u32,
        /// The maximum.
        max_skipped: u32,
    },
    /// The latest attestation has no verified signature.
    NotSigned,
    /// The latest attestation is signed, but not as required.
    UnexpectedEvidence {
        /// What differs.
        part: EvidencePart,
        /// What was signed; none if nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<String>,
        /// What the rule requires.
        expected: String,
    },
    /// Too few persons approved the artifact.
    MissingApproval {
        /// Their number.
        approved: usize,
        /// The number of persons who must approve.
        count: u32,
        /// Whether approvals by authors do not count.
        not_author: bool,
    },
    /// Approvals by authors do not count, but no author is known.
    UnknownAuthor {
        /// The flow that names no author; not set if no flow holds the artifact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author_flow: Option<String>,
    },
    /// Approvals by authors do not count, but attestations name several authors.
    ConflictingAuthors {
        /// The author that the first attestation names.
        author: String,
        /// Its flow.
        author_flow: String,
        /// The author that another one names.
        other_author: String,
        /// Its flow.
        other_flow: String,
    },
    /// The condition of the rule cannot be evaluated: the rule applies.
    FailedCondition {
        /// The problem.
        problem: String,
    },
    /// An entry of the allow-list allows the artifact.
    Allowed {
        /// The author of the entry.
        author: String,
        /// Why the artifact is allowed.
        comment: String,
        /// Expiry of the entry, in seconds of Unix time; none for never.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        #[cfg_attr(feature = "openapi", schemars(with = "Option<f64>"))]
        until: Option<Timestamp>,
    },
    /// The environment runs fewer artifacts than `minArtifacts`.
    TooFewArtifacts {
        /// Their number.
        artifacts: u32,
        /// The minimum.
        min_artifacts: u32,
    },
    /// The number of artifacts of the environment dropped by more than `maxDrop`.
    TooLargeDrop {
        /// Their number.
        artifacts: u32,
        /// Their number before.
        before: u32,
        /// The maximum, in percent.
        max_drop: u32,
    },
}

words! {
    /// A part of signed evidence.
    #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema, utoipa::ToSchema))]
    EvidencePart {
        /// Who signed it.
        Signer "signer",
        /// What built the artifact.
        Builder "builder",
        /// The repository that it was built from.
        Source "source",
    }
}

impl Code {
    /// Whether a rule that found it may not be satisfied.
    #[must_use]
    pub fn is_reason(&self) -> bool {
        !matches!(self, Self::RuleSatisfied | Self::RuleNotApplicable)
    }
}

/// A reason without a rule.
impl From<Code> for Reason {
    fn from(code: Code) -> Self {
        Self {
            code,
            rule: None,
            flow_name: None,
            trail_name: None,
            attestation_name: None,
            attestation_type: None,
            for_control: None,
            platform: None,
            attestation: None,
            text: String::new(),
        }
    }
}

impl Reason {
    /// The reason with its text, to be sent.
    #[must_use]
    pub fn with_text(&self) -> Self {
        Self { text: self.to_string(), ..self.clone() }
    }

    /// The texts of reasons, with a separator between them.
    #[must_use]
    pub fn join(reasons: &[Self], separator: &str) -> String {
        reasons.iter().map(Self::to_string).collect::<Vec<_>>().join(separator)
    }

    /// What was found, without the policy.
    #[must_use]
    pub fn finding(&self) -> String {
        // The trail of a known attestation says more than its flow.
        let flow = self.flow_name.as_ref().filter(|_| self.attestation.is_none());
        let flow = flow.map(|flow| format!(" of the flow {flow}")).unwrap_or_default();
        let attestation = || {
            let required = subject(self.attestation_name.as_deref(), self.attestation_type.as_deref());
            format!("{required}{flow}")
        };
        let control =
            || self.for_control.as_ref().map(|name| format!(" (control {name})")).unwrap_or_default();
        let mut text = match &self.code {
            Code::RuleSatisfied => "the rule is satisfied".to_owned(),
            Code::RuleNotApplicable => "the rule does not apply".to_owned(),
            Code::MissingProvenance => "no flow holds the artifact".to_owned(),
            Code::MissingTrail => "no trail holds the artifact".to_owned(),
            Code::NonCompliantInTrail => {
                format!("the trail {}{flow} is not compliant", self.trail_name.as_deref().unwrap_or_default())
            }
            Code::MissingAttestation => format!("{} is missing{}", attestation(), control()),
            Code::NonCompliantAttestation => {
                let tests = self.attestation.as_ref().map(FoundAttestation::tests).unwrap_or_default();
                format!("{} failed{tests}{}", attestation(), control())
            }
            Code::ExpiredAttestation { since } => {
                format!("{} is too old since {since}{}", attestation(), control())
            }
            Code::TooFewTests { tests, min_tests } => format!(
                "{} has too few tests: {tests}, expected at least {min_tests}{}",
                attestation(),
                control()
            ),
            Code::TooManySkippedTests { skipped, max_skipped } => format!(
                "{} has too many skipped tests: {skipped}, expected at most {max_skipped}{}",
                attestation(),
                control()
            ),
            Code::NotSigned => format!("{} is not signed{}", attestation(), control()),
            Code::UnexpectedEvidence { part: EvidencePart::Signer, found, expected } => format!(
                "{} is signed by {}, expected {expected}{}",
                attestation(),
                found.as_deref().unwrap_or("nobody"),
                control()
            ),
            Code::UnexpectedEvidence { part, found, expected } => format!(
                "{} names {}, expected {expected}{}",
                attestation(),
                found.as_ref().map_or_else(|| format!("no {part}"), |found| format!("the {part} {found}")),
                control()
            ),
            Code::MissingApproval { approved, count, not_author } => {
                let but = if *not_author { " by others than the author" } else { "" };
                match count {
                    1 => format!("not approved{but}"),
                    count => format!("approved by {approved} of {count} persons{but}"),
                }
            }
            Code::UnknownAuthor { author_flow } => {
                let of = author_flow.as_ref().map(|flow| format!(": the flow {flow} names none"));
                format!("not approved: the author of the commit is unknown{}", of.unwrap_or_default())
            }
            Code::ConflictingAuthors { author, author_flow, other_author, other_flow } => format!(
                "not approved: the author of the commit is {author} in the flow {author_flow}, but {other_author} in the flow {other_flow}"
            ),
            Code::FailedCondition { problem } => format!("the attestation rule applies: {problem}{flow}"),
            Code::Allowed { author, comment, until } => {
                let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
                format!("allowed by {author}{until}: {comment}")
            }
            Code::TooFewArtifacts { artifacts, min_artifacts } => {
                format!("too few running artifacts: {artifacts}, expected at least {min_artifacts}")
            }
            Code::TooLargeDrop { artifacts, before, max_drop } => format!(
                "too few running artifacts: {artifacts} after {before}, expected a drop of at most {max_drop}%"
            ),
        };
        if let Some(platform) = &self.platform {
            text = format!("{text} for {platform}");
        }
        if let Some(found) = &self.attestation {
            text = format!("{text}, trail {}", found.trail_name);
        }
        text
    }
}

impl FoundAttestation {
    /// `, 1 of 412 (PriceTest.rounds)`.
    fn tests(&self) -> String {
        let Self { tests, failed, failed_tests, .. } = self;
        let more = usize::try_from(*failed).unwrap_or(usize::MAX).saturating_sub(failed_tests.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = if failed_tests.is_empty() {
            String::new()
        } else {
            format!(" ({}{more})", failed_tests.join(", "))
        };
        match (failed, tests) {
            (0, 0) => String::new(),
            (0, tests) => format!(", none of {tests} tests passed"),
            (failed, tests) => format!(", {failed} of {tests}{named}"),
        }
    }
}

/// Why an artifact must not run: `cart:5.3.1 must not run in prod: unit-tests failed, 1 of 412`. Without an
/// environment, it is said to be non-compliant.
#[must_use]
pub fn refusal(artifact: &str, environment: Option<&str>, findings: &[String]) -> String {
    let refused = match environment {
        Some(environment) => format!("{artifact} must not run in {environment}"),
        None => format!("{artifact} is not compliant"),
    };
    match findings {
        [] => refused,
        findings => format!("{refused}: {}", findings.join("; ")),
    }
}

/// The policy, if there is one, and what was found.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(RuleReference { policy_name, policy_version, .. }) = &self.rule {
            write!(f, "{policy_name} v{policy_version}: ")?;
        }
        f.write_str(&self.finding())
    }
}

/// The attestations with a name and a type, each of which may be any.
#[must_use]
pub fn subject(name: Option<&str>, kind: Option<&str>) -> String {
    match (name, kind) {
        (Some(name), None) => name.to_owned(),
        (Some(name), Some(kind)) if name == kind => name.to_owned(),
        (Some(name), Some(kind)) => format!("{name} ({kind})"),
        (None, kind) => format!("an attestation of type {}", kind.unwrap_or("any")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_the_same_after_it_was_stored() {
        let rule = RuleReference { policy_name: "prod rules".to_owned(), policy_version: 2, number: 3 };
        for code in [
            Code::ExpiredAttestation { since: Timestamp::from_micros(1_790_000_000_123_457) },
            Code::MissingApproval { approved: 0, count: 2, not_author: true },
            Code::Allowed { author: "kim".to_owned(), comment: "audit".to_owned(), until: None },
        ] {
            let reason =
                Reason { rule: Some(rule.clone()), flow_name: Some("cart".to_owned()), ..code.into() };
            let stored = serde_json::to_string(&reason).unwrap();
            assert_eq!(serde_json::from_str::<Reason>(&stored).unwrap(), reason, "{stored}");
        }
    }

    fn failed(tests: u32, failed: u32, failed_tests: &[&str]) -> Reason {
        let attestation = FoundAttestation {
            attestation_id: "1".to_owned(),
            trail_name: "build-43".to_owned(),
            html_url: "https://x".to_owned(),
            tests,
            failed,
            failed_tests: failed_tests.iter().map(|&test| test.to_owned()).collect(),
        };
        Reason {
            flow_name: Some("cart".to_owned()),
            attestation_name: Some("unit-tests".to_owned()),
            attestation: Some(attestation),
            ..Code::NonCompliantAttestation.into()
        }
    }

    #[test]
    fn finding_has_the_failed_tests_and_the_trail_of_a_known_attestation() {
        for (reason, expected) in [
            (
                failed(412, 1, &["PriceTest.rounds"]),
                "unit-tests failed, 1 of 412 (PriceTest.rounds), trail build-43",
            ),
            (
                failed(9, 4, &["a", "b", "c"]),
                "unit-tests failed, 4 of 9 (a, b, c and 1 more), trail build-43",
            ),
            (failed(9, 4, &[]), "unit-tests failed, 4 of 9, trail build-43"),
            (failed(9, 0, &[]), "unit-tests failed, none of 9 tests passed, trail build-43"),
            (failed(0, 0, &[]), "unit-tests failed, trail build-43"),
            (Reason { attestation: None, ..failed(0, 0, &[]) }, "unit-tests of the flow cart failed"),
            (
                Reason { code: Code::TooFewTests { tests: 1, min_tests: 3 }, ..failed(1, 0, &[]) },
                "unit-tests has too few tests: 1, expected at least 3, trail build-43",
            ),
        ] {
            assert_eq!(reason.finding(), expected);
        }
    }

    #[test]
    fn refusal_names_the_artifact_the_environment_and_each_finding() {
        let findings = ["not approved".to_owned(), "unit is missing".to_owned()];
        assert_eq!(
            refusal("cart:5.3.1", Some("prod"), &findings),
            "cart:5.3.1 must not run in prod: not approved; unit is missing"
        );
        assert_eq!(refusal("cart:5.3.1", None, &[]), "cart:5.3.1 is not compliant");
    }

    #[test]
    fn reason_is_stored_without_text_and_sent_with_it() {
        let rule = RuleReference { policy_name: "prod rules".to_owned(), policy_version: 2, number: 1 };
        let reason = Reason { rule: Some(rule), ..Code::TooFewTests { tests: 1, min_tests: 3 }.into() };
        let json = serde_json::json!({
            "type": "too_few_tests", "tests": 1, "min_tests": 3,
            "rule": {"policy_name": "prod rules", "policy_version": 2, "number": 1},
        });
        assert_eq!(serde_json::to_value(&reason).unwrap(), json);
        let text = "prod rules v2: an attestation of type any has too few tests: 1, expected at least 3";
        assert_eq!(reason.with_text().text, text);
    }
}
