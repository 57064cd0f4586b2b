//! Reads small files, on another thread if the caller must not block.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};

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
