//! The daemon's process: its environment, log, pages and exit.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::daemon::support::cluster::Cluster;
use crate::daemon::support::gate::Gate;
use crate::daemon::{eventually, eventually_or};
use crate::service::ADMIN;

/// Arguments and files of a daemon.
pub struct DaemonBuilder {
    command: Command,
    home: TempDir,
    time_scale: u32,
    environment: Option<String>,
    token: Token,
}

enum Token {
    Variable(String),
    File(String),
}

/// A running daemon, killed on drop.
pub struct Daemon {
    child: Child,
    home: TempDir,
    log: Arc<Mutex<Vec<String>>>,
    listener: Option<std::thread::JoinHandle<()>>,
    http: reqwest::Client,
}

impl DaemonBuilder {
    /// `supercargo agent` for the environment `prod`, with an empty home and environment, and durations divided by 100.
    pub fn new(cluster: &Cluster, gate: &Gate) -> Self {
        Self::from_kubeconfig(&cluster.kubeconfig(), gate)
    }

    /// The same for the cluster of a kubeconfig.
    pub fn from_kubeconfig(kubeconfig: &str, gate: &Gate) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("kubeconfig"), kubeconfig).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        command
            .env_clear()
            .env("HOME", home.path())
            .env("SUPERCARGO_BASE_URL", gate.url())
            .env("SUPERCARGO_ORG", "acme")
            .current_dir(home.path())
            .args(["agent", "--create", "--kubeconfig", "kubeconfig", "--listen", "127.0.0.1:0"]);
        Self {
            command,
            home,
            time_scale: 100,
            environment: Some("prod".to_owned()),
            token: Token::Variable(ADMIN.to_owned()),
        }
    }

    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the divisor of all durations.
    pub fn time_scale(mut self, factor: u32) -> Self {
        self.time_scale = factor;
        self
    }

    pub fn environment(mut self, name: &str) -> Self {
        self.environment = Some(name.to_owned());
        self
    }

    /// Sets the environments by a configuration file.
    pub fn config(self, yaml: &str) -> Self {
        std::fs::write(self.home.path().join("config.yaml"), yaml).unwrap();
        self.without_environment().args(["--config", "config.yaml"])
    }

    /// Omits `--environment`; the arguments select the environments.
    pub fn without_environment(mut self) -> Self {
        self.environment = None;
        self
    }

    /// Replaces the kubeconfig.
    pub fn kubeconfig(self, kubeconfig: &str) -> Self {
        std::fs::write(self.home.path().join("kubeconfig"), kubeconfig).unwrap();
        self
    }

    pub fn token(mut self, token: &str) -> Self {
        self.token = Token::Variable(token.to_owned());
        self
    }

    /// Reads the token from a file, which [`Daemon::write_token`] replaces.
    pub fn token_file(mut self, token: &str) -> Self {
        self.token = Token::File(token.to_owned());
        self
    }

    /// Starts with a log pipe that is full and never read.
    pub fn start_unread(mut self) -> (TempDir, PipeReader, Child) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        // The capacity of a pipe (pipe(7)).
        writer.write_all(&vec![b'.'; 64 * 1024]).unwrap();
        let child = self.spawn(writer.into());
        (self.home, reader, child)
    }

    fn spawn(&mut self, stderr: Stdio) -> Child {
        if let Some(environment) = &self.environment {
            self.command.args(["--environment", environment]);
        }
        self.command.args(["--time-scale", &self.time_scale.to_string()]);
        match &self.token {
            Token::Variable(token) => self.command.env("SUPERCARGO_TOKEN", token),
            Token::File(token) => {
                std::fs::write(self.home.path().join("token"), token).unwrap();
                self.command.env("SUPERCARGO_TOKEN_FILE", self.home.path().join("token"))
            }
        };
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        self.command.spawn().unwrap()
    }

    pub fn start(mut self) -> Daemon {
        let mut child = self.spawn(Stdio::piped());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&log);
        let listener = std::thread::spawn(move || {
            for line in stderr.lines() {
                lines.lock().unwrap().push(without_timestamp(line.unwrap()));
            }
        });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Daemon { child, home: self.home, log, listener: Some(listener), http }
    }
}

impl Daemon {
    /// Starts a daemon for the environment `prod` with default options.
    pub fn start(cluster: &Cluster, gate: &Gate) -> Self {
        DaemonBuilder::new(cluster, gate).start()
    }

    /// All lines on stderr so far, without the timestamps of text lines.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for the first line with this text.
    pub async fn wait_for_line(&self, text: &str) -> String {
        self.wait_for_nth_line(text, 1).await
    }

    /// Waits for the `n`th line with this text.
    pub async fn wait_for_nth_line(&self, text: &str, n: usize) -> String {
        let line = || self.log().into_iter().filter(|line| line.contains(text)).nth(n - 1);
        let log = || format!("the log is {:#?}", self.log());
        eventually_or(&format!("a line with {text:?}"), async || line().is_some(), log).await;
        line().unwrap()
    }

