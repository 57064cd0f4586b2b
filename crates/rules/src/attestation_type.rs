//! Types of attestations: their names, and how each passes.
//!
//! Called by the service when it records an attestation. Pure.

use serde::de::DeserializeOwned;

use super::verdict;
use model::{
    BundleFields, CustomFields, EvidenceKind, GenericFields, JiraFields, JunitFields, JunitResult,
    PullRequestFields, SnykFields, SonarFields, SystemFields, SystemType,
};

/// The fields of one type of attestation.
pub trait AttestationType: DeserializeOwned + Send {
    /// The names of the fields.
    const NAMES: &'static [&'static str];
    /// Whether all fields have columns of their own.
    const HAS_COLUMNS: bool = false;

    /// The type as templates name it.
    fn name(&self) -> String;

    /// Whether it passes; `None` if that is not known.
    fn verdict(&self) -> Option<bool>;

    /// Test results, which have a column of their own.
    fn into_results(self) -> Vec<JunitResult> {
        Vec::new()
    }
}

impl AttestationType for JunitFields {
    const NAMES: &'static [&'static str] = &["junit_results"];
    const HAS_COLUMNS: bool = true;

    fn name(&self) -> String {
        "junit".to_owned()
    }

    fn verdict(&self) -> Option<bool> {
        Some(verdict::passes(&self.junit_results))
    }

    fn into_results(self) -> Vec<JunitResult> {
        self.junit_results
    }
}

impl AttestationType for GenericFields {
    const NAMES: &'static [&'static str] = &["is_compliant"];
    const HAS_COLUMNS: bool = true;

    fn name(&self) -> String {
        "generic".to_owned()
    }

    fn verdict(&self) -> Option<bool> {
        Some(self.is_compliant)
    }
}

impl AttestationType for BundleFields {
    const NAMES: &'static [&'static str] = &[];
    const HAS_COLUMNS: bool = true;

    /// Until its statement is read.
    fn name(&self) -> String {
        EvidenceKind::Statement.to_string()
    }

    fn verdict(&self) -> Option<bool> {
        None
    }
}

impl AttestationType for CustomFields {
    const NAMES: &'static [&'static str] = &["type_name", "attestation_data", "is_compliant"];

    fn name(&self) -> String {
        format!("custom:{}", self.type_name)
    }

    fn verdict(&self) -> Option<bool> {
        self.is_compliant
    }
}

impl AttestationType for SystemFields {
    const NAMES: &'static [&'static str] = &["type_name", "attestation_data", "control", "is_compliant"];

    fn name(&self) -> String {
        self.type_name.to_string()
    }

    /// A decision has its verdict in its data; a bill of materials has none.
    fn verdict(&self) -> Option<bool> {
        let decided = self.attestation_data.as_ref().and_then(|data| data.is_compliant);
        self.is_compliant.or(decided.filter(|_| self.type_name == SystemType::Decision))
    }
}

impl AttestationType for SnykFields {
    const NAMES: &'static [&'static str] = &["snyk_results", "is_compliant"];

    fn name(&self) -> String {
        "snyk".to_owned()
    }

    /// A scan without findings passes. Which findings are acceptable is not known.
    fn verdict(&self) -> Option<bool> {
        let runs = self.snyk_results.results.as_deref().unwrap_or_default();
        let counts = runs.iter().flat_map(|run| [run.high, run.medium, run.low]);
        let is_clean = !runs.is_empty() && counts.into_iter().all(|count| count == Some(0.0));
        self.is_compliant.or(is_clean.then_some(true))
    }
}

impl AttestationType for JiraFields {
    const NAMES: &'static [&'static str] = &["jira_results", "is_compliant"];

    fn name(&self) -> String {
        "jira".to_owned()
    }

    /// Passes if the commit refers to issues, and all of them exist.
    fn verdict(&self) -> Option<bool> {
        let issues = self.jira_results.as_deref().unwrap_or_default();
        let exist = issues.iter().all(|issue| issue.issue_exists == Some(true));
        self.is_compliant.or(Some(!issues.is_empty() && exist))
    }
}

