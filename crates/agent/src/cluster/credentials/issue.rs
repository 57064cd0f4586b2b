//! What a plugin or an OIDC provider issues.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::sign::CertifiedKey;

use runtime::token_file::Token;

/// A token, a client certificate, or both.
#[derive(Clone, Default)]
pub(in crate::cluster) struct Issue {
    pub(super) token: Option<Token>,
    pub(super) identity: Option<Arc<CertifiedKey>>,
    pub(super) expires: Option<Timestamp>,
}
