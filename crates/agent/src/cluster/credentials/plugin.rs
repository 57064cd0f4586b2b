//! Runs a credential plugin: `exec` of a kubeconfig, as client-go's `plugin/pkg/client/auth/exec` does.
//!
//! kube runs it twice at the start, does not rerun it after a 401 or for a certificate (kube-rs/kube#1675), uses either
//! its token or its certificate, and tells it that there is a terminal where there is none.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use serde_saphyr::DuplicateKeyPolicy;

use super::IssueError;
use super::issue::Issue;
use crate::cluster::kubeconfig::{ClusterInfo, Exec, KubeconfigError, Text, User};
use crate::cluster::tls;
use runtime::own_variables::own_variables;
use runtime::token_file::{InvalidToken, Token};

pub(in crate::cluster) struct Plugin {
    command: PathBuf,
    exec: Exec,
    cluster: Option<ClusterInfo>,
    interactive_mode: InteractiveMode,
}

/// Whether the plugin may use standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InteractiveMode {
    Never,
    IfAvailable,
    Always,
}

/// The plugin printed no credential. The messages do not quote its input and output, which may contain a token.
#[derive(Debug, thiserror::Error)]
pub(in crate::cluster) enum PluginError {
    #[error("failed to start the credential plugin")]
    Start(#[source] io::Error),
    #[error(
        "failed to start the credential plugin: its command is in a relative folder of PATH; expected an absolute one"
    )]
    Relative,
    #[error("the credential plugin requires a terminal as standard input (interactiveMode: Always)")]
    NoTerminal,
    #[error("the credential plugin failed, {0}")]
    Failed(ExitStatus),
    #[error("expected an ExecCredential from the credential plugin")]
    Output,
    #[error("expected a token, or a client certificate and its key, from the credential plugin")]
    NoCredential,
    #[error("invalid token from the credential plugin: {0}")]
    Token(InvalidToken),
    #[error(
        "invalid client certificate from the credential plugin: expected PEM, and the key of the certificate"
    )]
    Certificate,
    #[error("invalid expirationTimestamp from the credential plugin: expected RFC 3339")]
    Expiration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Text,
    token: Text,
    client_certificate_data: Text,
    client_key_data: Text,
}

impl Plugin {
    /// The plugin of a user; `cluster` is passed to it if it asks for it.
    pub(in crate::cluster) fn new(
        user: &User,
        exec: &Exec,
        cluster: Option<ClusterInfo>,
    ) -> Result<Self, KubeconfigError> {
        let interactive_mode = match exec.interactive_mode.get() {
            Some("Never") => InteractiveMode::Never,
            Some("Always") => InteractiveMode::Always,
            // The default of v1beta1; kubectl requires a value for v1.
            Some("IfAvailable") | None => InteractiveMode::IfAvailable,
            Some(_) => {
                return Err(KubeconfigError::Plugin(
                    "interactiveMode: expected Never, IfAvailable or Always",
                ));
            }
        };
        let command =
            user.plugin_command(exec).ok_or(KubeconfigError::Plugin("command: expected a program"))?;
        Ok(Self { command, exec: exec.clone(), cluster, interactive_mode })
    }

    /// Runs the plugin and waits for its end.
    pub(in crate::cluster) fn run(&self) -> Result<Issue, IssueError> {
        Ok(read(&self.output()?)?)
    }

    fn output(&self) -> Result<Vec<u8>, PluginError> {
        let is_terminal = io::stdin().is_terminal();
        let is_interactive = match self.interactive_mode {
            InteractiveMode::Never => false,
            InteractiveMode::IfAvailable => is_terminal,
            InteractiveMode::Always if !is_terminal => return Err(PluginError::NoTerminal),
            InteractiveMode::Always => true,
        };
        // Its errors are shown to the person who answers it. In a log, they may contain a secret.
        let stdio = || if is_interactive { Stdio::inherit() } else { Stdio::null() };
        let path = env::var_os("PATH").unwrap_or_default();
        let mut command = Command::new(program(&self.command, &path)?);
        command.arg0(&self.command).args(&self.exec.args).stdin(stdio()).stderr(stdio());
        for name in own_variables() {
            command.env_remove(name);
        }
        for variable in &self.exec.env {
            if let Some(name) = variable.name.get() {
                command.env(name, variable.value.get().unwrap_or_default());
            }
        }
        command.env("KUBERNETES_EXEC_INFO", self.input(is_interactive));
        let output = command.output().map_err(PluginError::Start)?;
        if output.status.success() { Ok(output.stdout) } else { Err(PluginError::Failed(output.status)) }
    }

    fn input(&self, is_interactive: bool) -> String {
        let spec = match &self.cluster {
            Some(cluster) => json!({ "interactive": is_interactive, "cluster": cluster }),
            None => json!({ "interactive": is_interactive }),
        };
        let version = self.exec.api_version.get();
        json!({ "kind": "ExecCredential", "apiVersion": version, "spec": spec }).to_string()
    }
}

/// The file of a command. Like Go, runs no program of the working directory, where others may have put it.
fn program(command: &Path, path: &OsStr) -> Result<PathBuf, PluginError> {
    if command.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Ok(command.to_owned());
    }
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    match env::split_paths(path).map(|folder| folder.join(command)).find(is_program) {
        Some(file) if file.is_absolute() => Ok(file),
        Some(_) => Err(PluginError::Relative),
        None => Err(PluginError::Start(io::Error::new(io::ErrorKind::NotFound, "no such program in PATH"))),
    }
}

