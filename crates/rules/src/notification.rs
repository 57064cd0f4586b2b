//! The content of notifications: JSON for webhooks, lines of text for people.
//!
//! The service stores a [`Content`] with each event and creates a [`Notification`] for each target when it is sent.
//! `docs/guides/notifications.md` describes the format for receivers.

use serde::{Deserialize, Serialize};

use super::event::AffectedArtifact;
use model::escape::Escaped;
use model::image_id::short_name;
use model::reason::{self, Code, Reason};
use model::{Timestamp, Trigger, pluralize};

/// The body of a webhook request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "openapi", schemars(title = "supercargo notification"))]
pub struct Notification<'a> {
    /// Version of the document format.
    pub schema_version: u32,
    /// Identifier of the notification: the same for each attempt, so that a receiver can deduplicate.
    pub id: String,
    /// The action.
    pub action: ActionName<'a>,
    /// The environment's page; of a checkpoint, the organization's page.
    pub html_url: &'a str,
    /// Number of earlier events of the same environment and trigger that were merged into this notification. They are
    /// not sent.
    pub merged_events: i64,
    /// The event.
    #[serde(flatten)]
    pub content: &'a EventContent,
}

/// An action in a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ActionName<'a> {
    /// The action's number.
    pub number: i64,
    /// The action's name.
    pub name: &'a str,
}

/// An event, the same for every target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "one at a time is parsed and sent")]
pub enum EventContent {
    /// An event of an environment.
    Environment(Content),
    /// A checkpoint of the organization's log.
    Checkpoint(CheckpointContent),
    /// A test of the action.
    Test(TestContent),
}

/// A test of an action: nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TestContent {
    /// `ON_TEST`.
    #[cfg_attr(feature = "openapi", schemars(with = "String", regex(pattern = r"^ON_TEST$")))]
    pub trigger: Trigger,
    /// Time of the test, in seconds of Unix time.
    #[cfg_attr(feature = "openapi", schemars(with = "f64"))]
    pub occurred_at: Timestamp,
    /// The organization.
    pub organization: String,
    /// Name of the token that asked for the test.
    pub tested_by: String,
}

/// A checkpoint of the organization's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CheckpointContent {
    /// `ON_CHECKPOINT`.
    pub trigger: Trigger,
    /// Time of the checkpoint, in seconds of Unix time.
    #[cfg_attr(feature = "openapi", schemars(with = "f64"))]
    pub occurred_at: Timestamp,
    /// The organization.
    pub organization: String,
    /// The checkpoint as a note: origin, number of entries, hash, and signatures.
    pub checkpoint: String,
}

/// An event of an environment, the same for every target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Content {
    /// The trigger that actions subscribe to.
    pub trigger: Trigger,
    /// Time of the event, in seconds of Unix time.
    #[cfg_attr(feature = "openapi", schemars(with = "f64"))]
    pub occurred_at: Timestamp,
    /// The organization.
    pub organization: String,
    /// The environment.
    pub environment: String,
    /// The environment's current snapshot.
    pub snapshot_index: i64,
    /// The environment's compliance: `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`.
    pub compliance: String,
    /// Why the environment runs too few artifacts, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub absence: Option<Reason>,
    /// The last report before the silence, or the creation of the environment if it was never reported. Only of
    /// `ON_SILENT_ENV` and `ON_REPORTING_ENV`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<f64>"))]
    pub silent_since: Option<Timestamp>,
    /// The cause of the event.
    pub cause: Cause,
    /// The affected artifacts by fingerprint, at most 100. For an environment that became non-compliant, its
    /// non-compliant artifacts.
    pub artifacts: Vec<AffectedArtifact>,
    /// Number of affected artifacts.
    pub artifacts_total: usize,
}

/// The cause of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The kind of cause.
    #[serde(rename = "type")]
    pub kind: CauseKind,
    /// Name of the token of the report, attestation, approval or policy change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
}

