//! The context of one request: the access log, authentication and the response share it as a request extension.
//!
//! The access log creates it before any handler runs. Each value is set at most once.
//!
//! A request keeps its permits until its response has memory, so that few responses of an organization wait for memory.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use ipnet::IpNet;
use tower_http::request_id::RequestId;

use crate::http::client_address::client_address;
use crate::http::problem::Problem;
use crate::limits::permit::Permit;
use model::Timestamp;
use model::access::{Role, Scope};
use model::escape::Escaped;
use runtime::listener::Peer;

/// A cheap handle: all clones share the values of the request.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    /// The address of the client, by what trusted proxies say.
    pub(crate) peer: IpAddr,
    /// The path and query of the request.
    pub(crate) target: Arc<str>,
    pub(crate) id: Arc<str>,
    values: Arc<Values>,
}

#[derive(Debug, Default)]
struct Values {
    token_name: OnceLock<String>,
    admission: OnceLock<Admission>,
    user: OnceLock<SignedIn>,
}

/// The organization that admitted the request, and its permits. They end when the response has its memory.
#[derive(Debug)]
struct Admission {
    organization: String,
    _permits: Vec<Permit>,
}

/// The user of a page, as the layout of every page shows them.
#[derive(Debug, Clone)]
pub(crate) struct SignedIn {
    pub(crate) organization: String,
    /// The name of the token that the session belongs to, or `issuer/subject`.
    pub(crate) name: String,
    /// The same, with the name of the person who signed in at an issuer.
    pub(crate) display_name: String,
    /// The role and scope of the token or person.
    pub(crate) role: Role,
    pub(crate) scope: Scope,
    /// The path and query of the requested page.
    pub(crate) target: String,
    /// The time as of which a replica answers the page; `None`: as of now.
    pub(crate) replayed_until: Option<Timestamp>,
}

impl SignedIn {
    pub(crate) fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Whether the requested page has this path. A proxy may have removed a prefix of the public URL.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        path.ends_with(self.target.split('?').next().unwrap_or_default())
    }
}

/// Every request has a context: the access log is the outermost layer.
impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(Problem::defect)
    }
}

impl RequestContext {
    pub(crate) fn insert_into(request: &mut Request, trusted_proxies: &[IpNet]) -> Self {
        // The listener adds the peer to every request.
        let peer = request.extensions().get().map_or(Ipv4Addr::UNSPECIFIED.into(), |Peer(peer)| peer.ip());
        let peer = client_address(peer, request.headers(), trusted_proxies);
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).into();
        // The layer outside the access log adds the ID, which is ASCII.
        let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
        let id = id.unwrap_or_default().into();
        let context = Self { peer, target, id, values: Arc::default() };
        request.extensions_mut().insert(context.clone());
        context
    }

    /// Records the name of the valid token, for the access log.
    pub(crate) fn set_token_name(&self, name: &str) {
        let _ = self.values.token_name.set(name.to_owned());
    }

    /// The name of the token, escaped for a log; empty for an anonymous request.
    pub(crate) fn token_name(&self) -> String {
        self.values.token_name.get().map_or_else(String::new, |name| Escaped(name).to_string())
    }

    /// Keeps the permits of an organization until the response has its memory.
    pub(crate) fn admit(&self, organization: &str, permits: Vec<Permit>) {
        let admission = Admission { organization: organization.to_owned(), _permits: permits };
        let _ = self.values.admission.set(admission);
    }

    /// The organization that admitted the request; empty before.
    pub(crate) fn organization(&self) -> &str {
        self.values.admission.get().map_or("", |admission| &admission.organization)
    }

    /// Records the signed-in user, for a page that shows an error.
    pub(crate) fn set_user(&self, user: &SignedIn) {
        let _ = self.values.user.set(user.clone());
    }

    /// The signed-in user, if the request has a valid session.
    pub(crate) fn user(&self) -> Option<&SignedIn> {
        self.values.user.get()
    }
}
