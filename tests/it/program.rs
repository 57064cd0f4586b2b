//! The program, run as its users run it: a process of its own, with an environment of its own.

use std::io::Write;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::fake::Server;
use crate::fake::kube::{User, kubeconfig};

pub const TOKEN: &str = "s3cret-t0ken-0f-the-test";

/// One run.
pub struct Program {
    command: Command,
    home: TempDir,
    stdin: Vec<u8>,
    hold_stdin: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// `supercargo agent --once`, in an empty home and an empty environment.
pub fn once() -> Program {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.env_clear().env("HOME", home.path()).current_dir(home.path()).args(["agent", "--once"]);
    Program { command, home, stdin: Vec::new(), hold_stdin: false }
}

/// `supercargo` alone.
pub fn supercargo() -> Program {
    let mut program = once();
    let home = program.home.path().to_owned();
    program.command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    program.command.env_clear().env("HOME", &home).current_dir(&home);
    program
}

/// The report of the recorded pods, as the dry run prints it.
pub fn recorded_report() -> String {
    let outcome = once().args(["--dry-run", "--environment", "x"]).recorded_pods().run();
    outcome.says(0, &[]).stdout.clone()
}

impl Program {
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Keeps standard input open as long as it runs.
    pub fn hold_stdin(mut self) -> Self {
        self.hold_stdin = true;
        self
    }

    /// A file in the directory that it runs in.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Runs in another directory than its home.
    pub fn folder(mut self, folder: &std::path::Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// The cluster behind this server, which wants no credentials.
    pub fn cluster(self, server: &Server) -> Self {
        self.kubeconfig(&kubeconfig(&server.url(), None, &User::Nobody))
    }

    pub fn kubeconfig(self, kubeconfig: &str) -> Self {
        self.file("kubeconfig", kubeconfig).args(["--kubeconfig", "kubeconfig"])
    }

    /// The recorded pods, as kubectl would print them.
    pub fn recorded_pods(self) -> Self {
        let path = crate::fake::kube::fixture_path("pod-list.json");
        self.args(["--pods-from", path.to_str().unwrap()])
    }

    /// The service behind this server, the organization `acme` and a token.
    pub fn service(self, server: &Server) -> Self {
        self.env("SUPERCARGO_BASE_URL", &server.url())
            .env("SUPERCARGO_ORG", "acme")
            .env("SUPERCARGO_TOKEN", TOKEN)
    }

    pub fn run(mut self) -> Outcome {
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let bytes = std::mem::take(&mut self.stdin);
        // It may not read all, or nothing.
        let hold = self.hold_stdin;
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&bytes);
            hold.then_some(stdin)
        });
        let output = child.wait_with_output().unwrap();
        drop(writer.join().unwrap());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().expect("an exit code, not a signal");
        Outcome { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Outcome {
    /// It ended with this code, said all of this on stderr, and did not panic.
    #[track_caller]
    pub fn says(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in: {self:#?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }
}
