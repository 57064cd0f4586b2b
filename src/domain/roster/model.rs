//! The set against a plain map that does the same without any art, over random histories.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::domain::model::Digests;
use crate::domain::pod::ContainerView;
use crate::domain::report::Report;

const NAMESPACES: [&str; 4] = ["a", "a-b", "b", "untaken"];

/// The selections of three environments; the first two overlap.
fn selections() -> Vec<Selection> {
    let select = |names: &[&str]| {
        let names = names.iter().map(|n| n.parse().unwrap()).collect();
        Selection::new(names, vec![], BTreeSet::new(), vec![]).unwrap()
    };
    vec![select(&["a", "b"]), select(&["a", "a-b"]), select(&["b"])]
}

#[derive(Debug, Clone)]
enum Step {
    Begin(Scope),
    Apply(Scope, Pod),
    Remove(Scope, Pod),
    Unreadable(Scope, Option<(usize, String)>),
    Complete(Scope),
    Snapshot,
}

type Scope = Option<usize>;

/// A pod as it comes in one event.
#[derive(Debug, Clone)]
struct Pod {
    namespace: usize,
    name: String,
    uid: Option<u8>,
    created_at: Option<i64>,
    has_ended: bool,
    /// For each container, by name, the digest that it shows, if any.
    containers: BTreeMap<u8, Option<u8>>,
}

impl Pod {
    fn view(&self) -> PodView {
        let container = |(name, digest): (&u8, &Option<u8>)| ContainerView {
            name: format!("c{name}"),
            image: format!("app-{name}"),
            image_id: digest.map_or(String::new(), |d| format!("sha256:{}", format!("{d:02x}").repeat(32))),
            ..Default::default()
        };
        PodView {
            namespace: NAMESPACES[self.namespace].into(),
            name: self.name.clone(),
            uid: self.uid.map_or(String::new(), |uid| format!("uid-{uid}")),
            created_at: self.created_at,
            phase: if self.has_ended { Phase::Ended } else { Phase::Alive },
            owners: vec![],
            containers: self.containers.iter().map(container).collect(),
        }
    }
}

/// What the plain map keeps of a pod.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    uid: Option<(Option<u8>, Option<i64>)>,
    created_at: i64,
    state: State,
    is_marked: bool,
    since: Revision,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Each container's last digest.
    Live(BTreeMap<u8, u8>, usize),
    /// The same, without a creation time.
    Timeless(BTreeMap<u8, u8>, usize),
    Out(PodSkip),
}

type Shown = (String, String, i64, BTreeMap<String, u8>);

#[derive(Debug, Default)]
struct Plain {
    pods: BTreeMap<String, BTreeMap<String, Kept>>,
    listed: BTreeSet<Scope>,
    open: BTreeSet<Scope>,
    nameless: BTreeMap<Scope, Vec<usize>>,
    nameless_here: BTreeMap<Scope, Vec<usize>>,
    swept: BTreeMap<Scope, Swept>,
}

fn taken(namespace: usize) -> bool {
    NAMESPACES[namespace] != "untaken"
}

fn digests(containers: &BTreeMap<u8, u8>) -> BTreeMap<String, u8> {
    containers.iter().map(|(name, digest)| (format!("docker.io/library/app-{name}"), *digest)).collect()
}

impl Plain {
    fn begin(&mut self, of: Scope) {
        for (namespace, pods) in &mut self.pods {
            if of.is_none_or(|of| NAMESPACES[of] == namespace) {
                pods.values_mut().for_each(|pod| pod.is_marked = false);
            }
        }
        self.open.insert(of);
        self.nameless_here.remove(&of);
    }

    /// How a pod would be, if it lived: what it shows over what is remembered.
    fn alive(pod: &Pod, own: Option<&Kept>) -> State {
        let mut known = match own {
            Some(Kept { state: State::Live(known, _) | State::Timeless(known, _), .. }) => known.clone(),
            _ => BTreeMap::new(),
        };
        known.extend(pod.containers.iter().filter_map(|(name, digest)| Some((*name, (*digest)?))));
        let waiting = pod.containers.keys().filter(|name| !known.contains_key(name)).count();
        match (known.is_empty(), pod.created_at) {
            (true, _) => State::Out(PodSkip::NotStarted),
            (_, None) => State::Timeless(known, waiting),
            _ => State::Live(known, waiting),
        }
    }

