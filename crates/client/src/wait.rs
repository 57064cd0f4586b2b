//! The state of `supercargo wait`: which artifacts are missing, and when to query again.
//!
//! Called by `cli::pipeline::wait` with each response or error. Pure.

use std::fmt;
use std::time::Duration;

use model::escape::Escaped;
use model::retry::Backoff;
use model::{EnvironmentName, Fingerprint, Timestamp};

/// The awaited condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Each artifact runs in each named environment, or in any environment if none is named.
    Live,
    /// The artifacts run in none of the named environments, or in no environment at all.
    Gone,
}

/// An artifact in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningArtifact<'a> {
    /// The artifact's digest; `None` if the response has none, so that any artifact may be meant.
    pub fingerprint: Option<Fingerprint>,
    /// The environment; `None` if the response has none, so that any environment may be meant.
    pub environment: Option<&'a str>,
    /// The environment is silent: its current artifacts are unknown.
    pub is_silent: bool,
    /// Time of the last report, if the response has one.
    pub last_report: Option<Timestamp>,
}

/// A wait in progress.
#[derive(Debug)]
pub struct ArtifactWait {
    until: Until,
    wanted: Vec<Fingerprint>,
    environments: Vec<EnvironmentName>,
    /// Consecutive failed queries.
    failures: usize,
    missing: Option<Vec<UnmetArtifact>>,
    was_missing: bool,
}

impl ArtifactWait {
    /// Starts a wait. Without environments, all environments count.
    #[must_use]
    pub fn new(until: Until, wanted: Vec<Fingerprint>, environments: Vec<EnvironmentName>) -> Self {
        Self { until, wanted, environments, failures: 0, missing: None, was_missing: false }
    }

    /// Records the running artifacts. Returns whether the missing ones changed.
    pub fn update(&mut self, running: &[RunningArtifact<'_>]) -> bool {
        let now = missing(self.until, &self.wanted, &self.environments, running);
        let has_changed = self.missing.as_ref() != Some(&now);
        self.was_missing |= !now.is_empty();
        self.failures = 0;
        self.missing = Some(now);
        has_changed
    }

    /// Records a failed query. Returns the delay until the next one: at least `interval`, or the value of Retry-After.
    pub fn retry_delay(&mut self, interval: Duration, seed: u64, retry_after: Option<Duration>) -> Duration {
        let backoff = Backoff::default();
        let delay = backoff.delays(seed).nth(self.failures).unwrap_or(backoff.max);
        self.failures += 1;
        backoff.with_retry_after(delay.max(interval), retry_after)
    }

    /// The missing artifacts; `None` before the first response.
    #[must_use]
    pub fn missing(&self) -> Option<&[UnmetArtifact]> {
        self.missing.as_deref()
    }

    /// Whether the condition is met.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.as_ref().is_some_and(Vec::is_empty)
    }

    /// The outcome of a complete wait. An artifact that never ran is not called gone.
    #[must_use]
    pub fn summary(&self) -> String {
        let (artifacts, verb) = match self.wanted.len() {
            1 => ("1 artifact".to_owned(), ("runs", "does not run")),
            several => (format!("{several} artifacts"), ("run", "do not run")),
        };
        let between = if self.until == Until::Live { " and " } else { " or " };
        let names: Vec<_> = self.environments.iter().map(|name| Escaped(name.as_str()).to_string()).collect();
        let within = if names.is_empty() { String::new() } else { format!(" in {}", names.join(between)) };
        match (self.until, self.was_missing) {
            (Until::Live, _) => format!("{artifacts} {}{within}", verb.0),
            (Until::Gone, true) => format!("{artifacts} no longer {}{within}", verb.0),
            (Until::Gone, false) => format!("{artifacts} {}{within}, and did not at the first query", verb.1),
        }
    }
}

/// A reason why the condition is not met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnmetArtifact {
    /// The artifact does not run in the environment, or in any environment.
    NotLive(Fingerprint, Option<EnvironmentName>),
    /// The artifact ran at the last report, but the environment is silent.
    Silent(Fingerprint, String, Option<Timestamp>),
    /// The artifact still runs.
    Live(Fingerprint, String),
    /// An artifact without a digest runs.
    Unknown(String),
}

