//! What `wait` waits for, what is missing yet, and when to ask again.
//!
//! Pure: what was asked for and what came back in, what is missing and what to do next out.

use std::fmt;
use std::time::Duration;

use super::escape::Visible;
use super::model::{EnvironmentName, Fingerprint, Timestamp};
use super::retry::Backoff;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Each artifact runs: in each environment that is named, or in any.
    Live,
    /// None of them runs: in no environment that is named, or nowhere.
    Gone,
}

/// An artifact that runs in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running<'a> {
    /// Its digest; `None` where the service does not say, so that it may be any.
    pub fingerprint: Option<Fingerprint>,
    /// The environment; `None` where the service does not say, so that it may be any.
    pub environment: Option<&'a str>,
    /// Nobody has reported the environment for so long that nobody knows what runs there now.
    pub is_silent: bool,
    /// When it was last reported, where the service says so.
    pub last_report: Option<Timestamp>,
}

/// Why an answer was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// It may go better later.
    ForTheMoment,
    /// The service knows nothing of the repository, or what answered is no such service.
    Unknown,
    /// It will not go better.
    ForGood,
}

/// A wait that is under way.
#[derive(Debug)]
pub struct Waiting {
    until: Until,
    wanted: Vec<Fingerprint>,
    environments: Vec<EnvironmentName>,
    every: Duration,
    backoff: Backoff,
    /// How often in a row there was no answer.
    failures: usize,
    missing: Option<Vec<Missing>>,
    was_missing: bool,
    seed: u64,
}

impl Waiting {
    /// Waits for these artifacts, in these environments or in any, and asks this often.
    #[must_use]
    pub fn new(
        until: Until,
        wanted: Vec<Fingerprint>,
        environments: Vec<EnvironmentName>,
        every: Duration,
        seed: u64,
    ) -> Self {
        let backoff = Backoff::default();
        let (failures, missing, was_missing) = (0, None, false);
        Self { until, wanted, environments, every, backoff, failures, missing, was_missing, seed }
    }

    /// Takes note of what runs. Whether what is missing is another than before.
    pub fn answered(&mut self, running: &[Running<'_>]) -> bool {
        let now = missing(self.until, &self.wanted, &self.environments, running);
        let has_changed = self.missing.as_ref() != Some(&now);
        self.was_missing |= !now.is_empty();
        self.failures = 0;
        self.missing = Some(now);
        has_changed
    }

    /// After how long it is asked again where an answer was none; `None` for never. A service that has
    /// answered, and then knows nothing of the repository, is one that is being restarted.
    pub fn failed(&mut self, failed: Failed, asked: Option<Duration>) -> Option<Duration> {
        if failed == Failed::ForGood || failed == Failed::Unknown && self.missing.is_none() {
            return None;
        }
        let delay = self.backoff.delays(self.seed).nth(self.failures).unwrap_or(self.backoff.most);
        self.failures += 1;
        Some(self.backoff.at_least(delay.max(self.every), asked))
    }

    /// What is missing, as far as that is known.
    #[must_use]
    pub fn missing(&self) -> Option<&[Missing]> {
        self.missing.as_deref()
    }

    /// Nothing is missing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.missing.as_ref().is_some_and(Vec::is_empty)
    }

    /// What came of it, once it is over. What never ran there is not said to have gone.
    #[must_use]
    pub fn came(&self) -> String {
        let (artifacts, verb) = match self.wanted.len() {
            1 => ("1 artifact".to_owned(), ("runs", "does not run")),
            several => (format!("{several} artifacts"), ("run", "do not run")),
        };
        let between = if self.until == Until::Live { " and " } else { " or " };
        let names: Vec<_> = self.environments.iter().map(|name| Visible(name.as_str()).to_string()).collect();
        let within = if names.is_empty() { String::new() } else { format!(" in {}", names.join(between)) };
        match (self.until, self.was_missing) {
            (Until::Live, _) => format!("{artifacts} {}{within}", verb.0),
            (Until::Gone, true) => format!("{artifacts} no longer {}{within}", verb.0),
            (Until::Gone, false) => format!("{artifacts} {}{within}, and did not when first asked", verb.1),
        }
    }
}

/// What keeps the wait from its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// It does not run there yet, or, without an environment, anywhere.
    NotLive(Fingerprint, Option<EnvironmentName>),
    /// It ran there when somebody last reported, and nobody has for long.
    Silent(Fingerprint, String, Option<Timestamp>),
    /// It runs there still.
    Live(Fingerprint, String),
    /// Something runs there whose digest is not said.
    Unknown(String),
}

