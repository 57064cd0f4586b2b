//! Pods from a file: what `kubectl get pods -o json` or `-o yaml` prints.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::PathBuf;

use serde_json::value::RawValue;
use serde_saphyr::NonFiniteFloatPolicy;

use super::document::{self, NoPods, Pods};
use super::unreadable::Unreadable;
use crate::domain::escape::Visible;
use crate::domain::live::pod::PodView;

/// A file, or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodsFile {
    /// `-`.
    Stdin,
    /// A path.
    Path(PathBuf),
}

/// A file that holds no pods.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("{0} cannot be read")]
    Unreadable(PodsFile, #[source] io::Error),
    /// There is nothing in it.
    #[error("{0} is empty; what \"kubectl get pods -A -o json\" or \"-o yaml\" prints was expected")]
    Empty(PodsFile),
    /// It is neither JSON nor YAML.
    #[error("{file} cannot be read as {format}")]
    Syntax {
        /// Which file.
        file: PodsFile,
        /// What it begins like.
        format: &'static str,
        /// What is wrong, with line and column.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It holds something else than pods.
    #[error("{file} holds no list of pods: {problem}")]
    NoPods {
        /// Which file.
        file: PodsFile,
        /// What it holds.
        problem: String,
    },
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
            Self::Path(path) => write!(f, "\"{}\"", Visible(&path.display().to_string())),
        }
    }
}

impl PodsFile {
    /// Reads all pods and hands out each as it comes.
    ///
    /// # Errors
    ///
    /// [`FileError`] where the file cannot be read to its end as a list of pods; what was handed out
    /// until then is void. One pod that cannot be read is no error, it is handed out as such.
    pub fn read(&self, each: &mut dyn FnMut(Result<PodView, Unreadable>)) -> Result<(), FileError> {
        let unreadable = |e| FileError::Unreadable(self.clone(), e);
        let file: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin().lock()),
            Self::Path(path) => Box::new(File::open(path).map_err(unreadable)?),
        };
        let (first, reader) = first_byte(BufReader::with_capacity(64 * 1024, file)).map_err(unreadable)?;
        let mut hand_out = |index: Option<usize>, pod: Result<super::messages::Pod, Unreadable>| {
            each(pod.map(Into::into).map_err(|Unreadable { pod, problem }| {
                let problem = match index {
                    Some(index) => format!("items[{index}] of {self}, {problem}"),
                    None => format!("{self}, {problem}"),
                };
                Unreadable { pod, problem }
            }));
        };
        let mut hand_out_item = |index, pod| hand_out(Some(index), pod);
        let pods = match first {
            None => return Err(FileError::Empty(self.clone())),
            Some(b'<') => return Err(self.no_pods(&"it begins like HTML or XML")),
            Some(b'{') => self.json(reader, &mut hand_out_item)?,
            Some(_) => self.yaml(reader, &mut hand_out_item)?,
        };
        match pods {
            Pods::List(metadata) if metadata.continue_token.is_empty() => Ok(()),
            Pods::List(_) => Err(self.no_pods(&NoPods::OnePage)),
            Pods::One(pod) => {
                hand_out(None, *pod);
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
        // The default budget is that of a configuration file; a cluster's pods are data. kubectl writes
        // no aliases, and none are followed. It leaves text that overflows a float without quotes: what
        // that said is lost to a tree, and so it becomes nothing, never another text.
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
                self.no_pods(&"it holds several documents; one was expected")
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

/// How much white space may come before a document, in bytes.
const MOST_WHITE_SPACE: usize = 64 * 1024;

/// A reader whose first bytes were looked at and put back.
type PutBack<R> = Chain<Cursor<Vec<u8>>, BufReader<R>>;

/// The first byte that is no white space, and a reader that begins with it. A UTF-8 byte-order mark
/// is left off, as editors write one where none is wanted.
fn first_byte<R: Read>(mut reader: BufReader<R>) -> io::Result<(Option<u8>, PutBack<R>)> {
    let mut head = Vec::new();
    reader.by_ref().take(3).read_to_end(&mut head)?;
    if head == b"\xef\xbb\xbf" {
        head.clear();
    }
    let mut first = head.iter().copied().find(|b| !b.is_ascii_whitespace());
    while first.is_none() && head.len() < MOST_WHITE_SPACE {
        let seen = reader.fill_buf()?;
        let Some(&byte) = seen.first() else { break };
        if byte.is_ascii_whitespace() {
            // Kept, so that the places in error messages are right.
            head.push(byte);
            reader.consume(1);
        } else {
            first = Some(byte);
        }
    }
    Ok((first, Cursor::new(head).chain(reader)))
}