    fn own<'a>(pod: &Pod, before: Option<&'a Kept>) -> Option<&'a Kept> {
        let identity = (pod.uid, if pod.uid.is_some() { None } else { pod.created_at });
        before.filter(|before| before.uid == Some(identity))
    }

    /// What departs of a pod that ends or is deleted: the artifact, and whether the set held it so.
    fn ends(&self, of: Scope, pod: &Pod, own: Option<&Kept>) -> Option<(Shown, Option<Revision>)> {
        let shown = |created_at, containers: &BTreeMap<u8, u8>| {
            (NAMESPACES[pod.namespace].to_owned(), pod.name.clone(), created_at, digests(containers))
        };
        let last = match (Self::alive(pod, own), pod.created_at) {
            (State::Live(containers, _), Some(created_at)) => Some(shown(created_at, &containers)),
            _ => None,
        };
        match own {
            None => last.filter(|_| self.listed.contains(&of)).map(|last| (last, None)),
            Some(Kept { state: State::Out(PodSkip::Ended), .. }) => None,
            Some(Kept { state: State::Live(containers, _), created_at, since, .. }) => {
                let before = shown(*created_at, containers);
                match last {
                    Some(last) if last != before => Some((last, None)),
                    _ => Some((before, Some(*since))),
                }
            }
            Some(_) => last.map(|last| (last, None)),
        }
    }

    /// What departs, and whether the artifact of that name differs.
    fn apply(&mut self, of: Scope, pod: &Pod) -> (Vec<(Shown, Option<Revision>)>, bool, bool) {
        if !taken(pod.namespace) {
            return (vec![], false, false);
        }
        let namespace = NAMESPACES[pod.namespace].to_owned();
        let before = self.pods.get(&namespace).and_then(|pods| pods.get(&pod.name)).cloned();
        let own = Self::own(pod, before.as_ref());
        let state = if pod.has_ended { State::Out(PodSkip::Ended) } else { Self::alive(pod, own) };
        let mut now = Kept {
            uid: Some((pod.uid, if pod.uid.is_some() { None } else { pod.created_at })),
            created_at: pod.created_at.unwrap_or_default(),
            state,
            is_marked: true,
            since: Revision::default(),
        };
        let artifact = |kept: Option<&Kept>| match kept {
            Some(Kept { state: State::Live(containers, _), created_at, .. }) => {
                Some((namespace.clone(), pod.name.clone(), *created_at, digests(containers)))
            }
            _ => None,
        };
        let differs = artifact(before.as_ref()) != artifact(Some(&now));
        let mut departs = Vec::new();
        if own.is_none() && differs {
            departs.extend(artifact(before.as_ref()).map(|a| (a, before.as_ref().map(|b| b.since))));
        }
        if pod.has_ended {
            departs.extend(self.ends(of, pod, own));
        } else if !matches!(now.state, State::Live(..)) {
            departs.extend(artifact(own).map(|a| (a, own.map(|own| own.since))));
        }
        let is_repeated = self.open.contains(&of) && before.as_ref().is_some_and(|before| before.is_marked);
        if self.open.contains(&of) && !is_repeated {
            let swept = self.swept.entry(of).or_default();
            match &before {
                None => swept.came += 1,
                Some(before) => {
                    let was = Kept { is_marked: true, since: now.since, ..before.clone() };
                    swept.differed += u64::from(was != now);
                }
            }
        }
        now.since = before.map_or(now.since, |before| before.since);
        self.pods.entry(namespace).or_default().insert(pod.name.clone(), now);
        (departs, differs, is_repeated)
    }

    fn remove(&mut self, of: Scope, pod: &Pod) -> Option<(Shown, Option<Revision>)> {
        let before = self.pods.get(NAMESPACES[pod.namespace]).and_then(|pods| pods.get(&pod.name)).cloned();
        let own = Self::own(pod, before.as_ref());
        if !taken(pod.namespace) || own.is_none() && before.as_ref().is_some_and(|b| b.uid.is_some()) {
            return None;
        }
        let departs = self.ends(of, pod, own);
        if let Some(pods) = self.pods.get_mut(NAMESPACES[pod.namespace]) {
            pods.remove(&pod.name);
        }
        departs
    }

    fn unreadable(&mut self, of: Scope, name: Option<&(usize, String)>) {
        let is_open = self.open.contains(&of);
        let Some(namespace) = name.map(|(namespace, _)| *namespace).or(of) else { return };
        let Some((_, name)) = name.filter(|(_, name)| !name.is_empty()) else {
            let counts = if is_open { &mut self.nameless_here } else { &mut self.nameless };
            counts.entry(of).or_default().push(namespace);
            return;
        };
        if !taken(namespace) {
            return;
        }
        let pods = self.pods.entry(NAMESPACES[namespace].into()).or_default();
        if let Some(pod) = pods.get_mut(name) {
            pod.is_marked = true;
            return;
        }
        self.swept.entry(of).or_default().came += u64::from(is_open);
        let state = State::Out(PodSkip::Unreadable);
        let kept = Kept { uid: None, created_at: 0, state, is_marked: true, since: Revision::default() };
        pods.insert(name.clone(), kept);
    }

    fn complete(&mut self, of: Scope) -> (BTreeSet<(Shown, Option<Revision>)>, Swept) {
        if !self.open.contains(&of) {
            return Default::default();
        }
        let mut swept = self.swept.remove(&of).unwrap_or_default();
        let mut departs = BTreeSet::new();
        for (namespace, pods) in &mut self.pods {
            if of.is_none_or(|of| NAMESPACES[of] == namespace) {
                for (name, pod) in pods.extract_if(.., |_, pod| !pod.is_marked) {
                    swept.went += 1;
                    if let State::Live(containers, _) = &pod.state {
                        let shown = (namespace.clone(), name, pod.created_at, digests(containers));
                        departs.insert((shown, Some(pod.since)));
                    }
                }
            }
        }
        self.open.remove(&of);
        self.listed.insert(of);
        self.nameless.insert(of, self.nameless_here.remove(&of).unwrap_or_default());
        (departs, swept)
    }

    /// The artifacts of an environment, by `namespace/name`.
    fn artifacts(&self, selection: &Selection) -> Vec<Shown> {
        let mut artifacts = BTreeMap::new();
        for (namespace, pods) in self.pods.iter().filter(|(namespace, _)| selection.takes(namespace)) {
            for (name, pod) in pods {
                if let State::Live(containers, _) = &pod.state {
                    let shown = (namespace.clone(), name.clone(), pod.created_at, digests(containers));
                    artifacts.insert(format!("{namespace}/{name}"), shown);
                }
            }
        }
        artifacts.into_values().collect()
    }

    fn tally(&self, selection: &Selection) -> Tally {
        let mut tally = Tally::default();
        let taken = self.pods.iter().filter(|(namespace, _)| selection.takes(namespace));
        for pod in taken.flat_map(|(_, pods)| pods.values()) {
            tally.pods += 1;
            match &pod.state {
                State::Live(containers, waiting) | State::Timeless(containers, waiting) => {
                    match pod.state {
                        State::Live(..) => tally.artifacts += 1,
                        _ => *tally.skipped_pods.entry(PodSkip::Unreadable).or_default() += 1,
                    }
                    tally.config_digests += containers.len() as u64;
                    if *waiting > 0 {
                        *tally.skipped_containers.entry(ContainerSkip::NotStarted).or_default() +=
                            *waiting as u64;
                    }
                }
                State::Out(why) => *tally.skipped_pods.entry(*why).or_default() += 1,
            }
        }
        tally
    }
}

