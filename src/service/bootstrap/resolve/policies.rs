//! Policies: reads their files and checks them.

use std::path::Path;

use super::value::{InvalidValue, escaped, unique};
use crate::domain::evidence::policy::{MAX_FILE, MAX_POLICIES, Needs, Policy, PolicyVersion};
use crate::domain::model::PolicyName;
use crate::process::files::read_up_to;
use crate::service::bootstrap::file;
use crate::store::bootstrap::PolicyConfig;

/// The policies of an organization.
pub(super) fn resolve(
    policies: Vec<file::Policy>,
    place: &str,
    path: &Path,
) -> Result<Vec<PolicyConfig>, InvalidValue> {
    unique(place, policies.iter().map(|policy| policy.name.as_str()))?;
    let resolved = policies.into_iter().enumerate().map(|(n, policy)| {
        let key = if policy.file.is_some() { "file" } else { "text" };
        let content = content(&policy, path).map_err(|why| (format!("{place}[{n}]"), why))?;
        let version = PolicyVersion { name: policy.name.as_str().to_owned(), version: 0 };
        let parsed = Policy::parse(version, &content)
            .map_err(|error| (format!("{place}[{n}].{key}"), error.to_string()))?;
        Ok(PolicyConfig {
            name: policy.name,
            description: policy.description.as_str().to_owned(),
            needs_trails: Needs::new([&parsed]).trails,
            content,
        })
    });
    resolved.collect()
}

fn content(policy: &file::Policy, path: &Path) -> Result<String, String> {
    match (&policy.text, &policy.file) {
        (Some(text), None) => Ok(text.clone()),
        (None, Some(file)) => {
            let file = path.parent().unwrap_or(Path::new("")).join(file);
            let place = format!("the file \"{}\"", escaped(&file));
            let max = u64::try_from(MAX_FILE).unwrap_or(u64::MAX);
            let bytes = read_up_to(max, &file).map_err(|error| format!("failed to read {place}: {error}"))?;
            String::from_utf8(bytes).map_err(|_| format!("{place}: expected text"))
        }
        _ => Err("expected exactly one of text and file".to_owned()),
    }
}

/// Checks the names of an environment's policies.
pub(super) fn check_names(
    names: &[PolicyName],
    declared: &[PolicyConfig],
    place: &str,
) -> Result<(), InvalidValue> {
    unique(place, names.iter().map(PolicyName::as_str))?;
    if names.len() > MAX_POLICIES {
        return Err((
            place.to_owned(),
            format!("expected at most {MAX_POLICIES} policies, got {}", names.len()),
        ));
    }
    for (n, name) in names.iter().enumerate() {
        if !declared.iter().any(|policy| policy.name == *name) {
            let why = format!("the organization declares no policy \"{name}\" in this file");
            return Err((format!("{place}[{n}]"), why));
        }
    }
    Ok(())
}