/// Reads the output of a plugin: JSON, or the first document of YAML.
fn read(mut output: &[u8]) -> Result<Issue, PluginError> {
    let options =
        serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins, with_snippet: false };
    let first = serde_saphyr::read_with_options(&mut output, options).next();
    let credential: ExecCredential = first.and_then(Result::ok).ok_or(PluginError::Output)?;
    let status = credential.status.ok_or(PluginError::Output)?;
    let identity = match (status.client_certificate_data.get(), status.client_key_data.get()) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            let identity = tls::identity(certificate.as_bytes(), key.as_bytes());
            Some(identity.map_err(|_| PluginError::Certificate)?)
        }
        _ => return Err(PluginError::NoCredential),
    };
    let token = status.token.get().map(|token| Token::parse(&SecretString::from(token)));
    let token = token.transpose().map_err(PluginError::Token)?;
    if token.is_none() && identity.is_none() {
        return Err(PluginError::NoCredential);
    }
    let expires = status.expiration_timestamp.get().map(|text| time(text).ok_or(PluginError::Expiration));
    Ok(Issue { token, identity, expires: expires.transpose()? })
}

/// A time in RFC 3339. The last hours of the year 9999, which mean never, are the last time that jiff has.
fn time(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset()?;
    let local = pieces.date().to_datetime(pieces.time()?);
    let last = || (pieces.date().year() == 9999).then_some(Timestamp::MAX);
    offset.to_timestamp(local).ok().or_else(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_in_a_relative_folder_of_path_is_not_run() {
        // The working directory of tests is the folder of the package. No file there is a program.
        let folder = tempfile::tempdir_in(".").unwrap();
        let absolute = folder.path().canonicalize().unwrap();
        let relative = Path::new(folder.path().file_name().unwrap());
        let file = absolute.join("plugin");
        std::fs::write(&file, "").unwrap();
        let find = |folders: &[&Path]| program(Path::new("plugin"), &env::join_paths(folders).unwrap());
        assert!(matches!(find(&[&absolute]), Err(PluginError::Start(_))), "it is not executable");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (current, empty) = (Path::new("."), Path::new(""));
        for folders in [&[&*absolute, relative][..], &[current, &absolute], &[empty, &absolute]] {
            assert_eq!(find(folders).unwrap(), file, "{folders:?}");
        }
        for folders in [&[relative, &absolute][..], &[&current.join(relative)]] {
            assert!(matches!(find(folders), Err(PluginError::Relative)), "{folders:?}");
        }
        let of_current = folder.path().join("plugin");
        assert_eq!(program(&of_current, OsStr::new("")).unwrap(), of_current);
        assert!(matches!(find(&[]), Err(PluginError::Start(_))));
    }

    #[test]
    fn output_without_a_usable_credential_is_explained_and_not_quoted() {
        for (status, expected) in [
            ("", "expected an ExecCredential"),
            ("status: null", "expected an ExecCredential"),
            ("status: [s3cret]", "expected an ExecCredential"),
            ("{", "expected an ExecCredential"),
            ("status: {}", "expected a token, or"),
            ("status: {token: ''}", "expected a token, or"),
            ("status: {clientCertificateData: s3cret}", "expected a token, or"),
            ("status: {clientKeyData: s3cret, token: s3cret}", "expected a token, or"),
            ("status: {clientCertificateData: s3cret, clientKeyData: s3cret}", "invalid client certificate"),
            (
                "status: {token: \"s3cret\\ns3cret\"}",
                "invalid token from the credential plugin: expected one line",
            ),
            ("status: {token: s3cret, expirationTimestamp: s3cret}", "expected RFC 3339"),
        ] {
            let Err(error) = read(status.as_bytes()) else { panic!("{status}") };
            assert!(error.to_string().contains(expected), "{status}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn expiry_at_the_end_of_the_calendar_is_accepted() {
        for (text, expected) in [
            ("9999-12-31T23:59:59Z", Some("9999-12-30T22:00:00.999999999Z")),
            ("9999-12-31T23:59:59.999+01:00", Some("9999-12-30T22:00:00.999999999Z")),
            ("9999-12-30T00:00:00Z", Some("9999-12-30T00:00:00Z")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("2026-01-01T02:00:00+02:00", Some("2026-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59", None),
            ("9999-12-31", None),
            ("9999-13-31T00:00:00Z", None),
            ("10000-01-01T00:00:00Z", None),
        ] {
            assert_eq!(time(text).map(|time| time.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn token_and_expiry_are_read_from_json_and_yaml() {
        for output in [
            r#"{"kind":"ExecCredential","status":{"token":" t0ken\n","expirationTimestamp":"2026-01-01T02:00:00+02:00"}}"#,
            "kind: ExecCredential\nkind: ExecCredential\nstatus: {token: t0ken, expirationTimestamp: 2026-01-01T00:00:00Z, clientKeyData: ''}",
            "status: {token: t0ken, expirationTimestamp: 2026-01-01T00:00:00Z}\n---\nstatus: {token: other}\n---\n[",
        ] {
            let issue = read(output.as_bytes()).unwrap();
            assert_eq!(issue.token.unwrap().header(), "Bearer t0ken");
            assert_eq!(issue.expires.unwrap().to_string(), "2026-01-01T00:00:00Z");
        }
    }
}
