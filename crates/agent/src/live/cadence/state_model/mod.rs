//! Model checker of the cadence: explores every short sequence of [`WorldEvent`]s of one environment, its watch,
//! its service and its shutdown.
//!
//! After each event the model carries out the steps of the cadence, as the task in `agent` does, and asserts
//! the invariants against its own record of the live set and the service.

mod world;

use world::WorldEvent::*;
use world::{EVENTS, World, WorldEvent};

use super::*;

/// Coverage of an exploration.
#[derive(Debug, Default)]
struct Walk {
    paths: usize,
    /// Reports in flight, by `SendReason`.
    in_flight: [usize; 7],
    stale: usize,
    stopped: usize,
}

impl Walk {
    /// Explores every path of `depth` further events and asserts that each converges. The events that
    /// lead to convergence are explored too, so shorter paths need no check.
    fn explore(&mut self, world: World, depth: usize, events: &[WorldEvent]) {
        if let Some((draft, ..)) = &world.flight {
            self.in_flight[draft.reason as usize] += 1;
        }
        self.stale +=
            usize::from(matches!(world.step, Step::Withhold { reason: WithholdReason::Stale { .. } }));
        if depth == 0 || world.step == Step::Stop {
            self.paths += 1;
            self.stopped += usize::from(world.step == Step::Stop);
            world.assert_converges();
            return;
        }
        for event in events.iter().filter(|event| world.is_possible(**event)) {
            let mut next = world.clone();
            next.apply(*event);
            self.explore(next, depth - 1, events);
        }
    }
}

fn explore(from: World, depth: usize, events: &[WorldEvent]) -> Walk {
    let mut walk = Walk::default();
    walk.explore(from, depth, events);
    walk
}

fn after(events: &[WorldEvent]) -> World {
    let mut world = World::new();
    for event in events {
        world.apply(*event);
    }
    world
}

/// An environment whose first report was accepted.
fn reporting() -> World {
    after(&[CompleteList, Confirm, Accept])
}

#[test]
fn invariants_hold_from_the_first_list() {
    let walk = explore(World::new(), 6, &EVENTS);
    assert!(walk.paths > 20_000 && walk.stopped > 1_000, "{walk:?}");
}

#[test]
fn invariants_hold_for_a_reporting_environment() {
    let walk = explore(reporting(), 5, &EVENTS);
    assert!(walk.paths > 20_000 && walk.stopped > 1_000, "{walk:?}");
}

#[test]
fn invariants_hold_for_changes_and_upload_results() {
    let events =
        [StartPod, DeleteOldest, ChangeAndUndo, Accept, AcceptWithoutResponse, FailTransiently, PassUntilDue];
    let walk = explore(reporting(), 7, &events);
    assert!(walk.paths > 40_000, "{walk:?}");
    for reason in [SendReason::Change, SendReason::Heartbeat, SendReason::Retry, SendReason::FollowUp] {
        assert!(walk.in_flight[reason as usize] > 100, "{reason:?}: {walk:?}");
    }
}

#[test]
fn invariants_hold_without_departed_pods() {
    let events =
        [StartPod, DeleteNewest, Accept, AcceptWithoutResponse, FailTransiently, PassUntilDue, ShutDown];
    let mut without = reporting();
    without.reports_departed_pods = false;
    let walk = explore(without, 6, &events);
    assert!(walk.paths > 2_000 && walk.in_flight[SendReason::FollowUp as usize] == 0, "{walk:?}");
}

#[test]
fn invariants_hold_for_report_with_departed_pods_in_flight() {
    let in_flight = after(&[CompleteList, Confirm, Accept, StartPod, DeleteOldest, PassUntilDue]);
    let walk = explore(in_flight, 4, &EVENTS);
    assert!(walk.paths > 5_000 && walk.in_flight[SendReason::FollowUp as usize] > 30, "{walk:?}");
}

#[test]
fn invariants_hold_for_failures_at_shutdown() {
    let departed = after(&[CompleteList, Confirm, Accept, StartPod, DeleteNewest, ShutDown]);
    let events = [Accept, AcceptWithoutResponse, FailTransiently, FailPermanently, PassSecond, PassUntilDue];
    let walk = explore(departed, 9, &events);
    assert!(walk.paths > 5_000 && walk.in_flight[SendReason::Shutdown as usize] > 2_000, "{walk:?}");
    assert!(walk.in_flight[SendReason::FollowUp as usize] > 500, "{walk:?}");
}

#[test]
fn invariants_hold_for_lost_contact_and_shutdown() {
    let events =
        [StartPod, DeleteOldest, Accept, FailTransiently, PassUntilDue, LoseContact, RegainContact, ShutDown];
    let walk = explore(reporting(), 7, &events);
    assert!(walk.paths > 20_000 && walk.stale > 100, "{walk:?}");
    assert!(walk.stopped > 1_000 && walk.in_flight[SendReason::Shutdown as usize] > 100, "{walk:?}");
}
