//! Actions, their targets and the mail server, from the file to the plan and the address book.

use std::collections::BTreeSet;
use std::path::Path;

use lettre::message::Mailbox;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::{Wrong, secret, unique};
use crate::domain::model::{Channel, EnvironmentName, TargetKind};
use crate::service::bootstrap::file;
use crate::service::notify::{Address, AddressBook, Smtp, SmtpTls};
use crate::store::bootstrap::{Action, Shown, Target};
use crate::store::events::EVERY;

/// The longest list of environments, targets or recipients.
const MOST: usize = 100;

pub(super) fn smtp(smtp: &file::Smtp, path: &Path) -> Result<Smtp, String> {
    let from = smtp.from.parse::<Mailbox>().map_err(|_| "from: a mail address was expected")?;
    let credentials = match (&smtp.username, &smtp.password) {
        (None, None) => None,
        (Some(_), Some(_)) if smtp.tls == SmtpTls::None => {
            return Err("tls: a password is not sent in the clear; starttls or implicit was expected".into());
        }
        (Some(user), Some(password)) => {
            let password = secret::given(password, path).map_err(|why| format!("password: {why}"))?;
            Some((user.clone(), password))
        }
        _ => return Err("username and password were expected, or neither".into()),
    };
    let usual = match smtp.tls {
        SmtpTls::Starttls => 587,
        SmtpTls::Implicit => 465,
        SmtpTls::None => 25,
    };
    if smtp.host.is_empty() || smtp.port == Some(0) {
        return Err("a host, and a port from 1 if any, was expected".into());
    }
    let port = smtp.port.unwrap_or(usual);
    Ok(Smtp { host: smtp.host.clone(), port, tls: smtp.tls, from, credentials })
}

pub(super) fn resolve(
    organization: &file::Organization,
    place: &str,
    path: &Path,
    book: &mut AddressBook,
) -> Result<Vec<Action>, Wrong> {
    let mut numbers = BTreeSet::new();
    let mut actions = Vec::new();
    for (n, action) in organization.actions.iter().enumerate() {
        let place = format!("{place}.actions[{n}]");
        let at = |key: &str, why: &str| (format!("{place}.{key}"), why.to_owned());
        if action.number < 1 || !numbers.insert(action.number) {
            return Err(at("number", "a number from 1 that no other action has was expected"));
        }
        let triggers: BTreeSet<_> = action.triggers.iter().collect();
        if triggers.is_empty() || triggers.len() < action.triggers.len() {
            return Err(at("triggers", "at least one was expected, and each once"));
        }
        if !(1..=MOST).contains(&action.targets.len()) {
            return Err(at("targets", "1 to 100 were expected"));
        }
        check_environments(&action.environments).map_err(|why| at("environments", &why))?;
        unique(&format!("{place}.targets"), action.targets.iter().map(|target| target.name.as_str()))?;
        let mut targets = Vec::new();
        for (n, target) in action.targets.iter().enumerate() {
            let wrong = |why| (format!("{place}.targets[{n}]"), why);
            let (address, shown) = resolve_target(target, path, book.smtp.is_some()).map_err(wrong)?;
            let name = target.name.as_str().to_owned();
            book.targets
                .insert((organization.name.as_str().to_owned(), action.number, name.clone()), address);
            targets.push(Target { name, kind: target.kind, shown });
        }
        actions.push(Action {
            number: action.number,
            name: action.name.as_str().to_owned(),
            environments: action.environments.clone(),
            triggers: action.triggers.clone(),
            targets,
        });
    }
    Ok(actions)
}

/// Names that a path can hold, so that a misspelt one is found here as far as it can be.
fn check_environments(names: &[String]) -> Result<(), String> {
    if !(1..=MOST).contains(&names.len()) {
        return Err("1 to 100 names were expected, or [\"*\"]".into());
    }
    for name in names.iter().filter(|name| *name != EVERY) {
        name.parse::<EnvironmentName>().map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn resolve_target(target: &file::Target, path: &Path, has_smtp: bool) -> Result<(Address, Shown), String> {
    let has = |what: &str, wrong: bool| {
        if wrong { Err(format!("a target of type {} has no {what}", target.kind.as_str())) } else { Ok(()) }
    };
    if target.kind != TargetKind::Webhook {
        has("secrets", !target.secrets.is_empty())?;
    }
    if target.kind != TargetKind::Slack {
        has("channel", target.channel.is_some())?;
    }
    if target.kind == TargetKind::Email {
        has("url", target.url.is_some())?;
        let recipients = recipients(&target.recipients)?;
        if !has_smtp {
            return Err("mail needs a server: smtp, at the top of the file".into());
        }
        let shown = Shown { recipients: target.recipients.clone(), ..Shown::default() };
        return Ok((Address::Email { recipients }, shown));
    }
    has("recipients", !target.recipients.is_empty())?;
    let reference = target.url.as_ref().ok_or("url was expected, as {file: FILE} or {variable: NAME}")?;
    let url = secret::given(reference, path).map_err(|why| format!("url: {why}"))?;
    let webhook = Some(origin(&url)?);
    if target.kind == TargetKind::Slack {
        let channel = target.channel.as_ref().map(|channel| Channel {
            channel_id: channel.id.clone(),
            channel_name: channel.name.clone(),
            team_id: channel.team.clone(),
        });
        return Ok((Address::Slack { url }, Shown { webhook, channel, recipients: Vec::new() }));
    }
    if !(1..=2).contains(&target.secrets.len()) {
        return Err("secrets: one was expected, or two during a rotation".into());
    }
    let secrets = target.secrets.iter().map(|reference| secret::random(reference, path));
    let secrets = secrets.collect::<Result<Vec<_>, _>>().map_err(|why| format!("secrets: {why}"))?;
    Ok((Address::Webhook { url, secrets }, Shown { webhook, ..Shown::default() }))
}

/// The scheme and host of an address, which everybody may see. It is not quoted where it is wrong.
fn origin(url: &SecretString) -> Result<String, String> {
    let wrong = || "url: what it refers to was expected to be one https URL".to_owned();
    // What parses a URL passes over line breaks within it.
    if url.expose_secret().chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(wrong());
    }
    let url: Url = url.expose_secret().parse().map_err(|_| wrong())?;
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
        return Err(wrong());
    }
    Ok(url.origin().ascii_serialization())
}

fn recipients(addresses: &[String]) -> Result<Vec<Mailbox>, String> {
    if !(1..=MOST).contains(&addresses.len()) {
        return Err("recipients: 1 to 100 mail addresses were expected".into());
    }
    let wrong =
        |address: &String| format!("recipients: {address:?} is no mail address; NAME@HOST was expected");
    addresses.iter().map(|address| address.parse().map_err(|_| wrong(address))).collect()
}
