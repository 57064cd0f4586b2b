//! A cluster, an agent and a service, as small as they can be, and what must hold after each event.

use std::sync::Arc;

use Event::*;

use super::*;
use crate::domain::live::departed_pods::{Bounds, Witness};
use crate::domain::live::departure::Departure;
use crate::domain::model::{Artifact, Digests, Workload};

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first list is complete.
    Listed,
    /// Whatever the list lacks is known to be empty.
    Confirmed,
    Starts,
    /// The oldest pod that runs leaves.
    Leaves,
    /// The newest of several does.
    NewestLeaves,
    /// A pod is seen for the first time when it has ended already.
    SeenEnded,
    /// A pod comes to differ and becomes again what it was.
    Flickers,
    /// The service takes what is in flight, and says so.
    Accepts,
    /// The service takes it, and the answer is lost.
    AcceptsUnheard,
    FailsPassing,
    FailsLasting,
    /// A second passes.
    Second,
    /// The time passes until when the cadence wants to wait.
    Deadline,
    LosesContact,
    RegainsContact,
    ShutsDown,
}

pub(crate) const EVENTS: [Event; 16] = [
    Listed,
    Confirmed,
    Starts,
    Leaves,
    NewestLeaves,
    SeenEnded,
    Flickers,
    Accepts,
    AcceptsUnheard,
    FailsPassing,
    FailsLasting,
    Second,
    Deadline,
    LosesContact,
    RegainsContact,
    ShutsDown,
];

/// Pods by number: a bit each.
type Pods = u32;

#[derive(Clone)]
pub(crate) struct World {
    policy: Policy,
    now: Instant,
    cadence: Cadence,
    witness: Witness,
    /// Whether pods are witnessed at all.
    pub(crate) is_witnessing: bool,
    workload: Arc<Workload>,
    revision: Revision,
    knowledge: Knowledge,
    /// Whether time passes without contact.
    is_cut_off: bool,
    live: Vec<(u32, Revision)>,
    /// How many pods there have been.
    pods: u32,
    /// Those that ran, or were seen ended, while they could be seen.
    known: Pods,
    pub(crate) step: Step,
    pub(crate) flight: Option<(Draft, Pods, Instant)>,
    /// What the service has.
    held: Option<Pods>,
    /// What was in any report that was accepted, and its answer heard.
    vouched: Pods,
    /// The start of the last report, and how far from it the next one has to stay.
    last: Option<Instant>,
    spacing: Duration,
    shut_down: Option<Instant>,
    /// Until when, after the set could not be vouched for, what was missed may still be coming in.
    settled_at: Option<Instant>,
    pub(crate) path: Vec<Event>,
}

impl World {
    pub(crate) fn new() -> Self {
        // Any instant would do: nothing here asks how late it is.
        let now = Instant::now();
        let policy = Policy { jitter: 0, ..Policy::default() };
        let digests = Digests::from_iter([]);
        let mut world = Self {
            policy,
            now,
            cadence: Cadence::new(policy, 3),
            witness: Witness::new(Bounds::default()),
            is_witnessing: true,
            workload: Arc::new(Workload { digests, owners: Box::default() }),
            revision: Revision::default(),
            knowledge: Knowledge::Unlisted,
            is_cut_off: false,
            live: Vec::new(),
            pods: 0,
            known: 0,
            step: Step::Stop,
            flight: None,
            held: None,
            vouched: 0,
            last: None,
            spacing: Duration::ZERO,
            shut_down: None,
            settled_at: None,
            path: Vec::new(),
        };
        world.start();
        world.obey();
        world
    }

    fn running(&self) -> Pods {
        self.live.iter().fold(0, |pods, (pod, _)| pods | 1 << pod)
    }

    fn witnessed(&self) -> Pods {
        self.witness.artifacts().iter().fold(0, |pods, artifact| pods | 1 << artifact.created_at)
    }

    pub(crate) fn is_possible(&self, event: Event) -> bool {
        let is_watching = !self.is_cut_off && self.shut_down.is_none();
        let is_listed = self.knowledge != Knowledge::Unlisted;
        match event {
            Listed => !is_listed,
            Confirmed => self.knowledge == Knowledge::Unconfirmed,
            Starts | SeenEnded => is_watching && self.pods < 4 && (is_listed || event == Starts),
            Leaves | Flickers => is_watching && is_listed && !self.live.is_empty(),
            NewestLeaves => is_watching && is_listed && self.live.len() > 1,
            Accepts | AcceptsUnheard | FailsPassing | FailsLasting => self.flight.is_some(),
            Second => true,
            Deadline => matches!(self.step, Step::Wait { until: Some(_) }),
            LosesContact => !self.is_cut_off && matches!(self.knowledge, Knowledge::Contact(_)),
            RegainsContact => self.is_cut_off,
            ShutsDown => self.shut_down.is_none(),
        }
    }

