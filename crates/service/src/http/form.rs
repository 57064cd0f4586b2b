//! Forms of operations: one part with JSON and one with a file.

use std::io;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::BytesMut;
use multer::{Constraints, Field, Multipart, SizeLimit};

use crate::app::App;
use crate::http::body::{Paced, Share, content_length};
use crate::http::problem::Problem;
use crate::limits::MAX_DATA;
use model::escape::shortened;

/// Maximum size of boundaries and part headers, in bytes.
const MAX_FRAMING: u64 = 64 * 1024;

/// Maximum length of a file's name, in characters.
const MAX_FILE_NAME_CHARS: usize = 255;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// The name of the JSON part, which has at most [`MAX_DATA`] bytes.
    pub(crate) data: &'static str,
    /// The name of the file's part.
    pub(crate) file: &'static str,
    /// The maximum size of the file, in bytes.
    pub(crate) max_file: u64,
}

pub(crate) struct Form {
    expected: Parts,
    data: Option<Vec<u8>>,
    file: Option<File>,
    /// The memory of its parts, to be held until they are recorded.
    share: Share,
}

pub(crate) struct File {
    pub(crate) name: Option<String>,
    pub(crate) content: Vec<u8>,
}

impl Form {
    /// Reads a form part by part, each up to its limit. `expected` names its parts.
    pub(crate) async fn read(
        app: &App,
        organization: &str,
        expected: Parts,
        request: Request,
    ) -> Result<Self, Problem> {
        let boundary = boundary(request.headers())?;
        let max = MAX_DATA + expected.max_file + MAX_FRAMING;
        content_length(request.headers(), "the form", max)?;
        let paced = Paced::new(request.into_body(), app.limits.pace);
        read(expected, boundary, paced, max, app.inbound.share(organization)).await
    }

    pub(crate) fn data(&self) -> Result<&[u8], Problem> {
        self.data.as_deref().ok_or_else(|| Problem::field(self.expected.data, "missing part"))
    }

    pub(crate) fn take_file(&mut self) -> Option<File> {
        self.file.take()
    }

    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

fn boundary(headers: &HeaderMap) -> Result<String, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    multer::parse_boundary(kind).map_err(|error| match error {
        multer::Error::NoBoundary => Problem::invalid("the Content-Type has no boundary"),
        _ => Problem::unsupported("multipart/form-data"),
    })
}

async fn read(
    expected: Parts,
    boundary: String,
    paced: Paced,
    max: u64,
    share: Share,
) -> Result<Form, Problem> {
    let size_limit = SizeLimit::new()
        .whole_stream(max)
        .for_field(expected.data, MAX_DATA)
        .for_field(expected.file, expected.max_file);
    let constraints = Constraints::new().size_limit(size_limit);
    let mut parts = Multipart::with_constraints(chunks(paced), boundary, constraints);
    let mut form = Form { expected, data: None, file: None, share };
    while let Some(field) = parts.next_field().await.map_err(problem)? {
        let name = field.name().unwrap_or_default().to_owned();
        let is_there = match name.as_str() {
            name if name == expected.data => form.data.is_some(),
            name if name == expected.file => form.file.is_some(),
            _ => {
                let expected = format!("unknown part: expected {} or {}", expected.data, expected.file);
                return Err(Problem::field(shortened(&name, 100), &expected));
            }
        };
        if is_there {
            return Err(Problem::field(name, "must not occur twice"));
        }
        let file_name =
            field.file_name().map(|name| name.replace('\0', "").chars().take(MAX_FILE_NAME_CHARS).collect());
        let content = content(field, &mut form.share).await?;
        if name == expected.data {
            form.data = Some(content);
        } else if !content.is_empty() || file_name.is_some() {
            form.file = Some(File { name: file_name, content });
        }
    }
    Ok(form)
}

