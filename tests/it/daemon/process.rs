//! The daemon as a process of its own: its environment, what it says, how it ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::{eventually, eventually_or};
use crate::daemon::cluster::Cluster;
use crate::daemon::gate::Gate;
use crate::service::ADMIN;

/// A daemon that is about to start.
pub struct Starting {
    command: Command,
    home: TempDir,
    hasten: u32,
    environment: Option<String>,
    token: Token,
}

enum Token {
    Variable(String),
    File(String),
}

/// One that runs; it is killed when it is dropped.
pub struct Daemon {
    child: Child,
    home: TempDir,
    said: Arc<Mutex<Vec<String>>>,
    listener: Option<std::thread::JoinHandle<()>>,
    http: reqwest::Client,
}

impl Starting {
    /// `supercargo agent` for the environment `prod`, in an empty home and an empty environment, with
    /// every duration of its policies a hundredth.
    pub fn between(cluster: &Cluster, gate: &Gate) -> Self {
        Self::at(&cluster.kubeconfig(), gate)
    }

    /// The same for whatever cluster a kubeconfig leads to.
    pub fn at(kubeconfig: &str, gate: &Gate) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("kubeconfig"), kubeconfig).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        command
            .env_clear()
            .env("HOME", home.path())
            .env("SUPERCARGO_BASE_URL", gate.url())
            .env("SUPERCARGO_ORG", "acme")
            .current_dir(home.path())
            .args(["agent", "--kubeconfig", "kubeconfig", "--listen", "127.0.0.1:0"]);
        Self {
            command,
            home,
            hasten: 100,
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

    /// By how much every duration is divided.
    pub fn hasten(mut self, factor: u32) -> Self {
        self.hasten = factor;
        self
    }

    pub fn environment(mut self, name: &str) -> Self {
        self.environment = Some(name.to_owned());
        self
    }

    /// Environments by a configuration file.
    pub fn config(self, yaml: &str) -> Self {
        std::fs::write(self.home.path().join("config.yaml"), yaml).unwrap();
        self.without_environment().args(["--config", "config.yaml"])
    }

    /// Its arguments say which.
    pub fn without_environment(mut self) -> Self {
        self.environment = None;
        self
    }

    /// Another way to the cluster.
    pub fn kubeconfig(self, kubeconfig: &str) -> Self {
        std::fs::write(self.home.path().join("kubeconfig"), kubeconfig).unwrap();
        self
    }

    pub fn token(mut self, token: &str) -> Self {
        self.token = Token::Variable(token.to_owned());
        self
    }

    /// The token from a file, which [`Daemon::write_token`] changes.
    pub fn token_file(mut self, token: &str) -> Self {
        self.token = Token::File(token.to_owned());
        self
    }

    /// One whose log goes into a pipe that is full and that nobody reads, for as long as that is kept.
    pub fn start_unread(mut self) -> (TempDir, PipeReader, Child) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        // As much as a pipe holds (pipe(7)).
        writer.write_all(&vec![b'.'; 64 * 1024]).unwrap();
        let child = self.spawn(writer.into());
        (self.home, reader, child)
    }

    fn spawn(&mut self, stderr: Stdio) -> Child {
        if let Some(environment) = &self.environment {
            self.command.args(["--environment", environment]);
        }
        self.command.args(["--hasten", &self.hasten.to_string()]);
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
        let said = Arc::<Mutex<Vec<String>>>::default();
        let hears = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            for line in stderr.lines() {
                hears.lock().unwrap().push(line.unwrap());
            }
        });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Daemon { child, home: self.home, said, listener: Some(listener), http }
    }
}

impl Daemon {
    /// One for the environment `prod`, without further ado.
    pub fn start(cluster: &Cluster, gate: &Gate) -> Self {
        Starting::between(cluster, gate).start()
    }

    /// What it said on stderr so far.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// The first line that has these words, once there is one.
    pub async fn says(&self, words: &str) -> String {
        self.says_again(words, 1).await
    }

