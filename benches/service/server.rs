//! `supercargo serve` as a process, and a client.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::budgets::program;
use super::database::Database;
use super::figures::{Figures, cpu_of};

/// An organization of the bootstrap file.
pub(super) struct Organization {
    name: String,
    /// Names of its tokens of role admin; [`token`] returns their text.
    tokens: Vec<String>,
    /// Further keys in YAML, indented by four spaces.
    settings: String,
}

impl Organization {
    /// An organization with one token, which has its name.
    pub(super) fn new(name: impl Into<String>, settings: impl Into<String>) -> Self {
        let name = name.into();
        Self { tokens: vec![name.clone()], name, settings: settings.into() }
    }

    pub(super) fn with_token(mut self, token: &str) -> Self {
        self.tokens.push(token.to_owned());
        self
    }
}

/// A running service, killed on drop.
pub(super) struct Server {
    process: Child,
    pub(super) address: String,
    _folder: TempDir,
}

impl Server {
    pub(super) fn start(database: &Database, organizations: &[Organization]) -> Self {
        Self::start_with(database, organizations, &[])
    }

    /// Starts a service with further arguments.
    pub(super) fn start_with(
        database: &Database,
        organizations: &[Organization],
        arguments: &[String],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut bootstrap = "generation: 1\norganizations:\n".to_owned();
        for Organization { name, tokens, settings } in organizations {
            writeln!(bootstrap, "  - name: {name}\n    tokens:").unwrap();
            for token in tokens {
                writeln!(bootstrap, "      - {{name: {token}, role: admin, variable: TOKEN_{token}}}")
                    .unwrap();
            }
            bootstrap.push_str(settings);
        }
        std::fs::write(folder.path().join("bootstrap.yaml"), bootstrap).unwrap();
        let log = folder.path().join("log");
        let tokens = organizations.iter().flat_map(|organization| &organization.tokens);
        let process = Command::new(program())
            .env_clear()
            .env("SUPERCARGO_DATABASE", &database.url)
            .env("HOOK", "https://hooks.example.com/x")
            .envs(tokens.map(|name| (format!("TOKEN_{name}"), token(name))))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--bootstrap"])
            .arg(folder.path().join("bootstrap.yaml"))
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut server = Self { process, address: String::new(), _folder: folder };
        let begin = Instant::now();
        while server.address.is_empty() {
            let log = std::fs::read_to_string(&log).unwrap();
            assert!(begin.elapsed() < Duration::from_mins(1), "{log}");
            assert!(server.process.try_wait().unwrap().is_none(), "{log}");
            if let Some((_, rest)) = log.split_once("serving on http") {
                let (address, _) = rest.split_once(',').unwrap();
                address.trim_start_matches('s').trim_start_matches("://").clone_into(&mut server.address);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// CPU time in seconds.
    pub(super) fn cpu(&self) -> f64 {
        cpu_of(self.process.id(), "").unwrap()
    }

    pub(super) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, received: vec![0; 64 * 1024] }
    }

    /// Resident memory in MiB.
    pub(super) fn memory(&self) -> f64 {
        self.status("VmRSS:")
    }

    /// Peak of the resident memory in MiB.
    pub(super) fn peak(&self) -> f64 {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> f64 {
        // proc_pid_status(5)
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }

    /// Measures GET requests of an operation on one connection.
    pub(super) fn get(&self, organization: &str, path: &str, samples: usize) -> Figures {
        self.measure(&get(path, &bearer(organization)), samples)
    }

    /// Measures repeated requests on one connection.
    pub(super) fn measure(&self, head: &str, samples: usize) -> Figures {
        let mut connection = self.connect();
        for _ in 0..3 {
            connection.send(head, &[]).expect(200);
        }
        let cpu = self.cpu();
        let responses: Vec<_> = (0..samples).map(|_| connection.send(head, &[]).expect(200)).collect();
        let cpu = (self.cpu() - cpu) * 1e3 / samples as f64;
        Figures::new(
            responses.iter().map(|response| response.milliseconds).collect(),
            cpu,
            responses[0].bytes,
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In place of the length of a chunked response.
const CHUNKED: usize = usize::MAX;

/// Text of the token with this name.
pub(super) fn token(name: &str) -> String {
    format!("{name:0>64}")
}

/// Head of a GET request with a header for authentication.
pub(super) fn get(path: &str, credential: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{credential}\r\n\r\n")
}

/// Header with a token.
pub(super) fn bearer(name: &str) -> String {
    format!("Authorization: Bearer {}", token(name))
}

/// Head of a report.
pub(super) fn report_head(organization: &str, environment: &str, body: &[u8]) -> String {
    format!(
        "PUT /api/v2/environments/{organization}/{environment}/report/K8S HTTP/1.1\r\nHost: bench\r\n{}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        bearer(organization),
        body.len()
    )
}

/// A persistent connection.
pub(super) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

pub(super) struct Response {
    pub(super) status: u16,
    pub(super) milliseconds: f64,
    pub(super) bytes: usize,
    head: String,
}

impl Response {
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status);
        self
    }
}

impl Connection {
    pub(super) fn report(&mut self, organization: &str, environment: &str, body: &[u8]) -> Response {
        self.send(&report_head(organization, environment, body), body)
    }

    pub(super) fn attest(&mut self, organization: &str, flow: &str, trail: &str, data: &str) -> Response {
        self.attest_with(organization, flow, trail, data, "")
    }

    /// Attests with an attachment, unless `file` is empty. The file must not contain the boundary.
    pub(super) fn attest_with(
        &mut self,
        organization: &str,
        flow: &str,
        trail: &str,
        data: &str,
        file: &str,
    ) -> Response {
        self.try_attest(organization, flow, trail, data, file).unwrap()
    }

    /// As [`attest_with`](Self::attest_with), but fails if the service closes the connection.
    pub(super) fn try_attest(
        &mut self,
        organization: &str,
        flow: &str,
        trail: &str,
        data: &str,
        file: &str,
    ) -> io::Result<Response> {
        let mut body =
            format!("--x\r\nContent-Disposition: form-data; name=\"data_json\"\r\n\r\n{data}\r\n--x");
        if !file.is_empty() {
            let head = "Content-Disposition: form-data; name=\"attachment_file\"; filename=\"junit.xml\"";
            write!(body, "\r\n{head}\r\n\r\n{file}\r\n--x").unwrap();
        }
        body.push_str("--\r\n");
        let head = format!(
            "POST /api/v2/attestations/{organization}/{flow}/trail/{trail}/junit HTTP/1.1\r\nHost: bench\r\n\
             Authorization: Bearer {}\r\nContent-Type: multipart/form-data; boundary=x\r\n\
             Content-Length: {}\r\n\r\n",
            token(organization),
            body.len()
        );
        self.try_send(&head, body.as_bytes())
    }

    /// Signs in as a browser does. Returns the cookie.
    pub(super) fn sign_in(&mut self, token: &str) -> String {
        let body = format!("token={token}");
        let head = format!(
            "POST /ui/sign-in HTTP/1.1\r\nHost: bench\r\nOrigin: http://bench\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let response = self.send(&head, body.as_bytes()).expect(303);
        let (_, cookie) = response.head.split_once("set-cookie: ").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Text of the last response.
    pub(super) fn text(&self, response: &Response) -> String {
        String::from_utf8_lossy(&self.received[..response.bytes]).into_owned()
    }

    pub(super) fn send(&mut self, head: &str, body: &[u8]) -> Response {
        self.try_send(head, body).unwrap()
    }

    /// Fails if the service closes the connection.
    pub(super) fn try_send(&mut self, head: &str, body: &[u8]) -> io::Result<Response> {
        let begin = Instant::now();
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)?;
        let (mut filled, mut end, mut heading) = (0, None, String::new());
        let end = loop {
            let count = self.stream.read(&mut self.received[filled..])?;
            if count == 0 {
                return Err(io::Error::other("the service closed the connection"));
            }
            filled += count;
            end = end.or_else(|| {
                let at = self.received[..filled].windows(4).position(|four| four == b"\r\n\r\n")?;
                heading = String::from_utf8_lossy(&self.received[..at]).to_lowercase();
                let length = heading.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
                // Otherwise the response ends with an empty chunk.
                Some(length.map_or(CHUNKED, |length| at + 4 + length.parse::<usize>().unwrap()))
            });
            match end {
                Some(CHUNKED) if self.received[..filled].ends_with(b"\r\n0\r\n\r\n") => break filled,
                Some(CHUNKED) if filled == self.received.len() => self.received.resize(filled * 2, 0),
                Some(CHUNKED) => {}
                Some(end) if filled >= end => break end,
                Some(end) if end > self.received.len() => self.received.resize(end, 0),
                _ => {}
            }
        };
        let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
        let status = String::from_utf8_lossy(&self.received[9..12]).parse().unwrap();
        Ok(Response { status, milliseconds, bytes: end, head: heading })
    }
}
