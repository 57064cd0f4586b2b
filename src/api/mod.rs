//! Client of the compliance service: one function per operation.
//!
//! `cli` sets it up, and `agent` sends reports with it. It sends each request once; callers retry by [`Deadline`].
//! It reads the token for each request, and redacts it in errors, logs and `Debug`. Functions that send a read return
//! [`Error`] unless the response is a 200 with the expected JSON.

#![expect(clippy::missing_errors_doc, reason = "the module documentation describes the error of all reads")]

mod access_review;
mod actions;
mod approvals;
mod asserts;
mod attachments;
mod attest;
mod attestations;
mod audit;
mod base_url;
mod body;
mod client;
mod error;
mod hint;
mod id_token;
mod live;
mod log;
mod page;
mod policies;
mod raw_response;
mod report;
mod repositories;
mod resources;
mod response;
mod retry;
mod span;
mod token;
mod tokens;
mod trails;

pub use access_review::{AccessReview, TokenGrant, Way};
pub use actions::{Action, Channel, Target};
pub use approvals::{Approval, SignOff, SourceCommit, Withdrawal};
pub use asserts::{AssertScope, AssertedSnapshot, Assertion, FlowCompliance, FlowResult, PolicyResult};
pub use attachments::AttachedFile;
pub use attest::Attachment;
pub use attestations::Attestation;
pub use audit::AuditEntry;
pub use base_url::{BaseUrl, InvalidBaseUrl, PlainHttp};
pub use client::{Client, Setup, SetupError, Timeouts};
pub use error::{Error, Request};
pub use hint::Resource;
pub use id_token::IdTokenError;
pub use live::{EmbeddedArtifact, EmbeddedEnvironment, JoinedArtifact, LiveArtifact, LiveArtifacts};
pub use log::LogPage;
pub use page::{Identified, Page, PageWalker, Pagination};
pub use policies::{ArtifactEffect, PolicyEffect};
pub use raw_response::Parsed;
pub use report::Accepted;
pub use resources::{Item, Object};
pub use retry::{Deadline, RetryError, seed};
pub use span::Span;
pub use token::{TokenError, TokenSource};
pub use trails::{Commit, Filter, Flow, Trail};
