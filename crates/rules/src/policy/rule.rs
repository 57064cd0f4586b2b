//! The rules of policies.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::expression::{self, Condition};
use crate::trust::{OwnerPattern, SignerRule};
use model::escape::Escaped;
use model::reason::{self, Code, EvidencePart};
use model::{EvidenceKind, FlowName, ShortText, SignedEvidence};

/// Matches any name or type of an attestation.
pub(super) const ANY: &str = "*";

/// The types of attestations without a name of their own.
const TYPES: [&str; 7] = ["generic", "junit", "snyk", "pull_request", "jira", "sonar", "decision"];

/// The units of an age in seconds, the longest first.
const UNITS: [(char, u64); 5] = [('w', 7 * 86_400), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// The start of a type with a name of its own.
const CUSTOM: &str = "custom:";

/// A rule, serialized as in the interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "most rules are about attestations")]
pub enum Rule {
    /// A flow must hold the artifact: it was attested or reported there.
    Provenance(FlowRule),
    /// The trails of the artifact must comply with the templates of their flows.
    TrailCompliance(FlowRule),
    Attestation(AttestationRule),
    Approval(ApprovalRule),
}

/// A requirement with exceptions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRule {
    #[serde(default)]
    pub required: bool,
    /// Artifacts and flows to which it does not apply.
    #[serde(default)]
    pub exceptions: Vec<Exception>,
}

/// An exception of a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Conditions")]
pub struct Exception(pub Condition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conditions {
    /// `${{ … }}`.
    #[serde(rename = "if", default)]
    expression: Option<Condition>,
    /// CEL.
    #[serde(default, deserialize_with = "expression::deserialize_cel")]
    when: Option<Condition>,
}

impl TryFrom<Conditions> for Exception {
    type Error = &'static str;

    fn try_from(Conditions { expression, when }: Conditions) -> Result<Self, Self::Error> {
        match (expression, when) {
            (Some(condition), None) | (None, Some(condition)) => Ok(Self(condition)),
            _ => Err("expected exactly one of if and when in each exception"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AttestationRule {
    /// Its name; `*` for any.
    #[serde(default = "any")]
    pub name: String,
    /// Its type; `*` for any.
    #[serde(rename = "type")]
    pub kind: String,
    /// The flows to which the rule applies; `None` for all.
    #[serde(rename = "if", default)]
    pub condition: Option<Condition>,
    /// The condition in CEL, which [`checked`](Self::checked) moves to `condition`.
    #[serde(default, deserialize_with = "expression::deserialize_cel", skip_serializing)]
    when: Option<Condition>,
    #[serde(default = "yes")]
    pub must_be_compliant: bool,
    /// The control that it is evidence for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_control: Option<String>,
    /// The only flow whose attestations count; `None` for each flow that holds the artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowName>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "age",
        serialize_with = "seconds"
    )]
    pub max_age: Option<Duration>,
    /// Minimum number of tests that ran: all except skipped ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tests: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_skipped: Option<u32>,
    /// Who must have signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<SignerRule>,
    /// What must have built the artifact, as signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder: Option<OwnerPattern>,
    /// The repository that it must have been built from, as signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<OwnerPattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    #[serde(default = "yes")]
    pub required: bool,
    /// Number of persons who must approve.
    #[serde(default = "one")]
    pub count: u32,
    /// Whether approvals by authors of the artifact's commits do not count.
    #[serde(default)]
    pub not_author: bool,
}

pub(super) fn any() -> String {
    ANY.to_owned()
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

/// A duration such as `12h`, `30d` or `4w`.
fn age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let parse = || {
        let unit = text.chars().next_back()?;
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        // A longer age would exceed the range of time.
        let age = number.checked_mul(seconds).filter(|age| (1..=36_500 * 86_400).contains(age))?;
        Some(Duration::from_secs(age))
    };
    parse().map(Some).ok_or_else(|| {
        let text = Escaped(&text);
        serde::de::Error::custom(format!("invalid age \"{text}\": expected an age such as 12h, 30d or 4w"))
    })
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn seconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| format!("{}s", age.as_secs())).serialize(serializer)
}

impl Rule {
    /// The kind of rule, as in the interface.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Provenance(_) => "provenance",
            Self::TrailCompliance(_) => "trail-compliance",
            Self::Attestation(_) => "attestation",
            Self::Approval(_) => "approval",
        }
    }

    pub(super) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let (exceptions, condition) = match self {
            Self::Provenance(rule) | Self::TrailCompliance(rule) => (rule.exceptions.as_slice(), None),
            Self::Attestation(rule) => (&[][..], rule.condition.as_ref()),
            Self::Approval(_) => (&[][..], None),
        };
        exceptions.iter().map(|Exception(condition)| condition).chain(condition)
    }
}

impl Serialize for Exception {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        std::collections::BTreeMap::from([("if", &self.0)]).serialize(serializer)
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        std::collections::BTreeMap::from([("text", self.text())]).serialize(serializer)
    }
}

