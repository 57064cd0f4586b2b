//! Responds to API requests: faults, permissions, lists and continue tokens.

use std::sync::Arc;

use bytes::Bytes;

use crate::daemon::support::cluster::Shared;
use crate::daemon::support::cluster::faults::Fault;
use crate::daemon::support::cluster::request::{ApiRequest, Operation};
use crate::daemon::support::cluster::state::{Pods, State};
use crate::daemon::support::cluster::wire::{self, Status};
use crate::fake::kube::{PROTOBUF, fixture};
use crate::fake::{Reply, Request};

/// An undecodable body: a varint without an end.
pub const GARBAGE: [u8; 64] = [0xff; 64];

pub fn respond(shared: &Arc<Shared>, http_request: &Request) -> Reply {
    let accept = http_request.headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accept.contains(PROTOBUF) {
        return Reply::json(406, fixture("statuses/406.json"));
    }
    let request = match ApiRequest::parse(http_request) {
        Ok(request) => request,
        Err(status) => {
            shared
                .settings()
                .unsupported
                .push(format!("{} {}?{}", http_request.method, http_request.path, http_request.query));
            return status.reply();
        }
    };
    if request.is_about_labels() && !accept.contains("as=PartialObjectMetadata") {
        return Reply::json(406, fixture("statuses/406.json"));
    }
    let fault = shared.record(&request);
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
        Some(Fault::BadRequest) => return Status::bad_request("not supported").reply(),
        Some(Fault::Broken) => return Reply::text(500, "etcdserver: request timed out\n"),
        Some(Fault::Unauthorized) => return Status::unauthorized().reply(),
        Some(Fault::Forbidden) => return forbidden(&request).reply(),
        Some(Fault::NoStreamingLists) if request.is_streaming_list() => {
            return Status::no_streaming_lists().reply();
        }
        Some(Fault::Stall) => return Reply::Stall,
        Some(Fault::Reset) => return Reply::Reset,
        _ => {}
    }
    if let Some(status) = denied(shared, &request) {
        return status.reply();
    }
    let reply = match &request.operation {
        Operation::Namespace => {
            let state = shared.state();
            let name = request.namespace.as_deref().unwrap_or_default();
            if state.namespaces.contains_key(name) {
                wire::namespace(name, state.revision)
            } else {
                Status::not_found(name, "namespaces").reply()
            }
        }
        Operation::List | Operation::Page { .. } if request.is_about_labels() => {
            let state = shared.state();
            wire::namespaces(&state.namespaces, state.revision)
        }
        Operation::List => list(&shared.state(), &request, fault.as_ref(), None, None),
        Operation::Page { limit, after } => {
            let mut state = shared.state();
            if fault == Some(Fault::Expired) && request.is_later_page() {
                return expired(after.as_deref().unwrap_or_default()).reply();
            }
            page(&mut state, &request, fault.as_ref(), *limit, after.as_deref())
        }
        Operation::StreamingList { .. } | Operation::Watch { .. } => {
            return crate::daemon::support::cluster::stream::start(Arc::clone(shared), &request, fault);
        }
    };
    apply_fault(fault.as_ref(), reply)
}

/// Authenticates and authorizes a request. Open watches are not checked again.
fn denied(shared: &Shared, request: &ApiRequest) -> Option<Status> {
    let settings = shared.settings();
    if settings.token.is_some() && settings.token != request.token {
        return Some(Status::unauthorized());
    }
    if settings.certificate.is_some() && settings.certificate != request.certificate {
        return Some(Status::unauthorized());
    }
    let (verb, resource) = request.verb_and_resource();
    let allows = |grant: &crate::daemon::support::cluster::Grant| {
        grant.verb == verb
            && grant.resource == resource
            && (grant.namespace.is_none() || grant.namespace == request.namespace)
    };
    let is_granted = settings.grants.as_ref().is_none_or(|all| all.iter().any(allows));
    (!is_granted).then(|| forbidden(request))
}

