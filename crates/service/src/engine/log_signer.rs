//! Checkpoints of the logs, signed if the service has a signing key, and signed statements.

use std::sync::Arc;

use crate::http::links::Links;
use model::envelope::{Envelope, STATEMENT};
use model::log::Head;
use model::log::checkpoint::Checkpoint;
use model::log::note::Note;
use runtime::signing::{SigningError, SigningKey};

#[derive(Debug, Clone)]
pub(crate) struct LogSigner {
    /// The public URL without its scheme.
    host: String,
    key: Option<Arc<SigningKey>>,
}

impl LogSigner {
    pub(crate) fn new(links: &Links, key: Option<SigningKey>) -> Self {
        let base = links.base();
        let host = base.split_once("://").map_or(base, |(_, host)| host).to_owned();
        Self { host, key: key.map(Arc::new) }
    }

    /// The checkpoint of an organization's log, as a note.
    pub(crate) fn checkpoint(&self, organization: &str, head: Head) -> Result<String, SigningError> {
        let origin = format!("{}/{organization}", self.host);
        let text = Checkpoint { origin: origin.clone(), head }.to_string();
        let note = match &self.key {
            Some(key) => key.sign(&origin, text)?,
            None => Note { text, signatures: Vec::new() },
        };
        Ok(note.format())
    }

    /// Signs a statement; `None` without a key.
    pub(crate) fn sign_statement(&self, statement: &[u8]) -> Option<Result<Envelope, SigningError>> {
        Some(self.key.as_ref()?.sign_envelope(STATEMENT, statement))
    }
}
