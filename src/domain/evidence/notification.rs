//! What is said of an event: to a machine as JSON, to a person in a few lines.
//!
//! The service keeps a [`Content`] with each event, and makes a [`Notification`] of it for each target when
//! it is sent; `docs/notifications.md` describes both for who receives them.

use serde::{Deserialize, Serialize};

use super::event::Concerned;
use crate::domain::escape::Visible;
use crate::domain::model::{Timestamp, Trigger};

/// What a webhook gets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "service", schemars(title = "supercargo notification"))]
pub struct Notification<'a> {
    /// Which version of this document it is.
    pub schema_version: u32,
    /// Its identifier: the same at each try, so that a receiver can drop repeats.
    pub id: String,
    /// The action that it belongs to.
    pub action: ActionName<'a>,
    /// The page of the environment.
    pub html_url: &'a str,
    /// What happened.
    #[serde(flatten)]
    pub content: &'a Content,
}

/// An action, as a notification names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
pub struct ActionName<'a> {
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: &'a str,
}

/// What happened, the same for every target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
pub struct Content {
    /// What it is about.
    pub trigger: Trigger,
    /// When, in seconds of Unix time.
    #[cfg_attr(feature = "service", schemars(with = "f64"))]
    pub occurred_at: Timestamp,
    /// The organization.
    pub organization: String,
    /// The environment.
    pub environment: String,
    /// Its current snapshot.
    pub snapshot_index: i64,
    /// Whether it is as its policy wants it: `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`.
    pub compliance: String,
    /// What brought it about.
    pub cause: Cause,
    /// The artifacts that it is about: at most 100, by fingerprint. An environment that became non-compliant
    /// has those that are.
    pub artifacts: Vec<Concerned>,
    /// How many artifacts it is about.
    pub artifacts_total: usize,
}

/// What brought an event about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
pub struct Cause {
    /// What it was.
    #[serde(rename = "type")]
    pub kind: CauseKind,
    /// The name of the token that a report or attestation came with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
}

/// What can bring an event about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum CauseKind {
    /// Something else runs.
    Report,
    /// Something was attested.
    Attestation,
    /// The bootstrap file changed: an approval, the allow-list, a policy.
    Bootstrap,
    /// Nobody: an entry of the allow-list ended.
    Time,
}

/// The version of what a webhook gets.
pub const SCHEMA_VERSION: u32 = 1;

/// How many artifacts are named to a person.
const NAMED: usize = 10;

/// How much of a fingerprint is shown to a person, in hex digits.
const SHORT: usize = 12;

impl Content {
    /// It in one line, without anything that a line cannot hold.
    #[must_use]
    pub fn headline(&self) -> String {
        let place = format!("{} ({})", self.environment, self.organization);
        let some = match self.artifacts_total {
            1 => "1 artifact".to_owned(),
            n => format!("{n} artifacts"),
        };
        let text = match self.trigger {
            Trigger::StartedArtifact => format!("{some} started in {place}"),
            Trigger::ExitedArtifact => format!("{some} exited in {place}"),
            Trigger::ScaledArtifact => format!("{some} scaled in {place}"),
            Trigger::AllowedArtifact => format!("{some} allow-listed in {place}"),
            Trigger::NonCompliantEnvironment => format!("{place} is not compliant: {some}"),
            Trigger::CompliantEnvironment => format!("{place} is compliant"),
        };
        Visible(&text).to_string()
    }

