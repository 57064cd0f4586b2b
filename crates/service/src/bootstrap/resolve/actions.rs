//! Actions, their targets and the mail server.

use std::collections::BTreeSet;
use std::path::Path;

use lettre::message::Mailbox;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::bootstrap::file;
use crate::bootstrap::resolve::secret;
use crate::bootstrap::resolve::value::{InvalidValue, unique};
use crate::engine::notify::{Address, AddressBook, Smtp, SmtpTls};
use model::{Channel, EnvironmentName, TargetKind, Trigger};
use store::bootstrap::file::{Organization, Target};
use store::environments::events::ALL_ENVIRONMENTS;

/// Maximum number of environments, targets or recipients of an action.
const MAX_ENTRIES: usize = 100;

const PAGERDUTY: &str = "https://events.pagerduty.com/v2/enqueue";

pub(crate) fn smtp(smtp: &file::Smtp, path: &Path) -> Result<Smtp, String> {
    let from = smtp.from.parse::<Mailbox>().map_err(|_| "from: expected a mail address")?;
    let credentials = match (&smtp.username, &smtp.password) {
        (None, None) => None,
        (Some(_), Some(_)) if smtp.tls == SmtpTls::None => {
            return Err("tls: expected starttls or implicit: a password must be encrypted in transit".into());
        }
        (Some(user), Some(password)) => {
            let password = secret::any(password, path).map_err(|why| format!("password: {why}"))?;
            Some((user.clone(), password))
        }
        _ => return Err("expected both username and password, or neither".into()),
    };
    let default_port = match smtp.tls {
        SmtpTls::Starttls => 587,
        SmtpTls::Implicit => 465,
        SmtpTls::None => 25,
    };
    if smtp.host.is_empty() || smtp.port == Some(0) {
        return Err("expected a host, and a port from 1".into());
    }
    let port = smtp.port.unwrap_or(default_port);
    Ok(Smtp { host: smtp.host.clone(), port, tls: smtp.tls, from, credentials })
}

/// Checks the actions of an organization, and adds the addresses of their targets to the book.
pub(crate) fn resolve(
    organization: &mut Organization,
    place: &str,
    path: &Path,
    book: &mut AddressBook,
) -> Result<(), InvalidValue> {
    let mut numbers = BTreeSet::new();
    for (n, action) in organization.actions.iter_mut().enumerate() {
        let place = format!("{place}.actions[{n}]");
        let at = |key: &str, why: &str| (format!("{place}.{key}"), why.to_owned());
        if action.number < 1 || !numbers.insert(action.number) {
            return Err(at("number", "expected a unique number from 1"));
        }
        let triggers: BTreeSet<_> = action.triggers.iter().collect();
        if triggers.is_empty() || triggers.len() < action.triggers.len() {
            return Err(at("triggers", "expected at least one, without duplicates"));
        }
        if triggers.contains(&Trigger::Test) {
            let why = format!("{} is sent by `supercargo action test` only", Trigger::Test);
            return Err(at("triggers", &why));
        }
        if !(1..=MAX_ENTRIES).contains(&action.targets.len()) {
            return Err(at("targets", "expected 1 to 100 targets"));
        }
        check_environments(&action.environments).map_err(|why| at("environments", &why))?;
        unique(&format!("{place}.targets"), action.targets.iter().map(|target| target.name.as_str()))?;
        let has_incident =
            |trigger: &Trigger| trigger.condition().is_some() || *trigger == Trigger::NonCompliantArtifact;
        let other = action.triggers.iter().find(|trigger| !has_incident(trigger));
        for (n, target) in action.targets.iter_mut().enumerate() {
            let wrong = |why| (format!("{place}.targets[{n}]"), why);
            if let Some(other) = other.filter(|_| target.kind == TargetKind::PagerDuty) {
                let expected = "triggers about compliance or silence";
                return Err(wrong(format!("a target of type PAGERDUTY: expected {expected}, got {other}")));
            }
            let address = resolve_target(target, path, book.smtp.is_some()).map_err(wrong)?;
            let key = (organization.name.as_str().to_owned(), action.number, target.name.as_str().to_owned());
            book.targets.insert(key, address);
        }
    }
    Ok(())
}

