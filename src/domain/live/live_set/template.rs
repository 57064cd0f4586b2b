//! What pods have in common, kept once.
//!
//! The pods of one `ReplicaSet` differ in name, uid and time alone; all else is one [`Template`] that
//! they share. The set asks here for each pod that it is given; templates that no pod has any more are
//! dropped from time to time.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use crate::domain::live::collapse::{Collapsed, Counting, PodSkip, collapse};
use crate::domain::live::pod::PodView;

/// How many templates are kept before unused ones are looked for.
const FEW: usize = 64;

/// What a pod collapsed to, with its hash, so that it is hashed once.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) collapsed: Collapsed,
    hash: u64,
    /// The hash of what a pod showed that collapsed to it, with nothing remembered.
    shown: Option<u64>,
}

/// All templates in use, and a few that are no longer.
#[derive(Debug)]
pub(crate) struct Templates {
    all: HashSet<Arc<Template>>,
    swept_at: usize,
    /// That of the pod before: in a list, neighbours mostly have one owner.
    last: Option<Arc<Template>>,
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.collapsed == other.collapsed
    }
}

impl Eq for Template {}

impl Hash for Template {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Default for Templates {
    fn default() -> Self {
        Self { all: HashSet::new(), swept_at: FEW, last: None }
    }
}

impl Templates {
    /// The one for a pod with a name; `own` is what is known of that pod. Most show what is known already, and
    /// are not collapsed to find that out.
    pub(crate) fn of_pod(
        &mut self,
        pod: PodView,
        counting: Counting,
        own: Option<&Arc<Template>>,
    ) -> Arc<Template> {
        let PodView { namespace: _, name: _, uid: _, created_at, phase, owners, containers } = &pod;
        let shown = (created_at.is_some(), phase, owners, containers);
        let shown = Some(self.all.hasher().hash_one(shown));
        let remembered = own.map_or(&[][..], |own| &own.collapsed.containers);
        let last = self.last.as_ref().filter(|_| remembered.is_empty());
        if let Some(known) = own.into_iter().chain(last).find(|known| known.shown == shown) {
            return Arc::clone(known);
        }
        let shown = shown.filter(|_| remembered.is_empty());
        let template = self.of(collapse(pod, counting, remembered), shown);
        self.last = Some(Arc::clone(&template));
        template
    }

    /// The one for a pod of which nothing is reported.
    pub(crate) fn left_out(&mut self, why: PodSkip) -> Arc<Template> {
        self.of(Collapsed::left_out(why), None)
    }

    /// The one template for this content.
    fn of(&mut self, collapsed: Collapsed, shown: Option<u64>) -> Arc<Template> {
        let hash = self.all.hasher().hash_one(&collapsed);
        let template = Template { collapsed, hash, shown };
        if let Some(known) = self.all.get(&template) {
            return Arc::clone(known);
        }
        if self.all.len() >= self.swept_at {
            self.all.retain(|template| Arc::strong_count(template) > 1);
            self.swept_at = FEW.max(2 * self.all.len());
            self.all.shrink_to(self.swept_at);
        }
        let template = Arc::new(template);
        self.all.insert(Arc::clone(&template));
        template
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::live::pod::ContainerView;
    use crate::domain::model::OwnerReference;

    /// A pod of an owner, whose containers show these digests, if any.
    fn pod(owner: &str, digests: [Option<u8>; 2]) -> PodView {
        let id = |digest: u8| format!("sha256:{}", format!("{digest:02x}").repeat(32));
        let container = |(name, digest): (&str, Option<u8>)| ContainerView {
            name: name.into(),
            image: format!("{name}:1"),
            image_id: digest.map(id).unwrap_or_default(),
            ..Default::default()
        };
        let owner = OwnerReference { name: Some(owner.into()), ..OwnerReference::default() };
        PodView {
            namespace: "a".into(),
            name: format!("{owner:?}-x"),
            created_at: Some(1),
            owners: vec![owner],
            containers: ["app", "proxy"].into_iter().zip(digests).map(container).collect(),
            ..Default::default()
        }
    }

    fn of(templates: &mut Templates, pod: &PodView, own: Option<&Arc<Template>>) -> Arc<Template> {
        templates.of_pod(pod.clone(), Counting::All, own)
    }

    #[test]
    fn what_is_remembered_of_a_pod_is_no_other_s() {
        let mut templates = Templates::default();
        let (all, rebooted) = (pod("web", [Some(1), Some(2)]), pod("web", [Some(1), None]));
        let whole = of(&mut templates, &all, None);
        assert!(Arc::ptr_eq(&of(&mut templates, &rebooted, Some(&whole)), &whole));
        // One that shows the same, and of which nothing was ever seen.
        let new = of(&mut templates, &rebooted, None);
        assert_eq!(new.collapsed, collapse(rebooted.clone(), Counting::All, &[]));
        assert!(Arc::ptr_eq(&of(&mut templates, &rebooted, Some(&whole)), &whole));
        // The same where what is remembered came first.
        let (updated, later) = (pod("web", [Some(3), None]), pod("web", [Some(3), Some(2)]));
        let kept = of(&mut templates, &updated, Some(&whole));
        assert!(Arc::ptr_eq(&kept, &of(&mut templates, &later, None)));
        assert_eq!(
            of(&mut templates, &updated, None).collapsed,
            collapse(updated.clone(), Counting::All, &[])
        );
    }

    #[test]
    fn those_that_no_pod_has_any_more_are_dropped() {
        let mut templates = Templates::default();
        for n in 0..10_000 {
            of(&mut templates, &pod(&n.to_string(), [Some(1), None]), None);
        }
        assert!(templates.len() < 200, "{}", templates.len());
    }
}
