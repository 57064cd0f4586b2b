//! The input of an evaluation of one environment.
//!
//! Read by the guard for the current status, and by the page of an environment for artifacts of the past.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::evidence::environment_status::Requirements;
use crate::domain::evidence::policy::facts::{AllowList, Evidence};
use crate::domain::evidence::policy::{Needs, Policy};
use crate::domain::model::{EnvironmentName, Fingerprint};
use crate::service::site::Site;
use crate::store::{Error, Transaction};

/// The policies and the allow-list of an environment, and the evidence that these need.
pub(crate) struct Inputs {
    pub(crate) policies: Vec<Arc<Policy>>,
    allowed: AllowList,
    /// The evidence for artifacts; those without any have no entry.
    pub(crate) evidence: BTreeMap<Fingerprint, Evidence>,
}

impl Inputs {
    pub(crate) async fn read(
        site: &Site,
        transaction: &mut Transaction,
        organization: &str,
        environment: &EnvironmentName,
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<Self, Error> {
        let name = environment.as_str();
        let mut policies = site.policies.of(transaction, organization, [name]).await?;
        let policies = policies.remove(name).unwrap_or_default();
        let needs = Needs::new(policies.iter().map(|policy| &**policy));
        let evidence = transaction.evidence(organization, artifacts, &needs).await?;
        let mut allowed = transaction.allow_lists(organization, [name], artifacts).await?;
        Ok(Self { evidence, allowed: allowed.remove(name).unwrap_or_default(), policies })
    }

    pub(crate) fn requirements<'a>(&'a self, environment: &'a EnvironmentName) -> Requirements<'a> {
        Requirements { environment: Some(environment), policies: &self.policies, allowed: &self.allowed }
    }
}
