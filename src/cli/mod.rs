//! The command line: a file a command, from arguments to what `agent` and `api` need.
//!
//! Called by `main`. It turns failures into messages and exit codes; it decides nothing about pods
//! or reports.

mod agent;
mod attest;
#[cfg(feature = "service")]
mod demo;
mod exit;
mod fingerprints;
mod manual;
mod output;
mod read;
#[cfg(test)]
mod reference;
#[cfg(feature = "service")]
mod serve;
mod wait;

pub use exit::{Exit, Failure};

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{Resettable, TypedValueParser};
use clap::error::ContextKind;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use secrecy::SecretString;

use crate::api::{self, BaseUrl, PlainHttp, TokenSource};
use crate::domain::model::{InvalidName, OrganizationName};
use crate::process::logs::{self, Format, Verbosity};

/// Reports which image digests run in a Kubernetes cluster to a supply-chain compliance service.
#[derive(Debug, Parser)]
#[command(name = "supercargo", version, about, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logging: Logging,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  unexpected
  2  usage or configuration, or a file of pods or results that cannot be read
  3  not authorized by the service (401, 403)
  4  not found by the service (404)
  5  the service refused what was sent (other 4xx)
  6  the service, or the database of serve, could not be reached, kept failing,
     or is not one
  7  wait ran out of time
  8  the cluster could not be reached, forbids what is asked, or has no pod
     where one was expected
  9  attested, and --fail-on-failures saw results that do not pass";

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch the pods of a cluster and report them, or report them once
    Agent(agent::Agent),
    /// List trails, attestations, notifications or approvals
    #[command(alias = "ls")]
    List(read::List),
    /// Show what runs of a repository, an approval or an action
    #[command(alias = "show")]
    Get(read::Get),
    /// Wait until artifacts run, or no longer do
    Wait(wait::Wait),
    /// Attest test results
    Attest(attest::Attest),
    /// Be the compliance service
    #[cfg(feature = "service")]
    Serve(serve::Serve),
    /// Watch the whole loop on this machine: no cluster, no account
    #[cfg(feature = "service")]
    Demo(demo::Demo),
    /// Print what a shell needs to complete commands
    Completions(manual::Completions),
    /// Write manual pages
    Man(manual::Man),
}

/// How a command's work is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// On one thread: it mostly waits.
    One,
    /// On one for each core.
    #[cfg(feature = "service")]
    Many,
}

/// How to reach the service. Each command that talks to it has these, and so has each below it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Compliance service")]
struct Service {
    /// URL of the service, without /api/v2
    #[arg(long, global = true, value_name = "URL", env = "SUPERCARGO_BASE_URL")]
    base_url: Option<String>,
    /// Organization on whose behalf
    #[arg(long, global = true, value_name = "NAME", env = "SUPERCARGO_ORG")]
    org: Option<String>,
    /// File that holds the token, read again for every request; if absent, the variable
    /// SUPERCARGO_TOKEN is used
    #[arg(long, global = true, value_name = "FILE", env = "SUPERCARGO_TOKEN_FILE")]
    token_file: Option<OsString>,
    /// PEM bundle of authorities to trust beside the system's
    #[arg(long, global = true, value_name = "FILE", env = "SUPERCARGO_CA_FILE")]
    ca_file: Option<OsString>,
    /// Allow a base URL that is plain http, over which the token travels in the clear
    #[arg(long, global = true)]
    allow_http: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Logs, on stderr")]
struct Logging {
    /// Say more: -v what supercargo does, -vv what its libraries do, -vvv all of it
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// How log lines look
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        env = "SUPERCARGO_LOG_FORMAT"
    )]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum LogFormat {
    /// Sentences
    #[default]
    Text,
    /// A JSON object per line
    Json,
}

