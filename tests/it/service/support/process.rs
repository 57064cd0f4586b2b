//! Runs `supercargo serve` as a process, which can be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::service::ADMIN;
use crate::service::support::test_service::{bootstrap, folder, pod, report};

pub struct Process {
    pub child: Child,
    /// URL of the API; empty until the service is ready.
    pub base: String,
    pub folder: TempDir,
    /// Lines on stderr before the service was ready.
    pub startup_log: String,
    /// Further lines on stderr.
    pub stderr: Receiver<String>,
}

/// Kills the process when a test fails.
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

/// Exit code and stderr of a run that fails to start.
pub fn run_to_failure(url: &str, args: &[&str]) -> (i32, String) {
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

    /// Starts the process and waits until it is ready.
    pub fn run(command: Command, folder: TempDir) -> Self {
        let mut process = Self::spawn(command, folder);
        loop {
            let line = process.stderr.recv().unwrap_or_else(|_| panic!("{}", process.startup_log));
            process.startup_log.extend([line.as_str(), "\n"]);
            if let Some((_, serving)) = line.split_once("serving on ") {
                serving.split(',').next().unwrap().clone_into(&mut process.base);
                return process;
            }
        }
    }

    /// Starts the process without waiting; it may fail to start.
    pub fn spawn(mut command: Command, folder: TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, stderr) = channel();
        std::thread::spawn(move || {
            for line in lines {
                // The receiver may have been dropped.
                let _ = sender.send(line.unwrap());
            }
        });
        Self { child, base: String::new(), folder, startup_log: String::new(), stderr }
    }

    /// The next line that contains this text.
    pub fn wait_for_line(&self, text: &str) -> String {
        let mut others = Vec::new();
        loop {
            match self.stderr.recv_timeout(Duration::from_mins(1)) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => others.push(line),
                Err(error) => panic!("{text}: {error}: {others:#?}"),
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Exit code (`None` after a signal) and the remaining stderr.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.stderr.iter().fold(String::new(), |log, line| log + &line + "\n"))
    }
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Reports one artifact that no other report contains; returns status and text of the response.
pub async fn report_once(
    http: &reqwest::Client,
    base: &str,
    unique: usize,
) -> reqwest::Result<(u16, String)> {
    let mut pod = pod("p", "i", 'a');
    pod["digests"]["i"] = format!("{unique:064x}").into();
    let url = format!("{base}/api/v2/environments/acme/prod/report/K8S?create=true");
    let request = http.put(url).bearer_auth(ADMIN).header("Content-Type", "application/json");
    let response = request.body(report(&[pod])).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}
