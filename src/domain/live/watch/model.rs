//! The promises of a watch, checked on every history of a small server: up to a length, each way in
//! which it can answer is followed, while its pods change all the time.
//!
//! The live set here is the simplest that marks and sweeps; the server keeps every state that it ever
//! had, so that what the set should be is looked up and not computed.

use super::*;

const PODS: usize = 3;

const RELIST: Duration = Duration::from_mins(10);
/// More than a quarter longer.
const LATEST_RELIST: Duration = Duration::from_mins(13);

/// Which pods there are: the resourceVersion that each was last changed at.
type Pods = [Option<usize>; PODS];

/// A server that keeps its whole history: one state for each resourceVersion.
#[derive(Clone)]
struct Server {
    states: Vec<Pods>,
    open: Open,
    /// Where in its script of changes it is.
    script: usize,
}

/// The answer that it is giving.
#[derive(Clone)]
enum Open {
    Nothing,
    /// The pods of one state from this one on, then its bookmark.
    Stream {
        state: usize,
        pod: usize,
    },
    /// Of one state this pod, or all.
    Page {
        state: usize,
        pods: std::ops::Range<usize>,
    },
    Watch {
        from: usize,
    },
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    /// What a good server does.
    Good,
    Unreachable,
    /// The status of an answer, or an ERROR event.
    Refused(u16),
    Silent,
    /// In the middle of a page, if it is one.
    BrokenOff,
    Ended,
}

const OF_REQUESTS: [Behaviour; 5] = [
    Behaviour::Good,
    Behaviour::Unreachable,
    Behaviour::Refused(410),
    Behaviour::Refused(422),
    Behaviour::Refused(500),
];
const OF_ANSWERS: [Behaviour; 5] =
    [Behaviour::Good, Behaviour::Refused(410), Behaviour::Silent, Behaviour::BrokenOff, Behaviour::Ended];

/// One history, up to now.
#[derive(Clone)]
struct History {
    watch: Watch,
    now: Instant,
    act: Act,
    server: Server,
    set: Pods,
    seen: [bool; PODS],
    completions: u32,
    /// For the message of a test that failed.
    told: Vec<Behaviour>,
}

impl Server {
    fn new() -> Self {
        Self { states: vec![[Some(0), Some(0), None]], open: Open::Nothing, script: 0 }
    }

    fn latest(&self) -> usize {
        self.states.len() - 1
    }

    /// A pod leaves, or one comes, or changes.
    fn change(&mut self) {
        // Each pod in turn; two comings or changes, then one goes.
        let (pod, gone) = (self.script % PODS, self.script % 4 == 1);
        self.script += 1;
        let mut pods = self.states[self.latest()];
        pods[pod] = if gone { None } else { Some(self.states.len()) };
        self.states.push(pods);
    }
}

impl History {
    fn begin() -> Self {
        let policy = Policy { relist: RELIST, ..Policy::default() };
        let mut watch = Watch::new(policy, 7);
        let now = Instant::now();
        let step = watch.start(now);
        let mut history = Self {
            watch,
            now,
            act: step.act.clone(),
            server: Server::new(),
            set: [None; PODS],
            seen: [false; PODS],
            completions: 0,
            told: Vec::new(),
        };
        history.carry_out(step, None);
        history
    }

