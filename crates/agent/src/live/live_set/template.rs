//! Deduplicates the common content of pods.
//!
//! The pods of one `ReplicaSet` differ only in name, uid and creation time; they share one [`Template`] for
//! the rest. The live set requests a template for each applied pod. Unused templates are dropped
//! periodically.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use crate::live::collapse::{Collapsed, Counting, PodSkip, collapse};
use crate::live::pod::PodView;

/// Minimum number of templates before unused ones are dropped.
const MIN_SWEEP: usize = 64;

/// A collapsed pod with its cached hash.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) collapsed: Collapsed,
    hash: u64,
    /// Hash of a pod view that collapses to it without remembered containers.
    view_hash: Option<u64>,
}

/// All templates in use, and some unused ones.
#[derive(Debug)]
pub(super) struct Templates {
    all: HashSet<Arc<Template>>,
    swept_at: usize,
    /// The template of the previous pod: neighbors in a list mostly have the same owner.
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
        Self { all: HashSet::new(), swept_at: MIN_SWEEP, last: None }
    }
}

impl Templates {
    /// The template of a pod; `own` is its previous one. Most events do not change the content, and are
    /// recognized without collapsing the pod.
    pub(super) fn for_pod(
        &mut self,
        pod: PodView,
        counting: Counting,
        own: Option<&Arc<Template>>,
    ) -> Arc<Template> {
        let PodView { namespace: _, name: _, uid: _, created_at, phase, owners, containers, is_excluded } =
            &pod;
        let view = (created_at.is_some(), phase, owners, containers, is_excluded);
        let view_hash = Some(self.all.hasher().hash_one(view));
        let remembered = own.map_or(&[][..], |own| &own.collapsed.containers);
        let last = self.last.as_ref().filter(|_| remembered.is_empty());
        if let Some(known) = own.into_iter().chain(last).find(|known| known.view_hash == view_hash) {
            return Arc::clone(known);
        }
        let view_hash = view_hash.filter(|_| remembered.is_empty());
        let template = self.intern(collapse(pod, counting, remembered), view_hash);
        self.last = Some(Arc::clone(&template));
        template
    }

    /// The template of a skipped pod.
    pub(super) fn for_skip(&mut self, reason: PodSkip) -> Arc<Template> {
        self.intern(Collapsed::skipped(reason), None)
    }

    /// The single template with this content.
    fn intern(&mut self, collapsed: Collapsed, view_hash: Option<u64>) -> Arc<Template> {
        let hash = self.all.hasher().hash_one(&collapsed);
        let template = Template { collapsed, hash, view_hash };
        if let Some(known) = self.all.get(&template) {
            return Arc::clone(known);
        }
        if self.all.len() >= self.swept_at {
            self.all.retain(|template| Arc::strong_count(template) > 1);
            self.swept_at = MIN_SWEEP.max(2 * self.all.len());
            self.all.shrink_to(self.swept_at);
        }
        let template = Arc::new(template);
        self.all.insert(Arc::clone(&template));
        template
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::pod::ContainerView;
    use model::OwnerReference;

    /// A pod of an owner with these digests of its containers.
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

    fn template(templates: &mut Templates, pod: &PodView, own: Option<&Arc<Template>>) -> Arc<Template> {
        templates.for_pod(pod.clone(), Counting::All, own)
    }

    #[test]
    fn remembered_digests_are_not_shared_with_other_pods() {
        let mut templates = Templates::default();
        let (all, rebooted) = (pod("web", [Some(1), Some(2)]), pod("web", [Some(1), None]));
        let whole = template(&mut templates, &all, None);
        assert!(Arc::ptr_eq(&template(&mut templates, &rebooted, Some(&whole)), &whole));
        // A new pod with the same view.
        let new = template(&mut templates, &rebooted, None);
        assert_eq!(new.collapsed, collapse(rebooted.clone(), Counting::All, &[]));
        assert!(Arc::ptr_eq(&template(&mut templates, &rebooted, Some(&whole)), &whole));
        // The same after an update with remembered digests.
        let (updated, later) = (pod("web", [Some(3), None]), pod("web", [Some(3), Some(2)]));
        let kept = template(&mut templates, &updated, Some(&whole));
        assert!(Arc::ptr_eq(&kept, &template(&mut templates, &later, None)));
        assert_eq!(
            template(&mut templates, &updated, None).collapsed,
            collapse(updated.clone(), Counting::All, &[])
        );
    }

    #[test]
    fn unused_templates_are_dropped() {
        let mut templates = Templates::default();
        for n in 0..10_000 {
            template(&mut templates, &pod(&n.to_string(), [Some(1), None]), None);
        }
        assert!(templates.len() < 200, "{}", templates.len());
    }
}