/// The kind of cause of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum CauseKind {
    /// A report changed the artifacts.
    Report,
    /// An attestation was recorded.
    Attestation,
    /// An artifact was approved, or an approval was withdrawn.
    Approval,
    /// An administrator allowed an artifact.
    AllowList,
    /// The bootstrap file changed: an approval, the allow-list, a policy.
    Bootstrap,
    /// A policy was changed, attached or detached.
    Policy,
    /// An entry of the allow-list expired, an attestation is too old for a policy, or reports are missing.
    Time,
}

/// Version of the document format.
pub const SCHEMA_VERSION: u32 = 1;

/// Maximum number of artifacts in a text.
pub const MAX_LISTED_ARTIFACTS: usize = 10;

/// Displayed hex digits of a fingerprint.
pub const DISPLAYED_DIGITS: usize = 12;

impl EventContent {
    /// The trigger that actions subscribe to.
    #[must_use]
    pub fn trigger(&self) -> Trigger {
        match self {
            Self::Environment(event) => event.trigger,
            Self::Checkpoint(event) => event.trigger,
            Self::Test(event) => event.trigger,
        }
    }

    /// Time of the event.
    #[must_use]
    pub fn occurred_at(&self) -> Timestamp {
        match self {
            Self::Environment(event) => event.occurred_at,
            Self::Checkpoint(event) => event.occurred_at,
            Self::Test(event) => event.occurred_at,
        }
    }

    /// Adds the texts of its reasons, to be sent.
    pub fn add_texts(&mut self) {
        let Self::Environment(content) = self else { return };
        let reasons = content.artifacts.iter_mut().flat_map(|artifact| &mut artifact.reasons);
        for reason in reasons.chain(&mut content.absence) {
            reason.text = reason.to_string();
        }
    }

    /// A summary in one escaped line.
    #[must_use]
    pub fn headline(&self) -> String {
        match self {
            Self::Environment(content) => content.headline(),
            Self::Checkpoint(content) => {
                Escaped(&format!("checkpoint of the log of {}", content.organization)).to_string()
            }
            Self::Test(content) => {
                Escaped(&format!("test of an action of {}: nothing happened", content.organization))
                    .to_string()
            }
        }
    }

    /// Details other than artifacts, each an escaped line.
    #[must_use]
    pub fn notes(&self, merged_events: i64) -> Vec<String> {
        match self {
            Self::Environment(content) => content.notes(merged_events),
            Self::Checkpoint(content) => {
                content.checkpoint.lines().map(|line| Escaped(line).to_string()).collect()
            }
            Self::Test(content) => vec![Escaped(&format!("sent by {}", content.tested_by)).to_string()],
        }
    }
}

impl Content {
    /// A summary in one escaped line.
    #[must_use]
    pub fn headline(&self) -> String {
        let environment = format!("{} ({})", self.environment, self.organization);
        let artifacts = pluralize(self.artifacts_total as u64, "artifact");
        let compliance = self.compliance.to_ascii_lowercase();
        let since = self.silent_since.unwrap_or(self.occurred_at);
        let text = match self.trigger {
            Trigger::StartedArtifact => format!("{artifacts} started in {environment}"),
            Trigger::ExitedArtifact => format!("{artifacts} exited in {environment}"),
            Trigger::ScaledArtifact => format!("{artifacts} scaled in {environment}"),
            Trigger::AllowedArtifact => format!("{artifacts} allow-listed in {environment}"),
            Trigger::NonCompliantEnvironment => match &self.absence {
                Some(absence) => format!("{environment} is {compliance}: {absence}"),
                None => format!("{environment} is non-compliant: {artifacts}"),
            },
            Trigger::CompliantEnvironment => format!("{environment} is compliant"),
            Trigger::SilentEnvironment => format!("{environment} is silent: no report since {since}"),
            Trigger::ReportingEnvironment => format!("{environment} is reported again: silent since {since}"),
            Trigger::NonCompliantArtifact => self.non_compliant_artifacts(),
            // Events of no environment.
            Trigger::Checkpoint | Trigger::Test => environment,
        };
        Escaped(&text).to_string()
    }

