//! The live set: every pod that any environment takes, in report order.
//!
//! `agent` feeds it from lists and watches, by mark and sweep: what a list brings is applied at once,
//! and what it did not name goes only when it is complete. Each environment's report is a [`Snapshot`]
//! of it. It tells what differs and what departs, and never decides what to do about that.

mod block;
mod blocks;
mod counters;
mod entry;
mod listing;
mod marks;
mod queries;
mod snapshot;
mod tally;
mod template;

use std::cmp::Ordering;
use std::collections::BTreeMap;

pub use listing::Swept;
pub use snapshot::{Place, Snapshot, Walk};
pub use tally::Tally;

use blocks::Blocks;
use counters::{Account, Ledger};
use entry::{Entry, Identity, Last};
use listing::Listing;
use template::Templates;

use super::collapse::{ContainerSkip, Counting, PodSkip};
use super::departure::{Departure, Revision};
use super::pod::{Phase, PodView};
use super::selection::Selection;
use crate::domain::model::{NamespaceName, namespace_order};

/// In bytes.
const LONGEST_NAME: usize = 253;

/// The live set.
///
/// `of` says whose list or watch speaks: that of one namespace, or, `None`, of the whole cluster.
/// Environments go by their place in the selections that it was made with; one that is not there holds
/// nothing. Pods of a namespace that no selection takes are not kept.
#[derive(Debug)]
pub struct Roster {
    counting: Counting,
    ledger: Ledger,
    templates: Templates,
    /// In report order; one without a pod is dropped.
    namespaces: Vec<Namespace>,
    listings: BTreeMap<Option<NamespaceName>, Listing>,
}

#[derive(Debug)]
struct Namespace {
    account: Account,
    pods: Blocks,
}

/// What became of a pod that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The artifacts that it ended: its own, or that of a pod whose name it took, or both.
    pub departures: Vec<Departure>,
    /// Why nothing is reported of it, though an environment takes its namespace.
    pub left_out: Option<PodSkip>,
    /// How many containers of it are left out, by reason.
    pub skipped: Box<[(ContainerSkip, u64)]>,
    /// The list that is being read has named it before.
    pub is_repeated: bool,
}

/// What became of an item that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// No environment takes its namespace.
    NotTaken,
    /// Its pod stays in the set as it was last.
    Kept,
    /// It is counted among those left out.
    LeftOut,
    /// Not even its namespace is known.
    Lost,
}

impl Roster {
    /// An empty set; environment `n` has the `n`th selection.
    #[must_use]
    pub fn new(selections: Vec<Selection>, counting: Counting) -> Self {
        Self {
            counting,
            ledger: Ledger::new(selections),
            templates: Templates::default(),
            namespaces: Vec::new(),
            listings: BTreeMap::new(),
        }
    }

    /// A list begins, or begins again. Nothing is removed by that.
    pub fn begin(&mut self, of: Option<&NamespaceName>) {
        for namespace in within(&mut self.namespaces, of) {
            namespace.pods.clear_marks();
        }
        self.listing(of).begin();
    }

