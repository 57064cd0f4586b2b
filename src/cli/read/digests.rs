//! Finds the digest that starts with some digits.

use serde_json::Value;

use super::columns::{at, items, text};
use super::common::Common;
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::fingerprints::DigestPrefix;
use client::{Operation, Parsed, Resource};
use model::Fingerprint;
use model::escape::Escaped;

#[derive(Debug, thiserror::Error)]
enum DigestError {
    #[error("no artifact has a digest that starts with {0}")]
    NotFound(String),
    #[error("several artifacts have a digest that starts with {0}: {1}")]
    Ambiguous(String, String),
}

pub(super) async fn resolve(
    service: &ServiceOptions,
    common: &Common,
    prefix: &DigestPrefix,
) -> Result<Fingerprint, Failure> {
    let digits = match prefix {
        DigestPrefix::Whole(digest) => return Ok(*digest),
        DigestPrefix::Digits(digits) => digits,
    };
    let operation = Operation::new(Resource::Named("digest", digits), &["search", "sha", digits]);
    let Parsed { value: found, .. }: Parsed<Value> = common.read(service, &operation).await?;
    let digests = items(&found, "/resolved_to/fingerprints/matches").filter_map(Value::as_str);
    let digests: Vec<_> = digests.filter(|digest| digest.starts_with(digits)).collect();
    match digests.as_slice() {
        [] => Err(Failure::new(DigestError::NotFound(digits.clone()), None, Exit::NotFound)),
        [only] => only.parse().map_err(Failure::unexpected),
        several => {
            let mut list: Vec<_> = several.iter().map(|digest| named(digest, &found)).collect();
            if at(&found, "/resolved_to/fingerprints/has_more") == true {
                list.push("and more".to_owned());
            }
            Err(Failure::usage(DigestError::Ambiguous(digits.clone(), list.join(", "))))
        }
    }
}

/// A digest and the name of its artifact.
fn named(digest: &str, found: &Value) -> String {
    let artifact = items(found, "/artifacts").find(|artifact| at(artifact, "/fingerprint") == digest);
    match artifact.map(|artifact| text(at(artifact, "/name"))) {
        Some(name) if !name.is_empty() => format!("{} ({})", Escaped(digest), Escaped(&name)),
        _ => Escaped(digest).to_string(),
    }
}
