//! Processes of the program, and the resources that a process uses.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A running process, killed on drop.
pub(crate) struct Process {
    child: Child,
    /// With the file `log` of its standard error.
    folder: TempDir,
}

/// The program, or another build of it for comparison (`SUPERCARGO_PROGRAM`), without environment variables.
pub(crate) fn program() -> Command {
    let path = std::env::var_os("SUPERCARGO_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_supercargo").into(), PathBuf::from);
    let mut command = Command::new(path);
    command.env_clear();
    command
}

/// CPU time of a process, if it runs.
pub(crate) fn cpu(pid: Pid) -> Option<Duration> {
    Some(clock_gettime(clock_getcpuclockid(pid).ok()?).ok()?.into())
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { child, folder }
    }

    /// Waits for the address that follows this text in the log.
    pub(crate) fn address(&mut self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            if let Some((_, address)) = log.split_once(text) {
                let address = address.trim_start_matches("s://").trim_start_matches("://");
                let end = address.find(|c: char| !c.is_ascii_digit() && !".:".contains(c));
                return address[..end.unwrap_or(address.len())].to_owned();
            }
            assert!(self.child.try_wait().unwrap().is_none(), "{log}");
            assert!(begin.elapsed() < Duration::from_mins(1), "{log}");
            sleep(Duration::from_millis(10));
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// CPU time in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        cpu(self.pid()).unwrap().as_secs_f64()
    }

    /// A field of `/proc/PID/status` in MiB.
    pub(crate) fn memory(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        value.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// Shuts the process down.
    pub(crate) fn stop(mut self) {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
