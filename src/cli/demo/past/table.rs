//! What happened in the past that `demo --keep` plays, read from a table that people can read too. Pure.

use std::str::FromStr;

use crate::domain::model::{ApprovalState, Fingerprint};

/// What ran, and what happened.
const TABLE: &str = include_str!("table.txt");

/// All of it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) images: Vec<Image>,
    /// From the first to the last.
    pub(super) moments: Vec<Moment>,
}

/// An image, and how it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) name: &'static str,
    pub(super) namespace: &'static str,
    /// The kind of what owns its pods; `Pod` where nothing does.
    pub(super) kind: &'static str,
    /// The version that ran at first.
    pub(super) version: &'static str,
    /// In so many pods of production, and of staging.
    pub(super) pods: [usize; 2],
    pub(super) origin: Origin,
}

/// Who builds an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The organization: with so many unit tests.
    Ours { tests: u32 },
    /// Others: it is pulled from there, and may run for this reason, if for any.
    Theirs { repository: &'static str, allowed: Option<&'static str> },
}

/// Something that happened.
#[derive(Debug)]
pub(super) struct Moment {
    /// How many minutes before the demo.
    pub(super) before: u64,
    pub(super) what: What,
}

/// What happened.
#[derive(Debug)]
pub(super) enum What {
    /// Tests ran of a version of an image.
    Attested {
        name: &'static str,
        image: &'static str,
        version: &'static str,
        tests: u32,
        failures: Vec<Failure>,
    },
    /// Somebody said whether a version of an image may run in production.
    Approval {
        state: ApprovalState,
        image: &'static str,
        version: &'static str,
        by: &'static str,
        ticket: &'static str,
    },
    /// From then on an environment runs so many pods of a version of an image.
    Run { environment: &'static str, image: &'static str, version: &'static str, pods: usize },
    /// From then on nobody reports an environment.
    Silent(&'static str),
    /// From then on it is reported.
    Heard(&'static str),
    /// From then on the chat takes what it is sent, or does not.
    Chat { is_up: bool },
}

/// A test that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) message: &'static str,
}

impl Table {
    /// The table; `None` where a line of it cannot be read.
    pub(super) fn read() -> Option<Self> {
        let mut table = Self { images: Vec::new(), moments: Vec::new() };
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(' ')? {
                (time, what) if time.contains(':') => {
                    table.moments.push(Moment { before: minutes(time)?, what: moment(what.trim())? });
                }
                _ => table.images.push(image(line)?),
            }
        }
        Some(table)
    }

    /// The image of this name.
    pub(super) fn image(&self, name: &str) -> Option<&Image> {
        self.images.iter().find(|image| image.name == name)
    }
}

impl Image {
    /// A version of it, as pods name it.
    pub(super) fn reference(&self, version: &str) -> String {
        match self.origin {
            Origin::Ours { .. } => format!("registry.example.com/{}/{}:{version}", self.namespace, self.name),
            Origin::Theirs { repository, .. } => format!("{repository}:{version}"),
        }
    }

    /// The digest of a version, which nobody has built.
    pub(super) fn digest(&self, version: &str) -> Fingerprint {
        Fingerprint::of(self.reference(version).as_bytes())
    }

    /// The commit that a version was built from.
    pub(super) fn commit(&self, version: &str) -> String {
        let mut hash = Fingerprint::of(format!("{} {version}", self.name).as_bytes()).to_string();
        hash.truncate(40);
        hash
    }
}

/// Hours and minutes, in minutes.
fn minutes(time: &str) -> Option<u64> {
    let (hours, minutes) = time.split_once(':')?;
    Some(hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?)
}

fn image(line: &'static str) -> Option<Image> {
    let mut words = line.split_whitespace();
    let mut word = || words.next();
    let (name, namespace, kind, version) = (word()?, word()?, word()?, word()?);
    let pods = [word()?.parse().ok()?, word()?.parse().ok()?];
    let last = word()?;
    let theirs = || {
        let (_, reason) = line.split_once(last)?;
        let allowed = Some(reason.trim()).filter(|reason| !reason.is_empty());
        Some(Origin::Theirs { repository: last, allowed })
    };
    let origin = last.parse().map_or_else(|_| theirs(), |tests| Some(Origin::Ours { tests }))?;
    Some(Image { name, namespace, kind, version, pods, origin })
}

fn moment(what: &'static str) -> Option<What> {
    let mut parts = what.split('|').map(str::trim);
    let words: Vec<_> = parts.next()?.split_whitespace().collect();
    Some(match *words.as_slice() {
        ["run", environment, image, version, pods] => {
            What::Run { environment, image, version, pods: pods.parse().ok()? }
        }
        ["chat", "is", word] => What::Chat { is_up: word == "up" },
        [environment, "is", "silent"] => What::Silent(environment),
        [environment, "is", "heard"] => What::Heard(environment),
        [name, image, version, tests] => {
            let parts: Vec<_> = parts.collect();
            let failure = |part: &[&'static str]| match *part {
                [class, name, message] => Some(Failure { class, name, message }),
                _ => None,
            };
            let failures = parts.chunks(3).map(failure).collect::<Option<_>>()?;
            What::Attested { name, image, version, tests: tests.parse().ok()?, failures }
        }
        [state, image, version, by, ticket] => {
            What::Approval { state: ApprovalState::from_str(state).ok()?, image, version, by, ticket }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_can_be_read_nothing_happens_before_what_came_before_it_and_every_image_is_known() {
        let table = Table::read().unwrap();
        assert!(table.images.len() > 30, "{}", table.images.len());
        assert!(table.moments.is_sorted_by_key(|moment| std::cmp::Reverse(moment.before)));
        for Moment { what, .. } in &table.moments {
            let (What::Attested { image, .. } | What::Approval { image, .. } | What::Run { image, .. }) =
                what
            else {
                continue;
            };
            assert!(table.image(image).is_some(), "{image}");
        }
        let theirs = table.image("postgres").unwrap();
        assert_eq!(theirs.reference(theirs.version), "mirror.example.org/library/postgres:17.4");
        assert_eq!(
            theirs.origin,
            Origin::Theirs {
                repository: "mirror.example.org/library/postgres",
                allowed: Some("its publisher tests it")
            }
        );
        let mut failures = table.moments.iter().filter_map(|moment| match &moment.what {
            What::Attested { failures, .. } => failures.first(),
            _ => None,
        });
        assert_eq!(failures.next_back().unwrap().name, "blocks the sixth payment in a minute");
    }
}
