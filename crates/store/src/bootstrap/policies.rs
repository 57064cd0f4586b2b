//! Reconciles policies and their attachments to environments. Policies and attachments that operations made stay,
//! unless the file declares a policy of the same name.

use std::collections::BTreeSet;

use crate::Error;
use crate::bootstrap::Reconciliation;
use crate::bootstrap::file::{Environment, Policy, unresolved};
use crate::policies::{CurrentPolicy, NewPolicy};
use model::PolicyName;

/// The author of declared policies and attachments.
const BOOTSTRAP: &str = "bootstrap file";

impl Reconciliation<'_> {
    pub(crate) async fn policies(
        &mut self,
        policies: &[Policy],
        environments: &[Environment],
    ) -> Result<(), Error> {
        let declared: BTreeSet<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
        let (mut changed, mut removed) = (BTreeSet::new(), BTreeSet::new());
        let current = crate::policies::all_current(&mut self.tenant, None).await?;
        for open in current.iter().filter(|open| open.is_declared && !declared.contains(open.name.as_str())) {
            crate::policies::close(&mut self.tenant, &open.name, self.now).await?;
            self.record(format!("the policy {} was removed", open.name));
            removed.insert(open.name.as_str());
        }
        for policy in policies {
            let new = NewPolicy {
                name: policy.name.as_str(),
                description: policy.description.as_str(),
                comment: "",
                content: policy.text.as_deref().ok_or_else(|| unresolved("the text of a policy"))?,
                needs_trails: policy.needs_trails,
                is_declared: true,
                created_by: BOOTSTRAP,
            };
            let is_same = |open: &CurrentPolicy| {
                (open.is_declared, &*open.name, &*open.description, &*open.content)
                    == (true, new.name, new.description, new.content)
            };
            if !current.iter().any(is_same) {
                let version = crate::policies::insert(&mut self.tenant, new, self.now).await?;
                self.record(format!("the policy {} has version {version}", new.name));
                changed.insert(new.name);
            }
        }
        self.attachments(environments, &changed, &removed).await
    }

    async fn attachments(
        &mut self,
        environments: &[Environment],
        changed: &BTreeSet<&str>,
        removed: &BTreeSet<&str>,
    ) -> Result<(), Error> {
        let listed = environments.iter().flat_map(|environment| {
            environment.policies.iter().map(|policy| (environment.name.as_str(), PolicyName::as_str(policy)))
        });
        let mut wanted: BTreeSet<(&str, &str)> = listed.collect();
        let open = crate::policies::attachments(&mut self.tenant, None, None).await?;
        let mut closed = Vec::new();
        for attachment in &open {
            let (environment, policy) = (attachment.environment.as_str(), attachment.policy.as_str());
            let is_wanted = wanted.contains(&(environment, policy));
            if removed.contains(policy) || attachment.is_declared && !is_wanted {
                closed.push(attachment.id);
                self.record(format!("the policy {policy} was detached from the environment {environment}"));
                self.mark_for_evaluation(environment);
            } else if is_wanted && !attachment.is_declared {
                // Inserted again, as declared.
                closed.push(attachment.id);
            } else {
                wanted.remove(&(environment, policy));
                if changed.contains(policy) {
                    self.mark_for_evaluation(environment);
                }
            }
        }
        crate::policies::detach(&mut self.tenant, closed, self.now).await?;
        for (environment, policy) in &wanted {
            self.record(format!("the policy {policy} is attached to the environment {environment}"));
            self.mark_for_evaluation(environment);
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        crate::policies::attach(&mut self.tenant, &wanted, true, BOOTSTRAP, self.now).await
    }
}
