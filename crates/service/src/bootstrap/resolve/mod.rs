//! Checks a bootstrap file, and fills in what it refers to; makes the address book.
//!
//! `load` calls it on a blocking thread, since it reads files. Secrets go into the address book, which stays in memory, and
//! never into the plan.

mod actions;
mod approvals;
mod issuers;
mod policies;
mod secret;
mod trust;
pub(crate) mod value;

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::ExposeSecret;

use crate::bootstrap::error::BootstrapError;
use crate::bootstrap::file::File;
use crate::bootstrap::resolve::value::{InvalidValue, unique};
use crate::engine::notify::AddressBook;
use crate::http::pages::RESERVED_NAMES;
use model::escape::needs_escape;
use model::yaml;
use model::{Fingerprint, InvalidTemplate, InvalidText};
use runtime::files::read_up_to;
use store::bootstrap::Plan;
use store::bootstrap::file::{Allowance, Environment, Flow, Organization, Reference, Token};

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Reads and checks a file, and the files that it refers to.
pub(crate) fn read(path: &Path) -> Result<(Plan, AddressBook), BootstrapError> {
    let bytes = read_up_to(MAX_BYTES, path).map_err(|e| BootstrapError::Unreadable(path.to_owned(), e))?;
    if yaml::is_empty(&bytes) {
        return Err(BootstrapError::Empty(path.to_owned()));
    }
    let file: File = yaml::read(&bytes).map_err(|yaml::YamlError { path: key, source }| {
        BootstrapError::Invalid(path.to_owned(), key, source)
    })?;
    plan(file, Fingerprint::from_content(&bytes), path).map_err(|(key, why)| BootstrapError::Value {
        path: path.to_owned(),
        key,
        why,
    })
}

fn plan(file: File, sha256: Fingerprint, path: &Path) -> Result<(Plan, AddressBook), InvalidValue> {
    if file.generation < 0 {
        return Err(("generation".into(), "expected a number from 0".into()));
    }
    let is_token_sign_in_off = file.token_sign_in == Some(false);
    let mut book = AddressBook { is_token_sign_in_off, ..AddressBook::default() };
    if let Some(file) = &file.authorities {
        book.authorities = secret::authorities(file, path).map_err(|why| ("authorities".to_owned(), why))?;
    }
    if let Some(smtp) = &file.smtp {
        book.smtp = Some(actions::smtp(smtp, path).map_err(|why| ("smtp".to_owned(), why))?);
    }
    let mut organizations = file.organizations;
    if organizations.is_empty() {
        let why = "expected at least one: an empty list would close all organizations";
        return Err(("organizations".into(), why.into()));
    }
    for (n, organization) in organizations.iter_mut().enumerate() {
        resolve(organization, &format!("organizations[{n}]"), path, &mut book)?;
    }
    unique("organizations", organizations.iter().map(|o| o.name.as_str()))?;
    // A token belongs to one organization.
    let mut tokens = BTreeMap::new();
    for (n, organization) in organizations.iter().enumerate() {
        for (m, token) in organization.tokens.iter().enumerate() {
            let place = format!("organizations[{n}].tokens[{m}]");
            if let Some(other) = tokens.insert(token.sha256, place.clone()) {
                return Err((place, format!("same token as {other}")));
            }
        }
    }
    Ok((Plan { generation: file.generation, sha256, organizations }, book))
}

