//! From a request to an answer: who may ask, what a list holds, and when a token has expired.

use std::sync::Arc;

use bytes::Bytes;

use super::Shared;
use super::ask::{Ask, What};
use super::faults::Fault;
use super::state::{Pods, State};
use super::wire::{self, Status};
use crate::fake::kube::{PROTOBUF, fixture};
use crate::fake::{Reply, Seen};

/// What a body without a meaning looks like: a varint that never ends.
pub const GARBAGE: [u8; 64] = [0xff; 64];

pub fn answer(shared: &Arc<Shared>, seen: &Seen) -> Reply {
    let accept = seen.headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accept.contains(PROTOBUF) {
        return Reply::json(406, fixture("status-406.json"));
    }
    let ask = match Ask::of(seen) {
        Ok(ask) => ask,
        Err(status) => {
            shared.settings().misunderstood.push(format!("{} {}?{}", seen.method, seen.path, seen.query));
            return status.reply();
        }
    };
    let fault = shared.note(&ask);
    match &fault {
        Some(Fault::Overloaded(retry_after)) => {
            let reply = Reply::text(429, "Too many requests, please try again later.\n");
            return match retry_after {
                Some(seconds) => reply.with("retry-after", &seconds.to_string()),
                None => reply,
            };
        }
        Some(Fault::OverloadedUntil(date)) => {
            let reply = Reply::text(429, "Too many requests, please try again later.\n");
            return reply.with("retry-after", date);
        }
        Some(Fault::BadRequest) => return Status::bad_request("it is not known here").reply(),
        Some(Fault::Broken) => return Reply::text(500, "etcdserver: request timed out\n"),
        Some(Fault::Unauthorized) => return Status::unauthorized().reply(),
        Some(Fault::Forbidden) => return forbidden(&ask).reply(),
        Some(Fault::NoStreamingLists) if ask.is_streaming_list() => {
            return Status::no_streaming_lists().reply();
        }
        Some(Fault::Stall) => return Reply::Stall,
        Some(Fault::Reset) => return Reply::Reset,
        _ => {}
    }
    if let Some(refused) = refused(shared, &ask) {
        return refused.reply();
    }
    let reply = match &ask.what {
        What::Namespace => {
            let state = shared.state();
            let name = ask.namespace.as_deref().unwrap_or_default();
            if state.namespaces.contains(name) {
                wire::namespace(name, state.revision)
            } else {
                Status::not_found(name, "namespaces").reply()
            }
        }
        What::List => list(&shared.state(), &ask, fault.as_ref(), None, None),
        What::Page { limit, after } => {
            let mut state = shared.state();
            if fault == Some(Fault::Expired) && ask.is_later_page() {
                return expired(after.as_deref().unwrap_or_default()).reply();
            }
            page(&mut state, &ask, fault.as_ref(), *limit, after.as_deref())
        }
        What::StreamingList { .. } | What::Watch { .. } => {
            return super::stream::start(Arc::clone(shared), &ask, fault);
        }
    };
    with(fault.as_ref(), reply)
}

/// Whether the caller may not ask that: the rules are looked at when a request comes, and never again.
fn refused(shared: &Shared, ask: &Ask) -> Option<Status> {
    let settings = shared.settings();
    if settings.token.is_some() && settings.token != ask.token {
        return Some(Status::unauthorized());
    }
    let (verb, resource) = ask.verb_and_resource();
    let grants = |grant: &super::Grant| {
        grant.verb == verb
            && grant.resource == resource
            && (grant.namespace.is_none() || grant.namespace == ask.namespace)
    };
    let is_granted = settings.grants.as_ref().is_none_or(|all| all.iter().any(grants));
    (!is_granted).then(|| forbidden(ask))
}

fn forbidden(ask: &Ask) -> Status {
    let (verb, resource) = ask.verb_and_resource();
    let name = if resource == "namespaces" { ask.namespace.as_deref().unwrap_or_default() } else { "" };
    let user = "system:serviceaccount:supercargo:supercargo";
    Status::forbidden(user, verb, resource, name, ask.namespace.as_deref())
}