fn forbidden(request: &ApiRequest) -> Status {
    let (verb, resource) = request.verb_and_resource();
    let name = if resource == "namespaces" { request.namespace.as_deref().unwrap_or_default() } else { "" };
    let user = "system:serviceaccount:supercargo:supercargo";
    Status::forbidden(user, verb, resource, name, request.namespace.as_deref())
}

fn first_key(request: &ApiRequest) -> String {
    request.namespace.as_ref().map_or_else(String::new, |name| format!("{name}/"))
}

fn list(
    state: &State,
    request: &ApiRequest,
    fault: Option<&Fault>,
    limit: Option<usize>,
    after: Option<(u64, &Pods, String)>,
) -> Reply {
    let (revision, pods, start) = match after {
        None => (state.revision, &*state.pods, first_key(request)),
        Some(after) => after,
    };
    let mut rest = State::select(pods, request.namespace.as_deref(), start);
    let items: Vec<_> = rest.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
    let remaining = rest.count() as u64;
    let next = items.last().filter(|_| remaining > 0).map(|last| {
        let start = last.pod.key();
        // The token of a namespaced list omits the namespace.
        let start = start.strip_prefix(request.namespace.as_deref().unwrap_or_default()).unwrap();
        (token(i64::try_from(revision).unwrap(), start), remaining)
    });
    if fault.is_none() {
        for stored in &items {
            stored.mark_sent();
        }
    }
    wire::list(&wire::list_meta(revision, next.as_ref()), items.iter().map(|stored| &stored.bytes))
}

fn page(
    state: &mut State,
    request: &ApiRequest,
    fault: Option<&Fault>,
    limit: usize,
    after: Option<&str>,
) -> Reply {
    let Some(after) = after else {
        let (revision, pods) = (state.revision, Arc::clone(&state.pods));
        state.snapshots.insert(revision, pods);
        return list(state, request, fault, Some(limit), None);
    };
    let Some((revision, start)) = parse_token(after) else {
        return Status::bad_request("continue key is not valid").reply();
    };
    let start = format!("{}{start}", request.namespace.as_deref().unwrap_or_default());
    let (revision, pods) = match u64::try_from(revision) {
        // The inconsistent token: the rest of the current pods.
        Err(_) => (state.revision, Arc::clone(&state.pods)),
        Ok(revision) if revision < state.compacted => return expired(after).reply(),
        Ok(revision) => match state.snapshots.get(&revision) {
            Some(pods) => (revision, Arc::clone(pods)),
            // A future revision, as after a restored backup.
            None => return Reply::text(500, "mvcc: required revision is a future revision\n"),
        },
    };
    list(state, request, fault, Some(limit), Some((revision, &pods, start)))
}

fn expired(after: &str) -> Status {
    let start = parse_token(after).map(|(_, start)| start).unwrap_or_default();
    Status::continue_expired(token(-1, start.trim_end_matches('\0')))
}

/// A continue token as an API server encodes it: the resourceVersion, and the last name of the previous page.
pub fn token(revision: i64, after: &str) -> String {
    let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":"{after}\u0000"}}"#);
    let padded = crate::fake::kube::base64(&json);
    padded.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn parse_token(token: &str) -> Option<(i64, String)> {
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

fn apply_fault(fault: Option<&Fault>, reply: Reply) -> Reply {
    let Reply::Response(status, headers, body) = reply else { return reply };
    match fault {
        Some(Fault::CutAfter(at)) => {
            let at = (*at).min(body.len());
            Reply::Cut(status, headers, body, at)
        }
        Some(Fault::StallAfter(at)) => {
            let at = (*at).min(body.len());
            Reply::StallAfter(status, headers, body, at)
        }
        Some(Fault::EndAfter(at)) => Reply::Response(status, headers, body.slice(..(*at).min(body.len()))),
        Some(Fault::Garbage) => Reply::Response(status, headers, Bytes::from_static(&GARBAGE)),
        _ => Reply::Response(status, headers, body),
    }
}
