//! Queries the git repository of a folder with the installed git.
//!
//! Uses only commands that read objects and configuration. Never runs a hook, a pager or a program from the
//! repository's configuration, and never fetches.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::own_variables::own_variables;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git is not installed, or cannot be executed.
    #[error("failed to run git")]
    Run(#[source] io::Error),
    #[error("git timed out after {0:?}")]
    TimedOut(Duration),
    /// The first line of git's error output.
    #[error("git: {0}")]
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub hash: String,
    /// The commit object, whose text may have any encoding.
    pub object: Vec<u8>,
}

/// Whether a folder is in a git repository.
///
/// # Errors
///
/// [`GitError`] if git cannot be run or refuses, such as in a folder of another user.
pub fn is_in_repository(folder: &Path) -> Result<bool, GitError> {
    match git(folder, &["rev-parse", "--git-dir"]) {
        Ok(_) => Ok(true),
        Err(GitError::Failed(why)) if why.contains("not a git repository") => Ok(false),
        Err(error) => Err(error),
    }
}

/// The commit of a revision.
///
/// # Errors
///
/// [`GitError`] if the revision does not exist.
pub fn commit(folder: &Path, revision: &str) -> Result<Commit, GitError> {
    let named = format!("{revision}^{{commit}}");
    let hash = git(folder, &["rev-parse", "--verify", "--end-of-options", &named])?;
    // Older versions of git print the option before the hash.
    let hash = hash.lines().last().unwrap_or_default().to_owned();
    Ok(Commit { object: git_bytes(folder, &["cat-file", "commit", &hash])?, hash })
}

/// The branch that is checked out; `None` for a detached HEAD.
#[must_use]
pub fn branch(folder: &Path) -> Option<String> {
    git(folder, &["symbolic-ref", "--quiet", "--short", "HEAD"]).ok().map(|branch| branch.trim().to_owned())
}

/// The URL of the branch's remote, or of `origin`.
#[must_use]
pub fn remote(folder: &Path) -> Option<String> {
    git(folder, &["ls-remote", "--get-url"]).ok().map(|url| url.trim().to_owned())
}

/// Maximum output of git that is read, in bytes. Commit messages have no maximum length.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;

/// Timeout of a command, which uses no network.
const TIMEOUT: Duration = Duration::from_secs(10);

fn git(folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
    Ok(String::from_utf8_lossy(&git_bytes(folder, arguments)?).into_owned())
}

fn git_bytes(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Disables translations, replacements, and fetches of objects that a partial clone lacks.
    command.env("LC_ALL", "C").env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_NO_LAZY_FETCH", "1");
    command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_TERMINAL_PROMPT", "0");
    // Removes variables with secrets, and variables of a hook that select another repository.
    let hooks = ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"];
    for variable in own_variables().into_iter().chain(hooks.map(Into::into)) {
        command.env_remove(variable);
    }
    let mut child = command.spawn().map_err(GitError::Run)?;
    let (sender, receiver) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // The thread ends with the child, which is killed below if necessary.
    thread::spawn(move || sender.send((read_output(stdout), read_output(stderr))));
    let output = receiver.recv_timeout(TIMEOUT);
    let is_truncated = output.as_ref().is_ok_and(|(stdout, _)| stdout.len() as u64 == MAX_OUTPUT_BYTES);
    if output.is_err() || is_truncated {
        child.kill().map_err(GitError::Run)?;
    }
    let status = child.wait().map_err(GitError::Run)?;
    match output {
        Ok((stdout, _)) if status.success() || is_truncated => Ok(stdout),
        Ok((_, stderr)) => {
            let stderr = String::from_utf8_lossy(&stderr);
            Err(GitError::Failed(stderr.lines().next().unwrap_or("no error output").to_owned()))
        }
        Err(_) => Err(GitError::TimedOut(TIMEOUT)),
    }
}

fn read_output(stream: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // After an error, the output read so far is used.
    if let Some(stream) = stream {
        let _ = stream.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
    }
    bytes
}