impl AttestationType for SonarFields {
    const NAMES: &'static [&'static str] = &["sonar_results", "is_compliant"];

    fn name(&self) -> String {
        "sonar".to_owned()
    }

    /// Passes if the quality gate was passed.
    fn verdict(&self) -> Option<bool> {
        let gate = self.sonar_results.quality_gate.as_ref();
        let status = gate.and_then(|gate| gate.status.as_deref());
        self.is_compliant.or(status.map(|status| status == "OK"))
    }
}

impl AttestationType for PullRequestFields {
    const NAMES: &'static [&'static str] = &["git_provider", "pull_requests", "is_compliant"];

    fn name(&self) -> String {
        "pull_request".to_owned()
    }

    /// Passes if there is a pull request.
    fn verdict(&self) -> Option<bool> {
        let exists = self.pull_requests.as_ref().is_some_and(|requests| !requests.is_empty());
        self.is_compliant.or(Some(exists))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: AttestationType>(sent: Value) -> (String, Option<bool>) {
        let read: T = serde_json::from_value(sent).unwrap();
        (read.name(), read.verdict())
    }

    #[test]
    fn verdict_is_sent_or_follows_from_the_data_of_the_type() {
        let snyk = |counts: Value| {
            read::<SnykFields>(json!({"snyk_results": {"schema_version": 1, "results": counts}}))
        };
        let clean = json!({"high_count": 0, "medium_count": 0, "low_count": 0});
        let jira = |issues: Value| read::<JiraFields>(json!({"jira_results": issues}));
        let sonar =
            |gate: Value| read::<SonarFields>(json!({"sonar_results": {"status": "x", "qualityGate": gate}}));
        let system = |sent: Value| read::<SystemFields>(sent);
        let pull = |requests: Value| {
            read::<PullRequestFields>(json!({"git_provider": "github", "pull_requests": requests}))
        };
        for ((name, verdict), expected_name, expected) in [
            (read::<GenericFields>(json!({"is_compliant": false})), "generic", Some(false)),
            (read::<CustomFields>(json!({"type_name": "cov", "attestation_data": [1]})), "custom:cov", None),
            (
                read::<CustomFields>(json!({"type_name": "cov", "is_compliant": true})),
                "custom:cov",
                Some(true),
            ),
            (system(json!({"type_name": "sbom", "attestation_data": {"is_compliant": true}})), "sbom", None),
            (
                system(json!({"type_name": "decision", "attestation_data": {"is_compliant": true}})),
                "decision",
                Some(true),
            ),
            (system(json!({"type_name": "decision", "control": "C-1"})), "decision", None),
            (snyk(json!([clean, clean])), "snyk", Some(true)),
            (snyk(json!([clean, {"high_count": 1, "medium_count": 0, "low_count": 0}])), "snyk", None),
            (snyk(json!([{}])), "snyk", None),
            (snyk(json!(null)), "snyk", None),
            (jira(json!([{"issue_id": "A-1", "issue_exists": true}])), "jira", Some(true)),
            (jira(json!([{"issue_exists": true}, {"issue_exists": false}])), "jira", Some(false)),
            (jira(json!([])), "jira", Some(false)),
            (sonar(json!({"status": "OK", "conditions": []})), "sonar", Some(true)),
            (sonar(json!({"status": "ERROR"})), "sonar", Some(false)),
            (sonar(json!(null)), "sonar", None),
            (pull(json!([{"url": "https://x"}])), "pull_request", Some(true)),
            (pull(json!(null)), "pull_request", Some(false)),
        ] {
            assert_eq!((name.as_str(), verdict), (expected_name, expected));
        }
    }

    #[test]
    fn fields_of_another_type_are_rejected() {
        assert!(serde_json::from_value::<SystemFields>(json!({"type_name": "junit"})).is_err());
        assert!(serde_json::from_value::<GenericFields>(json!({})).is_err());
        assert!(serde_json::from_value::<JiraFields>(json!({"jira_results": {}})).is_err());
    }
}