fn shown(artifact: &Artifact) -> Shown {
    let of = |digests: &Digests| digests.iter().map(|(name, d)| (name.to_owned(), d.bytes()[0])).collect();
    (
        artifact.namespace.to_string(),
        artifact.pod_name.to_string(),
        artifact.created_at,
        of(&artifact.workload.digests),
    )
}

fn artifacts(snapshot: &Snapshot) -> Vec<Shown> {
    snapshot.iter().map(|artifact| shown(&artifact.to_artifact())).collect()
}

fn pod() -> impl Strategy<Value = Pod> {
    let containers = proptest::collection::btree_map(0_u8..3, proptest::option::weighted(0.7, 1_u8..4), 0..3);
    (
        0..NAMESPACES.len(),
        "[a-c][.-]?[a-c]?",
        proptest::option::weighted(0.8, 0_u8..3),
        0_i64..3,
        0..4,
        containers,
    )
        .prop_map(|(namespace, name, uid, created_at, phase, containers)| Pod {
            namespace,
            name,
            uid,
            // A creation time is seldom missing.
            created_at: Some(created_at + 1).filter(|t| *t < 3 || uid == Some(0)),
            has_ended: phase == 0,
            containers,
        })
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![2 => Just(None), 1 => (0..NAMESPACES.len() - 1).prop_map(Some)]
}

