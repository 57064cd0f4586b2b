//! Model checker of the watch state machine: explores every sequence of server behaviors up to a length,
//! while the pods change at every step, and asserts the invariants after each.
//!
//! The live set is a minimal mark and sweep. The server records all of its states, so the expected set is
//! looked up instead of computed.

use super::*;

const PODS: usize = 3;

const RELIST: Duration = Duration::from_mins(10);
/// Upper bound of the randomized relist interval.
const LATEST_RELIST: Duration = Duration::from_mins(13);

/// The resourceVersion of the last change of each existing pod.
type Pods = [Option<usize>; PODS];

/// A server with one recorded state per resourceVersion.
#[derive(Clone)]
struct Server {
    states: Vec<Pods>,
    response: Response,
    changes: usize,
}

#[derive(Clone)]
enum Response {
    None,
    /// The pods of one state starting with `pod`, then the bookmark.
    Stream {
        state: usize,
        pod: usize,
    },
    /// Some pods of one state.
    Page {
        state: usize,
        pods: std::ops::Range<usize>,
    },
    Watch {
        from: usize,
    },
}

/// Behavior of the server at one step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behavior {
    Correct,
    Unreachable,
    /// The status of a response, or an ERROR event.
    Error(u16),
    Silent,
    /// After the first pod if the response is a page.
    BrokenOff,
    Ended,
}

const REQUEST_BEHAVIORS: [Behavior; 5] = [
    Behavior::Correct,
    Behavior::Unreachable,
    Behavior::Error(410),
    Behavior::Error(422),
    Behavior::Error(500),
];
const RESPONSE_BEHAVIORS: [Behavior; 5] =
    [Behavior::Correct, Behavior::Error(410), Behavior::Silent, Behavior::BrokenOff, Behavior::Ended];

#[derive(Clone)]
struct History {
    watch: Watch,
    now: Instant,
    action: WatchAction,
    server: Server,
    set: Pods,
    seen: [bool; PODS],
    completions: u32,
    /// For failure messages.
    trace: Vec<Behavior>,
}

impl Server {
    fn new() -> Self {
        Self { states: vec![[Some(0), Some(0), None]], response: Response::None, changes: 0 }
    }

    fn latest(&self) -> usize {
        self.states.len() - 1
    }

    /// Deletes, adds or modifies a pod.
    fn change(&mut self) {
        // Each pod in turn; every fourth change is a deletion.
        let (pod, is_deletion) = (self.changes % PODS, self.changes % 4 == 1);
        self.changes += 1;
        let mut pods = self.states[self.latest()];
        pods[pod] = if is_deletion { None } else { Some(self.states.len()) };
        self.states.push(pods);
    }
}

impl History {
    fn new() -> Self {
        let timing = WatchTiming { relist: RELIST, ..WatchTiming::default() };
        let mut watch = Watch::new(timing, 7);
        let now = Instant::now();
        let step = watch.start(now);
        let mut history = Self {
            watch,
            now,
            action: step.action.clone(),
            server: Server::new(),
            set: [None; PODS],
            seen: [false; PODS],
            completions: 0,
            trace: Vec::new(),
        };
        history.carry_out(step, None);
        history
    }

