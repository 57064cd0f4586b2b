//! A minimal cluster, agent and service, with the invariants that hold after each event.

use std::sync::Arc;

use WorldEvent::*;

use super::*;
use crate::live::departed_pods::{DepartedPods, Limits};
use crate::live::departure::Departure;
use model::{Artifact, Digests, Workload};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorldEvent {
    CompleteList,
    /// Empty namespaces are confirmed to exist.
    Confirm,
    StartPod,
    DeleteOldest,
    /// Requires several pods.
    DeleteNewest,
    /// A pod has already ended when it is first seen.
    SeeEndedPod,
    ChangeAndUndo,
    Accept,
    /// The service stores the report, but its response is lost.
    AcceptWithoutResponse,
    FailTransiently,
    FailPermanently,
    PassSecond,
    /// The time advances to the end of the current wait.
    PassUntilDue,
    LoseContact,
    RegainContact,
    ShutDown,
}

pub(super) const EVENTS: [WorldEvent; 16] = [
    CompleteList,
    Confirm,
    StartPod,
    DeleteOldest,
    DeleteNewest,
    SeeEndedPod,
    ChangeAndUndo,
    Accept,
    AcceptWithoutResponse,
    FailTransiently,
    FailPermanently,
    PassSecond,
    PassUntilDue,
    LoseContact,
    RegainContact,
    ShutDown,
];

/// A bit set of pod numbers.
type Pods = u32;

#[derive(Clone)]
pub(super) struct World {
    timing: CadenceTiming,
    now: Instant,
    cadence: Cadence,
    departed_pods: DepartedPods,
    pub(super) reports_departed_pods: bool,
    workload: Arc<Workload>,
    revision: Revision,
    knowledge: Knowledge,
    is_cut_off: bool,
    live: Vec<(u32, Revision)>,
    pods: u32,
    /// Pods that were running, or seen ended, while the agent was watching.
    observed: Pods,
    pub(super) step: Step,
    pub(super) flight: Option<(Draft, Pods, Instant)>,
    /// Pods of the last report that the service stored.
    stored: Option<Pods>,
    /// Pods of all reports that were accepted with a response.
    reported: Pods,
    last_start: Option<Instant>,
    /// Minimum time from `last_start` to the next report.
    spacing: Duration,
    shut_down: Option<Instant>,
    /// Until then, events that were missed while stale may still arrive.
    catch_up_until: Option<Instant>,
    pub(super) path: Vec<WorldEvent>,
}

impl World {
    pub(super) fn new() -> Self {
        // The clock is not read again.
        let now = Instant::now();
        let timing = CadenceTiming { jitter: 0, ..CadenceTiming::default() };
        let digests = Digests::from_iter([]);
        let mut world = Self {
            timing,
            now,
            cadence: Cadence::new(timing, 3),
            departed_pods: DepartedPods::new(Limits::default()),
            reports_departed_pods: true,
            workload: Arc::new(Workload { digests, owners: Box::default(), is_excluded: false }),
            revision: Revision::default(),
            knowledge: Knowledge::Unlisted,
            is_cut_off: false,
            live: Vec::new(),
            pods: 0,
            observed: 0,
            step: Step::Stop,
            flight: None,
            stored: None,
            reported: 0,
            last_start: None,
            spacing: Duration::ZERO,
            shut_down: None,
            catch_up_until: None,
            path: Vec::new(),
        };
        world.start();
        world.run_cadence();
        world
    }

    fn running(&self) -> Pods {
        self.live.iter().fold(0, |pods, (pod, _)| pods | 1 << pod)
    }

    fn departed(&self) -> Pods {
        self.departed_pods.artifacts().iter().fold(0, |pods, artifact| pods | 1 << artifact.created_at)
    }

    pub(super) fn is_possible(&self, event: WorldEvent) -> bool {
        let is_watching = !self.is_cut_off && self.shut_down.is_none();
        let is_listed = self.knowledge != Knowledge::Unlisted;
        match event {
            CompleteList => !is_listed,
            Confirm => self.knowledge == Knowledge::Unconfirmed,
            StartPod | SeeEndedPod => is_watching && self.pods < 4 && (is_listed || event == StartPod),
            DeleteOldest | ChangeAndUndo => is_watching && is_listed && !self.live.is_empty(),
            DeleteNewest => is_watching && is_listed && self.live.len() > 1,
            Accept | AcceptWithoutResponse | FailTransiently | FailPermanently => self.flight.is_some(),
            PassSecond => true,
            PassUntilDue => matches!(self.step, Step::Wait { until: Some(_) }),
            LoseContact => !self.is_cut_off && matches!(self.knowledge, Knowledge::Contact(_)),
            RegainContact => self.is_cut_off,
            ShutDown => self.shut_down.is_none(),
        }
    }

