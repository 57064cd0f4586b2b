//! What happens to pods while something goes wrong, in the soak and between proxies: they start, change, end and go,
//! and most events change nothing that is reported, as in any cluster.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::daemon::cluster::{Cluster, Pod, pod};

/// Events a second.
pub const RATE: u64 = 200;

/// The pods that there are, as far as this is where they come from.
pub struct Churn {
    random: Rng,
    pods: Vec<Known>,
    /// How many there should be.
    target: usize,
    born: usize,
    /// How often a backup was restored, as far as it knows.
    restores: usize,
    pub events: usize,
}

struct Known {
    namespace: String,
    name: String,
    /// Nothing of it runs yet.
    is_pending: bool,
    has_ended: bool,
    has_no_ids: bool,
    /// It is a Job's, and goes soon.
    dies_at: Option<usize>,
}

/// A container's image is known by its number.
fn with_image(mut pod: Pod, image: usize) -> Pod {
    pod.containers.clear();
    let service = image % 40;
    let tag = format!("registry.example.com/service-{service:02}:1.{}", image / 40);
    pod.phase("Running").image(&tag, image + 1)
}

impl Churn {
    pub fn new(seed: u64, target: usize) -> Self {
        Self { random: Rng::with_seed(seed), pods: Vec::new(), target, born: 0, restores: 0, events: 0 }
    }

    /// The pods to begin with.
    pub fn begin(&mut self, cluster: &Cluster) {
        for _ in 0..self.target {
            self.add(cluster, false, None);
        }
    }

    /// Lets things happen until then.
    pub async fn run(&mut self, cluster: &Cluster, until: Instant) {
        let mut ticks = interval(Duration::from_micros(1_000_000 / RATE));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while Instant::now() < until {
            ticks.tick().await;
            self.step(cluster);
        }
    }

    /// Lets one thing happen.
    pub fn step(&mut self, cluster: &Cluster) {
        self.know_again(cluster);
        self.happen(cluster);
        self.events += 1;
    }

    /// Brings what runs to light, once nothing goes wrong any more: an agent that missed the last change
    /// before a reboot, or before a backup took it back, cannot know what runs behind it.
    pub fn settle(&mut self, cluster: &Cluster) {
        self.know_again(cluster);
        for n in 0..self.pods.len() {
            if self.pods[n].has_no_ids {
                self.change(cluster, n);
            }
        }
    }

    /// After a backup was restored other pods are there.
    fn know_again(&mut self, cluster: &Cluster) {
        let before = std::mem::replace(&mut self.restores, cluster.restores());
        if before == self.restores {
            return;
        }
        let known = |pod: Pod| {
            let (is_pending, has_ended) = (pod.phase == "Pending", pod.is_ended());
            let has_no_ids = pod.running().is_empty() && !is_pending && !has_ended;
            let Pod { namespace, name, .. } = pod;
            Known { namespace, name, is_pending, has_ended, has_no_ids, dies_at: None }
        };
        self.pods = cluster.held().into_iter().map(known).collect();
        // What ran in them after the backup was taken may run on, for all the agent knows, until something
        // else does.
        for n in 0..self.pods.len() {
            if self.pods[n].is_pending || self.pods[n].has_no_ids {
                self.change(cluster, n);
            }
        }
    }

    fn happen(&mut self, cluster: &Cluster) {
        let now = self.events;
        if let Some(dies) = self.pods.iter().position(|pod| pod.dies_at.is_some_and(|at| at <= now)) {
            return self.delete(cluster, dies);
        }
        let n = self.random.usize(..self.pods.len());
        match self.random.u8(..100) {
            0..60 => self.touch(cluster, n),
            60..68 => self.change(cluster, n),
            68..71 => self.end(cluster, n),
            71..72 => self.reboot(cluster, n),
            // A Job that is over before anyone could report it, or soon after.
            72..77 => {
                let life = self.random.usize(1..400);
                self.add(cluster, false, Some(now + life));
            }
            77..80 => self.replace_under_its_name(cluster, n),
            _ if self.pods.len() < self.target => {
                let is_pending = self.random.bool();
                self.add(cluster, is_pending, None);
            }
            _ => self.delete(cluster, n),
        }
    }

    fn add(&mut self, cluster: &Cluster, is_pending: bool, dies_at: Option<usize>) {
        self.born += 1;
        let namespace = format!("team-{}", self.born % 7);
        let kind = if dies_at.is_some() { "job" } else { "service" };
        let name = format!("{kind}-{:03}-{:06}", self.random.usize(..40), self.born);
        self.put(cluster, namespace, name, is_pending, dies_at);
    }

    fn put(
        &mut self,
        cluster: &Cluster,
        namespace: String,
        name: String,
        is_pending: bool,
        dies_at: Option<usize>,
    ) {
        let owner = name.rsplit_once('-').unwrap().0.to_owned();
        let kind = if dies_at.is_some() { "Job" } else { "ReplicaSet" };
        let new = pod(&namespace, &name).owner(kind, &owner).padded(self.random.usize(500..6_000));
        let new = with_image(new, self.random.usize(..2_000));
        cluster.add(if is_pending { new.pending() } else { new });
        self.pods.push(Known { namespace, name, is_pending, has_ended: false, has_no_ids: false, dies_at });
    }

    /// Something changes that is not reported.
    fn touch(&mut self, cluster: &Cluster, n: usize) {
        let padding = self.random.usize(500..6_000);
        let Known { namespace, name, .. } = &self.pods[n];
        cluster.modify(namespace, name, |pod| pod.padded(padding));
    }

    /// It runs something else, or begins to run.
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

    /// Its node was started again.
    fn reboot(&mut self, cluster: &Cluster, n: usize) {
        let known = &mut self.pods[n];
        if known.is_pending || known.has_ended {
            return self.touch(cluster, n);
        }
        known.has_no_ids = true;
        cluster.modify(&known.namespace, &known.name, Pod::without_image_ids);
    }

    /// As a `StatefulSet` does it.
    fn replace_under_its_name(&mut self, cluster: &Cluster, n: usize) {
        let Known { namespace, name, dies_at, .. } = self.pods.swap_remove(n);
        cluster.delete(&namespace, &name);
        self.put(cluster, namespace, name, false, dies_at);
    }

    fn delete(&mut self, cluster: &Cluster, n: usize) {
        let Known { namespace, name, .. } = self.pods.swap_remove(n);
        cluster.delete(&namespace, &name);
    }
}