    /// The `n`th line that has these words.
    pub async fn says_again(&self, words: &str, n: usize) -> String {
        let line = || self.said().into_iter().filter(|line| line.contains(words)).nth(n - 1);
        let said = || format!("it said {:#?}", self.said());
        eventually_or(&format!("{words:?}"), async || line().is_some(), said).await;
        line().unwrap()
    }

    /// Where it answers about its health.
    async fn admin(&self) -> String {
        let line = self.says("health and metrics on http://").await;
        let start = line.find("http://").unwrap();
        line[start..].split([' ', ',', '"']).next().unwrap().trim_end_matches('/').to_owned()
    }

    /// A page of its listener, whatever it is.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.http.get(format!("{}{path}", self.admin().await)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Each metric by its name and labels, as they are shown.
    pub async fn metrics(&self) -> BTreeMap<String, f64> {
        let (status, text) = self.get("/metrics").await;
        assert_eq!(status, 200, "{text}");
        parse(&text)
    }

    /// The sum of a metric over those of its labels that contain these words.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let is = |key: &str| key.split('{').next() == Some(name) && key.contains(labels);
        self.metrics().await.iter().filter(|(key, _)| is(key)).map(|(_, value)| value).sum()
    }

    /// The same of a metric that counts.
    pub async fn count(&self, name: &str, labels: &str) -> usize {
        // The sum of nothing is -0.
        (self.metric(name, labels).await + 0.0).to_string().parse().unwrap()
    }

    /// The status and the text of `/readyz`.
    pub async fn readyz(&self) -> (u16, String) {
        self.get("/readyz").await
    }

    /// Each check of `/readyz` in a line of its own, whether it is ready or not.
    pub async fn checks(&self) -> Vec<String> {
        self.get("/readyz?verbose").await.1.lines().map(str::to_owned).collect()
    }

    pub async fn livez(&self) -> (u16, String) {
        self.get("/livez").await
    }

    /// Waits until it knows that so many pods run, whether or not it has reported them.
    pub async fn hears_of(&self, pods: usize) {
        let knows = async || self.count("supercargo_agent_artifacts", "").await == pods;
        eventually(&format!("it hears of {pods} pods"), knows).await;
    }

    /// How many reports came to this.
    pub async fn reports(&self, outcome: &str) -> usize {
        let label = format!("outcome=\"{outcome}\"");
        self.count("supercargo_agent_reports_total", &label).await
    }

    /// Waits until so many reports came to this.
    pub async fn has_reported(&self, outcome: &str, n: usize) {
        let so_many = async || self.reports(outcome).await >= n;
        let said = || format!("it said {:#?}", self.said());
        eventually_or(&format!("{n} reports are {outcome}"), so_many, said).await;
    }

    pub async fn is_ready(&self) -> bool {
        self.readyz().await.0 == 200
    }

    /// Puts another token into its file, all at once.
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

    /// Its exit code, and what it said; it did not panic.
    pub async fn wait(mut self) -> (i32, Vec<String>) {
        let child = Mutex::new(&mut self.child);
        let ended = || child.lock().unwrap().try_wait().unwrap();
        eventually("the daemon ends", async || ended().is_some()).await;
        let code = ended().unwrap().code().expect("an exit code, not a signal");
        self.listener.take().unwrap().join().unwrap();
        let said = self.said();
        assert!(!said.iter().any(|line| line.contains("panicked")), "{said:#?}");
        (code, said)
    }

    /// Asks it to end, and waits until it has, in order.
    pub async fn stop(self) -> Vec<String> {
        self.signal(Signal::SIGTERM);
        let (code, said) = self.wait().await;
        assert_eq!(code, 0, "{said:#?}");
        said
    }
}

/// One that a failed test leaves behind does not run on, and says what it had to say.
impl Drop for Daemon {
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        if std::thread::panicking() {
            let said = self.said();
            eprintln!("the daemon said:\n{}", said[said.len().saturating_sub(100)..].join("\n"));
        }
    }
}

/// The lines of a metrics page that are no comments.
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let metric = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(metric).collect()
}
