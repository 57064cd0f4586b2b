//! Policies: reads their files and checks them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::bootstrap::resolve::secret::read_text;
use crate::bootstrap::resolve::value::{InvalidValue, unique};
use model::{EnvironmentName, FlowName, InvalidName, PolicyName, ShortText, Text};
use rules::policy::{InlinePolicy, MAX_FILE, MAX_POLICIES, Needs, Policy, PolicyVersion, Rule};
use store::bootstrap::file;

pub(crate) fn resolve(policies: &mut [file::Policy], place: &str, path: &Path) -> Result<(), InvalidValue> {
    unique(place, policies.iter().map(|policy| policy.name.as_str()))?;
    for (n, policy) in policies.iter_mut().enumerate() {
        let key = match (&policy.text, &policy.file) {
            (Some(_), None) => "text",
            (None, Some(file)) => {
                let max = u64::try_from(MAX_FILE).unwrap_or(u64::MAX);
                let found = read_text(max, file, path).map_err(|why| (format!("{place}[{n}]"), why))?;
                policy.text = Some(found.content);
                "file"
            }
            _ => return Err((format!("{place}[{n}]"), "expected exactly one of text and file".to_owned())),
        };
        check(policy).map_err(|why| (format!("{place}[{n}].{key}"), why))?;
    }
    Ok(())
}

/// Checks the text of a policy, and fills in what its rules need.
fn check(policy: &mut file::Policy) -> Result<(), String> {
    let version = PolicyVersion { name: policy.name.as_str().to_owned(), version: 0 };
    let text = policy.text.as_deref().ok_or("expected exactly one of text and file")?;
    let parsed = Policy::parse(version, text).map_err(|error| error.to_string())?;
    policy.needs_trails = Needs::new([&parsed]).trails;
    let flows = parsed.rules.into_iter().filter_map(|rule| match rule {
        Rule::Attestation(required) => required.flow.map(|flow| flow.to_string()),
        _ => None,
    });
    policy.flows = flows.collect();
    Ok(())
}

/// The policy of an environment in the short form.
pub(crate) fn of_environment(
    environment: &EnvironmentName,
    short: &InlinePolicy,
) -> Result<file::Policy, String> {
    check_short(short)?;
    let name = InlinePolicy::name(environment).parse().map_err(|error: InvalidName| error.to_string())?;
    let description = format!("The policy of the environment {environment} in the bootstrap file");
    let mut policy = file::Policy {
        name,
        description: Text::new(description).map_err(|error| error.to_string())?,
        text: Some(short.file().map_err(|error| error.to_string())?),
        file: None,
        needs_trails: false,
        flows: BTreeSet::new(),
    };
    check(&mut policy)?;
    Ok(policy)
}

pub(crate) fn check_names(
    names: &[PolicyName],
    declared: &[file::Policy],
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
fn check_short(policy: &InlinePolicy) -> Result<(), String> {
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