/// Checks that the names are valid, which finds some misspelled names.
fn check_environments(names: &[String]) -> Result<(), String> {
    if !(1..=MAX_ENTRIES).contains(&names.len()) {
        return Err("expected 1 to 100 names, or [\"*\"]".into());
    }
    for name in names.iter().filter(|name| *name != ALL_ENVIRONMENTS) {
        name.parse::<EnvironmentName>().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The address of a target, whose public part it fills in.
fn resolve_target(target: &mut Target, path: &Path, has_smtp: bool) -> Result<Address, String> {
    let kind = target.kind;
    let keys = [
        ("secrets", kind == TargetKind::Webhook, !target.secrets.is_empty()),
        ("channel", kind == TargetKind::Slack, target.channel.is_some()),
        ("routingKey", kind == TargetKind::PagerDuty, target.routing_key.is_some()),
        ("recipients", kind == TargetKind::Email, !target.recipients.is_empty()),
        ("url", kind != TargetKind::Email, target.url.is_some()),
    ];
    if let Some((key, ..)) = keys.into_iter().find(|(_, may, has)| *has && !may) {
        return Err(format!("a target of type {} must not have {key}", kind.as_str()));
    }
    Ok(match kind {
        TargetKind::Email => {
            let recipients = recipients(&target.recipients)?;
            if !has_smtp {
                return Err("mail needs a server: set smtp at the top level of the file".into());
            }
            target.address.recipients.clone_from(&target.recipients);
            Address::Email { recipients }
        }
        TargetKind::Slack => {
            target.address.channel = target.channel.as_ref().map(|channel| Channel {
                channel_id: channel.id.clone(),
                channel_name: channel.name.clone(),
                team_id: channel.team.clone(),
            });
            Address::Slack { url: resolve_url(target, path)? }
        }
        TargetKind::Teams => Address::Teams { url: resolve_url(target, path)? },
        TargetKind::PagerDuty => {
            let url = resolve_url(target, path)?;
            let reference = target.routing_key.as_ref();
            let reference = reference.ok_or("expected routingKey, as {file: FILE} or {variable: NAME}")?;
            let routing_key = secret::any(reference, path).map_err(|why| format!("routingKey: {why}"))?;
            Address::PagerDuty { url, routing_key }
        }
        TargetKind::Webhook => {
            let url = resolve_url(target, path)?;
            if !(1..=2).contains(&target.secrets.len()) {
                return Err("secrets: expected one, or two during a rotation".into());
            }
            let secrets = target.secrets.iter().map(|reference| secret::strong(reference, path));
            let secrets = secrets.collect::<Result<Vec<_>, _>>().map_err(|why| format!("secrets: {why}"))?;
            Address::Webhook { url, secrets }
        }
    })
}

fn resolve_url(target: &mut Target, path: &Path) -> Result<SecretString, String> {
    let url = match &target.url {
        Some(reference) => secret::any(reference, path).map_err(|why| format!("url: {why}"))?,
        None if target.kind == TargetKind::PagerDuty => PAGERDUTY.into(),
        None => return Err("expected url, as {file: FILE} or {variable: NAME}".into()),
    };
    target.address.webhook = Some(origin(&url)?);
    Ok(url)
}

/// The scheme and host of a URL, which readers may see. Errors do not quote the URL, which is a credential.
fn origin(url: &SecretString) -> Result<String, String> {
    let wrong = || "url: expected one https URL".to_owned();
    // The URL parser ignores line breaks.
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
    if !(1..=MAX_ENTRIES).contains(&addresses.len()) {
        return Err("recipients: expected 1 to 100 mail addresses".into());
    }
    let wrong =
        |address: &String| format!("recipients: invalid mail address {address:?}: expected NAME@HOST");
    addresses.iter().map(|address| address.parse().map_err(|_| wrong(address))).collect()
}
