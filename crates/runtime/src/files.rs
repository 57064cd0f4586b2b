//! Reads and writes small files, on another thread if the caller must not block.
//!
//! A file on a mount that hangs blocks at most one thread (`BlockingCall`), which `main` does not join: `--timeout`
//! holds, and the daemon keeps running.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use model::escape::Escaped;

/// A path in a message.
#[must_use]
pub fn quoted(path: &Path) -> String {
    format!("\"{}\"", Escaped(&path.display().to_string()))
}

/// Reads a file of at most `max_bytes`.
///
/// # Errors
///
/// Errors of reading, and [`io::ErrorKind::FileTooLarge`]: a truncated file could be valid by accident.
pub fn read_up_to(max_bytes: u64, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("the file is longer than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a file that is reread later. Rejects pipes: they can be read only once, and block without a writer.
///
/// # Errors
///
/// Errors of [`read_up_to`], and [`io::ErrorKind::InvalidInput`] for a pipe.
pub fn read_regular(max_bytes: u64, path: &Path) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.file_type().is_fifo() {
        let message = "expected a file that can be reread, got a pipe";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    read_up_to(max_bytes, path)
}

/// What to do with an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Fail with [`io::ErrorKind::AlreadyExists`].
    Keep,
    Replace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    Owner,
    /// The umask decides.
    Umask,
    /// Those of the file that is replaced, which keeps its owner, group and mode.
    Unchanged,
}

/// Writes a file that is complete or absent, also after a crash. Does not follow a link.
///
/// # Errors
///
/// Errors of writing.
pub fn write_atomically(path: &Path, content: &[u8], existing: Existing, readers: Readers) -> io::Result<()> {
    let mut file = WholeFile::create(path, readers)?;
    file.write_all(content)?;
    file.persist(existing)
}

/// A file that is complete or absent, also after a crash. Until then, its content is in a temporary file beside it.
#[derive(Debug)]
pub struct WholeFile {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl WholeFile {
    /// # Errors
    ///
    /// Errors of creating the temporary file.
    pub fn create(path: &Path, readers: Readers) -> io::Result<Self> {
        let mode = match readers {
            Readers::Owner | Readers::Unchanged => 0o600,
            Readers::Umask => 0o666,
        };
        let mode = Permissions::from_mode(mode);
        let temporary = tempfile::Builder::new().permissions(mode).tempfile_in(folder_of(path))?;
        if readers == Readers::Unchanged {
            let (before, new) = (std::fs::metadata(path)?, temporary.as_file().metadata()?);
            if (new.uid(), new.gid()) != (before.uid(), before.gid()) {
                fchown(temporary.as_file(), Some(before.uid()), Some(before.gid()))?;
            }
            temporary.as_file().set_permissions(before.permissions())?;
        }
        Ok(Self { temporary, path: path.to_owned() })
    }

    /// Gives the file its name. Does not follow a link.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn persist(self, existing: Existing) -> io::Result<()> {
        let Self { temporary, path } = self;
        temporary.as_file().sync_all()?;
        match existing {
            Existing::Keep => temporary.persist_noclobber(&path),
            Existing::Replace => temporary.persist(&path),
        }
        .map_err(|failed| failed.error)?;
        // The file is complete. Its name may be lost in a crash where the folder cannot be read or synced.
        let _ = File::open(folder_of(&path)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Repeats a blocking call on other threads, one at a time: one that hangs, as on a mount whose server is
/// gone, blocks one thread.
pub struct BlockingCall<T>(Mutex<Option<PendingCall<T>>>);

/// A call that was started, and when it times out.
type PendingCall<T> = (JoinHandle<T>, Instant);

impl<T> Default for BlockingCall<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Send + 'static> BlockingCall<T> {
    /// Starts `call` and returns its result, or `None` after `within`. While a call that timed out still hangs, later
    /// ones return `None` at once; the first one after its end returns its result. Cancel safe.
    pub async fn run(&self, within: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let deadline = Instant::now() + within;
        let result = async {
            let mut pending = self.0.lock().await;
            let (running, deadline) = pending.get_or_insert_with(|| (spawn_blocking(call), deadline));
            let ended = timeout_at(*deadline, running).await.ok()?;
            *pending = None;
            // Cancelled by the end of the runtime; calls do not panic.
            ended.ok()
        };
        timeout_at(deadline, result).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A read that ends with the sender.
    fn hanging() -> (Sender<()>, impl FnOnce() -> &'static str) {
        let (end, ended) = channel::<()>();
        let read = move || {
            let _ = ended.recv();
            "hung"
        };
        (end, read)
    }

    #[test]
    fn path_in_a_message_is_quoted_and_escaped() {
        assert_eq!(quoted(Path::new("a\u{1b}[2J\n\u{202e}b")), r#""a\u{1b}[2J\n\u{202e}b""#);
    }

    #[test]
    fn file_is_written_at_once_and_kept_unless_it_is_to_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_atomically(&path, b"first", Existing::Keep, Readers::Owner).unwrap();
        let error = write_atomically(&path, b"second", Existing::Keep, Readers::Owner).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        write_atomically(&path, b"third", Existing::Replace, Readers::Owner).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"third");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[tokio::test]
    async fn hanging_read_times_out_and_no_other_is_started_until_it_ends() {
        let (reads, (end, read)) = (BlockingCall::default(), hanging());
        let short = Duration::from_millis(20);
        assert_eq!(reads.run(short, read).await, None);
        for _ in 0..3 {
            assert_eq!(reads.run(short, || "second").await, None);
        }
        drop(end);
        // The result of the read that hung is used, and the next call reads again.
        let result = loop {
            if let Some(result) = reads.run(short, || "second").await {
                break result;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(result, "hung");
        assert_eq!(reads.run(Duration::from_mins(1), || "next").await, Some("next"));
    }

    #[tokio::test]
    async fn concurrent_reads_of_a_hanging_file_time_out_together() {
        let (reads, (_end, read)) = (BlockingCall::default(), hanging());
        let short = Duration::from_millis(20);
        let second = || "second";
        let all = tokio::join!(reads.run(short, read), reads.run(short, second), reads.run(short, second));
        assert_eq!(all, (None, None, None));
    }
}
