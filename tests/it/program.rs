//! Runs the program as a process with an empty home and environment.

use std::io::Write;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::fake::Server;
use crate::fake::kube::{User, kubeconfig};

pub const TOKEN: &str = "s3cret-t0ken-0f-the-test";

/// A run that has not started.
pub struct Program {
    command: Command,
    home: TempDir,
    stdin: Vec<u8>,
    hold_stdin: bool,
}

/// Exit code and output of a finished run.
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

/// `supercargo` without arguments.
pub fn supercargo() -> Program {
    let mut program = once();
    let home = program.home.path().to_owned();
    program.command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    program.command.env_clear().env("HOME", &home).current_dir(&home);
    program
}

/// The dry run's output for the recorded pods.
pub fn recorded_report() -> String {
    let outcome = once().args(["--dry-run", "--environment", "x"]).recorded_pods().run();
    outcome.expect(0, &[]).stdout.clone()
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

    /// Keeps standard input open while the program runs.
    pub fn hold_stdin(mut self) -> Self {
        self.hold_stdin = true;
        self
    }

    /// Adds a file to the home folder.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Sets the working directory, by default the home folder.
    pub fn folder(mut self, folder: &std::path::Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Uses this API server without credentials.
    pub fn cluster(self, server: &Server) -> Self {
        self.kubeconfig(&kubeconfig(&server.url(), None, &User::Anonymous))
    }

    pub fn kubeconfig(self, kubeconfig: &str) -> Self {
        self.file("kubeconfig", kubeconfig).args(["--kubeconfig", "kubeconfig"])
    }

    /// Reads the recorded pods from their file.
    pub fn recorded_pods(self) -> Self {
        let path = crate::fake::kube::fixture_path("pod-list.json");
        self.args(["--pods-from", path.to_str().unwrap()])
    }

    /// Uses this service, with the organization `acme` and a token.
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
        // The program may exit without reading all input, so errors are ignored.
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
    /// Asserts the exit code, that stderr contains each text, and that there was no panic.
    #[track_caller]
    pub fn expect(&self, code: i32, texts: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not in: {self:#?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }

    /// Success, with these texts in the result.
    pub fn expect_result(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stdout.contains(text), "{text:?} is not in: {self:#?}");
        }
        self.expect(0, &[])
    }
}