/// The missing artifacts: in the requested order for [`Until::Live`], sorted for [`Until::Gone`].
fn missing(
    until: Until,
    wanted: &[Fingerprint],
    environments: &[EnvironmentName],
    running: &[RunningArtifact<'_>],
) -> Vec<UnmetArtifact> {
    // An environment that is not silent takes precedence.
    let lacks = |fingerprint: Fingerprint, environment: Option<&EnvironmentName>| {
        let mut there = running.iter().filter(|running| {
            running.fingerprint == Some(fingerprint)
                && environment.is_none_or(|environment| running.environment == Some(environment.as_str()))
        });
        match there.clone().find(|running| running.is_silent) {
            _ if there.any(|running| !running.is_silent) => None,
            Some(silent) => Some(UnmetArtifact::Silent(fingerprint, name(silent), silent.last_report)),
            None => Some(UnmetArtifact::NotLive(fingerprint, environment.cloned())),
        }
    };
    let mut missing = Vec::new();
    match until {
        Until::Live if environments.is_empty() => {
            missing.extend(wanted.iter().filter_map(|fingerprint| lacks(*fingerprint, None)));
        }
        Until::Live => {
            for fingerprint in wanted {
                missing.extend(environments.iter().filter_map(|name| lacks(*fingerprint, Some(name))));
            }
        }
        Until::Gone => {
            let is_named = |there: &str| environments.iter().any(|name| name.as_str() == there);
            let concerned = running
                .iter()
                .filter(|running| environments.is_empty() || running.environment.is_none_or(is_named));
            for running in concerned {
                match running.fingerprint {
                    Some(fingerprint) if wanted.contains(&fingerprint) => {
                        missing.push(UnmetArtifact::Live(fingerprint, name(running)));
                    }
                    Some(_) => {}
                    None => missing.push(UnmetArtifact::Unknown(name(running))),
                }
            }
            missing.sort();
            missing.dedup();
        }
    }
    missing
}

fn name(running: &RunningArtifact<'_>) -> String {
    running.environment.unwrap_or("an unnamed environment").to_owned()
}

/// Displayed digits of a digest, as in tables.
const DISPLAYED_DIGITS: usize = 12;

impl fmt::Display for UnmetArtifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |fingerprint: &Fingerprint| -> String {
            fingerprint.to_string().chars().take(DISPLAYED_DIGITS).collect()
        };
        match self {
            Self::NotLive(artifact, None) => write!(f, "{} runs nowhere", short(artifact)),
            Self::NotLive(artifact, Some(environment)) => {
                write!(f, "{} does not run in {}", short(artifact), Escaped(environment.as_str()))
            }
            Self::Silent(artifact, environment, _) => {
                let environment = Escaped(environment);
                write!(f, "{} ran in {environment} at its last report, which is too old", short(artifact))
            }
            Self::Live(artifact, environment) => {
                write!(f, "{} still runs in {}", short(artifact), Escaped(environment))
            }
            Self::Unknown(environment) => {
                write!(f, "an artifact without a digest runs in {}", Escaped(environment))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_artifacts_are_listed_per_environment() {
        use Until::{Gone, Live};
        let digest = |n: u8| Fingerprint::from([n; 32]);
        let environment = |name: &str| name.parse::<EnvironmentName>().unwrap();
        let (prod, dev) = (environment("prod"), environment("dev"));
        let running = [(Some(1), "prod"), (Some(2), "prod"), (Some(1), "dev"), (None, "odd")].map(
            |(n, environment)| RunningArtifact {
                fingerprint: n.map(digest),
                environment: Some(environment),
                is_silent: false,
                last_report: None,
            },
        );
        let (running, odd) = running.split_at(3);
        let not = |n, environment: Option<&EnvironmentName>| {
            UnmetArtifact::NotLive(digest(n), environment.cloned())
        };
        let still = |n, environment: &str| UnmetArtifact::Live(digest(n), environment.to_owned());
        for (until, wanted, environments, expected) in [
            (Live, vec![1], vec![], vec![]),
            (Live, vec![1, 3], vec![], vec![not(3, None)]),
            (Live, vec![1], vec![&prod, &dev], vec![]),
            (
                Live,
                vec![3, 2],
                vec![&dev, &prod],
                vec![not(3, Some(&dev)), not(3, Some(&prod)), not(2, Some(&dev))],
            ),
            (Gone, vec![3], vec![], vec![]),
            (Gone, vec![2], vec![], vec![still(2, "prod")]),
            (Gone, vec![2], vec![&dev], vec![]),
            (Gone, vec![1, 2], vec![&prod, &dev], vec![still(1, "dev"), still(1, "prod"), still(2, "prod")]),
        ] {
            let digests: Vec<_> = wanted.iter().copied().map(digest).collect();
            let names: Vec<_> = environments.iter().map(|name| (*name).clone()).collect();
            assert_eq!(missing(until, &digests, &names, running), expected, "{until:?} {wanted:?} {names:?}");
        }
        // An artifact without a digest, or without an environment, may be any.
        assert_eq!(missing(Gone, &[digest(1)], &[], odd), [UnmetArtifact::Unknown("odd".to_owned())]);
        assert_eq!(missing(Gone, &[digest(1)], &[prod], odd), []);
        assert_eq!(missing(Live, &[digest(1)], &[], odd), [not(1, None)]);
        let somewhere = [RunningArtifact {
            fingerprint: Some(digest(1)),
            environment: None,
            is_silent: false,
            last_report: None,
        }];
        let prod = [environment("prod")];
        assert_eq!(missing(Live, &[digest(1)], &prod, &somewhere), [not(1, Some(&prod[0]))]);
        assert_eq!(missing(Gone, &[digest(1)], &prod, &somewhere), [still(1, "an unnamed environment")]);
    }

    #[test]
    fn artifact_in_a_silent_environment_does_not_count_as_running() {
        let (one, prod): (_, EnvironmentName) = (Fingerprint::from([1; 32]), "prod".parse().unwrap());
        let running = |environment, is_silent| RunningArtifact {
            fingerprint: Some(one),
            environment: Some(environment),
            is_silent,
            last_report: None,
        };
        let silent = [UnmetArtifact::Silent(one, "prod".to_owned(), None)];
        assert_eq!(
            missing(Until::Live, &[one], std::slice::from_ref(&prod), &[running("prod", true)]),
            silent
        );
        assert_eq!(missing(Until::Live, &[one], &[], &[running("prod", true)]), silent);
        assert_eq!(missing(Until::Live, &[one], &[], &[running("prod", true), running("dev", false)]), []);
        let still = [UnmetArtifact::Live(one, "prod".to_owned())];
        assert_eq!(missing(Until::Gone, &[one], &[], &[running("prod", true)]), still);
    }

    fn wait_until(until: Until) -> ArtifactWait {
        ArtifactWait::new(until, vec![Fingerprint::from([1; 32])], Vec::new())
    }

    const RUNNING: [RunningArtifact<'_>; 1] = [RunningArtifact {
        fingerprint: None,
        environment: Some("prod"),
        is_silent: false,
        last_report: None,
    }];

    #[test]
    fn failed_query_is_retried_with_backoff() {
        let (mut waiting, interval) = (wait_until(Until::Live), Duration::from_secs(5));
        let delays: Vec<_> = (0..8).map(|_| waiting.retry_delay(interval, 1, None).as_secs()).collect();
        assert!(delays.iter().all(|delay| *delay >= 5) && delays[7] >= 30, "{delays:?}");
        let hour = Some(Duration::from_hours(1));
        assert_eq!(waiting.retry_delay(interval, 1, hour), Duration::from_mins(5));
        waiting.update(&RUNNING);
        assert_eq!(waiting.retry_delay(interval, 1, None), interval, "after a success");
    }

    #[test]
    fn summary_distinguishes_gone_from_never_running() {
        let mut gone = wait_until(Until::Gone);
        assert!(gone.update(&RUNNING) && !gone.update(&RUNNING) && !gone.is_complete());
        assert!(gone.update(&[]) && gone.is_complete());
        assert_eq!(gone.summary(), "1 artifact no longer runs");
        let mut never = wait_until(Until::Gone);
        never.update(&[]);
        assert_eq!(never.summary(), "1 artifact does not run, and did not at the first query");
    }
}
