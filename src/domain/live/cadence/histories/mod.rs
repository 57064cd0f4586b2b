//! Every short history of one environment, its watch, its service and its end: what must hold in all of
//! them. A history is a path of [`Event`]s; after each one the model does what the cadence says, as the
//! task in `agent` would, and compares with what it knows of the live set and of the service.

mod world;

use world::Event::*;
use world::{EVENTS, Event, World};

use super::*;

/// How many paths were walked, and what was met on them.
#[derive(Debug, Default)]
struct Walk {
    paths: usize,
    /// By what they were sent for.
    in_flight: [usize; 7],
    stale: usize,
    stopped: usize,
}

impl Walk {
    /// Walks every path of so many more events, each to its rest. A shorter path needs no rest of its
    /// own: the events that lead there are among those that are walked.
    fn on(&mut self, world: World, depth: usize, events: &[Event]) {
        if let Some((draft, ..)) = &world.flight {
            self.in_flight[draft.why as usize] += 1;
        }
        self.stale += usize::from(matches!(world.step, Step::Withhold { why: Withheld::Stale { .. } }));
        if depth == 0 || world.step == Step::Stop {
            self.paths += 1;
            self.stopped += usize::from(world.step == Step::Stop);
            world.comes_to_rest();
            return;
        }
        for event in events.iter().filter(|event| world.is_possible(**event)) {
            let mut next = world.clone();
            next.happens(*event);
            self.on(next, depth - 1, events);
        }
    }
}

fn walked(from: World, depth: usize, events: &[Event]) -> Walk {
    let mut walk = Walk::default();
    walk.on(from, depth, events);
    walk
}

fn after(events: &[Event]) -> World {
    let mut world = World::new();
    for event in events {
        world.happens(*event);
    }
    world
}

/// An environment whose first report was accepted.
fn reporting() -> World {
    after(&[Listed, Confirmed, Accepts])
}

#[test]
fn every_history_from_the_first_list_on() {
    let walk = walked(World::new(), 6, &EVENTS);
    assert!(walk.paths > 20_000 && walk.stopped > 1_000, "{walk:?}");
}

#[test]
fn every_history_of_an_environment_that_reports() {
    let walk = walked(reporting(), 5, &EVENTS);
    assert!(walk.paths > 20_000 && walk.stopped > 1_000, "{walk:?}");
}

#[test]
fn every_history_of_changes_and_answers() {
    let events = [Starts, Leaves, Flickers, Accepts, AcceptsUnheard, FailsPassing, Deadline];
    let walk = walked(reporting(), 7, &events);
    assert!(walk.paths > 40_000, "{walk:?}");
    for why in [Why::Change, Why::Heartbeat, Why::Retry, Why::FollowUp] {
        assert!(walk.in_flight[why as usize] > 100, "{why:?}: {walk:?}");
    }
}

#[test]
fn every_history_without_a_witness() {
    let events = [Starts, NewestLeaves, Accepts, AcceptsUnheard, FailsPassing, Deadline, ShutsDown];
    let mut without = reporting();
    without.is_witnessing = false;
    let walk = walked(without, 6, &events);
    assert!(walk.paths > 2_000 && walk.in_flight[Why::FollowUp as usize] == 0, "{walk:?}");
}

#[test]
fn every_history_of_a_report_that_carries_who_left() {
    let in_flight = after(&[Listed, Confirmed, Accepts, Starts, Leaves, Deadline]);
    let walk = walked(in_flight, 4, &EVENTS);
    assert!(walk.paths > 5_000 && walk.in_flight[Why::FollowUp as usize] > 30, "{walk:?}");
}

#[test]
fn every_history_of_failures_at_shutdown() {
    let departed = after(&[Listed, Confirmed, Accepts, Starts, NewestLeaves, ShutsDown]);
    let events = [Accepts, AcceptsUnheard, FailsPassing, FailsLasting, Second, Deadline];
    let walk = walked(departed, 9, &events);
    assert!(walk.paths > 5_000 && walk.in_flight[Why::LastWord as usize] > 2_000, "{walk:?}");
    assert!(walk.in_flight[Why::FollowUp as usize] > 500, "{walk:?}");
}

#[test]
fn every_history_of_a_watch_that_fails_and_an_agent_that_ends() {
    let events = [Starts, Leaves, Accepts, FailsPassing, Deadline, LosesContact, RegainsContact, ShutsDown];
    let walk = walked(reporting(), 7, &events);
    assert!(walk.paths > 20_000 && walk.stale > 100, "{walk:?}");
    assert!(walk.stopped > 1_000 && walk.in_flight[Why::LastWord as usize] > 100, "{walk:?}");
}
