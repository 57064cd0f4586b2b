//! Random pod changes during faults. As in a real cluster, most events do not change the report.

use fastrand::Rng;

use crate::daemon::support::cluster::{Cluster, Pod, pod};

/// Generates changes, and tracks the pods that it created.
pub struct Churn {
    random: Rng,
    pods: Vec<KnownPod>,
    /// Target number of pods.
    target: usize,
    created: usize,
    events: usize,
}

struct KnownPod {
    namespace: String,
    name: String,
    /// No container has started.
    is_pending: bool,
    has_ended: bool,
    has_no_ids: bool,
    /// The event number at which a Job's pod is deleted.
    deleted_at: Option<usize>,
}

/// Replaces the containers by one with this image number.
fn with_image(mut pod: Pod, image: usize) -> Pod {
    pod.containers.clear();
    let service = image % 40;
    let tag = format!("registry.example.com/service-{service:02}:1.{}", image / 40);
    pod.phase("Running").image(&tag, image + 1)
}

impl Churn {
    pub fn new(seed: u64, target: usize) -> Self {
        Self { random: Rng::with_seed(seed), pods: Vec::new(), target, created: 0, events: 0 }
    }

    pub fn add_initial_pods(&mut self, cluster: &Cluster) {
        for _ in 0..self.target {
            self.add(cluster, false, None);
        }
    }

    /// Makes one random change.
    pub fn step(&mut self, cluster: &Cluster) {
        self.random_change(cluster);
        self.events += 1;
    }

    /// Restores missing image IDs after the faults. An agent that missed the last change before a reboot cannot know these
    /// digests.
    pub fn restore_image_ids(&mut self, cluster: &Cluster) {
        for n in 0..self.pods.len() {
            if self.pods[n].has_no_ids {
                self.change(cluster, n);
            }
        }
    }

    fn random_change(&mut self, cluster: &Cluster) {
        let now = self.events;
        if let Some(expired) = self.pods.iter().position(|pod| pod.deleted_at.is_some_and(|at| at <= now)) {
            return self.delete(cluster, expired);
        }
        let n = self.random.usize(..self.pods.len());
        match self.random.u8(..100) {
            0..60 => self.touch(cluster, n),
            60..68 => self.change(cluster, n),
            68..71 => self.end(cluster, n),
            71..72 => self.reboot(cluster, n),
            // A Job that ends before its report, or soon after.
            72..77 => {
                let lifetime = self.random.usize(1..400);
                self.add(cluster, false, Some(now + lifetime));
            }
            77..80 => self.recreate(cluster, n),
            _ if self.pods.len() < self.target => {
                let is_pending = self.random.bool();
                self.add(cluster, is_pending, None);
            }
            _ => self.delete(cluster, n),
        }
    }

    fn add(&mut self, cluster: &Cluster, is_pending: bool, deleted_at: Option<usize>) {
        self.created += 1;
        let namespace = format!("team-{}", self.created % 7);
        let kind = if deleted_at.is_some() { "job" } else { "service" };
        let name = format!("{kind}-{:03}-{:06}", self.random.usize(..40), self.created);
        self.create(cluster, namespace, name, is_pending, deleted_at);
    }

    fn create(
        &mut self,
        cluster: &Cluster,
        namespace: String,
        name: String,
        is_pending: bool,
        deleted_at: Option<usize>,
    ) {
        let owner = name.rsplit_once('-').unwrap().0.to_owned();
        let kind = if deleted_at.is_some() { "Job" } else { "ReplicaSet" };
        let new = pod(&namespace, &name).owner(kind, &owner).padded(self.random.usize(500..6_000));
        let new = with_image(new, self.random.usize(..2_000));
        cluster.add(if is_pending { new.pending() } else { new });
        self.pods.push(KnownPod {
            namespace,
            name,
            is_pending,
            has_ended: false,
            has_no_ids: false,
            deleted_at,
        });
    }

    /// Changes a field that is not reported.
    fn touch(&mut self, cluster: &Cluster, n: usize) {
        let padding = self.random.usize(500..6_000);
        let KnownPod { namespace, name, .. } = &self.pods[n];
        cluster.modify(namespace, name, |pod| pod.padded(padding));
    }

    /// Changes the image, or starts a pending pod.
    fn change(&mut self, cluster: &Cluster, n: usize) {
        let image = self.random.usize(..2_000);
        let known = &mut self.pods[n];
        if known.has_ended {
            return self.touch(cluster, n);
        }
        (known.is_pending, known.has_no_ids) = (false, false);
        cluster.modify(&known.namespace, &known.name, |pod| with_image(pod, image));
    }

    fn end(&mut self, cluster: &Cluster, n: usize) {
        let known = &mut self.pods[n];
        known.has_ended = true;
        cluster.modify(&known.namespace, &known.name, Pod::ended);
    }

    /// Simulates a node reboot.
    fn reboot(&mut self, cluster: &Cluster, n: usize) {
        let known = &mut self.pods[n];
        if known.is_pending || known.has_ended {
            return self.touch(cluster, n);
        }
        known.has_no_ids = true;
        cluster.modify(&known.namespace, &known.name, Pod::without_image_ids);
    }

    /// Deletes and recreates the pod, as a `StatefulSet` does.
    fn recreate(&mut self, cluster: &Cluster, n: usize) {
        let KnownPod { namespace, name, deleted_at, .. } = self.pods.swap_remove(n);
        cluster.delete(&namespace, &name);
        self.create(cluster, namespace, name, false, deleted_at);
    }

    fn delete(&mut self, cluster: &Cluster, n: usize) {
        let KnownPod { namespace, name, .. } = self.pods.swap_remove(n);
        cluster.delete(&namespace, &name);
    }
}