    pub(super) fn apply(&mut self, event: WorldEvent) {
        self.path.push(event);
        match event {
            CompleteList => {
                self.knowledge = Knowledge::Unconfirmed;
                self.observed |= self.running();
            }
            Confirm => self.knowledge = Knowledge::Contact(self.now),
            StartPod => self.start(),
            DeleteOldest => {
                let (pod, since) = self.live.remove(0);
                self.depart(pod, since);
            }
            DeleteNewest => {
                let (pod, since) = self.live.pop().unwrap();
                self.depart(pod, since);
            }
            SeeEndedPod => {
                let pod = self.next_pod();
                self.revision = self.revision.next();
                self.observed |= 1 << pod;
                self.departed_pods.insert(self.departure(pod, self.revision), self.revision);
            }
            ChangeAndUndo => {
                self.revision = self.revision.next().next();
                self.live[0].1 = self.revision;
            }
            Accept => self.finish(true, |new| UploadResult::Accepted { new_snapshot: Some(new) }),
            AcceptWithoutResponse => {
                self.finish(true, |_| UploadResult::Failed {
                    failure: UploadFailure::Transient,
                    retry_after: None,
                });
            }
            FailTransiently => {
                self.finish(false, |_| UploadResult::Failed {
                    failure: UploadFailure::Transient,
                    retry_after: None,
                });
            }
            FailPermanently => {
                self.finish(false, |_| UploadResult::Failed {
                    failure: UploadFailure::Permanent,
                    retry_after: None,
                });
            }
            PassSecond => {
                let later = self.now + Duration::from_secs(1);
                // The deadline of a shutdown wakes the task.
                let deadline = self.shut_down.map(|shut_down| shut_down + self.timing.shutdown_timeout);
                self.advance_to(deadline.map_or(later, |deadline| later.min(deadline)));
            }
            PassUntilDue => {
                if let Step::Wait { until: Some(until) } = self.step {
                    self.advance_to(until);
                }
            }
            LoseContact => self.is_cut_off = true,
            RegainContact => {
                self.is_cut_off = false;
                self.advance_to(self.now);
            }
            ShutDown => {
                self.cadence.shut_down(self.now);
                self.shut_down = Some(self.now);
            }
        }
        self.run_cadence();
    }

    fn start(&mut self) {
        let pod = self.next_pod();
        self.revision = self.revision.next();
        self.live.push((pod, self.revision));
        if self.knowledge != Knowledge::Unlisted {
            self.observed |= 1 << pod;
        }
    }

    fn depart(&mut self, pod: u32, since: Revision) {
        self.revision = self.revision.next();
        if self.reports_departed_pods {
            self.departed_pods.insert(self.departure(pod, since), self.revision);
        }
    }

    fn next_pod(&mut self) -> u32 {
        self.pods += 1;
        self.pods - 1
    }

    fn departure(&self, pod: u32, since: Revision) -> Departure {
        let artifact = Artifact {
            namespace: "shop".into(),
            pod_name: "web".into(),
            created_at: pod.into(),
            workload: Arc::clone(&self.workload),
        };
        Departure { artifact, since }
    }

    fn advance_to(&mut self, to: Instant) {
        self.now = to;
        if let (Knowledge::Contact(contact), false) = (&mut self.knowledge, self.is_cut_off) {
            *contact = to;
        }
    }

    fn finish(&mut self, arrives: bool, result: impl Fn(bool) -> UploadResult) {
        let (draft, pods, start) = self.flight.take().unwrap();
        let is_new = self.stored != Some(pods);
        if arrives {
            self.stored = Some(pods);
        }
        let completion = self.cadence.finish(result(is_new), self.now);
        assert!(!completion.another_writer, "no other writer exists: {:?}", self.path);
        if let Some((revision, contents)) = completion.accepted {
            assert_eq!((revision, contents), (draft.revision, draft.contents));
            self.departed_pods.report_accepted(revision, contents);
            self.reported |= pods;
            let spacing = (20 * (self.now - start)).min(Duration::from_mins(1));
            let including_report = (self.spacing + spacing).min(Duration::from_mins(1));
            self.spacing = if draft.reason == SendReason::FollowUp { including_report } else { spacing };
        }
        let is_fresh =
            matches!(self.knowledge, Knowledge::Contact(at) if self.now - at < self.timing.stale_after);
        self.run_cadence();
        if completion.accepted.is_some_and(|(_, contents)| contents == Contents::RunningAndDeparted)
            && is_fresh
            && self.shut_down.is_none()
            && self.catch_up_until.is_none_or(|at| at <= self.now)
        {
            let follow_up = self.flight.as_ref().expect("no follow-up in flight");
            assert_eq!(follow_up.0.reason, SendReason::FollowUp, "{:?}", self.path);
            assert_eq!(follow_up.1, self.running(), "{:?}", self.path);
        }
    }