    /// Takes an item of a list, or a pod that a watch says was added or modified.
    ///
    /// A pod that has already ended when it is first seen has departed too, except in the first list of
    /// its scope: what ended before that is not known to have run while anybody looked.
    ///
    /// A pod that runs something else than before, and no longer all of what it ran, has departed as it was:
    /// what ran in between two reports would else be in none.
    pub fn apply(&mut self, of: Option<&NamespaceName>, mut pod: PodView) -> Applied {
        if !is_name(&pod.name) || !is_name(&pod.namespace) {
            let namespace = if is_name(&pod.namespace) { pod.namespace.as_str() } else { "" };
            let unread = self.unreadable(of, Some((namespace, "")));
            let left_out = (unread != Unread::NotTaken).then_some(PodSkip::Unreadable);
            return Applied { left_out, ..Applied::default() };
        }
        let Some(n) = self.namespace(&pod.namespace) else { return Applied::default() };
        let Some(Namespace { account, pods }) = self.namespaces.get_mut(n) else { return Applied::default() };
        let listing = self.listings.entry(of.cloned()).or_default();
        self.ledger.see(account);

        let name = pod.name.clone();
        let at = pods.find(&name);
        let before = at.ok().and_then(|at| pods.get(at)).cloned();
        let is_repeated = listing.is_open && at.is_ok_and(|at| pods.is_marked(at));
        let identity = Identity::of(&pod);
        let own = before.as_ref().filter(|before| before.identity == identity);
        pod.created_at = Entry::time(own, &pod);
        let ends = pod.phase == Phase::Ended && is_news(own, listing);
        let last = if ends { Last::of(&pod, self.counting, own) } else { None };
        let created_at = pod.created_at.unwrap_or_default();
        let template = self.templates.of_pod(pod, self.counting, own.map(|own| &own.template));
        let mut now = Entry::new(created_at, identity, template);

        let has_same_artifact = before.as_ref().map_or(now.workload().is_none(), |b| b.has_artifact_of(&now));
        now.since = match &before {
            _ if !has_same_artifact => self.ledger.change(account),
            Some(before) => before.since,
            None => Revision::default(),
        };
        // A pod with all that a report says of the other is, to who reads it, the same.
        let is_replaced = |old: &&Entry| own.is_none() || old.ran_what_is_not_in(&now);
        let replaced = before.as_ref().filter(|_| !has_same_artifact).filter(is_replaced);
        let mut departures: Vec<_> =
            replaced.and_then(|old| old.departure(&account.namespace, &name)).into_iter().collect();
        if now.workload().is_none() {
            departures.extend(self.ledger.depart(account, &name, own, last));
        }

        let left_out = now.left_out();
        let skipped = now.template.collapsed.skipped.clone();
        let differs = before.as_ref().is_none_or(|before| !before.is_as(&now));
        if differs {
            let was = before.as_ref().map(|before| &before.template.collapsed);
            self.ledger.count(account, was, Some(&now.template.collapsed));
        }
        if listing.is_open && !is_repeated {
            listing.differences.came += u64::from(before.is_none());
            listing.differences.differed += u64::from(before.is_some() && differs);
        }
        match at {
            Ok(at) => {
                pods.mark(at);
                if differs {
                    pods.replace(at, now);
                }
            }
            Err(at) => pods.insert(at, &name, now),
        }
        Applied { departures, left_out, skipped, is_repeated }
    }

    /// Takes what a watch says was deleted, as it was last.
    pub fn remove(&mut self, of: Option<&NamespaceName>, pod: &PodView) -> Option<Departure> {
        let can_be = is_name(&pod.namespace) && is_name(&pod.name);
        can_be.then(|| self.take_out(of, &pod.namespace, &pod.name, Some(pod))).flatten()
    }

    /// Takes what a watch says was deleted, where nothing but its name can be read: whichever pod has that
    /// name, as it was last.
    pub fn remove_named(
        &mut self,
        of: Option<&NamespaceName>,
        namespace: &str,
        name: &str,
    ) -> Option<Departure> {
        self.take_out(of, namespace, name, None)
    }

    fn take_out(
        &mut self,
        of: Option<&NamespaceName>,
        namespace: &str,
        name: &str,
        pod: Option<&PodView>,
    ) -> Option<Departure> {
        let listing = self.listings.entry(of.cloned()).or_default();
        let found = self.namespaces.binary_search_by(|n| n.order(namespace)).ok();
        let Some((n, Namespace { account, pods })) =
            found.and_then(|n| Some((n, self.namespaces.get_mut(n)?)))
        else {
            // One that came and went while no event could be read, unless it was gone before the list.
            let mut account = self.ledger.open(namespace)?;
            self.ledger.see(&mut account);
            let news = pod.filter(|_| is_news(None, listing));
            let last = news.and_then(|pod| Last::of(pod, self.counting, None));
            return self.ledger.depart(&account, name, None, last);
        };
        let at = pods.find(name);
        let own = at.ok().and_then(|at| pods.get(at)).cloned();
        let is_other = |own: &Entry, pod| ![Identity::of(pod), Identity::UNKNOWN].contains(&own.identity);
        if let (Some(own), Some(pod)) = (&own, pod)
            && is_other(own, pod)
        {
            // It had already made room for another of its name.
            return None;
        }
        let own = own.as_ref();
        let news = pod.filter(|_| is_news(own, listing));
        let last = news.and_then(|pod| Last::of(pod, self.counting, own));
        if let (Some(own), Ok(at)) = (own, at) {
            self.ledger.count(account, Some(&own.template.collapsed), None);
            if own.workload().is_some() {
                self.ledger.change(account);
            }
            pods.remove(at);
        }
        let departure = self.ledger.depart(account, name, own, last);
        if pods.is_empty() {
            self.namespaces.remove(n);
        }
        departure
    }

