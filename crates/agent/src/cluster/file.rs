//! Reads pods from a file with the output of `kubectl get pods -o json` or `-o yaml`.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::PathBuf;

use serde_json::value::RawValue;
use serde_saphyr::NonFiniteFloatPolicy;

use super::document::{self, DocumentError, Pods};
use super::unreadable::Unreadable;
use crate::live::pod::PodView;
use runtime::files::quoted;

/// A file, or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodsFile {
    /// `-`.
    Stdin,
    Path(PathBuf),
}

/// The file does not contain pods.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("failed to read {0}")]
    Unreadable(PodsFile, #[source] io::Error),
    #[error("{0} is empty: expected the output of \"kubectl get pods -A -o json\" or \"-o yaml\"")]
    Empty(PodsFile),
    #[error("invalid {format} in {file}")]
    Syntax {
        file: PodsFile,
        /// The format, detected from the first character.
        format: &'static str,
        /// The syntax error, with line and column.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("no list of pods in {file}: {problem}")]
    NoPods { file: PodsFile, problem: String },
}

impl From<PathBuf> for PodsFile {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::Path(path) }
    }
}

impl fmt::Display for PodsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::Path(path) => f.write_str(&quoted(path)),
        }
    }
}

impl PodsFile {
    /// Reads all pods and passes each to the callback. An unreadable pod is passed on, too.
    ///
    /// # Errors
    ///
    /// [`FileError`] if the file is not a complete list of pods. The pods passed on are incomplete then.
    pub fn read(&self, each: &mut dyn FnMut(Result<PodView, Unreadable>)) -> Result<(), FileError> {
        let unreadable = |e| FileError::Unreadable(self.clone(), e);
        let file: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin().lock()),
            Self::Path(path) => Box::new(File::open(path).map_err(unreadable)?),
        };
        let (first, reader) = first_byte(BufReader::with_capacity(64 * 1024, file)).map_err(unreadable)?;
        let mut pass_on = |index: Option<usize>, pod: Result<super::messages::Pod, Unreadable>| {
            each(pod.map(Into::into).map_err(|unreadable| {
                let problem = &unreadable.problem;
                let problem = match index {
                    Some(index) => format!("items[{index}] of {self}, {problem}"),
                    None => format!("{self}, {problem}"),
                };
                Unreadable { problem, ..unreadable }
            }));
        };
        let mut pass_item = |index, pod| pass_on(Some(index), pod);
        let pods = match first {
            None => return Err(FileError::Empty(self.clone())),
            Some(b'<') => return Err(self.no_pods(&"expected JSON or YAML, got HTML or XML")),
            Some(b'{') => self.json(reader, &mut pass_item)?,
            Some(_) => self.yaml(reader, &mut pass_item)?,
        };
        match pods {
            Pods::List(metadata) if metadata.continue_token.is_empty() => Ok(()),
            Pods::List(_) => Err(self.no_pods(&DocumentError::OnePage)),
            Pods::One(pod) => {
                pass_on(None, *pod);
                Ok(())
            }
        }
    }

    fn json(&self, reader: impl Read, each: &mut document::Each<'_>) -> Result<Pods, FileError> {
        let mut json = serde_json::Deserializer::from_reader(reader);
        let document = document::read::<Box<RawValue>, _>(&mut json, each);
        let document = document.and_then(|document| json.end().map(|()| document));
        document.map_err(|e| self.syntax("JSON", e))?.into_pods().map_err(|e| self.no_pods(&e))
    }

    fn yaml(&self, reader: impl Read, each: &mut document::Each<'_>) -> Result<Pods, FileError> {
        // The default budget is meant for configuration files. kubectl writes no aliases, and none are
        // followed. It does not quote text that looks like a float out of range; a tree cannot hold that
        // text, and it becomes null instead of another text.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_reader_input_bytes: None,
                max_events: usize::MAX,
                max_nodes: usize::MAX,
                max_total_scalar_bytes: usize::MAX,
                max_aliases: 0,
            },
            non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
            strict_booleans: true,
            with_snippet: false,
        };
        let read =
            |yaml: serde_saphyr::Deserializer<'_, '_>| document::read::<serde_json::Value, _>(yaml, each);
        let document = serde_saphyr::with_deserializer_from_reader_with_options(reader, options, read);
        document.map_err(|e| self.yaml_syntax(e))?.into_pods().map_err(|e| self.no_pods(&e))
    }

    fn yaml_syntax(&self, error: serde_saphyr::Error) -> FileError {
        match error.without_snippet() {
            serde_saphyr::Error::MultipleDocuments { .. } => {
                self.no_pods(&"expected one document, got several")
            }
            _ => self.syntax("YAML", error),
        }
    }

    fn syntax(
        &self,
        format: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> FileError {
        FileError::Syntax { file: self.clone(), format, source: source.into() }
    }

    fn no_pods(&self, problem: &dyn fmt::Display) -> FileError {
        FileError::NoPods { file: self.clone(), problem: problem.to_string() }
    }
}

/// Maximum white space before a document, in bytes.
const MAX_WHITE_SPACE: usize = 64 * 1024;

/// A reader whose first bytes were inspected and put back.
type PutBack<R> = Chain<Cursor<Vec<u8>>, BufReader<R>>;

/// The first byte that is not white space, and a reader of the whole text without a UTF-8 byte-order mark.
fn first_byte<R: Read>(mut reader: BufReader<R>) -> io::Result<(Option<u8>, PutBack<R>)> {
    let mut head = Vec::new();
    reader.by_ref().take(3).read_to_end(&mut head)?;
    if head == b"\xef\xbb\xbf" {
        head.clear();
    }
    let mut first = head.iter().copied().find(|b| !b.is_ascii_whitespace());
    while first.is_none() && head.len() < MAX_WHITE_SPACE {
        let seen = reader.fill_buf()?;
        let Some(&byte) = seen.first() else { break };
        if byte.is_ascii_whitespace() {
            // Retained for correct positions in error messages.
            head.push(byte);
            reader.consume(1);
        } else {
            first = Some(byte);
        }
    }
    Ok((first, Cursor::new(head).chain(reader)))
}