/// A request for the service that lacks something.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// An option is missing.
    #[error("there is no {what}: give {option}")]
    Missing {
        /// What is missing.
        what: &'static str,
        /// The option and the variable that give it.
        option: &'static str,
    },
    /// The base URL cannot be used.
    #[error(transparent)]
    BaseUrl(#[from] api::InvalidBaseUrl),
    /// The organization's name cannot be used.
    #[error("--org (SUPERCARGO_ORG) cannot be used: {0}")]
    Organization(#[from] InvalidName),
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] api::TokenError),
    /// The client cannot be set up.
    #[error(transparent)]
    Setup(#[from] api::SetupError),
}

impl Cli {
    /// Reads the arguments; says what is wrong with them and ends the process, if anything is.
    #[must_use]
    pub fn of_process() -> Self {
        let mut command = with_variables(Self::command());
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let given = matches
            .and_then(|matches| Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
        given.unwrap_or_else(|said| say(said))
    }

    /// How logs are wanted.
    #[must_use]
    pub fn logging(&self) -> (Format, Verbosity) {
        let format = match self.logging.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        let verbosity = match (self.logging.verbose, &self.command) {
            // It shows on stdout what came of everything.
            #[cfg(feature = "service")]
            (0, Command::Demo(_)) => Verbosity::Warnings,
            (0, _) => Verbosity::Usual,
            (1, _) => Verbosity::Details,
            (2, _) => Verbosity::Libraries,
            (3.., _) => Verbosity::Everything,
        };
        (format, verbosity)
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// All that went wrong, each with its exit code; the first one's is the process's.
    pub async fn run(&self) -> Result<(), Vec<Failure>> {
        match &self.command {
            Command::Agent(agent) => agent.run().await.map(drop),
            Command::List(list) => list.run().await.map_err(|failure| vec![failure]),
            Command::Get(get) => get.run().await.map_err(|failure| vec![failure]),
            Command::Wait(wait) => wait.run().await.map_err(|failure| vec![failure]),
            Command::Attest(attest) => attest.run().await.map_err(|failure| vec![failure]),
            #[cfg(feature = "service")]
            Command::Serve(serve) => serve.run().await.map_err(|failure| vec![failure]),
            #[cfg(feature = "service")]
            Command::Demo(demo) => demo.run().await,
            Command::Completions(completions) => completions.run().map_err(|failure| vec![failure]),
            Command::Man(man) => man.run().map_err(|failure| vec![failure]),
        }
    }

    /// On how many threads the command is to run.
    #[must_use]
    pub fn threads(&self) -> Threads {
        match self.command {
            #[cfg(feature = "service")]
            Command::Serve(_) | Command::Demo(_) => Threads::Many,
            _ => Threads::One,
        }
    }
}

impl Service {
    /// The client, once everything that it needs is there.
    fn client(&self, patience: api::Patience) -> Result<api::Client, ServiceError> {
        let missing = |what, option| ServiceError::Missing { what, option };
        let plain_http = if self.allow_http { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
        let base_url =
            given(self.base_url.as_ref()).ok_or(missing("base URL", "--base-url or SUPERCARGO_BASE_URL"))?;
        let base_url = BaseUrl::parse(base_url, plain_http)?;
        let organization =
            given(self.org.as_ref()).ok_or(missing("organization", "--org or SUPERCARGO_ORG"))?;
        let organization = organization.parse::<OrganizationName>()?;
        let token = given(self.token_file.as_ref())
            .map(|file| TokenSource::File(file.into()))
            .or_else(token_of_environment)
            .ok_or(missing("token", "--token-file, SUPERCARGO_TOKEN_FILE or SUPERCARGO_TOKEN"))?;
        token.check()?;
        let setup = api::Setup {
            base_url,
            organization,
            token,
            ca_file: given(self.ca_file.as_ref()).map(PathBuf::from),
        };
        Ok(api::Client::new(setup, patience)?)
    }
}

/// Says what clap has to say, of the program or of its arguments, and ends the process.
fn say(mut said: clap::Error) -> ! {
    // It would name each option that was given, by a variable or a default too, as if it had to be.
    said.remove(ContextKind::Usage);
    let code = match said.print() {
        Err(error) if !said.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            logs::fail(Format::Text, &["this cannot be written".to_owned(), error.to_string()], None);
            Exit::Unexpected as i32
        }
        _ => said.exit_code(),
    };
    logs::finish();
    std::process::exit(code)
}

/// An empty variable is one that is not set: charts and pipelines write it so. The help names a variable, and not what
/// is in it.
fn with_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg.hide_env_values(true) })
        .mut_subcommands(with_variables)
}

