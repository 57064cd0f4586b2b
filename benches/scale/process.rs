//! The release program as a process, and the resource usage of processes.

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

/// A running process, killed on drop.
pub struct Process(Child);

/// Resource usage of a process.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub cpu: Duration,
    /// Resident memory (RSS) in MiB: peak and current. Includes pages of the program file, which the kernel can reclaim.
    pub peak: f64,
    pub resident: f64,
    /// Anonymous memory (`RssAnon`) in MiB: heap and stacks, which nothing can reclaim without swap.
    pub anonymous: f64,
    /// Voluntary context switches.
    pub sleeps: u64,
}

impl Process {
    /// Starts the daemon with these environments and namespaces.
    pub fn daemon(folder: &Path, endpoint: SocketAddr, selection: &[String]) -> Self {
        let mut daemon = program(folder, endpoint);
        daemon.args(selection).args(["--listen", "127.0.0.1:0", "--interval", "10m"]);
        Self::spawn(daemon, folder)
    }

    /// Starts the daemon within a control group, with the default heartbeats.
    pub fn daemon_in_group(folder: &Path, endpoint: SocketAddr, group: &Path) -> Self {
        let mut shell = program(folder, endpoint);
        let daemon = std::mem::replace(&mut shell, Command::new("sh"));
        shell.arg("-c").arg("echo $$ >\"$0\" && exec \"$@\"").arg(group).arg(daemon.get_program());
        shell.args(daemon.get_args()).args(["--environment", "bench", "--listen", "127.0.0.1:0"]);
        shell.env_clear().env("SUPERCARGO_TOKEN", "t");
        Self::spawn(shell, folder)
    }

    fn spawn(mut command: Command, folder: &Path) -> Self {
        let log = std::fs::File::create(folder.join("log")).unwrap();
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub fn has_exited(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits for the exit status.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.0.wait().unwrap()
    }

    /// Starts this bench with other arguments, and returns once it has read the list.
    pub fn reader(args: &[String]) -> Self {
        let mut reader = Self(spawn_self(args));
        let mut byte = [0];
        reader.0.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        reader
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap())
    }

    pub fn usage(&self) -> Usage {
        usage(self.pid())
    }

    /// Shuts the process down.
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

/// The agent with an empty environment, except for variables of the allocator, which can thus be compared.
fn program(folder: &Path, endpoint: SocketAddr) -> Command {
    let mut command = Command::new(crate::budgets::program());
    let inherited =
        std::env::vars().filter(|(name, _)| name.starts_with("MALLOC_") || name.starts_with("GLIBC_"));
    command
        .env_clear()
        .envs(inherited)
        .env("SUPERCARGO_TOKEN", "t")
        .args(["agent", "--org", "bench"])
        .args(["--base-url", &format!("https://{endpoint}")])
        .arg("--kubeconfig")
        .arg(folder.join("kubeconfig"))
        .arg("--ca-file")
        .arg(folder.join("ca.pem"));
    command
}

/// Requests metrics and health of the daemon in this folder, as a cluster does.
pub fn scrape(folder: &Path) {
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    let (_, address) = log.split_once("serving probes and metrics on http://").unwrap();
    let address = address.split(|c: char| !c.is_ascii_digit() && !".:".contains(c)).next().unwrap();
    for path in ["/metrics", "/livez", "/readyz"] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
}

/// Resource usage of a process so far.
pub fn usage(pid: Pid) -> Usage {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |status: &str, key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let mib = |key| number(&status, key) as f64 / 1024.0;
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread may have ended.
    let tasks = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    Usage {
        cpu: clock_getcpuclockid(pid).unwrap().now().unwrap().into(),
        peak: mib("VmHWM"),
        resident: mib("VmRSS"),
        anonymous: mib("RssAnon"),
        sleeps: tasks.map(|task| number(&task, "voluntary_ctxt_switches")).sum(),
    }
}

/// Starts this bench with other arguments.
fn spawn_self(args: &[impl AsRef<OsStr>]) -> Child {
    Command::new(std::env::current_exe().unwrap()).args(args).stdout(Stdio::piped()).spawn().unwrap()
}

/// Runs this bench with other arguments and returns its output.
pub fn run_self(args: &[&str]) -> String {
    let mut child = spawn_self(args);
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
    output
}

/// Runs `supercargo agent --once` as the only child process. Returns peak RSS in MiB, CPU and wall time in seconds.
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
