//! Who may do what: tokens, roles, sign-ins and issuers.

pub(crate) mod access;
pub(crate) mod access_review;
pub(crate) mod attribution;
pub(crate) mod issuers;
pub(crate) mod sign_in;
pub(crate) mod tokens;