    /// The possible behaviors at the current action. A delay always elapses.
    fn possible_behaviors(&self) -> &'static [Behavior] {
        match self.action {
            WatchAction::Send(_) => &REQUEST_BEHAVIORS,
            WatchAction::Read { .. } => &RESPONSE_BEHAVIORS,
            WatchAction::Wait(_) => &[Behavior::Correct],
        }
    }

    fn store(&mut self, pod: usize, version: Option<usize>) {
        self.set[pod] = version;
        self.seen[pod] = true;
    }

    /// Performs one step and asserts the invariants.
    fn step(&mut self, behavior: Behavior) {
        self.trace.push(behavior);
        self.server.change();
        let before = self.watch.contact();
        match (self.action.clone(), behavior) {
            (WatchAction::Wait(delay), _) => {
                self.now += delay;
                self.input(Input::DelayElapsed, None);
            }
            (WatchAction::Send(request), Behavior::Correct) => {
                self.server.response = self.response(&request);
                self.input(Input::ResponseStarted, None);
            }
            (WatchAction::Send(_), Behavior::Error(status)) => {
                self.input(Input::ErrorStatus { status, retry_after: None }, None);
            }
            (WatchAction::Send(_), _) => self.input(Input::Unreachable, None),
            (WatchAction::Read { .. }, Behavior::Correct) => return self.read(),
            (WatchAction::Read { timeout }, Behavior::Silent) => {
                self.now += timeout;
                self.input(Input::Silent, None);
            }
            (WatchAction::Read { .. }, Behavior::Error(code)) => {
                self.input(Input::Event(StreamEvent::Error { code, reason: "", retry_after: None }), None);
            }
            (WatchAction::Read { .. }, Behavior::Ended) => self.input(Input::Ended, None),
            (WatchAction::Read { .. }, _) => {
                if let Response::Page { state, pods } = self.server.response.clone() {
                    for pod in pods.take(1) {
                        self.store_listed(state, pod);
                    }
                }
                self.input(Input::BrokenOff, None);
            }
        }
        assert_eq!(
            self.watch.contact(),
            before,
            "contact without a frame or a complete list: {:?}",
            self.trace
        );
    }

    fn response(&self, request: &WatchRequest) -> Response {
        let state = self.server.latest();
        match request {
            WatchRequest::StreamingList { .. } => Response::Stream { state, pod: 0 },
            WatchRequest::Page { token: None } => Response::Page { state, pods: 0..1 },
            WatchRequest::Page { token: Some(token) } => {
                let (state, pod) = token.split_once(':').unwrap();
                let pod: usize = pod.parse().unwrap();
                Response::Page { state: state.parse().unwrap(), pods: pod..pod + 1 }
            }
            WatchRequest::Unpaged => Response::Page { state, pods: 0..PODS },
            WatchRequest::Watch { from, .. } => Response::Watch { from: from.parse().unwrap() },
        }
    }

    /// The server continues its response correctly.
    fn read(&mut self) {
        self.now += Duration::from_secs(1);
        match self.server.response.clone() {
            Response::Stream { state, pod } if pod < PODS => {
                self.store_listed(state, pod);
                self.server.response = Response::Stream { state, pod: pod + 1 };
                let before = self.watch.contact();
                self.input(Input::Event(StreamEvent::Added { resource_version: "0" }), None);
                assert_eq!(self.watch.contact(), before, "contact during a list: {:?}", self.trace);
            }
            Response::Stream { state, .. } => {
                self.server.response = Response::Watch { from: state };
                let version = state.to_string();
                let end = StreamEvent::Bookmark { resource_version: &version, initial_events_end: true };
                self.input(Input::Event(end), Some(state));
            }
            Response::Page { state, pods } => {
                for pod in pods.clone() {
                    self.store_listed(state, pod);
                }
                let is_last = pods.end == PODS;
                let token = if is_last { String::new() } else { format!("{state}:{}", pods.end) };
                let page = Input::Page { token: &token, resource_version: &state.to_string() };
                self.input(page, is_last.then_some(state));
            }
            Response::Watch { from } => {
                // Consecutive states differ in one pod. After the last state, the server sends a bookmark.
                let to = (from + 1).min(self.server.latest());
                let version = to.to_string();
                let (old, new) = (self.server.states[from], self.server.states[to]);
                let event = match (0..PODS).find(|&pod| old[pod] != new[pod]) {
                    None => StreamEvent::Bookmark { resource_version: &version, initial_events_end: false },
                    Some(pod) => {
                        self.store(pod, new[pod]);
                        match new[pod] {
                            None => StreamEvent::Deleted { resource_version: &version },
                            Some(_) => StreamEvent::Modified { resource_version: &version },
                        }
                    }
                };
                self.server.response = Response::Watch { from: to };
                assert_eq!(
                    self.set, self.server.states[to],
                    "set differs from the watched state: {:?}",
                    self.trace
                );
                self.input(Input::Event(event), None);
                assert_eq!(self.watch.contact(), Some(self.now), "frame without contact: {:?}", self.trace);
            }
            Response::None => panic!("no open response: {:?}", self.trace),
        }
    }

    /// Stores a pod of a list if it exists in this state.
    fn store_listed(&mut self, state: usize, pod: usize) {
        if let Some(version) = self.server.states[state][pod] {
            self.store(pod, Some(version));
        }
    }

    /// `complete`: the state of a list that was just read completely.
    fn input(&mut self, input: Input<'_>, complete: Option<usize>) {
        let step = self.watch.next(input, self.now);
        self.carry_out(step, complete);
    }

    fn carry_out(&mut self, step: Step, complete: Option<usize>) {
        match step.listing {
            Some(Listing::Started) => self.seen = [false; PODS],
            Some(Listing::Completed) => {
                let state = complete.expect("list was not read completely");
                for pod in 0..PODS {
                    self.set[pod] = self.set[pod].filter(|_| self.seen[pod]);
                }
                assert_eq!(
                    self.set, self.server.states[state],
                    "set differs from the listed state: {:?}",
                    self.trace
                );
                assert_eq!(self.watch.contact(), Some(self.now));
                self.completions += 1;
            }
            None => assert!(complete.is_none(), "complete list was ignored: {:?}", self.trace),
        }
        if !matches!(step.action, WatchAction::Read { .. }) {
            self.server.response = Response::None;
        }
        self.action = step.action;
    }

    /// Asserts that the watch recovers: the server is correct from now on, and a relist is due.
    fn assert_recovers(mut self) {
        let before = self.completions;
        self.now += LATEST_RELIST;
        for _ in 0..40 {
            self.step(Behavior::Correct);
            if self.completions > before {
                return;
            }
        }
        panic!("no complete list from a correct server: {:?}", self.trace);
    }

    /// Explores every continuation of this length. Returns their number.
    fn explore(&self, length: u32) -> u32 {
        if length == 0 {
            self.clone().assert_recovers();
            return 1;
        }
        let explore = |&behavior| {
            let mut next = self.clone();
            next.step(behavior);
            // A delay has one outcome and does not count.
            let is_delay = matches!(self.action, WatchAction::Wait(_));
            next.explore(if is_delay { length } else { length - 1 })
        };
        self.possible_behaviors().iter().map(explore).sum()
    }
}

#[test]
fn invariants_hold_from_the_first_request() {
    let histories = History::new().explore(7);
    assert_eq!(histories, 5_u32.pow(7));
}

#[test]
fn invariants_hold_during_a_paged_list() {
    let mut history = History::new();
    for behavior in [Behavior::Error(422), Behavior::Correct, Behavior::Correct] {
        history.step(behavior);
    }
    assert!(matches!(&history.action, WatchAction::Send(WatchRequest::Page { token: Some(_) })));
    history.explore(7);
}

#[test]
fn invariants_hold_during_a_watch() {
    let mut history = History::new();
    while history.completions == 0 {
        history.step(Behavior::Correct);
    }
    history.step(Behavior::Correct);
    history.explore(7);
}

#[test]
fn invariants_hold_during_a_watch_with_due_relist() {
    let mut history = History::new();
    while history.completions == 0 {
        history.step(Behavior::Correct);
    }
    history.now += LATEST_RELIST;
    history.explore(6);
}
