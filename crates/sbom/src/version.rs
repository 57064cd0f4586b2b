//! The order of versions by the rules of their ecosystem.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use rpm_version::Evr;

use crate::maven;

/// Versions such as `>=2.0, <2.17.1`: all comparisons must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    comparisons: Vec<Comparison>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Whether a version meets a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// The package has no version, its ecosystem's order is not known, or one of the versions is not valid there.
    Unclear,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid version {0:?}: expected comparisons such as \"<2.17.1\", or \">=2.0, <2.17.1\", with =, !=, <, <=, > or >="
)]
pub struct InvalidRequirement(String);

impl FromStr for Requirement {
    type Err = InvalidRequirement;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const OPERATORS: [(&str, Operator); 7] = [
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("!=", Operator::NotEqual),
            ("==", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
            ("=", Operator::Equal),
        ];
        let comparison = |part: &str| {
            let part = part.trim();
            let (operator, version) = OPERATORS
                .iter()
                .find_map(|(prefix, operator)| Some((*operator, part.strip_prefix(prefix)?.trim())))
                .unwrap_or((Operator::Equal, part));
            let is_version = version.starts_with(|first: char| first.is_alphanumeric())
                && !version.contains(|c: char| c.is_whitespace() || c.is_control() || "<>=|*".contains(c));
            is_version.then(|| Comparison { operator, version: version.to_owned() })
        };
        let comparisons: Option<Vec<_>> = text.split(',').map(comparison).collect();
        Ok(Self { comparisons: comparisons.ok_or_else(|| InvalidRequirement(text.to_owned()))? })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Comparison { operator, version }) in self.comparisons.iter().enumerate() {
            let operator = match operator {
                Operator::Equal => "=",
                Operator::NotEqual => "!=",
                Operator::Less => "<",
                Operator::LessOrEqual => "<=",
                Operator::Greater => ">",
                Operator::GreaterOrEqual => ">=",
            };
            write!(f, "{}{operator}{version}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Requirement {
    /// Compares by the rules of the type of a package URL. Types without known rules compare exactly.
    #[must_use]
    pub fn check(&self, purl_type: &str, version: &str) -> Answer {
        if version.is_empty() {
            return Answer::Unclear;
        }
        let mut answer = Answer::Yes;
        for Comparison { operator, version: other } in &self.comparisons {
            match operator.holds(compare(purl_type, version, other)) {
                Some(true) => {}
                Some(false) => return Answer::No,
                None => answer = Answer::Unclear,
            }
        }
        answer
    }
}

impl Operator {
    /// Between different versions; `None`: it is not known.
    fn holds(self, order: Option<Ordering>) -> Option<bool> {
        let Some(order) = order else {
            return match self {
                Self::Equal => Some(false),
                Self::NotEqual => Some(true),
                _ => None,
            };
        };
        Some(match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}

/// `None` if they differ, and their order is not known.
fn compare(purl_type: &str, version: &str, other: &str) -> Option<Ordering> {
    if version == other {
        return Some(Ordering::Equal);
    }
    // The libraries index by bytes, and no ecosystem permits other characters.
    if !version.is_ascii() || !other.is_ascii() {
        return None;
    }
    match purl_type {
        "cargo" | "golang" | "hex" | "npm" | "pub" | "swift" => {
            Some(semantic(version)?.cmp_precedence(&semantic(other)?))
        }
        "maven" => Some(maven::compare(version, other)),
        "pypi" => {
            let parse = |version: &str| pep440_rs::Version::from_str(version).ok();
            Some(parse(version)?.cmp(&parse(other)?))
        }
        "deb" => {
            let is_valid = |version: &str| {
                version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+~:-".contains(&byte))
            };
            (is_valid(version) && is_valid(other)).then(|| debian_version::compare_versions(version, other))
        }
        "rpm" => Some(compare_rpm(version, other)),
        _ => None,
    }
}

/// Also with a `v` in front, as Go and many tags have it, and with fewer than three numbers.
fn semantic(version: &str) -> Option<semver::Version> {
    let version = version.strip_prefix(['v', 'V']).unwrap_or(version);
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let (numbers, rest) = version.split_at(end);
    let missing = 2_usize.saturating_sub(numbers.matches('.').count());
    semver::Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

/// As a dependency of a spec file: without a release on one side, releases do not count.
fn compare_rpm(version: &str, other: &str) -> Ordering {
    let (mut version, mut other) = (Evr::parse(version), Evr::parse(other));
    if version.release().is_empty() || other.release().is_empty() {
        version.set_release("");
        other.set_release("");
    }
    version.cmp(&other)
}
