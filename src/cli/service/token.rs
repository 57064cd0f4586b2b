//! `supercargo token`: creates, lists and revokes tokens of the service.

use clap::{Args, Subcommand};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::output::say;
use crate::cli::read::Format::{Ago, Text};
use crate::cli::read::{Column, Common, client, fields, organization};
use crate::cli::service::change::change;
use crate::cli::values::time;
use client::{Client, Operation, Parsed, Resource};
use model::access::Role;
use model::{Timestamp, TokenName};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token, and print it once
    #[command(after_help = CREATE_EXAMPLE)]
    Create(Create),
    /// List the tokens, without their secrets; those of the bootstrap file have no creator
    #[command(after_help = LIST_EXAMPLE)]
    List(Common),
    /// Revoke a token that was created with `token create`
    #[command(after_help = REVOKE_EXAMPLE)]
    Revoke {
        /// Name of the token
        token: TokenName,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name of the token, shown as the author of its reports, attestations and approvals
    name: TokenName,
    /// Permissions: report, attest, approve, read or admin
    #[arg(long, value_parser = role)]
    role: Role,
    /// Environment of a token with the role report or approve; repeatable, '*' for all
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    environment: Vec<String>,
    /// Flow of a token with the role attest or approve; repeatable, '*' for all
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    flow: Vec<String>,
    /// Let reports create the environments, for the role report
    #[arg(long = "create-environments")]
    creates: bool,
    /// Expiry: a UTC date or a time (RFC 3339); default: never
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires: Option<Timestamp>,
    #[command(flatten)]
    output: Output,
}

fn role(text: &str) -> Result<Role, &'static str> {
    text.parse().map_err(|_| "unknown role: expected report, attest, approve, read or admin")
}

const CREATE_EXAMPLE: &str = "\
Example:
  Create a token for the agent of a cluster, with a token of role admin:
    supercargo token create cluster-us --role report --environment prod-us --expires 2027-12-31";

const LIST_EXAMPLE: &str = "\
Example:
  List the tokens and when they were last used, with a token of role admin:
    supercargo token list";

const REVOKE_EXAMPLE: &str = "\
Example:
  Revoke a token, with another one of role admin:
    supercargo token revoke cluster-us";

/// A response without the secret fails: no other has it.
#[derive(Deserialize)]
struct Created {
    #[serde(rename = "token")]
    _token: String,
}

const CREATED: &[Column] = &[
    Column::new("token, shown once", "/token", Text),
    Column::new("name", "/name", Text),
    Column::new("role", "/role", Text),
    Column::new("environments", "/environments", Text),
    Column::new("flows", "/flows", Text),
    Column::new("expires", "/expires_at", Ago),
];

const LISTED: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("ROLE", "/role", Text),
    Column::new("ENVIRONMENTS", "/environments", Text),
    Column::new("FLOWS", "/flows", Text),
    Column::new("CREATED", "/created_at", Ago),
    Column::new("CREATED BY", "/created_by", Text),
    Column::new("EXPIRES", "/expires_at", Ago),
    Column::new("LAST USED", "/last_used_at", Ago),
];

impl TokenCommand {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        match self {
            TokenCommand::Create(create) => create.run(&client(service)?).await,
            TokenCommand::List(common) => {
                common.list(service, &organization(&["tokens"]), "token", LISTED).await
            }
            TokenCommand::Revoke { token } => {
                let about = Resource::Named("token", token.as_str());
                let operation = Operation::new(about, &["tokens", token.as_str()]);
                change::<Value>(&client(service)?, Method::DELETE, &operation, None).await?;
                say(format_args!("revoked the token {token}"))
            }
        }
    }
}

impl Create {
    async fn run(&self, client: &Client) -> Result<(), Failure> {
        let Self { name, role, environment, flow, creates, expires, output } = self;
        let token = json!({
            "name": name, "role": role, "environments": environment, "flows": flow, "create": creates,
            "expires_at": expires,
        });
        let operation = Operation::new(Resource::Named("token", name.as_str()), &["tokens"]);
        // Not retried: if a response is lost, its token is too.
        let created: Parsed<Created> = change(client, Method::POST, &operation, Some(&token)).await?;
        output.print(&created.raw, || fields(CREATED, &created.raw))
    }
}
