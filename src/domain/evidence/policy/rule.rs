//! The rules of policies.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::expression::{self, Condition};
use crate::domain::evidence::reason;

/// Matches any name or type of an attestation.
pub(super) const ANY: &str = "*";

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// A flow must hold the artifact: it was attested or reported there.
    Provenance(FlowRule),
    /// The trails of the artifact must comply with the templates of their flows.
    TrailCompliance(FlowRule),
    /// The artifact must have an attestation.
    Attestation(AttestationRule),
    /// The artifact must be approved.
    Approval(ApprovalRule),
}

/// A requirement with exceptions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRule {
    /// Whether it is required.
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

/// A required attestation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttestationRule {
    /// Its name; `*` for any.
    pub name: String,
    /// Its type; `*` for any.
    #[serde(rename = "type")]
    pub kind: String,
    /// The flows to which the rule applies; `None` for all.
    #[serde(rename = "if")]
    pub condition: Option<Condition>,
    /// Whether it must pass.
    pub must_be_compliant: bool,
    /// The control that it is evidence for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_control: Option<String>,
    /// The only flow whose attestations count; `None` for each flow that holds the artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Maximum age.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub max_age: Option<Duration>,
    /// Minimum number of tests that ran: all except skipped ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tests: Option<u32>,
    /// Maximum number of skipped tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_skipped: Option<u32>,
}

/// Required approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Whether it is required.
    #[serde(default = "yes")]
    pub required: bool,
    /// Number of persons who must approve.
    #[serde(default = "one")]
    pub count: u32,
    /// Whether approvals by authors of the artifact's commits do not count.
    #[serde(default)]
    pub not_author: bool,
}

pub(super) fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
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

    /// The conditions of the rule.
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

/// The definition of the rule, as in the interface.
impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Provenance(rule) | Self::TrailCompliance(rule) => rule.serialize(serializer),
            Self::Attestation(rule) => rule.serialize(serializer),
            Self::Approval(rule) => rule.serialize(serializer),
        }
    }
}

impl AttestationRule {
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

    /// Whether it limits the number of tests.
    pub(super) fn has_limits(&self) -> bool {
        self.min_tests.is_some() || self.max_skipped.is_some()
    }
}

/// The attestation that the rule requires.
impl fmt::Display for AttestationRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&reason::subject(self.named(), self.typed()))
    }
}

/// The rule in words.
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
            let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
            if let Some((unit, name)) = units.into_iter().find(|(unit, _)| seconds.is_multiple_of(*unit)) {
                write!(f, ", be at most {}{name} old", seconds / unit)?;
            }
        }
        if let Some(min) = self.min_tests {
            write!(f, ", have at least {min} tests that ran")?;
        }
        if let Some(max) = self.max_skipped {
            write!(f, ", have at most {max} skipped tests")?;
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