async fn content(mut field: Field<'_>, share: &mut Share) -> Result<Vec<u8>, Problem> {
    let mut content = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(problem)? {
        share.grow(chunk.len()).await?;
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// The body as a stream for multer; an error carries the [`Problem`] that stopped it. multer searches its whole buffer
/// again after each chunk, so small chunks are merged.
///
/// Before the first boundary, multer 3.1.0 polls twice in a row and searches only the result of the first poll. If data
/// and the end of the stream arrive between the two, it rejects a complete form. The stream therefore yields the end in a
/// poll of its own.
fn chunks(paced: Paced) -> impl futures_util::Stream<Item = Result<Bytes, io::Error>> {
    futures_util::stream::try_unfold(paced, |mut paced| async move {
        let mut gathered = BytesMut::new();
        while gathered.len() < GATHERED {
            match paced.next().await {
                Ok(Some(chunk)) => gathered.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(problem) => return Err(io::Error::other(Stopped(problem))),
            }
        }
        if gathered.is_empty() {
            tokio::task::yield_now().await;
            return Ok(None);
        }
        Ok(Some((gathered.freeze(), paced)))
    })
}

/// Minimum size of a merged chunk, in bytes.
const GATHERED: usize = 32 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("failed to read the body")]
struct Stopped(Problem);

fn problem(error: multer::Error) -> Problem {
    match error {
        multer::Error::FieldSizeExceeded { limit, field_name } => {
            Problem::too_large(&field_name.unwrap_or_default(), limit)
        }
        multer::Error::StreamSizeExceeded { limit } => Problem::too_large("the form", limit),
        multer::Error::StreamReadFailed(error) => match error.downcast::<io::Error>().map(|e| e.into_inner())
        {
            Ok(Some(stopped)) => {
                stopped.downcast::<Stopped>().map_or_else(|_| Problem::broken_off(), |s| s.0)
            }
            _ => Problem::broken_off(),
        },
        error => Problem::invalid(format!("failed to parse the form: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::Poll;

    use axum::body::Body;
    use futures_util::stream;

    use super::*;
    use crate::http::body::Budget;
    use crate::limits::Limits;

    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"data_json\"\r\n\r\n{}\r\n\
        --b\r\nContent-Disposition: form-data; name=\"attachment_file\"; filename=\"a\"\r\n\r\n\r\n--\r\n\
        --b--\r\n";

    /// A body of these chunks; `None` is a poll without data.
    fn brings(chunks: impl IntoIterator<Item = Option<&'static str>>) -> Body {
        let mut chunks = chunks.into_iter().collect::<VecDeque<_>>();
        Body::from_stream(stream::poll_fn(move |cx| match chunks.pop_front() {
            Some(Some(chunk)) => Poll::Ready(Some(Ok::<_, Infallible>(chunk))),
            Some(None) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }))
    }

    async fn received(body: Body) -> Result<Form, Problem> {
        let limits = Limits::default();
        let share = Budget::new(limits.inbound_kibibytes).share("acme");
        let expected = Parts { data: "data_json", file: "attachment_file", max_file: 100 };
        read(expected, "b".to_owned(), Paced::new(body, limits.pace), MAX_DATA, share).await
    }

    /// The connection is read on another thread, so chunks arrive at any time.
    #[tokio::test]
    async fn form_is_parsed_alike_for_all_splits_and_delays() {
        for split in 0..=FORM.len() {
            let (first, second) = FORM.split_at(split);
            for waits in 0..8 {
                let wait = |bit: u8| (waits & bit != 0).then_some(None);
                let pieces = [wait(1), Some(Some(first)), wait(2), Some(Some(second)), wait(4)];
                let parts = received(brings(pieces.into_iter().flatten()))
                    .await
                    .unwrap_or_else(|problem| panic!("split at {split}, waits {waits:03b}: {problem:?}"));
                assert_eq!(parts.data().unwrap(), b"{}");
                let attachment = parts.file().unwrap();
                assert_eq!((attachment.name.as_deref(), &*attachment.content), (Some("a"), &b"\r\n--"[..]));
            }
        }
    }

    #[tokio::test]
    async fn truncated_form_is_rejected_for_all_splits() {
        // The form is complete with the last dash of the last boundary.
        let whole = FORM.len() - "\r\n".len();
        for split in 0..whole {
            let (first, _) = FORM.split_at(split);
            for waits in 0..4 {
                let wait = |bit: u8| (waits & bit != 0).then_some(None);
                let pieces = [wait(1), Some(Some(first)), wait(2)];
                assert!(received(brings(pieces.into_iter().flatten())).await.is_err(), "split at {split}");
            }
        }
    }
}