/// Checks what the file declares for an organization, and fills in what that refers to.
fn resolve(
    organization: &mut Organization,
    place: &str,
    path: &Path,
    book: &mut AddressBook,
) -> Result<(), InvalidValue> {
    if RESERVED_NAMES.contains(&organization.name.as_str()) {
        let taken = RESERVED_NAMES.join(", ");
        return Err((format!("{place}.name"), format!("must not be one of {taken}: pages use these names")));
    }
    for (n, token) in organization.tokens.iter_mut().enumerate() {
        resolve_token(token, path).map_err(|why| (format!("{place}.tokens[{n}]"), why))?;
    }
    unique(&format!("{place}.flows"), organization.flows.iter().map(|flow| flow.name.as_str()))?;
    unique(&format!("{place}.environments"), organization.environments.iter().map(|e| e.name.as_str()))?;
    for (n, flow) in organization.flows.iter().enumerate() {
        check_tags_and_template(flow).map_err(|(key, why)| (format!("{place}.flows[{n}].{key}"), why))?;
        approvals::check(&flow.approvals, &format!("{place}.flows[{n}].approvals"))?;
    }
    actions::resolve(organization, place, path, book)?;
    let Organization { name, issuers, trust, policies, environments, .. } = organization;
    issuers::resolve(issuers, name.as_str(), &format!("{place}.issuers"), path, book)?;
    trust::resolve(trust, &format!("{place}.trust"), path)?;
    policies::resolve(policies, &format!("{place}.policies"), path)?;
    let mut of_environments = Vec::new();
    for (n, environment) in environments.iter_mut().enumerate() {
        let place = format!("{place}.environments[{n}]");
        policies::check_names(&environment.policies, policies, &format!("{place}.policies"))?;
        if let Some(short) = environment.policy.take() {
            let place = format!("{place}.policy");
            let policy =
                policies::of_environment(&environment.name, &short).map_err(|why| (place.clone(), why))?;
            if policies.iter().any(|other| other.name == policy.name) {
                let why =
                    format!("its name is \"{}\", but policies has another one of this name", policy.name);
                return Err((place, why));
            }
            environment.policies.push(policy.name.clone());
            of_environments.push(policy);
        }
        check_environment(environment, &place)?;
    }
    policies.append(&mut of_environments);
    Ok(())
}

fn check_environment(environment: &Environment, place: &str) -> Result<(), InvalidValue> {
    if environment.min_artifacts == Some(0) {
        return Err((format!("{place}.minArtifacts"), "got 0, expected a number from 1".into()));
    }
    if let Some(max_drop) = environment.max_drop.filter(|percent| *percent > 99) {
        let why = format!("got {max_drop}, expected a percentage from 0 to 99");
        return Err((format!("{place}.maxDrop"), why));
    }
    let place = format!("{place}.allowed");
    if let Some(n) = environment.allowed.iter().position(|allowance| allowance.fingerprint().is_none()) {
        return Err((format!("{place}[{n}]"), "expected exactly one of artifact and image".to_owned()));
    }
    let subjects: Vec<String> = environment.allowed.iter().map(Allowance::subject).collect();
    unique(&place, subjects.iter().map(String::as_str))
}

/// Checks a token, and fills in its hash.
fn resolve_token(token: &mut Token, path: &Path) -> Result<(), String> {
    token.scope().check(token.role, token.create).map_err(|error| error.to_string())?;
    let sources = [token.sha256.is_some(), token.file.is_some(), token.variable.is_some()];
    if sources.into_iter().filter(|is_set| *is_set).count() != 1 {
        return Err("expected exactly one of sha256, file and variable".into());
    }
    if token.sha256.is_none() {
        let reference = Reference { file: token.file.clone(), variable: token.variable.clone() };
        let secret = secret::strong(&reference, path)?;
        token.sha256 = Some(Fingerprint::from_content(secret.expose_secret().as_bytes()));
    }
    Ok(())
}

fn check_tags_and_template(flow: &Flow) -> Result<(), InvalidValue> {
    for (tag, value) in &flow.tags {
        if tag.as_str().contains('=') {
            return Err((format!("tags.{tag}"), "expected a name without \"=\"".to_owned()));
        }
        if value.contains(needs_escape) {
            return Err((format!("tags.{tag}"), InvalidText::Invisible.to_string()));
        }
    }
    let Some(template) = &flow.template else { return Ok(()) };
    template.check().map_err(|error| match error {
        InvalidTemplate::Duplicate(_) => ("template.artifacts".into(), error.to_string()),
        _ => ("template".into(), error.to_string()),
    })
}