    /// The reports begun while the environment was withheld. Needs `RUST_LOG=supercargo=debug`. A report in flight
    /// when it is withheld may still be accepted.
    pub fn begun_while_withheld(&self, environment: &str) -> Vec<String> {
        let has = |line: &String, text: &str| line.contains(&format!("{environment}: {text}"));
        let log = self.log();
        assert!(log.iter().any(|line| has(line, "sending a report")), "{log:#?}");
        let withheld = log.into_iter().skip_while(|line| !has(line, "not reported"));
        withheld
            .take_while(|line| !has(line, "no longer withheld"))
            .filter(|line| has(line, "sending a report"))
            .collect()
    }

    /// The base URL for health and metrics, read from the log.
    pub async fn admin(&self) -> String {
        let line = self.wait_for_line("serving probes and metrics on http://").await;
        let start = line.find("http://").unwrap();
        line[start..].split([' ', ',', '"']).next().unwrap().trim_end_matches('/').to_owned()
    }

    /// Status and body of a page.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let response = self.http.get(format!("{}{path}", self.admin().await)).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The metrics by name with labels.
    pub async fn metrics(&self) -> BTreeMap<String, f64> {
        let (status, text) = self.get("/metrics").await;
        assert_eq!(status, 200, "{text}");
        parse(&text)
    }

    /// The sum of a metric over all label sets that contain this text.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let is = |key: &str| key.split('{').next() == Some(name) && key.contains(labels);
        self.metrics().await.iter().filter(|(key, _)| is(key)).map(|(_, value)| value).sum()
    }

    /// The same for a counter.
    pub async fn count(&self, name: &str, labels: &str) -> usize {
        // The sum of nothing is -0.
        (self.metric(name, labels).await + 0.0).to_string().parse().unwrap()
    }

    /// Status and body of `/readyz`.
    pub async fn readyz(&self) -> (u16, String) {
        self.get("/readyz").await
    }

    /// The lines of `/readyz?verbose`.
    pub async fn checks(&self) -> Vec<String> {
        self.get("/readyz?verbose").await.1.lines().map(str::to_owned).collect()
    }

    pub async fn livez(&self) -> (u16, String) {
        self.get("/livez").await
    }

    /// Waits until the daemon's live set has this many pods, reported or not.
    pub async fn wait_for_pods(&self, pods: usize) {
        let has_all = async || self.count("supercargo_agent_artifacts", "").await == pods;
        eventually(&format!("the live set has {pods} pods"), has_all).await;
    }

    /// Waits until the daemon has this many departed pods to report.
    pub async fn wait_for_departed_pods(&self, pods: usize) {
        let has_all = async || self.count("supercargo_agent_departed_pods", "").await == pods;
        eventually(&format!("{pods} pods have departed"), has_all).await;
    }

    /// Number of reports with this outcome.
    pub async fn report_count(&self, outcome: &str) -> usize {
        let label = format!("outcome=\"{outcome}\"");
        self.count("supercargo_agent_reports_total", &label).await
    }

    /// Waits for `n` reports with this outcome.
    pub async fn wait_for_reports(&self, outcome: &str, n: usize) {
        let has_enough = async || self.report_count(outcome).await >= n;
        let log = || format!("the log is {:#?}", self.log());
        eventually_or(&format!("{n} reports are {outcome}"), has_enough, log).await;
    }

    pub async fn is_ready(&self) -> bool {
        self.readyz().await.0 == 200
    }

    /// Replaces the token file atomically.
    pub fn write_token(&self, token: &str) {
        let (new, file) = (self.home.path().join("token.new"), self.home.path().join("token"));
        std::fs::write(&new, token).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    pub fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Waits for the exit; returns the exit code and the log. Asserts that there was no panic.
    pub async fn wait(mut self) -> (i32, Vec<String>) {
        let child = Mutex::new(&mut self.child);
        let ended = || child.lock().unwrap().try_wait().unwrap();
        eventually("the daemon ends", async || ended().is_some()).await;
        let code = ended().unwrap().code().expect("an exit code, not a signal");
        self.listener.take().unwrap().join().unwrap();
        let log = self.log();
        assert!(!log.iter().any(|line| line.contains("panicked")), "{log:#?}");
        (code, log)
    }

    /// Sends SIGTERM and asserts a clean exit.
    pub async fn stop(self) -> Vec<String> {
        self.signal(Signal::SIGTERM);
        let (code, log) = self.wait().await;
        assert_eq!(code, 0, "{log:#?}");
        log
    }
}

/// Kills the daemon of a failed test, and prints the end of its log.
impl Drop for Daemon {
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        if std::thread::panicking() {
            let log = self.log();
            eprintln!("log of the daemon:\n{}", log[log.len().saturating_sub(100)..].join("\n"));
        }
    }
}

/// Removes the timestamp of a text line, which is RFC 3339 in UTC.
fn without_timestamp(line: String) -> String {
    match line.split_once(' ') {
        Some((time, rest)) if time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok() => {
            rest.trim_start().to_owned()
        }
        _ => line,
    }
}

/// Parses a metrics page.
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let metric = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(metric).collect()
}