fn from(ask: &Ask) -> String {
    ask.namespace.as_ref().map_or_else(String::new, |name| format!("{name}/"))
}

fn list(
    state: &State,
    ask: &Ask,
    fault: Option<&Fault>,
    limit: Option<usize>,
    after: Option<(u64, &Pods, String)>,
) -> Reply {
    let (revision, pods, start) = match after {
        None => (state.revision, &*state.pods, from(ask)),
        Some(after) => after,
    };
    let mut rest = State::select(pods, ask.namespace.as_deref(), start);
    let items: Vec<_> = rest.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
    let remaining = rest.count() as u64;
    let next = items.last().filter(|_| remaining > 0).map(|last| {
        let start = last.pod.key();
        // The namespace is not in it where the list is of one.
        let start = start.strip_prefix(ask.namespace.as_deref().unwrap_or_default()).unwrap();
        (token(i64::try_from(revision).unwrap(), start), remaining)
    });
    if fault.is_none() {
        for stored in &items {
            stored.tell();
        }
    }
    wire::list(&wire::list_meta(revision, next.as_ref()), items.iter().map(|stored| &stored.bytes))
}

fn page(state: &mut State, ask: &Ask, fault: Option<&Fault>, limit: usize, after: Option<&str>) -> Reply {
    let Some(after) = after else {
        let (revision, pods) = (state.revision, Arc::clone(&state.pods));
        state.snapshots.insert(revision, pods);
        return list(state, ask, fault, Some(limit), None);
    };
    let Some((revision, start)) = read(after) else {
        return Status::bad_request("continue key is not valid").reply();
    };
    let start = format!("{}{start}", ask.namespace.as_deref().unwrap_or_default());
    let (revision, pods) = match u64::try_from(revision) {
        // The inconsistent token: the rest of what is there now.
        Err(_) => (state.revision, Arc::clone(&state.pods)),
        Ok(revision) if revision < state.compacted => return expired(after).reply(),
        Ok(revision) => match state.snapshots.get(&revision) {
            Some(pods) => (revision, Arc::clone(pods)),
            // Of its future, as after a restored backup.
            None => return Reply::text(500, "mvcc: required revision is a future revision\n"),
        },
    };
    list(state, ask, fault, Some(limit), Some((revision, &pods, start)))
}

fn expired(after: &str) -> Status {
    let start = read(after).map(|(_, start)| start).unwrap_or_default();
    Status::continue_expired(token(-1, start.trim_end_matches('\0')))
}

/// As an API server writes it: the name after which the list goes on, at one resourceVersion.
pub fn token(revision: i64, after: &str) -> String {
    let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":"{after}\u0000"}}"#);
    let padded = crate::fake::kube::base64(&json);
    padded.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn read(token: &str) -> Option<(i64, String)> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bits = 0_u32;
    let mut bytes = Vec::new();
    for (n, letter) in token.bytes().enumerate() {
        bits = bits << 6 | u32::try_from(ALPHABET.iter().position(|known| *known == letter)?).ok()?;
        if n % 4 != 0 {
            bytes.push((bits >> (6 - 2 * (n % 4))) as u8);
        }
    }
    let json: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    Some((json["rv"].as_i64()?, json["start"].as_str()?.to_owned()))
}

fn with(fault: Option<&Fault>, reply: Reply) -> Reply {
    let Reply::Answer(status, headers, body) = reply else { return reply };
    match fault {
        Some(Fault::CutAfter(at)) => {
            let at = (*at).min(body.len());
            Reply::Cut(status, headers, body, at)
        }
        Some(Fault::StallAfter(at)) => {
            let at = (*at).min(body.len());
            Reply::StallAfter(status, headers, body, at)
        }
        Some(Fault::EndAfter(at)) => Reply::Answer(status, headers, body.slice(..(*at).min(body.len()))),
        Some(Fault::Garbage) => Reply::Answer(status, headers, Bytes::from_static(&GARBAGE)),
        _ => Reply::Answer(status, headers, body),
    }
}
