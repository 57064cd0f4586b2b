//! The input of an evaluation of environments.
//!
//! Read by the guard for the current status, and by the page of an environment for artifacts of the past.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::site::Site;
use model::{EnvironmentName, Fingerprint};
use rules::environment_status::Requirements;
use rules::policy::facts::{AllowList, Evidence};
use rules::policy::{Needs, Policy};
use store::{Error, Tenant};

/// The policies and allow-lists of environments, and the evidence that these need.
pub(crate) struct Inputs {
    policies: HashMap<String, Vec<Arc<Policy>>>,
    allowed: HashMap<String, AllowList>,
    /// The evidence for artifacts; those without any have no entry.
    pub(crate) evidence: BTreeMap<Fingerprint, Evidence>,
}

static NOTHING_ALLOWED: AllowList = AllowList(Vec::new());

impl Inputs {
    pub(crate) async fn read<'a>(
        site: &Site,
        tenant: &mut Tenant<'_>,
        environments: impl IntoIterator<Item = &'a str> + Clone,
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<Self, Error> {
        let policies = site.policies.of(tenant, environments.clone()).await?;
        let needs = Needs::new(policies.values().flatten().map(|policy| &**policy));
        let evidence = store::policies::evidence::read(tenant, artifacts, &needs).await?;
        let allowed = store::policies::evidence::allow_lists(tenant, environments, artifacts).await?;
        Ok(Self { policies, allowed, evidence })
    }

    pub(crate) fn requirements<'a>(&'a self, environment: &'a EnvironmentName) -> Requirements<'a> {
        let name = environment.as_str();
        Requirements {
            environment: Some(environment),
            policies: self.policies.get(name).map_or(&[], Vec::as_slice),
            allowed: self.allowed.get(name).unwrap_or(&NOTHING_ALLOWED),
        }
    }
}
