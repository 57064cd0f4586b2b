//! `supercargo serve` as a process, which can be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::ADMIN;
use super::running::{bootstrap, folder, pod, report};

/// `supercargo serve`.
pub struct Process {
    pub child: Child,
    /// Where it serves, once it does.
    pub base: String,
    pub folder: TempDir,
    /// What it said on stderr before it served.
    pub before: String,
    /// What it says on stderr, line by line.
    pub said: Receiver<String>,
}

/// One that a failed test leaves behind does not run on.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn command(folder: &TempDir, url: &str) -> Command {
    command_on("127.0.0.1:0", folder, url)
}

pub fn command_on(listen: &str, folder: &TempDir, url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.env_clear().current_dir(folder.path()).env("HOME", folder.path()).env("SUPERCARGO_DATABASE", url);
    command.args(["serve", "--listen", listen, "--admin-listen", "127.0.0.1:0"]);
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

    /// One that serves.
    pub fn run(command: Command, folder: TempDir) -> Self {
        let mut process = Self::spawn(command, folder);
        loop {
            let line = process.said.recv().unwrap_or_else(|_| panic!("{}", process.before));
            process.before.extend([line.as_str(), "\n"]);
            if let Some(serving) = line.strip_prefix("serving on ") {
                serving.split(',').next().unwrap().clone_into(&mut process.base);
                return process;
            }
        }
    }

    /// One that may not come to serve.
    pub fn spawn(mut command: Command, folder: TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (saying, said) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                // Nobody may listen any more.
                let _ = saying.send(line.unwrap());
            }
        });
        Self { child, base: String::new(), folder, before: String::new(), said }
    }

    /// The next line that holds these words.
    pub fn says(&self, words: &str) -> String {
        let mut others = Vec::new();
        loop {
            match self.said.recv_timeout(Duration::from_mins(1)) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => others.push(line),
                Err(error) => panic!("{words}: {error}: {others:#?}"),
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Its exit code, or `None` after a signal, and what else it said.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.said.iter().fold(String::new(), |said, line| said + &line + "\n"))
    }
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Reports one artifact that nobody else reports; the status, and what is said.
pub async fn report_once(
    http: &reqwest::Client,
    base: &str,
    unique: usize,
) -> reqwest::Result<(u16, String)> {
    let mut pod = pod("p", "i", 'a');
    pod["digests"]["i"] = format!("{unique:064x}").into();
    let url = format!("{base}/api/v2/environments/acme/prod/report/K8S");
    let request = http.put(url).bearer_auth(ADMIN).header("Content-Type", "application/json");
    let answer = request.body(report(&[pod])).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}