    pub(crate) fn happens(&mut self, event: Event) {
        self.path.push(event);
        match event {
            Listed => {
                self.knowledge = Knowledge::Unconfirmed;
                self.known |= self.running();
            }
            Confirmed => self.knowledge = Knowledge::Contact(self.now),
            Starts => self.start(),
            Leaves => {
                let (pod, since) = self.live.remove(0);
                self.leave(pod, since);
            }
            NewestLeaves => {
                let (pod, since) = self.live.pop().unwrap();
                self.leave(pod, since);
            }
            SeenEnded => {
                let pod = self.next_pod();
                self.revision = self.revision.next();
                self.known |= 1 << pod;
                self.witness.departed(self.departure(pod, self.revision), self.revision);
            }
            Flickers => {
                self.revision = self.revision.next().next();
                self.live[0].1 = self.revision;
            }
            Accepts => self.answer(true, |new| Answer::Accepted { new_snapshot: Some(new) }),
            AcceptsUnheard => {
                self.answer(true, |_| Answer::Failed { failure: Failure::Passing, retry_after: None });
            }
            FailsPassing => {
                self.answer(false, |_| Answer::Failed { failure: Failure::Passing, retry_after: None });
            }
            FailsLasting => {
                self.answer(false, |_| Answer::Failed { failure: Failure::Lasting, retry_after: None });
            }
            Second => {
                let later = self.now + Duration::from_secs(1);
                // A shutdown wakes the task at its deadline.
                let deadline = self.shut_down.map(|shut_down| shut_down + self.policy.last_word);
                self.passes(deadline.map_or(later, |deadline| later.min(deadline)));
            }
            Deadline => {
                if let Step::Wait { until: Some(until) } = self.step {
                    self.passes(until);
                }
            }
            LosesContact => self.is_cut_off = true,
            RegainsContact => {
                self.is_cut_off = false;
                self.passes(self.now);
            }
            ShutsDown => {
                self.cadence.shut_down(self.now);
                self.shut_down = Some(self.now);
            }
        }
        self.obey();
    }

    fn start(&mut self) {
        let pod = self.next_pod();
        self.revision = self.revision.next();
        self.live.push((pod, self.revision));
        if self.knowledge != Knowledge::Unlisted {
            self.known |= 1 << pod;
        }
    }

