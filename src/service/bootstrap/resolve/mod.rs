//! From the file to a plan: references followed, contradictions found. `load` calls it on a thread of its own,
//! since it reads files. What is secret goes into an address book, which stays in memory, and never into the
//! plan, which the database gets.

mod actions;
mod approvals;
mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::file::{self, File};
use crate::domain::escape::Visible;
use crate::domain::evidence::access::{Role, Scope};
use crate::domain::evidence::compliance::Policy;
use crate::domain::model::{EnvironmentName, Fingerprint, FlowName, ShortText};
use crate::process::files::read_up_to;
use crate::process::yaml;
use crate::service::notify::AddressBook;
use crate::service::pages::TAKEN;
use crate::store::bootstrap::{Allowance, Environment, Flow, Organization, Plan, Taken, Token};

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// A bootstrap file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// It cannot be read.
    #[error("the bootstrap file \"{}\" cannot be read", shown(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    /// There is nothing in it.
    #[error("the bootstrap file \"{}\" is empty", shown(.0))]
    Empty(PathBuf),
    /// It does not say what is expected at a key, on the line that the cause says.
    #[error("the bootstrap file \"{}\" cannot be used, at {}", shown(.0), Visible(.1))]
    Invalid(PathBuf, String, #[source] Box<serde_saphyr::Error>),
    /// One of its values cannot be used.
    #[error("the bootstrap file \"{}\" cannot be used: {key}: {why}", shown(path))]
    Value {
        /// The file.
        path: PathBuf,
        /// The value's place in it.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// The database has seen this generation with other content.
    #[error(
        "the bootstrap file \"{}\" is another than the one of generation {generation} that the database has seen: raise its generation",
        shown(path)
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its generation.
        generation: i64,
    },
    /// The database has seen a later generation.
    #[error(
        "the bootstrap file \"{}\" has generation {generation}, but the database has seen {seen}: it is out of date",
        shown(path)
    )]
    Outdated {
        /// The file.
        path: PathBuf,
        /// Its generation.
        generation: i64,
        /// The latest that was applied.
        seen: i64,
    },
    /// It gives a number again.
    #[error("the bootstrap file \"{}\" cannot be used", shown(.0))]
    Taken(PathBuf, #[source] Taken),
}

/// Reads and checks a file, and what it refers to.
pub(super) fn read(path: &Path) -> Result<(Plan, AddressBook), BootstrapError> {
    let bytes = read_up_to(MOST_BYTES, path).map_err(|e| BootstrapError::Unreadable(path.to_owned(), e))?;
    if yaml::is_empty(&bytes) {
        return Err(BootstrapError::Empty(path.to_owned()));
    }
    let file: File = yaml::read(&bytes)
        .map_err(|yaml::Misread { place, source }| BootstrapError::Invalid(path.to_owned(), place, source))?;
    plan(file, Fingerprint::of(&bytes), path).map_err(|(key, why)| BootstrapError::Value {
        path: path.to_owned(),
        key,
        why,
    })
}

/// The place of a value and what is wrong with it.
type Wrong = (String, String);

fn plan(file: File, sha256: Fingerprint, path: &Path) -> Result<(Plan, AddressBook), Wrong> {
    if file.generation < 0 {
        return Err(("generation".into(), "a number from 0 was expected".into()));
    }
    let mut book = AddressBook::default();
    if let Some(file) = &file.authorities {
        book.authorities = secret::authorities(file, path).map_err(|why| ("authorities".to_owned(), why))?;
    }
    if let Some(smtp) = &file.smtp {
        book.smtp = Some(actions::smtp(smtp, path).map_err(|why| ("smtp".to_owned(), why))?);
    }
    if file.organizations.is_empty() {
        let why = "at least one was expected: without any, all that the database holds would be closed";
        return Err(("organizations".into(), why.into()));
    }
    let organizations = file.organizations.into_iter().enumerate();
    let organizations = organizations
        .map(|(n, organization)| resolve(organization, &format!("organizations[{n}]"), path, &mut book));
    let organizations = organizations.collect::<Result<Vec<_>, _>>()?;
    unique("organizations", organizations.iter().map(|o| o.name.as_str()))?;
    // A token belongs to one organization.
    let mut tokens = BTreeMap::new();
    for (n, organization) in organizations.iter().enumerate() {
        for (m, token) in organization.tokens.iter().enumerate() {
            let place = format!("organizations[{n}].tokens[{m}]");
            if let Some(other) = tokens.insert(token.sha256, place.clone()) {
                return Err((place, format!("it is the same token as {other}")));
            }
        }
    }
    Ok((Plan { generation: file.generation, sha256, organizations }, book))
}

