//! The client of the compliance service: one function an operation.
//!
//! Called by `agent`, with reports to send. It sends a request once and says what came of it; when
//! to try again is decided by whoever calls. A token is read for each request and is in no error,
//! log or `Debug`.

mod base_url;
mod body;
mod client;
mod error;
mod report;
mod token;

pub use base_url::{BaseUrl, InvalidBaseUrl, PlainHttp};
pub use client::{Client, Patience, Setup, SetupError};
pub use error::{Error, Request};
pub use report::Accepted;
pub use token::{TokenError, TokenSource};
