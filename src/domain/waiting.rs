//! What `wait` waits for, and what is missing yet.
//!
//! Pure: what was asked for and what runs in, what is missing out.

use std::fmt;

use super::model::{EnvironmentName, Fingerprint};
use super::visible::Visible;

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
    /// The environment.
    pub environment: &'a str,
}

/// What keeps the wait from its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// It does not run there yet, or, without an environment, anywhere.
    NotLive(Fingerprint, Option<EnvironmentName>),
    /// It runs there still.
    Live(Fingerprint, String),
    /// Something runs there whose digest is not said.
    Unknown(String),
}

/// What is missing, in the order in which it was asked for.
#[must_use]
pub fn missing(
    until: Until,
    wanted: &[Fingerprint],
    environments: &[EnvironmentName],
    running: &[Running<'_>],
) -> Vec<Missing> {
    let runs = |fingerprint: Fingerprint, environment: Option<&EnvironmentName>| {
        running.iter().any(|running| {
            running.fingerprint == Some(fingerprint)
                && environment.is_none_or(|environment| environment.as_str() == running.environment)
        })
    };
    let mut missing = Vec::new();
    match until {
        Until::Live if environments.is_empty() => {
            let absent = wanted.iter().filter(|fingerprint| !runs(**fingerprint, None));
            missing.extend(absent.map(|fingerprint| Missing::NotLive(*fingerprint, None)));
        }
        Until::Live => {
            for fingerprint in wanted {
                let absent = environments.iter().filter(|environment| !runs(*fingerprint, Some(environment)));
                missing.extend(absent.map(|name| Missing::NotLive(*fingerprint, Some(name.clone()))));
            }
        }
        Until::Gone => {
            let concerned = running.iter().filter(|running| {
                environments.is_empty()
                    || environments.iter().any(|name| name.as_str() == running.environment)
            });
            for Running { fingerprint, environment } in concerned {
                match fingerprint {
                    Some(fingerprint) if wanted.contains(fingerprint) => {
                        missing.push(Missing::Live(*fingerprint, (*environment).to_owned()));
                    }
                    Some(_) => {}
                    None => missing.push(Missing::Unknown((*environment).to_owned())),
                }
            }
            missing.sort();
            missing.dedup();
        }
    }
    missing
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLive(fingerprint, None) => write!(f, "{fingerprint} runs nowhere"),
            Self::NotLive(fingerprint, Some(environment)) => {
                write!(f, "{fingerprint} does not run in {}", Visible(environment.as_str()))
            }
            Self::Live(fingerprint, environment) => {
                write!(f, "{fingerprint} still runs in {}", Visible(environment))
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
        let running = [(Some(1), "prod"), (Some(2), "prod"), (Some(1), "dev"), (None, "odd")]
            .map(|(n, environment)| Running { fingerprint: n.map(digest), environment });
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
    }
}
