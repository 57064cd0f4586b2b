//! Scripts of faults of the API server and the endpoint, generated from a seed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::time::sleep;

use crate::daemon::cluster::{ApiRequest, Cluster, Fault};
use crate::daemon::gate::{self, Gate};
use crate::daemon::rules::{always, first_n, on, percent};

/// Script of one side.
pub struct FaultScript {
    random: Rng,
    pub counts: BTreeMap<&'static str, usize>,
}

impl FaultScript {
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), counts: BTreeMap::new() }
    }

    fn count(&mut self, fault: &'static str) {
        *self.counts.entry(fault).or_default() += 1;
    }

    async fn pause(&mut self, from: u64, to: u64) {
        let pause = Duration::from_millis(self.random.u64(from..to));
        sleep(pause).await;
    }

    /// Injects faults into the API server until then. Returns the time of the first one.
    pub async fn api(&mut self, cluster: &Cluster, until: Instant) -> Option<Instant> {
        let mut first = None;
        loop {
            self.pause(500, 6_000).await;
            if Instant::now() >= until {
                return first;
            }
            first = first.or(Some(Instant::now()));
            self.inject(cluster).await;
            cluster.clear_faults();
            cluster.listen(true);
        }
    }

    #[expect(clippy::too_many_lines, reason = "a list of faults")]
    async fn inject(&mut self, cluster: &Cluster) {
        let random = &mut self.random;
        let (bytes, frames) = (random.usize(1..200_000), random.usize(1..200));
        // Applies to every watch; open watches are ended to trigger it.
        let watches = |fault: Fault| cluster.inject(on(ApiRequest::is_watch, first_n(1, fault)));
        let (fault, from, to) = match random.u8(..20) {
            0 => {
                cluster.restart();
                ("API: restarted", 0, 1)
            }
            1 | 2 => {
                cluster.listen(false);
                ("API: rejects connections", 100, 3_000)
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
                cluster.inject(always(Fault::Overloaded(Some(1))));
                cluster.end_watches();
                ("API: 429", 300, 2_000)
            }
            7 => {
                cluster.inject(percent(70, Fault::Broken));
                cluster.restart();
                ("API: 500", 300, 3_000)
            }
            8 => {
                cluster.inject(always(Fault::Unauthorized));
                cluster.restart();
                ("API: 401", 300, 2_000)
            }
            9 => {
                cluster.inject(percent(80, Fault::Reset));
                cluster.restart();
                ("API: resets", 300, 3_000)
            }
            10 => {
                cluster.inject(first_n(1, Fault::Stall));
                cluster.restart();
                ("API: no response", 100, 4_000)
            }
            11 | 12 => {
                cluster.inject(percent(80, Fault::CutAfter(bytes)));
                cluster.restart();
                ("API: cut within a body", 500, 4_000)
            }
            13 => {
                watches(Fault::StallAfter(bytes));
                cluster.end_watches();
                ("API: stalls within a watch", 500, 3_000)
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
                ("API: silent watch", 300, 1_000)
            }
            17 => {
                cluster.mute();
                ("API: half open", 500, 5_000)
            }
            18 => {
                cluster.inject(always(Fault::NoStreamingLists));
                cluster.inject(on(ApiRequest::is_later_page, percent(60, Fault::Expired)));
                cluster.compact();
                cluster.listen(false);
                ("API: expiring pages", 100, 200)
            }
            _ => {
                let backup = cluster.backup();
                self.count("API: restored from a backup");
                self.pause(300, 2_000).await;
                return cluster.restore_from_backup_with_new_revisions(backup);
            }
        };
        self.count(fault);
        self.pause(from, to).await;
        match fault {
            "API: compacted while away" => cluster.compact(),
            "API: expiring pages" => {
                cluster.listen(true);
                self.pause(1_000, 3_000).await;
            }
            _ => {}
        }
    }

    /// Injects faults into the endpoint until then.
    pub async fn endpoint(&mut self, gate: &Gate, until: Instant) {
        loop {
            self.pause(500, 6_000).await;
            if Instant::now() >= until {
                return;
            }
            let bytes = self.random.usize(1..100_000);
            let inject = |fault: gate::Fault| gate.inject(always(fault));
            let fault = match self.random.u8(..9) {
                0 => {
                    inject(gate::Fault::Status(500, None));
                    "endpoint: 500"
                }
                1 => {
                    gate.listen(false);
                    "endpoint: rejects connections"
                }
                2 => {
                    inject(gate::Fault::CutUploadAfter(bytes));
                    "endpoint: cuts uploads"
                }
                3 => {
                    inject(gate::Fault::Status(429, Some(1)));
                    "endpoint: 429"
                }
                4 => {
                    inject(gate::Fault::Status(401, None));
                    "endpoint: 401"
                }
                5 => {
                    inject(gate::Fault::EarlyStatus(503));
                    "endpoint: 503 before the body is read"
                }
                6 => {
                    inject(gate::Fault::AcceptThenCut);
                    "endpoint: accepts it and is cut"
                }
                7 => {
                    gate.inject(first_n(1, gate::Fault::Stall));
                    "endpoint: no response"
                }
                _ => {
                    inject(gate::Fault::AcceptAfter(Duration::from_millis(700)));
                    "endpoint: slow"
                }
            };
            self.count(fault);
            self.pause(200, 4_000).await;
            gate.clear_faults();
            gate.listen(true);
        }
    }
}
