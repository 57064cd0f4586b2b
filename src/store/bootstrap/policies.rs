//! Reconciles policies and their attachments to environments. Policies and attachments that operations made stay,
//! unless the file declares a policy of the same name.

use std::collections::BTreeSet;

use super::{EnvironmentConfig, Journal, PolicyConfig};
use crate::domain::model::{PolicyName, Timestamp};
use crate::store::policies::{CurrentPolicy, NewPolicy};
use crate::store::{Error, Transaction};

/// The author of declared policies and attachments.
const BOOTSTRAP: &str = "bootstrap file";

impl Transaction {
    pub(super) async fn reconcile_policies(
        &mut self,
        organization: &str,
        policies: &[PolicyConfig],
        environments: &[EnvironmentConfig],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        let declared: BTreeSet<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
        let mut changed: BTreeSet<String> = BTreeSet::new();
        let mut removed: BTreeSet<String> = BTreeSet::new();
        let current = self.current_policies(organization, None).await?;
        for open in current.iter().filter(|open| open.is_declared && !declared.contains(open.name.as_str())) {
            self.close_policy(organization, &open.name, now).await?;
            journal.record(organization, format!("the policy {} was removed", open.name));
            removed.insert(open.name.clone());
        }
        for policy in policies {
            let PolicyConfig { name, description, content, needs_trails, .. } = policy;
            let is_same = |open: &CurrentPolicy| {
                (open.is_declared, open.name.as_str(), &open.description, &open.content)
                    == (true, name.as_str(), description, content)
            };
            if current.iter().any(is_same) {
                continue;
            }
            let new = NewPolicy {
                name: name.as_str(),
                description,
                comment: "",
                content,
                needs_trails: *needs_trails,
                is_declared: true,
                created_by: BOOTSTRAP,
            };
            let version = self.insert_policy(organization, new, now).await?;
            journal.record(organization, format!("the policy {name} has version {version}"));
            changed.insert(name.as_str().to_owned());
        }
        self.reconcile_attachments(organization, environments, (&changed, &removed), now, journal).await
    }

    async fn reconcile_attachments(
        &mut self,
        organization: &str,
        environments: &[EnvironmentConfig],
        (changed, removed): (&BTreeSet<String>, &BTreeSet<String>),
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        let listed = environments.iter().flat_map(|environment| {
            environment.policies.iter().map(|policy| (environment.name.as_str(), PolicyName::as_str(policy)))
        });
        let mut wanted: BTreeSet<(&str, &str)> = listed.collect();
        let open = self.policy_attachments(organization, None, None).await?;
        let mut closed = Vec::new();
        for attachment in &open {
            let (environment, policy) = (attachment.environment.as_str(), attachment.policy.as_str());
            let is_wanted = wanted.contains(&(environment, policy));
            if removed.contains(policy) || attachment.is_declared && !is_wanted {
                closed.push(attachment.id);
                journal.record(
                    organization,
                    format!("the policy {policy} was detached from the environment {environment}"),
                );
                journal.mark_for_evaluation(organization, environment);
            } else if is_wanted && !attachment.is_declared {
                // Inserted again, as declared.
                closed.push(attachment.id);
            } else {
                wanted.remove(&(environment, policy));
                if changed.contains(policy) {
                    journal.mark_for_evaluation(organization, environment);
                }
            }
        }
        self.detach_policies(organization, closed, now).await?;
        for (environment, policy) in &wanted {
            let change = format!("the policy {policy} is attached to the environment {environment}");
            journal.record(organization, change);
            journal.mark_for_evaluation(organization, environment);
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        self.attach_policies(organization, &wanted, true, BOOTSTRAP, now).await
    }
}
