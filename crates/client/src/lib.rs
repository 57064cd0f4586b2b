//! Client of the compliance service.
//!
//! `cli` sets it up, and `agent` sends reports with it. It sends each request once; callers retry by [`Deadline`].
//! It reads the token for each request, and redacts it in errors, logs and `Debug`. Functions that send a request return
//! [`Error`] unless the response has the expected status and JSON.
//!
//! Commands that only print what the service returns read JSON values of an [`Operation`]. Types are for responses that
//! decide something, so that a wrong one fails.

#![warn(missing_docs)]
#![expect(
    clippy::missing_errors_doc,
    reason = "the module documentation describes the error of all requests"
)]

mod attachments;
mod attest;
mod base_url;
mod body;
mod client;
mod error;
mod hint;
mod id_token;
mod live;
mod operation;
mod page;
mod raw_response;
mod report;
mod response;
mod retry;
mod token;
pub mod wait;

pub use attachments::AttachedFile;
pub use attest::{Attachment, NewAttestation};
pub use base_url::{BaseUrl, InvalidBaseUrl, PlainHttp};
pub use body::ReportBody;
pub use client::{Client, RequestTimeouts, Setup, SetupError};
pub use error::{Error, ServiceRequest};
pub use hint::Resource;
pub use id_token::IdTokenError;
pub use live::{EmbeddedArtifact, EmbeddedEnvironment, JoinedArtifact, LiveArtifact, LiveArtifacts};
pub use operation::Operation;
pub use page::{Page, PageWalker, Pagination};
pub use raw_response::Parsed;
pub use report::{Accepted, IfUnknown};
pub use response::Receipt;
pub use retry::{Deadline, RetryError, seed};
pub use token::{TokenError, TokenSource};