fn resolve(
    organization: file::Organization,
    place: &str,
    path: &Path,
    book: &mut AddressBook,
) -> Result<Organization, Wrong> {
    if TAKEN.contains(&organization.name.as_str()) {
        let taken = TAKEN.join(", ");
        return Err((
            format!("{place}.name"),
            format!("a name other than {taken} was expected: pages have these"),
        ));
    }
    let tokens = organization.tokens.iter().enumerate();
    let tokens = tokens
        .map(|(n, token)| resolve_token(token, path).map_err(|why| (format!("{place}.tokens[{n}]"), why)));
    let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
    unique(&format!("{place}.flows"), organization.flows.iter().map(|flow| flow.name.as_str()))?;
    unique(&format!("{place}.environments"), organization.environments.iter().map(|e| e.name.as_str()))?;
    for (n, flow) in organization.flows.iter().enumerate() {
        check(flow).map_err(|(key, why)| (format!("{place}.flows[{n}].{key}"), why))?;
    }
    let actions = actions::resolve(&organization, place, path, book)?;
    let mut flows = Vec::new();
    for (n, flow) in organization.flows.into_iter().enumerate() {
        let approvals = approvals::resolve(flow.approvals, &format!("{place}.flows[{n}].approvals"))?;
        flows.push(Flow { name: flow.name, tags: flow.tags, template: flow.template, approvals });
    }
    let mut environments = Vec::new();
    for (n, environment) in organization.environments.into_iter().enumerate() {
        environments.push(resolve_environment(environment, &format!("{place}.environments[{n}]"))?);
    }
    Ok(Organization {
        name: organization.name,
        retention: organization.retention.map(|span| span.0),
        tokens,
        flows,
        environments,
        actions,
    })
}

fn resolve_environment(environment: file::Environment, place: &str) -> Result<Environment, Wrong> {
    if let Some(policy) = &environment.policy {
        check_policy(policy).map_err(|why| (format!("{place}.policy"), why))?;
    }
    let artifacts: Vec<String> = environment.allowed.iter().map(|a| a.artifact.to_string()).collect();
    unique(&format!("{place}.allowed"), artifacts.iter().map(String::as_str))?;
    let allowed = environment.allowed.into_iter().map(|allowance| Allowance {
        fingerprint: allowance.artifact,
        reason: allowance.reason.as_str().to_owned(),
        author: allowance.author.as_str().to_owned(),
        expires_at: allowance.expires,
    });
    Ok(Environment {
        name: environment.name,
        silent_after: environment.silent_after.map(|span| span.0),
        policy: environment.policy,
        allowed: allowed.collect(),
    })
}

/// What it requires can be attested, so that a misspelt name is found here as far as it can be.
fn check_policy(policy: &Policy) -> Result<(), String> {
    for required in &policy.attestations {
        required.flow.parse::<FlowName>().map_err(|error| error.to_string())?;
        ShortText::new(required.name.as_str()).map_err(|error| format!("an attestation's name: {error}"))?;
    }
    let required: BTreeSet<_> = policy.attestations.iter().collect();
    match required.len() {
        n if n < policy.attestations.len() => Err("it requires an attestation twice".into()),
        101.. => Err("it requires more than 100 attestations".into()),
        0 if !policy.approval => {
            Err("it requires nothing; attestations or approval: true was expected".into())
        }
        _ => Ok(()),
    }
}

