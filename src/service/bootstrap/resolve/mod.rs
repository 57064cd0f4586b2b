//! Converts a bootstrap file into a plan for the database, and an address book.
//!
//! `load` calls it on a blocking thread, since it reads files. Secrets go into the address book, which stays in memory, and
//! never into the plan.

mod actions;
mod approvals;
mod issuers;
mod policies;
mod secret;
mod value;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use self::value::{InvalidValue, escaped, unique};
use super::file::{self, File};
use crate::domain::escape::Escaped;
use crate::domain::evidence::access::Scope;
use crate::domain::evidence::ownership::Ownership;
use crate::domain::model::{Fingerprint, InvalidTemplate};
use crate::domain::yaml;
use crate::process::files::read_up_to;
use crate::service::notify::AddressBook;
use crate::service::pages::RESERVED_NAMES;
use crate::store::bootstrap::{
    Allowance, EnvironmentConfig, Flow, NumberConflict, Organization, Plan, Retention, Token,
};

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// An invalid bootstrap file.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The file cannot be read.
    #[error("failed to read the bootstrap file \"{}\"", escaped(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is empty.
    #[error("the bootstrap file \"{}\" is empty", escaped(.0))]
    Empty(PathBuf),
    /// A syntax error, or a key with an unexpected type. The cause has the line.
    #[error("invalid bootstrap file \"{}\" at {}", escaped(.0), Escaped(.1))]
    Invalid(PathBuf, String, #[source] Box<serde_saphyr::Error>),
    /// An invalid value.
    #[error("invalid bootstrap file \"{}\": {key}: {why}", escaped(path))]
    Value {
        /// The file.
        path: PathBuf,
        /// The key of the value.
        key: String,
        /// The reason.
        why: String,
    },
    /// The database has this generation with different content.
    #[error(
        "the bootstrap file \"{}\" changed without a new generation ({generation}): increment `generation`",
        escaped(path)
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its generation.
        generation: i64,
    },
    /// The database has a higher generation.
    #[error(
        "the bootstrap file \"{}\" has generation {generation}, but the database has generation {seen}: raise its generation above {seen}, or use the newest file",
        escaped(path)
    )]
    Outdated {
        /// The file.
        path: PathBuf,
        /// Its generation.
        generation: i64,
        /// The generation in the database.
        seen: i64,
    },
    /// A number of a removed object is reused.
    #[error("invalid bootstrap file \"{}\"", escaped(.0))]
    NumberConflict(PathBuf, #[source] NumberConflict),
}

