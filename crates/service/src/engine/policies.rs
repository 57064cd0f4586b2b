//! The policies of environments, compiled.
//!
//! The content of a version never changes, so each is compiled once per process and kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::types::Uuid;

use rules::policy::{Policy, PolicyVersion};
use store::policies::EnvironmentPolicy;
use store::{Error, Tenant};

const MAX_KEPT: usize = 1_000;

/// Compiled policies by the identifier of their content.
#[derive(Default)]
pub(crate) struct Policies(Mutex<HashMap<Uuid, Arc<Policy>>>);

impl Policies {
    /// The policies of environments, by environment. Environments without policies have no entry.
    pub(crate) async fn of(
        &self,
        tenant: &mut Tenant<'_>,
        environments: impl IntoIterator<Item = &str>,
    ) -> Result<HashMap<String, Vec<Arc<Policy>>>, Error> {
        let attached = store::policies::of_environment(tenant, environments).await?;
        let policies = self.compiled(tenant, attached.values().flatten()).await?;
        let compiled = attached.into_iter().map(|(environment, attached)| {
            let attached = attached.iter().map(|one| policies.get(&one.id).map(Arc::clone));
            let attached = attached.collect::<Option<_>>().ok_or(Error::Unreadable("a policy"))?;
            Ok((environment, attached))
        });
        compiled.collect()
    }

    pub(crate) async fn current(
        &self,
        tenant: &mut Tenant<'_>,
        name: &str,
    ) -> Result<Option<Arc<Policy>>, Error> {
        let Some(current) = store::policies::current(tenant, name).await? else {
            return Ok(None);
        };
        let name = PolicyVersion { name: current.name, version: current.version };
        let current = EnvironmentPolicy { id: current.id, name };
        Ok(self.compiled(tenant, [&current]).await?.remove(&current.id))
    }

    /// Compiles policies, or takes those that are kept. Returns them by the identifier of their content.
    async fn compiled(
        &self,
        tenant: &mut Tenant<'_>,
        wanted: impl IntoIterator<Item = &EnvironmentPolicy>,
    ) -> Result<HashMap<Uuid, Arc<Policy>>, Error> {
        let mut policies = HashMap::new();
        let mut missing: HashMap<Uuid, PolicyVersion> = HashMap::new();
        {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for one in wanted {
                match kept.get(&one.id) {
                    Some(policy) => drop(policies.insert(one.id, Arc::clone(policy))),
                    None => drop(missing.insert(one.id, one.name.clone())),
                }
            }
        }
        if !missing.is_empty() {
            let ids: BTreeSet<Uuid> = missing.keys().copied().collect();
            for (id, content) in store::policies::contents(tenant, ids).await? {
                let unreadable = || Error::Unreadable("a policy");
                let name = missing.remove(&id).ok_or_else(unreadable)?;
                policies.insert(id, Arc::new(Policy::parse(name, &content).map_err(|_| unreadable())?));
            }
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() + policies.len() > MAX_KEPT {
                kept.clear();
            }
            kept.extend(policies.iter().map(|(id, policy)| (*id, Arc::clone(policy))));
        }
        Ok(policies)
    }
}