/// What is missing: for what is to run in the order in which it was asked for, else sorted.
fn missing(
    until: Until,
    wanted: &[Fingerprint],
    environments: &[EnvironmentName],
    running: &[Running<'_>],
) -> Vec<Missing> {
    // Where it runs is what matters; where it ran when the environment was last heard of comes second.
    let lacks = |fingerprint: Fingerprint, environment: Option<&EnvironmentName>| {
        let mut there = running.iter().filter(|running| {
            running.fingerprint == Some(fingerprint)
                && environment.is_none_or(|environment| running.environment == Some(environment.as_str()))
        });
        match there.clone().find(|running| running.is_silent) {
            _ if there.any(|running| !running.is_silent) => None,
            Some(silent) => Some(Missing::Silent(fingerprint, name(silent), silent.last_report)),
            None => Some(Missing::NotLive(fingerprint, environment.cloned())),
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
            let is_meant = |there: &str| environments.iter().any(|name| name.as_str() == there);
            let concerned = running
                .iter()
                .filter(|running| environments.is_empty() || running.environment.is_none_or(is_meant));
            for running in concerned {
                match running.fingerprint {
                    Some(fingerprint) if wanted.contains(&fingerprint) => {
                        missing.push(Missing::Live(fingerprint, name(running)));
                    }
                    Some(_) => {}
                    None => missing.push(Missing::Unknown(name(running))),
                }
            }
            missing.sort();
            missing.dedup();
        }
    }
    missing
}

fn name(running: &Running<'_>) -> String {
    running.environment.unwrap_or("an environment that is not named").to_owned()
}

/// How much is shown of a digest, as in tables.
const SHORT_DIGEST: usize = 12;

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |fingerprint: &Fingerprint| -> String {
            fingerprint.to_string().chars().take(SHORT_DIGEST).collect()
        };
        match self {
            Self::NotLive(artifact, None) => write!(f, "{} runs nowhere", short(artifact)),
            Self::NotLive(artifact, Some(environment)) => {
                write!(f, "{} does not run in {}", short(artifact), Visible(environment.as_str()))
            }
            Self::Silent(artifact, environment, _) => {
                let environment = Visible(environment);
                write!(f, "{} ran in {environment}, of which nothing was heard for long", short(artifact))
            }
            Self::Live(artifact, environment) => {
                write!(f, "{} still runs in {}", short(artifact), Visible(environment))
            }
            Self::Unknown(environment) => {
                write!(f, "an artifact whose digest is not said runs in {}", Visible(environment))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_is_waited_for_where_it_is_wanted_and_is_gone_where_it_no_longer_runs() {
        use Until::{Gone, Live};
        let digest = |n: u8| Fingerprint::from([n; 32]);
        let environment = |name: &str| name.parse::<EnvironmentName>().unwrap();
        let (prod, dev) = (environment("prod"), environment("dev"));
        let running = [(Some(1), "prod"), (Some(2), "prod"), (Some(1), "dev"), (None, "odd")].map(
            |(n, environment)| Running {
                fingerprint: n.map(digest),
                environment: Some(environment),
                is_silent: false,
                last_report: None,
            },
        );
        let (running, odd) = running.split_at(3);
        let not =
            |n, environment: Option<&EnvironmentName>| Missing::NotLive(digest(n), environment.cloned());
        let still = |n, environment: &str| Missing::Live(digest(n), environment.to_owned());
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
        // What is not said may be any of them.
        assert_eq!(missing(Gone, &[digest(1)], &[], odd), [Missing::Unknown("odd".to_owned())]);
        assert_eq!(missing(Gone, &[digest(1)], &[prod], odd), []);
        assert_eq!(missing(Live, &[digest(1)], &[], odd), [not(1, None)]);
        let somewhere = [Running {
            fingerprint: Some(digest(1)),
            environment: None,
            is_silent: false,
            last_report: None,
        }];
        let prod = [environment("prod")];
        assert_eq!(missing(Live, &[digest(1)], &prod, &somewhere), [not(1, Some(&prod[0]))]);
        assert_eq!(
            missing(Gone, &[digest(1)], &prod, &somewhere),
            [still(1, "an environment that is not named")]
        );
    }
    #[test]
    fn where_nobody_reports_any_more_nobody_knows_what_runs() {
        let (one, prod): (_, EnvironmentName) = (Fingerprint::from([1; 32]), "prod".parse().unwrap());
        let said = |environment, is_silent| Running {
            fingerprint: Some(one),
            environment: Some(environment),
            is_silent,
            last_report: None,
        };
        let silent = [Missing::Silent(one, "prod".to_owned(), None)];
        assert_eq!(missing(Until::Live, &[one], std::slice::from_ref(&prod), &[said("prod", true)]), silent);
        assert_eq!(missing(Until::Live, &[one], &[], &[said("prod", true)]), silent);
        assert_eq!(missing(Until::Live, &[one], &[], &[said("prod", true), said("dev", false)]), []);
        let still = [Missing::Live(one, "prod".to_owned())];
        assert_eq!(missing(Until::Gone, &[one], &[], &[said("prod", true)]), still);
    }

    fn waiting(until: Until) -> Waiting {
        Waiting::new(until, vec![Fingerprint::from([1; 32])], Vec::new(), Duration::from_secs(5), 1)
    }

    const RUNNING: [Running<'_>; 1] =
        [Running { fingerprint: None, environment: Some("prod"), is_silent: false, last_report: None }];

    #[test]
    fn a_service_that_fails_is_asked_ever_more_slowly_until_it_answers() {
        let mut waiting = waiting(Until::Live);
        assert_eq!(waiting.failed(Failed::ForGood, None), None);
        assert_eq!(waiting.failed(Failed::Unknown, None), None, "it never knew");
        let delays: Vec<_> =
            (0..8).map(|_| waiting.failed(Failed::ForTheMoment, None).unwrap().as_secs()).collect();
        assert!(delays.iter().all(|delay| *delay >= 5) && delays[7] >= 30, "{delays:?}");
        let hour = Some(Duration::from_hours(1));
        assert_eq!(waiting.failed(Failed::ForTheMoment, hour), Some(Duration::from_mins(5)));
        assert!(waiting.answered(&RUNNING));
        assert_eq!(waiting.failed(Failed::Unknown, None), Some(Duration::from_secs(5)), "it is restarted");
        assert_eq!(waiting.failed(Failed::ForGood, None), None);
    }

    #[test]
    fn only_what_ran_is_said_to_have_gone() {
        let mut gone = waiting(Until::Gone);
        assert!(gone.answered(&RUNNING) && !gone.answered(&RUNNING) && !gone.is_over());
        assert!(gone.answered(&[]) && gone.is_over());
        assert_eq!(gone.came(), "1 artifact no longer runs");
        let mut never = waiting(Until::Gone);
        never.answered(&[]);
        assert_eq!(never.came(), "1 artifact does not run, and did not when first asked");
    }
}
