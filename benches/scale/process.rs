//! The release program as a process, and what the system counts of one.

use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// A process that runs; it is killed when it is dropped.
pub struct Process(Child);

/// What a process has used.
#[derive(Clone, Copy, Default)]
pub struct Used {
    pub cpu: Duration,
    /// Resident memory (RSS) in MiB: the peak, and now. It includes pages of the program's file, which the kernel
    /// reclaims when memory is short.
    pub peak: f64,
    pub resident: f64,
    /// Anonymous memory (`RssAnon`) in MiB: heap and stacks, which nothing can reclaim without swap.
    pub anonymous: f64,
    /// How often it slept.
    pub sleeps: u64,
}

impl Process {
    /// The daemon, with these environments and namespaces.
    pub fn daemon(folder: &Path, endpoint: SocketAddr, selection: &[String]) -> Self {
        let mut daemon = program(folder, endpoint);
        daemon.args(selection).args(["--listen", "127.0.0.1:0", "--interval", "10m"]);
        Self::spawn(daemon, folder)
    }

    /// One that is in a control group from its first byte on, with the heartbeats of every day.
    pub fn daemon_within(folder: &Path, endpoint: SocketAddr, group: &Path) -> Self {
        let mut shell = program(folder, endpoint);
        let daemon = std::mem::replace(&mut shell, Command::new("sh"));
        shell.arg("-c").arg("echo $$ >\"$0\" && exec \"$@\"").arg(group).arg(daemon.get_program());
        shell.args(daemon.get_args()).args(["--environment", "bench", "--listen", "127.0.0.1:0"]);
        shell.env_clear().env("SUPERCARGO_TOKEN", "t");
        Self::spawn(shell, folder)
    }

    fn spawn(mut command: Command, folder: &Path) -> Self {
        let said = std::fs::File::create(folder.join("said")).unwrap();
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().unwrap())
    }

    pub fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// How it ended.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        self.0.wait().unwrap()
    }

    /// This very bench with other arguments, which says when it has read the list: then it is handed out.
    pub fn reader(args: &[String]) -> Self {
        let mut reader = Self(this(args));
        let mut said = [0];
        reader.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        reader
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap())
    }

    pub fn used(&self) -> Used {
        used(self.pid())
    }

    /// Ends it in order.
    pub fn stop(mut self) {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The agent in an empty environment. What the caller's environment says of memory is left to it, so
/// that allocators can be compared.
fn program(folder: &Path, endpoint: SocketAddr) -> Command {
    let mut command = Command::new(crate::budgets::program());
    let kept = std::env::vars().filter(|(name, _)| name.starts_with("MALLOC_") || name.starts_with("GLIBC_"));
    command
        .env_clear()
        .envs(kept)
        .env("SUPERCARGO_TOKEN", "t")
        .args(["agent", "--org", "bench"])
        .args(["--base-url", &format!("https://{endpoint}")])
        .arg("--kubeconfig")
        .arg(folder.join("kubeconfig"))
        .arg("--ca-file")
        .arg(folder.join("ca.pem"));
    command
}

/// Asks the daemon that runs in this folder for its metrics and its health, as a cluster does.
pub fn look_at(folder: &Path) {
    let said = std::fs::read_to_string(folder.join("said")).unwrap();
    let (_, address) = said.split_once("health and metrics on http://").unwrap();
    let address = address.split(|c: char| !c.is_ascii_digit() && !".:".contains(c)).next().unwrap();
    for path in ["/metrics", "/livez", "/readyz"] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// What a process has used so far.
pub fn used(pid: Pid) -> Used {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |status: &str, key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let mib = |key| number(&status, key) as f64 / 1024.0;
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread may end meanwhile.
    let tasks = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    Used {
        cpu: clock_getcpuclockid(pid).unwrap().now().unwrap().into(),
        peak: mib("VmHWM"),
        resident: mib("VmRSS"),
        anonymous: mib("RssAnon"),
        sleeps: tasks.map(|task| number(&task, "voluntary_ctxt_switches")).sum(),
    }
}

/// This very bench with other arguments.
fn this(args: &[impl AsRef<OsStr>]) -> Child {
    Command::new(std::env::current_exe().unwrap()).args(args).stdout(Stdio::piped()).spawn().unwrap()
}

/// Runs this very bench with other arguments: what it prints.
pub fn again(args: &[&str]) -> String {
    let mut child = this(args);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    said
}

/// `supercargo agent --once`, as the only child of this process: its peak RSS in MiB, CPU and wall time
/// in seconds.
pub fn once(folder: &Path, endpoint: SocketAddr) -> [f64; 3] {
    let start = Instant::now();
    let outcome = program(folder, endpoint)
        .args(["--environment", "bench", "--once", "--timeout", "10m"])
        .output()
        .unwrap();
    let wall = start.elapsed().as_secs_f64();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    [used.max_rss() as f64 / 1024.0, seconds(used.user_time()) + seconds(used.system_time()), wall]
}
