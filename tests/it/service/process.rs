//! `supercargo serve` as a process, which can be killed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::running::{bootstrap, folder};

/// `supercargo serve`.
pub struct Process {
    pub child: Child,
    pub base: String,
    pub folder: TempDir,
    /// What it said on stderr before it served.
    pub before: String,
    /// What it says on stderr once it serves.
    rest: Option<std::thread::JoinHandle<String>>,
}

/// One that a failed test leaves behind does not run on.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn command(folder: &TempDir, url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.env_clear().current_dir(folder.path()).env("HOME", folder.path()).env("SUPERCARGO_DATABASE", url);
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command
        .args(["--bootstrap", "bootstrap.yaml"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a run that does not come up says, and its exit code.
pub fn fails(url: &str, args: &[&str]) -> (i32, String) {
    let folder = folder(&bootstrap(1, ""));
    let output = command(&folder, url).args(args).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

impl Process {
    pub fn start(url: &str) -> Self {
        let folder = folder(&bootstrap(1, ""));
        let command = command(&folder, url);
        Self::run(command, folder)
    }

    pub fn run(mut command: Command, folder: TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let start = said.len();
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
            if let Some(serving) = said[start..].strip_prefix("serving on ") {
                break serving.split(',').next().unwrap();
            }
        };
        let base = address.to_owned();
        let before = said;
        let rest = Some(std::thread::spawn(move || {
            let mut rest = String::new();
            stderr.read_to_string(&mut rest).unwrap();
            rest
        }));
        Self { child, base, folder, before, rest }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Its exit code, or `None` after a signal, and what it said.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.rest.take().unwrap().join().unwrap())
    }
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}