    /// What is wrong with the artifact, or how many artifacts there are.
    fn non_compliant_artifacts(&self) -> String {
        let environment = &self.environment;
        let Some(first) = self.artifacts.first() else { return environment.clone() };
        let image = short_name(&first.name);
        if self.artifacts_total > 1 {
            let more = self.artifacts_total - 1;
            return format!("{} non-compliant images in {environment}: {image} and {more} more", more + 1);
        }
        // A failure says more than what is missing.
        let mut reasons = first.reasons.iter();
        let failure = reasons.clone().find(|reason| reason.code == Code::NonCompliantAttestation);
        let Some(reason) = failure.or(reasons.next()) else {
            return format!("{image} in {environment} is non-compliant");
        };
        let attestation = || match &reason.attestation_name {
            Some(name) => name.clone(),
            None => reason::subject(None, reason.attestation_type.as_deref()),
        };
        let problem = match &reason.code {
            Code::MissingAttestation
                if !matches!(reason.attestation_type.as_deref(), None | Some("junit")) =>
            {
                format!("has no {}", attestation())
            }
            Code::MissingAttestation | Code::MissingProvenance | Code::MissingTrail => {
                return format!("Untested image in {environment}: {image}");
            }
            Code::NonCompliantAttestation => format!("failed {}", attestation()),
            Code::ExpiredAttestation { .. } => format!("has outdated {}", attestation()),
            Code::TooFewTests { .. } => format!("has too few tests in {}", attestation()),
            Code::TooManySkippedTests { .. } => format!("has too many skipped tests in {}", attestation()),
            Code::NotSigned => format!("has unsigned {}", attestation()),
            Code::UnexpectedEvidence { part, .. } => format!("has {} of another {part}", attestation()),
            Code::MissingApproval { .. } | Code::UnknownAuthor { .. } => "is not approved".to_owned(),
            Code::NonCompliantInTrail => "has a non-compliant trail".to_owned(),
            _ => "is non-compliant".to_owned(),
        };
        format!("{image} in {environment} {problem}")
    }

    /// The first artifacts, each an escaped line.
    #[must_use]
    pub fn artifact_lines(&self) -> Vec<String> {
        let line = |artifact: &AffectedArtifact| {
            let fingerprint: String =
                artifact.fingerprint.to_string().chars().take(DISPLAYED_DIGITS).collect();
            let more = match self.trigger {
                Trigger::ScaledArtifact => format!(": {} to {} pods", artifact.pods_before, artifact.pods),
                _ if artifact.reasons.is_empty() => String::new(),
                _ => format!(": {}", Reason::join(&artifact.reasons, ", ")),
            };
            Escaped(&format!("{} {fingerprint}{more}", artifact.name)).to_string()
        };
        self.artifacts.iter().take(MAX_LISTED_ARTIFACTS).map(line).collect()
    }