fn resolve_token(token: &file::Token, path: &Path) -> Result<Token, String> {
    if token.name.is_empty() || token.name.len() > 255 || token.name.chars().any(char::is_control) {
        return Err("its name was expected to be 1 to 255 bytes without control characters".into());
    }
    Ok(Token {
        name: token.name.clone(),
        sha256: hash(token, path)?,
        role: token.role,
        scope: scope(token)?,
        expires_at: token.expires,
    })
}

fn unique<'a>(place: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for (n, name) in names.enumerate() {
        if !seen.insert(name) {
            return Err((format!("{place}[{n}]"), format!("\"{}\" is there twice", Visible(name))));
        }
    }
    Ok(())
}

/// Tags and template: nothing that the database cannot keep, and each name once.
fn check(flow: &file::Flow) -> Result<(), Wrong> {
    let fits = |text: &str| !text.is_empty() && text.len() <= 255 && !text.contains('\0');
    for (tag, value) in &flow.tags {
        if !fits(tag) || tag.contains('=') || value.contains('\0') {
            let why = "a tag was expected to be 1 to 255 bytes without \"=\" or NUL".to_owned();
            return Err((format!("tags.{}", Visible(tag)), why));
        }
    }
    let Some(template) = &flow.template else { return Ok(()) };
    let required =
        template.attestations.iter().chain(template.artifacts.iter().flat_map(|a| &a.attestations));
    let names = required.flat_map(|r| [&r.name, &r.kind]).chain(template.artifacts.iter().map(|a| &a.name));
    if names.into_iter().any(|name| !fits(name)) {
        return Err((
            "template".into(),
            "names and types were expected to be 1 to 255 bytes without NUL".into(),
        ));
    }
    unique("template.artifacts", template.artifacts.iter().map(|a| a.name.as_str()))
}

/// What a token is for: names that a path can hold, so that a misspelt one is found here.
fn scope(token: &file::Token) -> Result<Scope, String> {
    let (listed, other, missing, unused) = match token.role {
        Role::Report => (
            &token.environments,
            &token.flows,
            "a token of role report lists the environments that it is for: environments: [NAME], or [\"*\"]",
            "a token of role report is for environments, not flows",
        ),
        Role::Attest => (
            &token.flows,
            &token.environments,
            "a token of role attest lists the flows that it is for: flows: [NAME], or [\"*\"]",
            "a token of role attest is for flows, not environments",
        ),
        Role::Read | Role::Admin => {
            let is_bare = token.environments.is_empty() && token.flows.is_empty();
            let listed = "a token of role read or admin is for the whole organization, and lists nothing";
            return if is_bare { Ok(Scope::default()) } else { Err(listed.into()) };
        }
    };
    if listed.is_empty() {
        return Err(missing.into());
    }
    if !other.is_empty() {
        return Err(unused.into());
    }
    for name in listed.iter().filter(|name| *name != Scope::ALL) {
        let checked = match token.role {
            Role::Report => name.parse::<EnvironmentName>().map(drop),
            _ => name.parse::<FlowName>().map(drop),
        };
        checked.map_err(|error| error.to_string())?;
    }
    Ok(Scope(listed.clone()))
}

/// The hash of a token, wherever the file says that it is.
fn hash(token: &file::Token, path: &Path) -> Result<Fingerprint, String> {
    match (token.sha256, &token.file, &token.variable) {
        (Some(sha256), None, None) => Ok(sha256),
        (None, Some(file), None) => secret::of_file(file, path).map(|secret| of(&secret)),
        (None, None, Some(variable)) => secret::of_variable(variable).map(|secret| of(&secret)),
        _ => Err("exactly one of sha256, file and variable was expected".into()),
    }
}

fn of(secret: &SecretString) -> Fingerprint {
    Fingerprint::of(secret.expose_secret().as_bytes())
}

fn shown(path: &Path) -> String {
    Visible(&path.display().to_string()).to_string()
}