    /// Carries out the steps of the cadence until it waits.
    fn run_cadence(&mut self) {
        for _ in 0..3 {
            let view = View {
                revision: self.revision,
                knowledge: self.knowledge,
                has_departed_pods: !self.departed_pods.is_empty(),
            };
            let was_stale = matches!(self.step, Step::Withhold { reason: WithholdReason::Stale { .. } });
            self.step = self.cadence.next(&view, self.now);
            if was_stale && !matches!(self.step, Step::Withhold { .. }) {
                self.catch_up_until = Some(self.now + self.timing.debounce);
            }
            match self.step {
                Step::Send { reason } => self.send(reason),
                Step::Wait { until } => {
                    assert!(
                        until.is_none_or(|until| until > self.now),
                        "wait without a delay: {:?}",
                        self.path
                    );
                    if let Some(until) = until {
                        let almost = until.checked_sub(Duration::from_nanos(1)).unwrap();
                        let early = self.cadence.clone().next(&view, almost);
                        assert_eq!(early, self.step, "different step before the due time: {:?}", self.path);
                    }
                    return;
                }
                Step::Withhold { .. } | Step::Stop => return,
            }
        }
        panic!("no wait after three steps: {:?}", self.path);
    }

    fn send(&mut self, reason: SendReason) {
        let path = &self.path;
        assert!(self.flight.is_none(), "two reports in flight: {path:?}");
        let Knowledge::Contact(contact) = self.knowledge else {
            panic!("report without knowledge: {path:?}")
        };
        assert!(self.now - contact < self.timing.stale_after, "stale report: {path:?}");
        if let (Some(last), false) =
            (self.last_start, matches!(reason, SendReason::FollowUp | SendReason::Shutdown))
        {
            assert!(self.now - last >= self.spacing, "spacing violated: {path:?}");
        }
        let departed = if reason.includes_departed_pods() { self.departed() } else { 0 };
        let pods = self.running() | departed;
        let contents = if departed == 0 { Contents::Running } else { Contents::RunningAndDeparted };
        let draft = Draft { reason, revision: self.revision, hash: pods.into(), contents };
        match self.cadence.begin(draft, self.now) {
            BeginResult::Upload => {
                self.last_start = Some(self.now);
                self.flight = Some((draft, pods, self.now));
            }
            BeginResult::Unchanged => {
                assert_eq!(self.stored, Some(self.running()), "body was not stored: {path:?}");
                self.departed_pods.report_accepted(self.revision, Contents::Running);
            }
            BeginResult::Busy => panic!("another report in flight: {path:?}"),
        }
    }

    /// Lets all further events succeed. Asserts that the service then stores the running pods, and that
    /// accepted reports contained every observed pod.
    pub(super) fn assert_converges(mut self) {
        let was_fresh =
            matches!(self.knowledge, Knowledge::Contact(at) if self.now - at < self.timing.stale_after);
        if self.shut_down.is_none() {
            for event in [CompleteList, Confirm, RegainContact] {
                if self.is_possible(event) {
                    self.apply(event);
                }
            }
        }
        let from = self.now;
        // No retry fits between the longest backoff and the deadline.
        let max_delay = self.timing.shutdown_timeout / 10;
        let was_too_late = self
            .shut_down
            .is_some_and(|shut_down| from + max_delay >= shut_down + self.timing.shutdown_timeout);
        for _ in 0..12 {
            let event = if self.flight.is_some() { Accept } else { PassUntilDue };
            if self.step == Step::Stop || !self.is_possible(event) {
                break;
            }
            self.apply(event);
        }
        let path = &self.path;
        if let Some(shut_down) = self.shut_down {
            assert_eq!(self.step, Step::Stop, "{path:?}");
            assert!(self.now - shut_down <= self.timing.shutdown_timeout, "{path:?}");
            if !was_fresh || was_too_late || self.has_failed_at_shutdown() {
                return;
            }
        } else {
            assert!(self.now - from < Duration::from_mins(15), "{path:?}");
        }
        assert_eq!(self.stored, Some(self.running()), "{path:?}");
        assert!(self.observed & !self.reported == 0 || !self.reports_departed_pods, "{path:?}");
        assert!(self.departed_pods.is_empty(), "{path:?}");
    }

    /// Whether a report failed permanently after the shutdown began; such a report is not retried.
    fn has_failed_at_shutdown(&self) -> bool {
        self.path.iter().skip_while(|event| **event != ShutDown).any(|event| *event == FailPermanently)
    }
}
