//! What the past adds to the demo's bootstrap file: policies, approvals, and who is told. Pure.

use std::fmt::Write;

use jiff::Timestamp;

use super::table::{Image, Origin, Table};
use super::{BUILDS, HEARD_WITHIN, INTEGRATION, PRODUCTION, ROLLOUTS, SANDBOX, SCANS, STAGING, WAREHOUSE};
use crate::cli::demo::UNIT_TESTS;
use crate::cli::demo::files::{CHAT, SECRET, WATCH};
use crate::domain::model::{ApprovalState, Fingerprint};

/// What is to stand in the file beside what the demo needs itself.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::cli::demo) struct Declared {
    /// How often it was changed.
    pub(in crate::cli::demo) changes: usize,
    pub(in crate::cli::demo) flows: String,
    pub(in crate::cli::demo) environments: String,
    pub(in crate::cli::demo) actions: String,
}

/// An approval as somebody gave it, or has yet to.
#[derive(Debug)]
pub(super) struct Approval {
    pub(super) state: ApprovalState,
    pub(super) image: Image,
    pub(super) version: &'static str,
    /// What ran until then.
    pub(super) base: Fingerprint,
    pub(super) by: &'static str,
    pub(super) ticket: &'static str,
    pub(super) at: Timestamp,
}

impl Declared {
    /// With all of these approvals, of which the last came last.
    pub(super) fn of(table: &Table, approvals: &[Approval]) -> Self {
        let mut flows = format!(
            "      - name: {BUILDS}
        tags: {{owner: platform}}
        template:
          attestations:
            - {{name: {UNIT_TESTS}, type: junit}}
        approvals:
"
        );
        for (n, approval) in approvals.iter().enumerate() {
            approval.write(&mut flows, n + 1);
        }
        for (flow, owner, expected) in [
            (INTEGRATION, "quality", ""),
            (SCANS, "security", ""),
            (ROLLOUTS, "platform", "smoke-tests load-tests"),
        ] {
            let _ = writeln!(flows, "      - name: {flow}\n        tags: {{owner: {owner}}}");
            let expected: Vec<_> =
                expected.split_whitespace().map(|name| format!("{{name: {name}, type: junit}}")).collect();
            if !expected.is_empty() {
                let _ = writeln!(flows, "        template: {{attestations: [{}]}}", expected.join(", "));
            }
        }
        let policy = format!("attestations: [{{flow: {BUILDS}, name: {UNIT_TESTS}}}]");
        let mut environments = String::new();
        for (name, policy) in [
            (PRODUCTION, format!("{policy}, approval: true")),
            (STAGING, policy.clone()),
            (WAREHOUSE, policy),
            (SANDBOX, String::new()),
        ] {
            let minutes = HEARD_WITHIN.as_secs() / 60;
            let _ = writeln!(environments, "      - name: {name}\n        silentAfter: {minutes}m");
            if policy.is_empty() {
                continue;
            }
            let _ = writeln!(environments, "        policy: {{{policy}}}\n        allowed:");
            for image in &table.images {
                if let Origin::Theirs { allowed: Some(reason), .. } = image.origin {
                    let artifact = image.digest(image.version);
                    let _ = writeln!(
                        environments,
                        "          - {{artifact: {artifact}, reason: {reason}, author: platform team}}"
                    );
                }
            }
        }
        let actions = format!(
            "      - number: 2
        name: production-watch
        environments: [{PRODUCTION}]
        triggers: [ON_NON_COMPLIANT_ENV, ON_COMPLIANT_ENV, ON_STARTED_ARTIFACT, ON_EXITED_ARTIFACT, ON_SCALED_ARTIFACT]
        targets:
          - {{name: on-call, type: WEBHOOK, url: {{file: {WATCH}}}, secrets: [{{file: {SECRET}}}]}}
          - {{name: releases, type: SLACK, url: {{file: {CHAT}}}, channel: {{name: releases}}}}
      - number: 3
        name: warehouse-watch
        environments: [{WAREHOUSE}, {STAGING}]
        triggers: [ON_NON_COMPLIANT_ENV, ON_COMPLIANT_ENV]
        targets:
          - {{name: on-call, type: WEBHOOK, url: {{file: {WATCH}}}, secrets: [{{file: {SECRET}}}]}}
"
        );
        Self { changes: approvals.len(), flows, environments, actions }
    }
}

impl Approval {
    fn write(&self, to: &mut String, number: usize) {
        let Self { state, image, version, base, by, ticket, at } = self;
        let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
        let _ = writeln!(
            to,
            "          - number: {number}
            artifact: {}
            base: {base}
            name: {}
            description: {} {version} to {PRODUCTION}
            environment: {PRODUCTION}
            commits: [{}]
            state: {}",
            image.digest(version),
            image.reference(version),
            image.name,
            image.commit(version),
            state.as_str()
        );
        if *state == ApprovalState::Approved {
            let url = format!("https://tickets.example.com/{ticket}");
            let _ = writeln!(
                to,
                "            approvals: [{{by: {by}, at: \"{at}\", comment: checked the rollout plan, url: \"{url}\"}}]"
            );
        }
    }
}
