//! Composable rules that select the fault of a request.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the fault for a request, if any.
pub type Rule<A, F> = Box<dyn Fn(&A) -> Option<F> + Send + Sync>;

/// A fault that a rule returns.
pub trait Fault: Clone + Send + Sync + 'static {}

impl<F: Clone + Send + Sync + 'static> Fault for F {}

/// Every request.
pub fn always<A, F: Fault>(fault: F) -> Rule<A, F> {
    Box::new(move |_| Some(fault.clone()))
}

/// Each `n`th request.
pub fn every_nth<A, F: Fault>(n: usize, fault: F) -> Rule<A, F> {
    let count = AtomicUsize::new(0);
    Box::new(move |_| (count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(n).then(|| fault.clone()))
}

/// The first `n` requests.
pub fn first_n<A, F: Fault>(n: usize, fault: F) -> Rule<A, F> {
    let count = AtomicUsize::new(0);
    Box::new(move |_| (count.fetch_add(1, Ordering::Relaxed) < n).then(|| fault.clone()))
}

/// A percentage of requests, the same ones in every run.
pub fn percent<A, F: Fault>(share: usize, fault: F) -> Rule<A, F> {
    let count = AtomicUsize::new(0);
    Box::new(move |_| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        // A multiplicative hash: Knuth, The Art of Computer Programming, volume 3, section 6.4.
        let hash = (n.wrapping_mul(2_654_435_761) >> 7) % 100;
        (hash < share).then(|| fault.clone())
    })
}

/// Applies a rule only to matching requests.
pub fn on<A: 'static, F: Fault>(
    matches: impl Fn(&A) -> bool + Send + Sync + 'static,
    rule: Rule<A, F>,
) -> Rule<A, F> {
    Box::new(move |request| if matches(request) { rule(request) } else { None })
}

#[test]
fn percentage_is_approximate_and_rules_count_only_matching_requests() {
    let rule: Rule<u32, ()> = percent(30, ());
    let share = (0..1000).filter(|n| rule(n).is_some()).count();
    assert!((250..350).contains(&share), "{share}");
    let rule: Rule<u32, ()> = on(|n| n % 2 == 0, every_nth(3, ()));
    assert_eq!((0..20).filter(|n| rule(n).is_some()).collect::<Vec<_>>(), [4, 10, 16]);
}