    /// Counts an item that cannot be read. One of a known name never vanishes for that: its pod stays as
    /// it was last, and where there is none, it is one that is left out until it can be read or goes.
    pub fn unreadable(&mut self, of: Option<&NamespaceName>, name: Option<(&str, &str)>) -> Unread {
        let (namespace, name) = name.unwrap_or_default();
        let namespace = match of {
            Some(of) if namespace.is_empty() => of.as_str(),
            _ => namespace,
        };
        if namespace.is_empty() {
            self.listing(of).add_nameless("");
            return Unread::Lost;
        }
        if name.is_empty() {
            let Some(mut account) = self.ledger.open(namespace) else { return Unread::NotTaken };
            self.ledger.see(&mut account);
            self.listing(of).add_nameless(namespace);
            return Unread::LeftOut;
        }
        let Some(n) = self.namespace(namespace) else { return Unread::NotTaken };
        let Some(Namespace { account, pods }) = self.namespaces.get_mut(n) else { return Unread::NotTaken };
        self.ledger.see(account);
        match pods.find(name) {
            Ok(at) => {
                pods.mark(at);
                match pods.get(at).and_then(Entry::left_out) {
                    Some(PodSkip::Unreadable) => Unread::LeftOut,
                    _ => Unread::Kept,
                }
            }
            Err(at) => {
                let template = self.templates.left_out(PodSkip::Unreadable);
                self.ledger.count(account, None, Some(&template.collapsed));
                pods.insert(at, name, Entry::new(0, Identity::UNKNOWN, template));
                let listing = self.listing(of);
                listing.differences.came += u64::from(listing.is_open);
                Unread::LeftOut
            }
        }
    }

    /// The list is complete: what it did not name goes, and each artifact among that is handed out. A list
    /// that never began takes nothing away.
    pub fn complete(&mut self, of: Option<&NamespaceName>, mut each: impl FnMut(Departure)) -> Swept {
        if !self.listing(of).is_open {
            return Swept::default();
        }
        let ledger = &mut self.ledger;
        let mut went = 0;
        for Namespace { account, pods } in within(&mut self.namespaces, of) {
            pods.sweep(|name, entry| {
                went += 1;
                ledger.count(account, Some(&entry.template.collapsed), None);
                if let Some(departure) = entry.departure(&account.namespace, name) {
                    ledger.change(account);
                    each(departure);
                }
            });
        }
        self.namespaces.retain(|namespace| !namespace.pods.is_empty());
        Swept { went, ..self.listing(of).complete() }
    }

    /// The place of a namespace, where any environment takes it.
    fn namespace(&mut self, name: &str) -> Option<usize> {
        match self.search(name) {
            Ok(n) => Some(n),
            Err(n) => {
                let account = self.ledger.open(name)?;
                self.namespaces.insert(n, Namespace { account, pods: Blocks::default() });
                Some(n)
            }
        }
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        self.namespaces.binary_search_by(|n| n.order(name))
    }

    fn listing(&mut self, of: Option<&NamespaceName>) -> &mut Listing {
        self.listings.entry(of.cloned()).or_default()
    }
}

impl Namespace {
    fn order(&self, name: &str) -> Ordering {
        namespace_order(&self.account.namespace, name)
    }
}

fn within<'a>(
    namespaces: &'a mut [Namespace],
    of: Option<&NamespaceName>,
) -> impl Iterator<Item = &'a mut Namespace> {
    let of = of.map(|name| Box::<str>::from(name.as_str()));
    namespaces.iter_mut().filter(move |n| of.as_ref().is_none_or(|of| **of == *n.account.namespace))
}

/// Whether a pod or a namespace can have this name (Kubernetes documentation, "Object Names and IDs": DNS
/// subdomains, which are shorter and plainer). What cannot have is no reason for a service to refuse all.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(char::is_control)
}

/// Whether the end of a pod, of which this was known, is one that nobody was told of: one that was seen
/// before it ended, or that was first seen later than the first list.
fn is_news(own: Option<&Entry>, listing: &Listing) -> bool {
    match own {
        Some(own) if own.identity != Identity::UNKNOWN => own.left_out() != Some(PodSkip::Ended),
        _ => listing.is_listed,
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
