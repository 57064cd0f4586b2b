//! `export` and `verify`.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::columns::Format::{Commit, Digest, Reasons, State, Text};
use super::columns::{self, Column, at, by_name, items, table};
use super::common::{Requests, client, warn};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::files::{self, FileError, OutputFile, quoted};
use crate::cli::output::{Output, state};
use client::{Operation, Resource};
use model::EnvironmentSnapshot;
use model::envelope::{Envelope, RUNNING_ARTIFACTS, STATEMENT, STATEMENT_V1};
use model::escape::Escaped;
use runtime::signing::VerifyingKey;

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLE)]
pub(crate) struct Export {
    /// Snapshot, as ENV (the latest), ENV#7, ENV~1 (before the latest), ENV@2w or ENV@2026-10-03T14:00Z
    snapshot: EnvironmentSnapshot,
    /// File to write: an in-toto statement in a DSSE envelope; an existing file is kept
    #[arg(long, value_name = "FILE")]
    output_file: PathBuf,
    #[command(flatten)]
    requests: Requests,
    #[command(flatten)]
    service: ServiceOptions,
}

const EXPORT_EXAMPLE: &str = "\
Example:
  Export what ran at the start of October, signed by the service, and verify it on another machine:
    supercargo export prod@2026-10-01 --output-file prod.json
    supercargo verify prod.json --key signing.pub";

#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLE)]
pub(crate) struct Verify {
    /// File that `export` wrote, also in a Sigstore bundle
    file: PathBuf,
    /// Public key (PEM) of the service
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    output: Output,
}

const VERIFY_EXAMPLE: &str = "\
Example:
  Verify an exported statement without the service, and print what it states:
    supercargo verify prod.json --key signing.pub

Exit code 11: the key did not sign the statement. Nothing of it is printed.";

/// Maximum size of a file, in bytes: that of a response.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
enum StatementError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is neither a DSSE envelope nor a Sigstore bundle with one", quoted(.0))]
    Envelope(PathBuf, #[source] serde_json::Error),
    #[error("{} is not signed with the key in {}", quoted(.0), quoted(.1))]
    Signature(PathBuf, PathBuf),
    #[error("the payload of {} has the type \"{}\": expected \"{STATEMENT}\"", quoted(.0), Escaped(.1))]
    PayloadType(PathBuf, String),
    #[error("the statement in {} is not JSON", quoted(.0))]
    Json(PathBuf, #[source] serde_json::Error),
    #[error("the statement in {} has the type \"{}\": expected \"{}\"", quoted(.0), Escaped(.1), .2)]
    Type(PathBuf, String, &'static str),
}

impl Export {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let (client, name) = (client(&self.service)?, self.snapshot.to_string());
        // A file that cannot be written fails before the request.
        let mut file = OutputFile::create(&self.output_file).map_err(Failure::usage)?;
        let EnvironmentSnapshot { environment, expression } = &self.snapshot;
        let path = ["snapshots", environment.as_str(), &expression.to_string(), "statement"];
        let operation = Operation::new(Resource::Named("snapshot", &name), &path);
        let envelope: Envelope = self.requests.get(&client, &operation).await?;
        let text = serde_json::to_string(&envelope).map_err(Failure::unexpected)?;
        let written = file.write(format!("{text}\n").as_bytes()).and_then(|()| file.finish());
        written.map_err(Failure::usage)?;
        tracing::info!("exported {name} to {}", quoted(&self.output_file));
        Ok(())
    }
}

const ARTIFACTS: &[Column] = &[
    Column::new("ARTIFACT", "/name", Text),
    Column::new("DIGEST", "/digest/sha256", Digest),
    Column::new("FLOW", "/flow", Text).optional(1),
    Column::new("COMMIT", "/commit", Commit).optional(2),
    Column::new("COMPLIANCE", "/compliance", State),
    Column::new("PODS", "/pods", Text),
    Column::new("REASONS", "/reasons", Reasons),
];

impl Verify {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let key = VerifyingKey::read(&self.key).map_err(Failure::usage)?;
        let statement = self.statement(&key).map_err(|error| match error {
            StatementError::Signature(..) => Failure::new(error, None, Exit::Mismatch),
            error => Failure::usage(error),
        })?;
        let predicate = at(&statement, "/predicate");
        let mut artifacts: Vec<_> = items(predicate, "/artifacts").collect();
        artifacts.sort_by(|one, other| by_name("/name", one, other));
        self.output.print(&statement, || table(ARTIFACTS, artifacts))?;
        let text = |pointer| Escaped(at(predicate, pointer).as_str().unwrap_or("-"));
        tracing::info!(
            "the signature is valid: {} states that snapshot {} of {} in {} is {} as of {}",
            text("/service"),
            Escaped(&columns::text(at(predicate, "/snapshot"))),
            text("/environment"),
            text("/organization"),
            state(at(predicate, "/compliance").as_str().unwrap_or("-")),
            text("/asOf")
        );
        for policy in items(predicate, "/policies") {
            let text = |pointer| columns::text(at(policy, pointer));
            let (name, version) = (text("/name"), text("/version"));
            let digest = at(policy, "/digest/sha256").as_str().unwrap_or("-");
            tracing::info!(
                "policy {}, version {}, sha256:{}",
                Escaped(&name),
                Escaped(&version),
                Escaped(digest)
            );
        }
        for gap in items(predicate, "/gaps") {
            let text = |pointer| Escaped(at(gap, pointer).as_str().unwrap_or("-"));
            tracing::warn!("gap: no reports from {} to {}", text("/from"), text("/to"));
        }
        warn(predicate, "/warning");
        Ok(())
    }

    /// Reads the statement. Parses nothing that the key did not sign, except the envelope.
    fn statement(&self, key: &VerifyingKey) -> Result<Value, StatementError> {
        let file = || self.file.clone();
        let bytes = files::read(MAX_FILE_BYTES, &self.file)?;
        let envelope = Envelope::read(&bytes).map_err(|error| StatementError::Envelope(file(), error))?;
        let payload = key.verified_payload(&envelope);
        let payload = payload.ok_or_else(|| StatementError::Signature(file(), self.key.clone()))?;
        if envelope.payload_type != STATEMENT {
            return Err(StatementError::PayloadType(file(), envelope.payload_type));
        }
        let statement: Value =
            serde_json::from_slice(&payload).map_err(|error| StatementError::Json(file(), error))?;
        for (pointer, expected) in [("/_type", STATEMENT_V1), ("/predicateType", RUNNING_ARTIFACTS)] {
            let found = at(&statement, pointer).as_str().unwrap_or_default();
            if found != expected {
                return Err(StatementError::Type(file(), found.to_owned(), expected));
            }
        }
        Ok(statement)
    }
}