impl AttestationRule {
    /// The rule with its condition, or the problem.
    pub(super) fn checked(mut self) -> Result<Self, String> {
        if self.name == ANY && self.kind == ANY {
            return Err("name and type must not both be *".to_owned());
        }
        ShortText::new(self.name.as_str()).map_err(|error| format!("name: {error}"))?;
        let is_custom = self.kind.strip_prefix(CUSTOM).is_some_and(|name| ShortText::new(name).is_ok());
        let types = TYPES.into_iter().chain(EvidenceKind::ALL.map(EvidenceKind::as_str));
        let types: Vec<_> = types.chain([ANY]).collect();
        if !is_custom && !types.contains(&self.kind.as_str()) {
            let (types, kind) = (types.join(", "), Escaped(&self.kind));
            return Err(format!("unknown type \"{kind}\": expected {types} or {CUSTOM}NAME"));
        }
        if self.condition.is_some() && self.when.is_some() {
            return Err("expected at most one of if and when".to_owned());
        }
        if self.signer.as_ref().is_some_and(SignerRule::is_empty) {
            return Err("signer: expected at least one of trust, issuer and subject".to_owned());
        }
        self.condition = self.condition.or(self.when.take());
        Ok(self)
    }

    /// Whether it requires a signature.
    pub(super) fn is_signed(&self) -> bool {
        self.signer.is_some() || self.builder.is_some() || self.source.is_some()
    }

    /// The part of signed evidence that is not as required.
    pub(super) fn differing(&self, found: Option<&SignedEvidence>) -> Option<Code> {
        if !self.is_signed() {
            return None;
        }
        let Some(found) = found else { return Some(Code::NotSigned) };
        let code = |part, found: Option<&str>, expected: String| {
            Some(Code::UnexpectedEvidence { part, found: found.map(str::to_owned), expected })
        };
        if let Some(signer) = self.signer.as_ref().filter(|signer| !signer.matches(found)) {
            return code(EvidencePart::Signer, Some(&found.signed_by()), signer.to_string());
        }
        let named =
            |wanted: &OwnerPattern, found: Option<&str>| found.is_some_and(|found| wanted.matches(found));
        let (builder, source) = (found.builder.as_deref(), found.source.as_deref());
        if let Some(wanted) = self.builder.as_ref().filter(|wanted| !named(wanted, builder)) {
            return code(EvidencePart::Builder, builder, wanted.to_string());
        }
        let source_differs = self.source.as_ref().filter(|wanted| !named(wanted, source));
        source_differs.and_then(|wanted| code(EvidencePart::Source, source, wanted.to_string()))
    }

    /// Whether it is about attestations of this name and type.
    pub(super) fn matches(&self, name: &str, kind: &str) -> bool {
        self.named().is_none_or(|named| named == name) && self.typed().is_none_or(|typed| typed == kind)
    }

    /// The name, unless any matches.
    pub(super) fn named(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != ANY)
    }

    /// The type, unless any matches.
    pub(super) fn typed(&self) -> Option<&str> {
        Some(self.kind.as_str()).filter(|kind| *kind != ANY)
    }
}

/// The attestation that the rule requires.
impl fmt::Display for AttestationRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&reason::subject(self.named(), self.typed()))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow_rule = |f: &mut fmt::Formatter<'_>, rule: &FlowRule, what: &str, requirement: &str| {
            if !rule.required {
                return write!(f, "{what} is not required");
            }
            f.write_str(requirement)?;
            for (number, Exception(condition)) in rule.exceptions.iter().enumerate() {
                write!(f, "{}{}", if number == 0 { ", except if " } else { " or if " }, condition.text())?;
            }
            Ok(())
        };
        match self {
            Self::Provenance(rule) => flow_rule(f, rule, "provenance", "a flow must hold the artifact"),
            Self::TrailCompliance(rule) => {
                let requirement = "each trail of the artifact must comply with its template";
                flow_rule(f, rule, "compliance of trails", requirement)
            }
            Self::Attestation(rule) => rule.describe(f),
            Self::Approval(rule) if !rule.required => f.write_str("an approval is not required"),
            Self::Approval(rule) => {
                let persons = if rule.count == 1 { "person" } else { "persons" };
                let others = if rule.not_author { " other than the author" } else { "" };
                write!(f, "{} {persons}{others} must approve the artifact", rule.count)
            }
        }
    }
}

impl AttestationRule {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        if let Some(flow) = &self.flow {
            write!(f, " of the flow {flow}")?;
        }
        f.write_str(if self.must_be_compliant { " must pass" } else { " must exist" })?;
        if let Some(age) = self.max_age {
            let seconds = age.as_secs();
            // Ages are shown in days at most.
            let mut units = UNITS.into_iter().filter(|(name, _)| *name != 'w');
            if let Some((name, unit)) = units.find(|(_, unit)| seconds.is_multiple_of(*unit)) {
                write!(f, ", be at most {}{name} old", seconds / unit)?;
            }
        }
        if let Some(min) = self.min_tests {
            write!(f, ", have at least {min} tests that ran")?;
        }
        if let Some(max) = self.max_skipped {
            write!(f, ", have at most {max} skipped tests")?;
        }
        if let Some(signer) = &self.signer {
            write!(f, ", be signed by {signer}")?;
        }
        if let Some(builder) = &self.builder {
            write!(f, ", name the builder {builder}")?;
        }
        if let Some(source) = &self.source {
            write!(f, ", name the source {source}")?;
        }
        if let Some(condition) = &self.condition {
            write!(f, ", if {}", condition.text())?;
        }
        match &self.for_control {
            Some(control) => write!(f, " (control {control})"),
            None => Ok(()),
        }
    }
}