    /// What more there is to say: a line for each artifact, one where there are more, and what caused it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |artifact: &Concerned| {
            let fingerprint: String = artifact.fingerprint.to_string().chars().take(SHORT).collect();
            let more = match (self.trigger, artifact.pods_before) {
                (Trigger::ScaledArtifact, Some(before)) => format!(": {before} to {} pods", artifact.pods),
                _ if artifact.reasons.is_empty() => String::new(),
                _ => format!(": {}", artifact.reasons.join(", ")),
            };
            Visible(&format!("{} {fingerprint}{more}", artifact.name)).to_string()
        };
        let mut lines: Vec<String> = self.artifacts.iter().take(NAMED).map(line).collect();
        let unnamed = self.artifacts_total.saturating_sub(lines.len());
        if unnamed > 0 {
            lines.push(format!("and {unnamed} more"));
        }
        let cause = match (self.cause.kind, &self.cause.by) {
            (CauseKind::Report, Some(by)) => format!("a report by {by}"),
            (CauseKind::Attestation, Some(by)) => format!("an attestation by {by}"),
            (CauseKind::Report, None) => "a report".to_owned(),
            (CauseKind::Attestation, None) => "an attestation".to_owned(),
            (CauseKind::Bootstrap, _) => "the bootstrap file".to_owned(),
            (CauseKind::Time, _) => "an allow-list entry that ended".to_owned(),
        };
        lines.push(Visible(&format!("snapshot {}; caused by {cause}", self.snapshot_index)).to_string());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::Fingerprint;

    fn content(trigger: Trigger, names: &[&str], reasons: &[&str]) -> Content {
        let artifacts: Vec<Concerned> = names
            .iter()
            .map(|name| Concerned {
                fingerprint: Fingerprint::from([0xab; 32]),
                name: (*name).to_owned(),
                compliance: "NON-COMPLIANT".into(),
                reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
                pods: 5,
                pods_before: Some(2),
            })
            .collect();
        Content {
            trigger,
            occurred_at: Timestamp::from_micros(1_790_000_000_500_000),
            organization: "acme".into(),
            environment: "prod".into(),
            snapshot_index: 3,
            compliance: "NON-COMPLIANT".into(),
            cause: Cause { kind: CauseKind::Report, by: Some("cluster".into()) },
            artifacts_total: artifacts.len(),
            artifacts,
        }
    }

    #[test]
    fn a_person_is_told_in_a_line_and_a_line_for_each_artifact() {
        let ill = content(Trigger::NonCompliantEnvironment, &["web:2"], &["unit of the flow web is missing"]);
        assert_eq!(ill.headline(), "prod (acme) is not compliant: 1 artifact");
        let cause = "snapshot 3; caused by a report by cluster";
        assert_eq!(ill.lines(), ["web:2 abababababab: unit of the flow web is missing", cause]);
        let scaled = content(Trigger::ScaledArtifact, &["web:2", "cart:1"], &[]);
        assert_eq!(scaled.headline(), "2 artifacts scaled in prod (acme)");
        assert_eq!(scaled.lines()[0], "web:2 abababababab: 2 to 5 pods");
        let well = content(Trigger::CompliantEnvironment, &[], &[]);
        assert_eq!((well.headline().as_str(), well.lines().len()), ("prod (acme) is compliant", 1));
    }

    #[test]
    fn many_artifacts_are_counted_and_no_name_begins_a_line_of_its_own() {
        let many = content(Trigger::StartedArtifact, &["web:1\nFrom: root"; 13], &[]);
        let lines = many.lines();
        assert_eq!((lines.len(), lines[10].as_str()), (12, "and 3 more"));
        assert!(!lines.concat().contains('\n'), "{lines:?}");
    }

    #[test]
    fn a_machine_gets_one_object() {
        let content = content(Trigger::StartedArtifact, &[], &[]);
        let action = ActionName { number: 7, name: "ops" };
        let notification = Notification {
            schema_version: SCHEMA_VERSION,
            id: "n1".into(),
            action,
            html_url: "https://x",
            content: &content,
        };
        let json = serde_json::to_string(&notification).unwrap();
        assert!(
            json.starts_with(
                r#"{"schema_version":1,"id":"n1","action":{"number":7,"name":"ops"},"html_url":"https://x","trigger":"ON_STARTED_ARTIFACT","#
            ),
            "{json}"
        );
        assert!(json.contains(r#""cause":{"type":"REPORT","by":"cluster"}"#), "{json}");
    }
}