/// Reads and checks a file, and the files that it refers to.
pub(super) fn read(path: &Path) -> Result<(Plan, AddressBook), BootstrapError> {
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
    if file.organizations.is_empty() {
        let why = "expected at least one: an empty list would close all organizations";
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
                return Err((place, format!("same token as {other}")));
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
) -> Result<Organization, InvalidValue> {
    if RESERVED_NAMES.contains(&organization.name.as_str()) {
        let taken = RESERVED_NAMES.join(", ");
        return Err((format!("{place}.name"), format!("must not be one of {taken}: pages use these names")));
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
        let ownership = Ownership { repositories: flow.repositories, images: flow.images };
        flows.push(Flow { name: flow.name, ownership, tags: flow.tags, template: flow.template, approvals });
    }
    let name = organization.name.as_str();
    let issuers = issuers::resolve(organization.issuers, name, &format!("{place}.issuers"), path, book)?;
    let mut policies = policies::resolve(organization.policies, &format!("{place}.policies"), path)?;
    let (mut environments, mut of_environments) = (Vec::new(), Vec::new());
    for (n, mut environment) in organization.environments.into_iter().enumerate() {
        let place = format!("{place}.environments[{n}]");
        policies::check_names(&environment.policies, &policies, &format!("{place}.policies"))?;
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
        environments.push(resolve_environment(environment, &place)?);
    }
    policies.append(&mut of_environments);
    Ok(Organization {
        name: organization.name,
        retention: Retention {
            history: organization.retention.map(|span| span.0),
            attachments: organization.attachment_retention.map(|span| span.0),
            audit: organization.audit_retention.map(|span| span.0),
        },
        tokens,
        issuers,
        policies,
        flows,
        environments,
        actions,
    })
}

fn resolve_environment(
    environment: file::Environment,
    place: &str,
) -> Result<EnvironmentConfig, InvalidValue> {
    if environment.min_artifacts == Some(0) {
        return Err((format!("{place}.minArtifacts"), "got 0, expected a number from 1".into()));
    }
    if let Some(max_drop) = environment.max_drop.filter(|percent| *percent > 99) {
        let why = format!("got {max_drop}, expected a percentage from 0 to 99");
        return Err((format!("{place}.maxDrop"), why));
    }
    let mut allowed = Vec::new();
    for (n, allowance) in environment.allowed.into_iter().enumerate() {
        let fingerprint = match (allowance.artifact, &allowance.image) {
            (Some(artifact), None) => artifact,
            (None, Some(image)) => Fingerprint::from_content(format!("image:{}", image.as_str()).as_bytes()),
            _ => {
                let why = "expected exactly one of artifact and image";
                return Err((format!("{place}.allowed[{n}]"), why.to_owned()));
            }
        };
        allowed.push(Allowance {
            fingerprint,
            pattern: allowance.image,
            reason: allowance.reason.as_str().to_owned(),
            author: allowance.author.as_str().to_owned(),
            expires_at: allowance.expires,
        });
    }
    let subject = |entry: &Allowance| {
        entry
            .pattern
            .as_ref()
            .map_or_else(|| entry.fingerprint.to_string(), |image| image.as_str().to_owned())
    };
    let subjects: Vec<String> = allowed.iter().map(subject).collect();
    unique(&format!("{place}.allowed"), subjects.iter().map(String::as_str))?;
    Ok(EnvironmentConfig {
        name: environment.name,
        silent_after: environment.silent_after.map(|span| span.0),
        min_artifacts: environment.min_artifacts,
        max_drop: environment.max_drop,
        policies: environment.policies,
        allowed,
    })
}

fn resolve_token(token: &file::Token, path: &Path) -> Result<Token, String> {
    let file::Token { name, role, environments, flows, create, expires, .. } = token;
    if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
        return Err("name: expected 1 to 255 bytes without control characters".into());
    }
    let scope = Scope::new(*role, environments.clone(), flows.clone(), *create);
    Ok(Token {
        name: name.clone(),
        sha256: hash(token, path)?,
        role: *role,
        scope: scope.map_err(|error| error.to_string())?,
        can_create: *create,
        expires_at: *expires,
    })
}

/// Checks tags and template: lengths, characters and duplicates.
fn check(flow: &file::Flow) -> Result<(), InvalidValue> {
    let fits = |text: &str| !text.is_empty() && text.len() <= 255 && !text.contains('\0');
    for (tag, value) in &flow.tags {
        if !fits(tag) || tag.contains('=') || value.contains('\0') {
            let why = "expected 1 to 255 bytes without \"=\" or NUL".to_owned();
            return Err((format!("tags.{}", Escaped(tag)), why));
        }
    }
    let Some(template) = &flow.template else { return Ok(()) };
    template.check().map_err(|error| match error {
        InvalidTemplate::Duplicate(_) => ("template.artifacts".into(), error.to_string()),
        _ => ("template".into(), error.to_string()),
    })
}

/// The hash of a token, from the hash, file or variable that the bootstrap file names.
fn hash(token: &file::Token, path: &Path) -> Result<Fingerprint, String> {
    match (token.sha256, &token.file, &token.variable) {
        (Some(sha256), None, None) => Ok(sha256),
        (None, Some(file), None) => secret::token_from_file(file, path).map(|secret| hash_of_secret(&secret)),
        (None, None, Some(variable)) => {
            secret::token_from_variable(variable).map(|secret| hash_of_secret(&secret))
        }
        _ => Err("expected exactly one of sha256, file and variable".into()),
    }
}

fn hash_of_secret(secret: &SecretString) -> Fingerprint {
    Fingerprint::from_content(secret.expose_secret().as_bytes())
}
