//! The git repository around a folder, asked by the git that is installed.
//!
//! Only what reads objects and configuration is called: nothing runs a hook, a pager or a program that the
//! repository's configuration names, and nothing is fetched.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// git cannot say it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git here.
    #[error("git cannot be run")]
    Run(#[source] io::Error),
    /// It takes too long.
    #[error("git has said nothing for {0:?}")]
    Slow(Duration),
    /// git refused, in its words.
    #[error("git says: {0}")]
    Refused(String),
}

/// A commit as git keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its hash.
    pub hash: String,
    /// Its object.
    pub object: String,
}

/// Whether a folder is in a git repository.
///
/// # Errors
///
/// [`GitError`] where git cannot be run, or will not look: in a folder of somebody else, say.
pub fn is_in_repository(folder: &Path) -> Result<bool, GitError> {
    match git(folder, &["rev-parse", "--git-dir"]) {
        Ok(_) => Ok(true),
        Err(GitError::Refused(why)) if why.contains("not a git repository") => Ok(false),
        Err(error) => Err(error),
    }
}

/// The commit that a revision names.
///
/// # Errors
///
/// [`GitError`] where there is none.
pub fn commit(folder: &Path, revision: &str) -> Result<Commit, GitError> {
    let named = format!("{revision}^{{commit}}");
    let hash = git(folder, &["rev-parse", "--verify", "--end-of-options", &named])?;
    // Older ones repeat the option before it.
    let hash = hash.lines().last().unwrap_or_default().to_owned();
    Ok(Commit { object: git(folder, &["cat-file", "commit", &hash])?, hash })
}

/// The branch that is checked out; `None` where a commit is.
#[must_use]
pub fn branch(folder: &Path) -> Option<String> {
    git(folder, &["symbolic-ref", "--quiet", "--short", "HEAD"]).ok().map(|branch| branch.trim().to_owned())
}

/// The URL of the remote that the branch follows, or of `origin`.
#[must_use]
pub fn remote(folder: &Path) -> Option<String> {
    git(folder, &["ls-remote", "--get-url"]).ok().map(|url| url.trim().to_owned())
}

/// How much of what git says is read, in bytes: a commit's message may be as long as anybody likes.
const MOST: u64 = 1024 * 1024;

/// How long git may take: no network is asked.
const PATIENCE: Duration = Duration::from_secs(10);

fn git(folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What it says is read here; what a partial clone lacks is not fetched, by no protocol and no prompt.
    command.env("LC_ALL", "C").env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_NO_LAZY_FETCH", "1");
    command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_TERMINAL_PROMPT", "0");
    // Ours hold secrets, and a hook's would name another repository than the folder's.
    let ours = std::env::vars_os().map(|(name, _)| name);
    let ours = ours.filter(|name| name.to_string_lossy().starts_with("SUPERCARGO_"));
    let hooks = ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"];
    for variable in ours.chain(hooks.map(Into::into)) {
        command.env_remove(variable);
    }
    let mut child = command.spawn().map_err(GitError::Run)?;
    let (told, heard) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Each ends with the child, which is ended below whatever it does.
    thread::spawn(move || told.send((up_to_most(stdout), up_to_most(stderr))));
    let heard = heard.recv_timeout(PATIENCE);
    let is_cut = heard.as_ref().is_ok_and(|(said, _)| said.len() as u64 == MOST);
    if heard.is_err() || is_cut {
        child.kill().map_err(GitError::Run)?;
    }
    let status = child.wait().map_err(GitError::Run)?;
    match heard {
        Ok((said, _)) if status.success() || is_cut => Ok(String::from_utf8_lossy(&said).into_owned()),
        Ok((_, why)) => {
            let why = String::from_utf8_lossy(&why);
            Err(GitError::Refused(why.lines().next().unwrap_or("nothing").to_owned()))
        }
        Err(_) => Err(GitError::Slow(PATIENCE)),
    }
}

fn up_to_most(stream: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before an error is what there is.
    if let Some(stream) = stream {
        let _ = stream.take(MOST).read_to_end(&mut bytes);
    }
    bytes
}
