//! The git repository around a folder, asked by the git that is installed.
//!
//! Only what reads objects and configuration is called: nothing runs a hook, a pager or a program that the
//! repository's configuration names, and nothing is fetched.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// git cannot say it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git here.
    #[error("git cannot be run")]
    Run(#[source] io::Error),
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

fn git(folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).stdin(Stdio::null());
    // What it says is read here; what a partial clone lacks is not fetched, by no protocol and no prompt.
    command.env("LC_ALL", "C").env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_NO_LAZY_FETCH", "1");
    command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_TERMINAL_PROMPT", "0");
    // A hook's variables would name another repository than the folder's.
    for variable in
        ["SUPERCARGO_TOKEN", "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_CEILING_DIRECTORIES"]
    {
        command.env_remove(variable);
    }
    let output = command.output().map_err(GitError::Run)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(GitError::Refused(said.lines().next().unwrap_or("nothing").to_owned()))
}
