//! What each environment is told of the set: its counts, its last revision, whether it was ever seen.
//!
//! The roster books here whatever comes, differs or goes. Revisions are of the whole set; an
//! environment's is the last one that changed an artifact of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::entry::{Entry, Last};
use super::tally::Tally;
use crate::domain::live::collapse::Collapsed;
use crate::domain::live::departure::{Departure, Revision};
use crate::domain::live::selection::Selection;
use crate::domain::model::NamespaceName;

/// The books of all environments.
#[derive(Debug)]
pub(crate) struct Ledger {
    environments: Vec<Environment>,
    /// The namespaces that a selection names and of which a pod was seen. Others are not kept: there is
    /// no end to the names that a cluster makes up for its tests.
    seen: BTreeSet<NamespaceName>,
    latest: Revision,
}

#[derive(Debug)]
struct Environment {
    selection: Selection,
    tally: Tally,
    revision: Revision,
    is_seen: bool,
}

/// What the books say of one namespace.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) namespace: Arc<str>,
    pub(crate) revision: Revision,
    /// The environments whose selection takes it.
    takers: Box<[usize]>,
    is_seen: bool,
}

impl Account {
    pub(crate) fn is_of(&self, environment: usize) -> bool {
        self.takers.contains(&environment)
    }
}

impl Ledger {
    pub(crate) fn new(selections: Vec<Selection>) -> Self {
        let environment = |selection| Environment {
            selection,
            tally: Tally::default(),
            revision: Revision::default(),
            is_seen: false,
        };
        let environments = selections.into_iter().map(environment).collect();
        Self { environments, seen: BTreeSet::new(), latest: Revision::default() }
    }

    /// An account for a namespace, where any environment takes it.
    pub(crate) fn open(&self, namespace: &str) -> Option<Account> {
        let takers: Box<[usize]> = self
            .environments
            .iter()
            .enumerate()
            .filter(|(_, environment)| environment.selection.takes(namespace))
            .map(|(n, _)| n)
            .collect();
        let revision = Revision::default();
        (!takers.is_empty()).then(|| Account {
            namespace: namespace.into(),
            revision,
            takers,
            is_seen: false,
        })
    }

    /// A pod was seen in this namespace.
    pub(crate) fn see(&mut self, account: &mut Account) {
        if std::mem::replace(&mut account.is_seen, true) {
            return;
        }
        for n in &account.takers {
            let Some(environment) = self.environments.get_mut(*n) else { continue };
            environment.is_seen = true;
            let named =
                environment.selection.names().iter().find(|name| name.as_str() == &*account.namespace);
            if let Some(name) = named.filter(|name| !self.seen.contains(*name)) {
                self.seen.insert(name.clone());
            }
        }
    }

    pub(crate) fn has_seen(&self, namespace: &str) -> bool {
        self.seen.iter().any(|name| name.as_str() == namespace)
    }

    pub(crate) fn has_seen_any(&self, environment: usize) -> bool {
        self.environments.get(environment).is_some_and(|environment| environment.is_seen)
    }

    pub(crate) fn latest(&self) -> Revision {
        self.latest
    }

    /// A revision that no report ever was of.
    fn fresh(&mut self) -> Revision {
        self.latest = self.latest.next();
        self.latest
    }

    /// An artifact of this namespace came, differs or went.
    pub(crate) fn change(&mut self, account: &mut Account) -> Revision {
        let revision = self.fresh();
        account.revision = revision;
        for n in &account.takers {
            if let Some(environment) = self.environments.get_mut(*n) {
                environment.revision = revision;
            }
        }
        revision
    }

    /// A pod that was known as this, if at all, is gone, and was last so, as far as that is news. What no
    /// report can have held departs with a revision of its own.
    pub(crate) fn depart(
        &mut self,
        account: &Account,
        name: &str,
        own: Option<&Entry>,
        last: Option<Last>,
    ) -> Option<Departure> {
        match last {
            Some(last) if own.is_none_or(|own| !last.is_of(own)) => {
                Some(last.departure(&account.namespace, name, self.fresh()))
            }
            _ => own?.departure(&account.namespace, name),
        }
    }

    /// Counts a pod of this namespace in place of another; either may be none.
    pub(crate) fn count(&mut self, account: &Account, before: Option<&Collapsed>, now: Option<&Collapsed>) {
        for n in &account.takers {
            let Some(environment) = self.environments.get_mut(*n) else { continue };
            if let Some(before) = before {
                environment.tally.subtract(before);
            }
            if let Some(now) = now {
                environment.tally.add(now);
            }
        }
    }

    pub(crate) fn tally(&self, environment: usize) -> Tally {
        self.environments.get(environment).map(|environment| environment.tally.clone()).unwrap_or_default()
    }

    pub(crate) fn revision(&self, environment: usize) -> Revision {
        self.environments.get(environment).map(|environment| environment.revision).unwrap_or_default()
    }

    pub(crate) fn takes(&self, environment: usize, namespace: &str) -> bool {
        self.environments.get(environment).is_some_and(|e| e.selection.takes(namespace))
    }
}
