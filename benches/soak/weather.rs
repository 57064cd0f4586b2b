//! What goes wrong in the soak: a script from a seed, of faults of the API server and of the endpoint, each
//! for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::time::sleep;

use crate::daemon::cluster::{Ask, Cluster, Fault};
use crate::daemon::gate::{self, Gate};
use crate::daemon::rules::{always, on, percent, the_first};

/// One side's script.
pub struct Weather {
    random: Rng,
    pub counts: BTreeMap<&'static str, usize>,
}

impl Weather {
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), counts: BTreeMap::new() }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    async fn pause(&mut self, from: u64, to: u64) {
        let pause = Duration::from_millis(self.random.u64(from..to));
        sleep(pause).await;
    }

    /// The API server misbehaves until then: when that began, if it did.
    pub async fn api(&mut self, cluster: &Cluster, until: Instant) -> Option<Instant> {
        let mut first = None;
        loop {
            self.pause(500, 6_000).await;
            if Instant::now() >= until {
                return first;
            }
            first = first.or(Some(Instant::now()));
            self.strike(cluster).await;
            cluster.behave();
            cluster.listen(true);
        }
    }

    #[expect(clippy::too_many_lines, reason = "it is a list of faults")]
    async fn strike(&mut self, cluster: &Cluster) {
        let random = &mut self.random;
        let (bytes, frames) = (random.usize(1..200_000), random.usize(1..200));
        // To every watch; those that are open are ended, so that it is met.
        let watches = |fault: Fault| cluster.misbehave(on(Ask::is_watch, the_first(1, fault)));
        let (what, from, to) = match random.u8(..20) {
            0 => {
                cluster.restart();
                ("API: restarted", 0, 1)
            }
            1 | 2 => {
                cluster.listen(false);
                ("API: refuses connections", 100, 3_000)
            }
            3 => {
                cluster.end_watches();
                ("API: ends its watches", 0, 1)
            }
            4 => {
                watches(Fault::Expired);
                cluster.end_watches();
                ("API: 410 as an event", 300, 1_000)
            }
            5 => {
                cluster.listen(false);
                ("API: compacted while away", 300, 2_000)
            }
            6 => {
                cluster.misbehave(always(Fault::Overloaded(Some(1))));
                cluster.end_watches();
                ("API: 429", 300, 2_000)
            }
            7 => {
                cluster.misbehave(percent(70, Fault::Broken));
                cluster.restart();
                ("API: 500", 300, 3_000)
            }
            8 => {
                cluster.misbehave(always(Fault::Unauthorized));
                cluster.restart();
                ("API: 401", 300, 2_000)
            }
            9 => {
                cluster.misbehave(percent(80, Fault::Reset));
                cluster.restart();
                ("API: resets", 300, 3_000)
            }
            10 => {
                cluster.misbehave(the_first(1, Fault::Stall));
                cluster.restart();
                ("API: no answer", 100, 4_000)
            }
            11 | 12 => {
                cluster.misbehave(percent(80, Fault::CutAfter(bytes)));
                cluster.restart();
                ("API: cut amid a body", 500, 4_000)
            }
            13 => {
                watches(Fault::StallAfter(bytes));
                cluster.end_watches();
                ("API: stalls amid a watch", 500, 3_000)
            }
            14 => {
                watches(Fault::HalfAFrameAfter(frames));
                cluster.end_watches();
                ("API: half a frame", 500, 2_000)
            }
            15 => {
                watches(Fault::Garbage);
                cluster.end_watches();
                ("API: garbage", 300, 1_000)
            }
            16 => {
                watches(Fault::Silent);
                cluster.end_watches();
                ("API: a watch without a word", 300, 1_000)
            }
            17 => {
                cluster.mute();
                ("API: half open", 500, 5_000)
            }
            18 => {
                cluster.misbehave(always(Fault::NoStreamingLists));
                cluster.misbehave(on(Ask::is_later_page, percent(60, Fault::Expired)));
                cluster.compact();
                cluster.listen(false);
                ("API: pages that expire", 100, 200)
            }
            _ => {
                let backup = cluster.backup();
                self.count("API: restored from a backup");
                self.pause(300, 2_000).await;
                return cluster.restore_from_backup_with_new_revisions(backup);
            }
        };
        self.count(what);
        self.pause(from, to).await;
        match what {
            "API: compacted while away" => cluster.compact(),
            "API: pages that expire" => {
                cluster.listen(true);
                self.pause(1_000, 3_000).await;
            }
            _ => {}
        }
    }

    /// The endpoint misbehaves until then.
    pub async fn endpoint(&mut self, gate: &Gate, until: Instant) {
        loop {
            self.pause(500, 6_000).await;
            if Instant::now() >= until {
                return;
            }
            let bytes = self.random.usize(1..100_000);
            let says = |fault: gate::Fault| gate.misbehave(always(fault));
            let what = match self.random.u8(..9) {
                0 => {
                    says(gate::Fault::Says(500, None));
                    "endpoint: 500"
                }
                1 => {
                    gate.listen(false);
                    "endpoint: refuses connections"
                }
                2 => {
                    says(gate::Fault::CutUploadAfter(bytes));
                    "endpoint: cuts uploads"
                }
                3 => {
                    says(gate::Fault::Says(429, Some(1)));
                    "endpoint: 429"
                }
                4 => {
                    says(gate::Fault::Says(401, None));
                    "endpoint: 401"
                }
                5 => {
                    says(gate::Fault::SaysAtOnce(503));
                    "endpoint: 503 before the body is read"
                }
                6 => {
                    says(gate::Fault::TakenThenCut);
                    "endpoint: takes it and is cut"
                }
                7 => {
                    gate.misbehave(the_first(1, gate::Fault::Stall));
                    "endpoint: no answer"
                }
                _ => {
                    says(gate::Fault::After(Duration::from_millis(700)));
                    "endpoint: slow"
                }
            };
            self.count(what);
            self.pause(200, 4_000).await;
            gate.behave();
            gate.listen(true);
        }
    }
}
