//! Policies: reads their files and checks them.

use std::collections::BTreeSet;
use std::path::Path;

use super::value::{InvalidValue, escaped, unique};
use crate::domain::evidence::policy::{
    InlinePolicy, MAX_FILE, MAX_POLICIES, Needs, Policy, PolicyVersion, Rule,
};
use crate::domain::model::{EnvironmentName, FlowName, InvalidName, PolicyName, ShortText};
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
        config(policy.name, policy.description.as_str().to_owned(), content)
            .map_err(|why| (format!("{place}[{n}].{key}"), why))
    });
    resolved.collect()
}

fn config(name: PolicyName, description: String, content: String) -> Result<PolicyConfig, String> {
    let version = PolicyVersion { name: name.as_str().to_owned(), version: 0 };
    let parsed = Policy::parse(version, &content).map_err(|error| error.to_string())?;
    let named = parsed.rules.iter().filter_map(|rule| match rule {
        Rule::Attestation(required) => required.flow.as_ref().map(ToString::to_string),
        _ => None,
    });
    let (needs_trails, flows) = (Needs::new([&parsed]).trails, named.collect());
    Ok(PolicyConfig { name, description, content, needs_trails, flows })
}

/// The policy of an environment in the short form.
pub(super) fn of_environment(
    environment: &EnvironmentName,
    short: &InlinePolicy,
) -> Result<PolicyConfig, String> {
    check(short)?;
    let name = InlinePolicy::name(environment).parse().map_err(|error: InvalidName| error.to_string())?;
    let content = short.file().map_err(|error| error.to_string())?;
    config(name, format!("The policy of the environment {environment} in the bootstrap file"), content)
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

/// Checks that the required names are valid, which finds some misspelled names.
fn check(policy: &InlinePolicy) -> Result<(), String> {
    for required in &policy.attestations {
        required.flow.parse::<FlowName>().map_err(|error| error.to_string())?;
        ShortText::new(required.name.as_str()).map_err(|error| format!("an attestation's name: {error}"))?;
    }
    let required: BTreeSet<_> = policy.attestations.iter().map(|one| (&one.flow, &one.name)).collect();
    match required.len() {
        n if n < policy.attestations.len() => Err("requires an attestation twice".into()),
        101.. => Err("requires more than 100 attestations".into()),
        0 if !policy.approval => Err("requires nothing: expected attestations or approval: true".into()),
        _ => Ok(()),
    }
}