/// And so is an empty argument, which a shell makes of an empty variable.
fn given<T: AsRef<OsStr>>(value: Option<&T>) -> Option<&T> {
    value.filter(|v| !v.as_ref().is_empty())
}

/// Read here and not by clap, which would show it in its messages.
fn token_of_environment() -> Option<TokenSource> {
    let token = std::env::var_os("SUPERCARGO_TOKEN").filter(|token| !token.is_empty())?;
    Some(TokenSource::Variable(SecretString::from(token.to_string_lossy().into_owned())))
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an IP address and a port, as 127.0.0.1:8080, were expected")
}

/// A whole number within bounds, which are said where it is another or none.
fn whole<T>(bounds: RangeInclusive<T>) -> impl TypedValueParser<Value = T>
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        let (from, to) = (bounds.start(), bounds.end());
        number.ok_or_else(|| format!("a whole number from {from} to {to} was expected"))
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|_| "a duration such as 90s or 10m was expected")?;
    Duration::try_from(duration)
        .ok()
        .filter(|d| !d.is_zero() && d.as_secs() <= 24 * 60 * 60)
        .ok_or_else(|| "a duration of more than nothing and at most a day was expected".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands of a text: lines that begin with the program's name, as a shell would read them.
    fn commands(text: &str) -> Vec<Vec<String>> {
        let text = text.replace("\\\n", " ");
        let lines = text.lines().map(|line| line.trim().trim_start_matches("$ "));
        let commands = lines.filter(|line| line.starts_with("supercargo ") || *line == "supercargo");
        let words = |line: &str| {
            let words = shlex::split(line).unwrap_or_else(|| panic!("a shell cannot read {line}"));
            let ends = |word: &String| word.starts_with(['>', '<', '|', '&', ';']);
            words.into_iter().take_while(|word| !ends(word)).collect()
        };
        commands.map(words).collect()
    }

    fn examples(command: &clap::Command) -> Vec<Vec<String>> {
        let own = command.get_after_help().map(|help| commands(&help.to_string())).unwrap_or_default();
        own.into_iter().chain(command.get_subcommands().flat_map(examples)).collect()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// The commands that have no commands of their own.
    fn leaves(command: &clap::Command) -> Vec<clap::Command> {
        if command.has_subcommands() {
            command.get_subcommands().filter(|inner| !inner.is_hide_set()).flat_map(leaves).collect()
        } else {
            vec![command.clone()]
        }
    }

    #[test]
    fn every_command_has_an_example() {
        for command in leaves(&Cli::command()) {
            let name = command.get_name();
            let is_of_it = |example: &Vec<String>| example.iter().take(3).any(|word| word == name);
            assert!(examples(&command).iter().any(is_of_it), "{name}");
        }
    }

    #[test]
    fn every_example_of_the_help_is_understood() {
        let said = examples(&Cli::command());
        assert!(said.len() > 15, "{said:?}");
        for words in said {
            // A sentence that begins with the name, a version, and the log's first line are no commands.
            let is_command = words.get(1).is_some_and(|word| {
                Cli::command()
                    .get_subcommands()
                    .any(|command| command.get_name_and_visible_aliases().contains(&word.as_str()))
            });
            if is_command && let Err(error) = Cli::try_parse_from(&words) {
                use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
                assert!(matches!(error.kind(), DisplayHelp | DisplayVersion), "{words:?}: {error}");
            }
        }
    }
}