    /// The number of further artifacts, the cause, and the number of merged events, each an escaped line.
    #[must_use]
    pub fn notes(&self, merged_events: i64) -> Vec<String> {
        let mut lines = Vec::new();
        let unlisted = self.artifacts_total.saturating_sub(self.artifacts.len().min(MAX_LISTED_ARTIFACTS));
        if unlisted > 0 {
            lines.push(format!("and {unlisted} more"));
        }
        let cause = match self.cause.kind {
            CauseKind::Report => "a report",
            CauseKind::Attestation => "an attestation",
            CauseKind::Approval => "an approval or a withdrawal",
            CauseKind::AllowList => "a new allow-list entry",
            CauseKind::Bootstrap => "the bootstrap file",
            CauseKind::Policy => "a policy change",
            CauseKind::Time if self.trigger == Trigger::SilentEnvironment => "missing reports",
            CauseKind::Time => "an expired allow-list entry or attestation",
        };
        // Absent for the bootstrap file and the passing of time.
        let by = self.cause.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        lines.push(Escaped(&format!("snapshot {}; caused by {cause}{by}", self.snapshot_index)).to_string());
        if merged_events > 0 {
            let events = if merged_events == 1 { "event" } else { "events" };
            lines.push(format!("and {merged_events} more {events} of this kind; see the environment's page"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Fingerprint;

    fn content(trigger: Trigger, names: &[&str], reasons: &[Code]) -> Content {
        let artifacts: Vec<AffectedArtifact> = names
            .iter()
            .map(|name| AffectedArtifact {
                fingerprint: Fingerprint::from([0xab; 32]),
                name: (*name).to_owned(),
                compliance: "NON-COMPLIANT".into(),
                reasons: reasons.iter().cloned().map(Reason::from).collect(),
                pods: 5,
                pods_before: 2,
                owners: Vec::new(),
            })
            .collect();
        Content {
            trigger,
            occurred_at: Timestamp::from_micros(1_790_000_000_500_000),
            organization: "acme".into(),
            environment: "prod".into(),
            snapshot_index: 3,
            compliance: "NON-COMPLIANT".into(),
            absence: None,
            silent_since: None,
            cause: Cause { kind: CauseKind::Report, by: Some("cluster".into()) },
            artifacts_total: artifacts.len(),
            artifacts,
        }
    }

    fn lines(content: &Content, merged_events: i64) -> Vec<String> {
        [content.artifact_lines(), content.notes(merged_events)].concat()
    }

    #[test]
    fn text_has_a_headline_and_a_line_for_each_artifact() {
        let non_compliant = content(Trigger::NonCompliantEnvironment, &["web:2"], &[Code::MissingProvenance]);
        assert_eq!(non_compliant.headline(), "prod (acme) is non-compliant: 1 artifact");
        let cause = "snapshot 3; caused by a report by cluster";
        assert_eq!(lines(&non_compliant, 0), ["web:2 abababababab: no flow holds the artifact", cause]);
        let absence = Some(Code::TooFewArtifacts { artifacts: 0, min_artifacts: 1 }.into());
        let absent = Content { absence, compliance: "UNKNOWN".into(), ..non_compliant };
        assert_eq!(
            absent.headline(),
            "prod (acme) is unknown: too few running artifacts: 0, expected at least 1"
        );
        let scaled = content(Trigger::ScaledArtifact, &["web:2", "cart:1"], &[]);
        assert_eq!(scaled.headline(), "2 artifacts scaled in prod (acme)");
        assert_eq!(lines(&scaled, 0)[0], "web:2 abababababab: 2 to 5 pods");
        let silent = content(Trigger::SilentEnvironment, &[], &[]);
        let silent_since = Some(silent.occurred_at);
        let cause = Cause { kind: CauseKind::Time, by: None };
        let silent = Content { silent_since, cause, ..silent };
        assert_eq!(silent.headline(), "prod (acme) is silent: no report since 2026-09-21 14:13:20 UTC");
        assert_eq!(lines(&silent, 0), ["snapshot 3; caused by missing reports"]);
        let compliant = content(Trigger::CompliantEnvironment, &[], &[]);
        assert_eq!(
            (compliant.headline().as_str(), lines(&compliant, 0).len()),
            ("prod (acme) is compliant", 1)
        );
    }

    #[test]
    fn headline_of_a_non_compliant_artifact_tells_what_is_wrong() {
        let about = |code: Code, name: Option<&str>, kind: Option<&str>| Reason {
            attestation_name: name.map(str::to_owned),
            attestation_type: kind.map(str::to_owned),
            ..code.into()
        };
        let unit_tests = |code| about(code, Some("unit-tests"), Some("junit"));
        let missing_approval = Code::MissingApproval { approved: 0, count: 1, not_author: false };
        let missing = unit_tests(Code::MissingAttestation);
        for (reasons, expected) in [
            (vec![missing.clone()], "Untested image in prod: shop/web:1.6.0"),
            (
                vec![about(Code::MissingAttestation, Some("unit-tests"), None)],
                "Untested image in prod: shop/web:1.6.0",
            ),
            (vec![Code::MissingProvenance.into()], "Untested image in prod: shop/web:1.6.0"),
            (
                vec![about(Code::MissingAttestation, Some("scan"), Some("snyk"))],
                "shop/web:1.6.0 in prod has no scan",
            ),
            (vec![unit_tests(Code::NonCompliantAttestation)], "shop/web:1.6.0 in prod failed unit-tests"),
            (
                vec![missing, unit_tests(Code::NonCompliantAttestation)],
                "shop/web:1.6.0 in prod failed unit-tests",
            ),
            (
                vec![about(Code::NonCompliantAttestation, None, Some("sonar"))],
                "shop/web:1.6.0 in prod failed an attestation of type sonar",
            ),
            (vec![missing_approval.clone().into()], "shop/web:1.6.0 in prod is not approved"),
            (vec![], "shop/web:1.6.0 in prod is non-compliant"),
        ] {
            let mut content =
                content(Trigger::NonCompliantArtifact, &["registry.example.com/shop/web:1.6.0"], &[]);
            content.artifacts[0].reasons = reasons;
            assert_eq!(content.headline(), expected);
        }
        let two =
            content(Trigger::NonCompliantArtifact, &["localhost:5000/a\n", "b", "c"], &[missing_approval]);
        assert_eq!(two.headline(), "3 non-compliant images in prod: a\\n and 2 more");
    }

    #[test]
    fn test_of_an_action_is_one_json_object_and_a_text() {
        let test = EventContent::Test(TestContent {
            trigger: Trigger::Test,
            occurred_at: Timestamp::from_micros(1_790_000_000_500_000),
            organization: "acme".into(),
            tested_by: "admin".into(),
        });
        let json = serde_json::to_string(&test).unwrap();
        assert_eq!(serde_json::from_str::<EventContent>(&json).unwrap(), test, "{json}");
        assert_eq!(test.headline(), "test of an action of acme: nothing happened");
        assert_eq!(test.notes(0), ["sent by admin"]);
    }

    #[test]
    fn further_artifacts_are_counted_and_line_breaks_are_escaped() {
        let many = content(Trigger::StartedArtifact, &["web:1\nFrom: root"; 13], &[]);
        let lines = lines(&many, 0);
        assert_eq!((lines.len(), lines[10].as_str()), (12, "and 3 more"));
        assert!(!lines.concat().contains('\n'), "{lines:?}");
    }

    #[test]
    fn text_ends_with_the_number_of_merged_events() {
        let content = content(Trigger::CompliantEnvironment, &[], &[]);
        for (merged_events, expected) in [
            (1, "and 1 more event of this kind; see the environment's page"),
            (17, "and 17 more events of this kind; see the environment's page"),
        ] {
            assert_eq!(lines(&content, merged_events)[1..], [expected]);
        }
    }

    #[test]
    fn notification_is_one_flat_json_object() {
        let content = EventContent::Environment(content(Trigger::StartedArtifact, &[], &[]));
        let action = ActionName { number: 7, name: "ops" };
        let notification = Notification {
            schema_version: SCHEMA_VERSION,
            id: "n1".into(),
            action,
            html_url: "https://x",
            merged_events: 3,
            content: &content,
        };
        let json = serde_json::to_string(&notification).unwrap();
        assert!(
            json.starts_with(
                r#"{"schema_version":1,"id":"n1","action":{"number":7,"name":"ops"},"html_url":"https://x","merged_events":3,"trigger":"ON_STARTED_ARTIFACT","#
            ),
            "{json}"
        );
        assert!(json.contains(r#""cause":{"type":"REPORT","by":"cluster"}"#), "{json}");
    }
}