    /// What can happen next. A pause always passes.
    fn behaviours(&self) -> &'static [Behaviour] {
        match self.act {
            Act::Ask(_) => &OF_REQUESTS,
            Act::Read { .. } => &OF_ANSWERS,
            Act::Wait(_) => &[Behaviour::Good],
        }
    }

    fn take(&mut self, pod: usize, version: Option<usize>) {
        self.set[pod] = version;
        self.seen[pod] = true;
    }

    /// One thing happens, and every promise is kept.
    fn then(&mut self, behaviour: Behaviour) {
        self.told.push(behaviour);
        self.server.change();
        let before = self.watch.contact();
        match (self.act.clone(), behaviour) {
            (Act::Wait(pause), _) => {
                self.now += pause;
                self.tell(Input::Waited, None);
            }
            (Act::Ask(request), Behaviour::Good) => {
                self.server.open = self.opened(&request);
                self.tell(Input::Answered, None);
            }
            (Act::Ask(_), Behaviour::Refused(status)) => {
                self.tell(Input::Refused { status, retry_after: None }, None);
            }
            (Act::Ask(_), _) => self.tell(Input::Unreachable, None),
            (Act::Read { .. }, Behaviour::Good) => return self.read(),
            (Act::Read { within }, Behaviour::Silent) => {
                self.now += within;
                self.tell(Input::Silent, None);
            }
            (Act::Read { .. }, Behaviour::Refused(code)) => {
                self.tell(Input::Event(Event::Error { code, reason: "", retry_after: None }), None);
            }
            (Act::Read { .. }, Behaviour::Ended) => self.tell(Input::Ended, None),
            (Act::Read { .. }, _) => {
                if let Open::Page { state, pods } = self.server.open.clone() {
                    for pod in pods.take(1) {
                        self.take_of(state, pod);
                    }
                }
                self.tell(Input::BrokenOff, None);
            }
        }
        assert_eq!(self.watch.contact(), before, "no frame and no complete list: {:?}", self.told);
    }

    fn opened(&self, request: &Request) -> Open {
        let state = self.server.latest();
        match request {
            Request::StreamingList { .. } => Open::Stream { state, pod: 0 },
            Request::Page { token: None } => Open::Page { state, pods: 0..1 },
            Request::Page { token: Some(token) } => {
                let (state, pod) = token.split_once(':').unwrap();
                let pod: usize = pod.parse().unwrap();
                Open::Page { state: state.parse().unwrap(), pods: pod..pod + 1 }
            }
            Request::Whole => Open::Page { state, pods: 0..PODS },
            Request::Watch { from, .. } => Open::Watch { from: from.parse().unwrap() },
        }
    }

    /// A good server goes on with its answer.
    fn read(&mut self) {
        self.now += Duration::from_secs(1);
        match self.server.open.clone() {
            Open::Stream { state, pod } if pod < PODS => {
                self.take_of(state, pod);
                self.server.open = Open::Stream { state, pod: pod + 1 };
                let before = self.watch.contact();
                self.tell(Input::Event(Event::Added { resource_version: "0" }), None);
                assert_eq!(self.watch.contact(), before, "a part of a list: {:?}", self.told);
            }
            Open::Stream { state, .. } => {
                self.server.open = Open::Watch { from: state };
                let version = state.to_string();
                let end = Event::Bookmark { resource_version: &version, initial_events_end: true };
                self.tell(Input::Event(end), Some(state));
            }
            Open::Page { state, pods } => {
                for pod in pods.clone() {
                    self.take_of(state, pod);
                }
                let is_last = pods.end == PODS;
                let token = if is_last { String::new() } else { format!("{state}:{}", pods.end) };
                let page = Input::Page { token: &token, resource_version: &state.to_string() };
                self.tell(page, is_last.then_some(state));
            }
            Open::Watch { from } => {
                // One state differs from the one before in one pod; at the end there is a bookmark.
                let to = (from + 1).min(self.server.latest());
                let version = to.to_string();
                let (old, new) = (self.server.states[from], self.server.states[to]);
                let event = match (0..PODS).find(|&pod| old[pod] != new[pod]) {
                    None => Event::Bookmark { resource_version: &version, initial_events_end: false },
                    Some(pod) => {
                        self.take(pod, new[pod]);
                        match new[pod] {
                            None => Event::Deleted { resource_version: &version },
                            Some(_) => Event::Modified { resource_version: &version },
                        }
                    }
                };
                self.server.open = Open::Watch { from: to };
                assert_eq!(self.set, self.server.states[to], "the set follows the watch: {:?}", self.told);
                self.tell(Input::Event(event), None);
                assert_eq!(self.watch.contact(), Some(self.now), "a frame: {:?}", self.told);
            }
            Open::Nothing => panic!("nothing is open: {:?}", self.told),
        }
    }

    /// A list holds the pods that there are.
    fn take_of(&mut self, state: usize, pod: usize) {
        if let Some(version) = self.server.states[state][pod] {
            self.take(pod, Some(version));
        }
    }

    /// `complete`: of which state a list was just read to its end.
    fn tell(&mut self, input: Input<'_>, complete: Option<usize>) {
        let step = self.watch.next(input, self.now);
        self.carry_out(step, complete);
    }

    fn carry_out(&mut self, step: Step, complete: Option<usize>) {
        match step.listing {
            Some(Listing::Begin) => self.seen = [false; PODS],
            Some(Listing::Complete) => {
                let state = complete.expect("a list that was read to its end");
                for pod in 0..PODS {
                    self.set[pod] = self.set[pod].filter(|_| self.seen[pod]);
                }
                assert_eq!(self.set, self.server.states[state], "what was listed: {:?}", self.told);
                assert_eq!(self.watch.contact(), Some(self.now));
                self.completions += 1;
            }
            None => assert!(complete.is_none(), "a complete list counts: {:?}", self.told),
        }
        if !matches!(step.act, Act::Read { .. }) {
            self.server.open = Open::Nothing;
        }
        self.act = step.act;
    }

    /// From here on the server is good. A list is due by now, if not for another reason.
    fn mends_itself(mut self) {
        let before = self.completions;
        self.now += LATEST_RELIST;
        for _ in 0..40 {
            self.then(Behaviour::Good);
            if self.completions > before {
                return;
            }
        }
        panic!("not listed by a good server: {:?}", self.told);
    }

    /// Follows every history that goes on from here, up to this length; how many there are.
    fn explore(&self, length: u32) -> u32 {
        if length == 0 {
            self.clone().mends_itself();
            return 1;
        }
        let explore = |&behaviour| {
            let mut next = self.clone();
            next.then(behaviour);
            // What is bound to happen does not count.
            let is_bound = matches!(self.act, Act::Wait(_));
            next.explore(if is_bound { length } else { length - 1 })
        };
        self.behaviours().iter().map(explore).sum()
    }
}

#[test]
fn from_the_first_request_on_every_promise_is_kept() {
    let histories = History::begin().explore(7);
    assert_eq!(histories, 5_u32.pow(7));
}

#[test]
fn in_the_midst_of_pages_every_promise_is_kept() {
    let mut history = History::begin();
    for behaviour in [Behaviour::Refused(422), Behaviour::Good, Behaviour::Good] {
        history.then(behaviour);
    }
    assert!(matches!(&history.act, Act::Ask(Request::Page { token: Some(_) })));
    history.explore(7);
}

#[test]
fn in_the_midst_of_a_watch_every_promise_is_kept() {
    let mut history = History::begin();
    while history.completions == 0 {
        history.then(Behaviour::Good);
    }
    history.then(Behaviour::Good);
    history.explore(7);
}

#[test]
fn in_a_watch_that_is_due_for_a_list_every_promise_is_kept() {
    let mut history = History::begin();
    while history.completions == 0 {
        history.then(Behaviour::Good);
    }
    history.now += LATEST_RELIST;
    history.explore(6);
}
