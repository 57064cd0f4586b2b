//! The options of commands that call the compliance service, and its client.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Subcommand};
use secrecy::SecretString;

use crate::cli::oidc::{Oidc, OidcError};
use crate::cli::values::non_empty;
use client::{BaseUrl, PlainHttp, TokenSource};
use model::{InvalidName, OrganizationName};

pub(super) const HEADING: &str = "Compliance service";

/// Options of every command that calls the service, and of its subcommands.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ServiceOptions {
    /// URL of the service, without /api/v2
    #[arg(long, global = true, value_name = "URL", env = "SUPERCARGO_BASE_URL")]
    pub(crate) base_url: Option<String>,
    /// Organization name
    #[arg(long, global = true, value_name = "NAME", env = "SUPERCARGO_ORG")]
    pub(crate) org: Option<String>,
    /// File with the API token, reread for every request; without it, SUPERCARGO_TOKEN holds the token
    #[arg(long, global = true, value_name = "FILE", env = "SUPERCARGO_TOKEN_FILE")]
    pub(crate) token_file: Option<OsString>,
    /// Request an ID token of the CI system instead
    #[arg(long, global = true, value_enum, value_name = "SYSTEM", env = "SUPERCARGO_OIDC")]
    pub(crate) oidc: Option<Oidc>,
    /// Audience of the ID token (default: scheme, host and port of the base URL)
    #[arg(long, global = true, value_name = "AUDIENCE", env = "SUPERCARGO_OIDC_AUDIENCE")]
    pub(crate) oidc_audience: Option<String>,
    /// Certificate authorities (PEM) to trust in addition to those of the system
    #[arg(long, global = true, value_name = "FILE", env = "SUPERCARGO_CA_FILE")]
    pub(crate) ca_file: Option<OsString>,
    /// Allow plain http, over which the token is sent unencrypted
    #[arg(
        long,
        global = true,
        env = "SUPERCARGO_ALLOW_HTTP",
        value_parser = BoolishValueParser::new(),
        action = ArgAction::SetTrue
    )]
    pub(crate) allow_http: bool,
}

/// Commands with the same first word, which call the service.
#[derive(Debug, Args)]
#[command(subcommand_required = true)]
pub(crate) struct Group<C: Subcommand> {
    #[command(subcommand)]
    pub(crate) command: C,
    #[command(flatten)]
    pub(crate) service: ServiceOptions,
}

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("missing {name}: set {option}")]
    Missing {
        name: &'static str,
        /// Its option and variable.
        option: &'static str,
    },
    #[error(transparent)]
    BaseUrl(#[from] client::InvalidBaseUrl),
    #[error("invalid organization (--org, SUPERCARGO_ORG): {0}")]
    Organization(#[from] InvalidName),
    /// No ID token of the CI system.
    #[error(transparent)]
    Oidc(#[from] OidcError),
    #[error(transparent)]
    Setup(#[from] client::SetupError),
}

impl ServiceOptions {
    /// Validates the settings and creates the client. `command` is in the `User-Agent`.
    pub(crate) fn client(
        &self,
        command: &'static str,
        timeouts: client::RequestTimeouts,
    ) -> Result<client::Client, ServiceError> {
        let missing = |name, option| ServiceError::Missing { name, option };
        let plain_http = if self.allow_http { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
        let base_url = non_empty(self.base_url.as_ref())
            .ok_or(missing("base URL", "--base-url or SUPERCARGO_BASE_URL"))?;
        let base_url = BaseUrl::parse(base_url, plain_http)?;
        let organization =
            non_empty(self.org.as_ref()).ok_or(missing("organization", "--org or SUPERCARGO_ORG"))?;
        let organization = organization.parse::<OrganizationName>()?;
        let token = match self.oidc {
            Some(oidc) => oidc.source(non_empty(self.oidc_audience.as_ref()), &base_url, plain_http)?,
            None => non_empty(self.token_file.as_ref())
                .map(|file| TokenSource::File(file.into()))
                .or_else(token_from_environment)
                .ok_or(missing("token", "--token-file, SUPERCARGO_TOKEN_FILE, SUPERCARGO_TOKEN or --oidc"))?,
        };
        let setup = client::Setup {
            base_url,
            organization,
            token,
            ca_file: non_empty(self.ca_file.as_ref()).map(PathBuf::from),
            command,
        };
        Ok(client::Client::new(setup, timeouts)?)
    }
}

/// Not read by clap, which would print the token in its messages.
fn token_from_environment() -> Option<TokenSource> {
    let token = std::env::var_os("SUPERCARGO_TOKEN").filter(|token| !token.is_empty())?;
    let token = SecretString::from(token.to_string_lossy().into_owned());
    Some(TokenSource::Variable(token))
}