fn step() -> impl Strategy<Value = Step> {
    let pod_in =
        || (scope(), pod()).prop_map(|(of, pod)| (of, Pod { namespace: of.unwrap_or(pod.namespace), ..pod }));
    let name = proptest::option::of((0..NAMESPACES.len(), "[a-c]?"));
    prop_oneof![
        2 => scope().prop_map(Step::Begin),
        16 => pod_in().prop_map(|(of, pod)| Step::Apply(of, pod)),
        5 => pod_in().prop_map(|(of, pod)| Step::Remove(of, pod)),
        2 => (scope(), name).prop_map(|(of, name)| {
            Step::Unreadable(of, name.map(|(namespace, name)| (of.unwrap_or(namespace), name)))
        }),
        2 => scope().prop_map(Step::Complete),
        1 => Just(Step::Snapshot),
    ]
}

/// Whether each departure is as expected; one that the set never held has a revision that no report has.
fn agree(departures: &[Departure], expected: &[(Shown, Option<Revision>)], roster: &Roster) -> bool {
    let latest = (0..3).map(|n| roster.revision(n)).max().unwrap();
    departures.len() == expected.len()
        && departures.iter().zip(expected).all(|(departure, (artifact, since))| {
            shown(&departure.artifact) == *artifact
                && since.map_or(departure.since > latest, |since| since == departure.since)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_the_set_as_a_plain_map_would_have_it(
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let (mut roster, mut plain) = (Roster::new(selections(), Counting::All), Plain::default());
        let name = |of: Scope| of.map(|n| NAMESPACES[n].parse::<NamespaceName>().unwrap());
        let mut taken_before: Vec<(Snapshot, Vec<Shown>)> = Vec::new();
        for step in steps {
            let before: Vec<_> =
                (0..3).map(|n| (roster.revision(n), plain.artifacts(&selections()[n]))).collect();
            match &step {
                Step::Begin(of) => {
                    plain.begin(*of);
                    roster.begin(name(*of).as_ref());
                }
                Step::Apply(of, pod) => {
                    let (departs, differs, is_repeated) = plain.apply(*of, pod);
                    let applied = roster.apply(name(*of).as_ref(), pod.view());
                    prop_assert!(agree(&applied.departures, &departs, &roster), "{applied:?} {departs:?}");
                    prop_assert_eq!(applied.is_repeated, is_repeated);
                    if differs {
                        // A revision is the set's to choose: of each artifact it is the one that moved last.
                        let revision = roster.namespace_revision(NAMESPACES[pod.namespace]).unwrap();
                        let pods = plain.pods.get_mut(NAMESPACES[pod.namespace]).unwrap();
                        pods.get_mut(&pod.name).unwrap().since = revision;
                    }
                }
                Step::Remove(of, pod) => {
                    let departs = plain.remove(*of, pod);
                    let departure = roster.remove(name(*of).as_ref(), &pod.view());
                    prop_assert!(agree(departure.as_slice(), departs.as_slice(), &roster), "{departure:?} {departs:?}");
                }
                Step::Unreadable(of, of_name) => {
                    plain.unreadable(*of, of_name.as_ref());
                    let of_name = of_name.as_ref().map(|(n, name)| (NAMESPACES[*n], name.as_str()));
                    roster.unreadable(name(*of).as_ref(), of_name);
                }
                Step::Complete(of) => {
                    let (departs, swept) = plain.complete(*of);
                    let mut departures = BTreeSet::new();
                    let found = roster.complete(name(*of).as_ref(), |departure| {
                        departures.insert((shown(&departure.artifact), Some(departure.since)));
                    });
                    prop_assert_eq!((departures, found), (departs, swept));
                    prop_assert_eq!(roster.is_listed(name(*of).as_ref()), plain.listed.contains(of));
                }
                Step::Snapshot => {
                    taken_before.extend((0..3).map(|n| {
                        (roster.snapshot(n, vec![]), plain.artifacts(&selections()[n]))
                    }));
                }
            }
            for (n, (revision, was)) in before.into_iter().enumerate() {
                let selection = &selections()[n];
                let (snapshot, is) = (roster.snapshot(n, vec![]), plain.artifacts(selection));
                prop_assert_eq!(&artifacts(&snapshot), &is);
                prop_assert_eq!(snapshot.len(), is.len());
                prop_assert!(roster.revision(n) >= revision);
                prop_assert_eq!(roster.revision(n) > revision, was != is, "{:?}", step);
                let mut tally = plain.tally(selection);
                tally.add_unreadable(
                    plain.nameless.values().flatten().filter(|n| selection.takes(NAMESPACES[**n])).count() as u64,
                );
                prop_assert_eq!(roster.tally(n), tally);
            }
        }
        for (snapshot, then) in taken_before {
            prop_assert_eq!(artifacts(&snapshot), then);
        }
    }

    #[test]
    fn the_same_pods_in_any_order_give_the_same_bytes(
        (in_order, shuffled) in proptest::collection::btree_set(("[ab-]{1,3}", "[a-c.-]{1,3}"), 0..12)
            .prop_map(|set| set.into_iter().collect::<Vec<_>>())
            .prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
    ) {
        let report = |pods: &[(String, String)]| {
            let mut roster = Roster::new(vec![Selection::default()], Counting::All);
            for (namespace, name) in pods {
                let containers = [(0, Some(1))].into();
                let pod = Pod {
                    namespace: 0, name: name.clone(), uid: None, created_at: Some(1), has_ended: false, containers,
                };
                roster.apply(None, PodView { namespace: namespace.clone(), ..pod.view() });
            }
            Report::new(roster.snapshot(0, vec![]))
        };
        let (one, other) = (report(&in_order), report(&shuffled));
        prop_assert_eq!(one.hash(), other.hash());
        prop_assert_eq!(one.chunks().flatten().collect::<Vec<_>>(), other.chunks().flatten().collect::<Vec<_>>());
    }

    /// Blocks that split, shrink and merge, under snapshots.
    #[test]
    fn a_large_namespace_stays_in_order_however_its_pods_come_and_go(
        steps in proptest::collection::vec((0..4_usize, 0..2_000_u32, 1..400_usize), 0..12),
    ) {
        let mut roster = Roster::new(vec![Selection::default()], Counting::All);
        let mut plain = BTreeSet::new();
        let mut kept = Vec::new();
        let pod = |n: u32| Pod {
            namespace: 0,
            name: format!("{:04}", n * 7_919 % 2_000),
            uid: None,
            created_at: Some(1),
            has_ended: false,
            containers: [(0, Some(1))].into(),
        };
        for (kind, start, count) in steps {
            let numbers = || (start..).take(count);
            match kind {
                0 | 1 => for pod in numbers().map(pod) {
                    roster.apply(None, pod.view());
                    plain.insert(pod.name);
                },
                2 => for pod in numbers().map(pod) {
                    roster.remove(None, &pod.view());
                    plain.remove(&pod.name);
                },
                _ => {
                    roster.begin(None);
                    let stays: BTreeSet<_> = plain.iter().filter(|n| n.ends_with(['1', '3', '9'])).cloned().collect();
                    for name in &stays {
                        roster.apply(None, Pod { name: name.clone(), ..pod(0) }.view());
                    }
                    let went = roster.complete(None, drop).went;
                    prop_assert_eq!(went as usize, plain.len() - stays.len());
                    plain = stays;
                }
            }
            kept.push((roster.snapshot(0, vec![]), plain.clone()));
            let lengths: Vec<_> = roster.namespaces.iter().flat_map(|n| n.pods.lengths()).collect();
            prop_assert!(lengths.iter().all(|n| (1..=256).contains(n)), "{:?}", lengths);
            prop_assert!(lengths.windows(2).all(|two| two[0] + two[1] >= 64), "{:?}", lengths);
        }
        for (snapshot, names) in kept {
            prop_assert!(snapshot.iter().map(|a| a.pod_name).eq(names.iter().map(String::as_str)));
        }
    }
}