    fn leave(&mut self, pod: u32, since: Revision) {
        self.revision = self.revision.next();
        if self.is_witnessing {
            self.witness.departed(self.departure(pod, since), self.revision);
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

    fn passes(&mut self, to: Instant) {
        self.now = to;
        if let (Knowledge::Contact(contact), false) = (&mut self.knowledge, self.is_cut_off) {
            *contact = to;
        }
    }

    fn answer(&mut self, arrives: bool, answer: impl Fn(bool) -> Answer) {
        let (draft, pods, start) = self.flight.take().unwrap();
        let is_new = self.held != Some(pods);
        if arrives {
            self.held = Some(pods);
        }
        let answered = self.cadence.answered(answer(is_new), self.now);
        assert!(!answered.another_writer, "there is none: {:?}", self.path);
        if let Some((revision, carried)) = answered.accepted {
            assert_eq!((revision, carried), (draft.revision, draft.carried));
            self.witness.accepted(revision, carried);
            self.vouched |= pods;
            let spacing = (20 * (self.now - start)).min(Duration::from_mins(1));
            let with_forerunner = (self.spacing + spacing).min(Duration::from_mins(1));
            self.spacing = if draft.why == Why::FollowUp { with_forerunner } else { spacing };
        }
        let is_vouched_for =
            matches!(self.knowledge, Knowledge::Contact(at) if self.now - at < self.policy.stale);
        self.obey();
        // Obeying began it, and nothing else.
        if answered.accepted.is_some_and(|(_, carried)| carried == Carried::Witnessed)
            && is_vouched_for
            && self.shut_down.is_none()
            && self.settled_at.is_none_or(|at| at <= self.now)
        {
            let follow_up = self.flight.as_ref().expect("a follow-up begins at once");
            assert_eq!(follow_up.0.why, Why::FollowUp, "{:?}", self.path);
            assert_eq!(follow_up.1, self.running(), "{:?}", self.path);
        }
    }

    /// Asks the cadence until it wants to wait, and does what it says.
    fn obey(&mut self) {
        for _ in 0..3 {
            let view = View {
                revision: self.revision,
                knowledge: self.knowledge,
                witnessed: !self.witness.is_empty(),
            };
            let was_stale = matches!(self.step, Step::Withhold { why: Withheld::Stale { .. } });
            self.step = self.cadence.next(&view, self.now);
            if was_stale && !matches!(self.step, Step::Withhold { .. }) {
                self.settled_at = Some(self.now + self.policy.debounce);
            }
            match self.step {
                Step::Send { why } => self.send(why),
                Step::Wait { until } => {
                    assert!(until.is_none_or(|until| until > self.now), "a busy loop: {:?}", self.path);
                    if let Some(until) = until {
                        let almost = until.checked_sub(Duration::from_nanos(1)).unwrap();
                        let early = self.cadence.clone().next(&view, almost);
                        assert_eq!(early, self.step, "before its time: {:?}", self.path);
                    }
                    return;
                }
                Step::Withhold { .. } | Step::Stop => return,
            }
        }
        panic!("no rest: {:?}", self.path);
    }

    fn send(&mut self, why: Why) {
        let path = &self.path;
        assert!(self.flight.is_none(), "two in flight: {path:?}");
        let Knowledge::Contact(contact) = self.knowledge else { panic!("a guess: {path:?}") };
        assert!(self.now - contact < self.policy.stale, "stale: {path:?}");
        if let (Some(last), false) = (self.last, matches!(why, Why::FollowUp | Why::LastWord)) {
            assert!(self.now - last >= self.spacing, "too close: {path:?}");
        }
        let witnessed = if why.takes_witnessed() { self.witnessed() } else { 0 };
        let pods = self.running() | witnessed;
        let carried = if witnessed == 0 { Carried::Nothing } else { Carried::Witnessed };
        let draft = Draft { why, revision: self.revision, hash: pods.into(), carried };
        match self.cadence.begin(draft, self.now) {
            Begun::Upload => {
                self.last = Some(self.now);
                self.flight = Some((draft, pods, self.now));
            }
            Begun::Repetition => {
                assert_eq!(self.held, Some(self.running()), "it was no repetition: {path:?}");
                self.witness.accepted(self.revision, Carried::Nothing);
            }
            Begun::Busy => panic!("busy: {path:?}"),
        }
    }

    /// From here on all goes well: the service must come to have what runs, and every pod must have been
    /// in a report that was accepted.
    pub(crate) fn comes_to_rest(mut self) {
        let was_vouched_for =
            matches!(self.knowledge, Knowledge::Contact(at) if self.now - at < self.policy.stale);
        if self.shut_down.is_none() {
            for event in [Listed, Confirmed, RegainsContact] {
                if self.is_possible(event) {
                    self.happens(event);
                }
            }
        }
        let from = self.now;
        // No retry fits between the longest backoff and the deadline.
        let longest_pause = self.policy.last_word / 10;
        let had_given_up =
            self.shut_down.is_some_and(|shut_down| from + longest_pause >= shut_down + self.policy.last_word);
        for _ in 0..12 {
            let event = if self.flight.is_some() { Accepts } else { Deadline };
            if self.step == Step::Stop || !self.is_possible(event) {
                break;
            }
            self.happens(event);
        }
        let path = &self.path;
        if let Some(shut_down) = self.shut_down {
            assert_eq!(self.step, Step::Stop, "{path:?}");
            assert!(self.now - shut_down <= self.policy.last_word, "{path:?}");
            if !was_vouched_for || had_given_up || self.has_refused_at_shutdown() {
                return;
            }
        } else {
            assert!(self.now - from < Duration::from_mins(15), "{path:?}");
        }
        assert_eq!(self.held, Some(self.running()), "{path:?}");
        assert!(self.known & !self.vouched == 0 || !self.is_witnessing, "{path:?}");
        assert!(self.witness.is_empty(), "{path:?}");
    }

    /// Whether the service refused a report after the shutdown began: refused reports are not retried.
    fn has_refused_at_shutdown(&self) -> bool {
        self.path.iter().skip_while(|event| **event != ShutsDown).any(|event| *event == FailsLasting)
    }
}
