//! The client of the compliance service: one function an operation.
//!
//! `cli` sets it up, `agent` sends reports by it. It sends a request once and says what came of it; when
//! to try again is decided by whoever calls. A token is read for each request and is in no error,
//! log or `Debug`.

mod actions;
mod approvals;
mod attest;
mod attestations;
mod base_url;
mod body;
mod client;
mod error;
mod live;
mod page;
mod raw_response;
mod report;
mod response;
mod token;
mod trails;

pub use actions::{Action, Channel, Target};
pub use approvals::{Approval, SignOff, SourceCommit};
pub use attest::Attachment;
pub use attestations::{Attestation, Span};
pub use base_url::{BaseUrl, InvalidBaseUrl, PlainHttp};
pub use client::{About, Client, Patience, Setup, SetupError};
pub use error::{Error, Request};
pub use live::{Artifact, Environment, Joined, LiveArtifact, LiveArtifacts};
pub use page::{Identified, Page, Pagination, Walk};
pub use raw_response::Kept;
pub use report::Accepted;
pub use token::{TokenError, TokenSource};
pub use trails::{Commit, Filter, Flow, Trail};
