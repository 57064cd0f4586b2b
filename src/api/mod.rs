//! The client of the compliance service: one function an operation.
//!
//! `cli` sets it up, `agent` sends reports by it. It sends a request once and says what came of it; when
//! to try again is decided by whoever calls. A token is read for each request and is in no error,
//! log or `Debug`.

mod answer;
mod attest;
mod base_url;
mod body;
mod client;
mod error;
mod live;
mod report;
mod token;
mod trails;

pub use attest::Attachment;
pub use base_url::{BaseUrl, InvalidBaseUrl, PlainHttp};
pub use client::{Client, Patience, Setup, SetupError};
pub use error::{Error, Request};
pub use live::{Artifact, Environment, LiveArtifact, LiveArtifacts};
pub use report::Accepted;
pub use token::{TokenError, TokenSource};
pub use trails::Trail;
