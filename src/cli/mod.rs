//! The command line: one file per command, in a folder for each group of the help that has several.
//!
//! Called by `main`. Parses arguments into the settings of `agent`, `client` and `service`, and maps failures to
//! messages and exit codes. Makes no decision about pods or reports.

mod agent;
mod connection;
#[cfg(feature = "service")]
mod demo;
mod exit;
mod files;
mod fingerprints;
mod manual;
mod oidc;
mod output;
mod pipeline;
mod read;
#[cfg(test)]
mod reference_tests;
mod service;
mod values;

pub use connection::ServiceError;
pub use exit::{Exit, Failure};

use std::io;
use std::pin::Pin;

use clap::builder::Resettable;
use clap::builder::styling::{Ansi256Color, Style, Styles};
use clap::error::ContextKind;
use clap::{Arg, ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::connection::Group;
use runtime::colors::Color;
use runtime::logs::{self, Format, Prefix, Verbosity};

/// Reports the images running in a Kubernetes cluster to a compliance service.
#[derive(Debug, Parser)]
#[command(name = "supercargo", version, after_help = AFTER_HELP, styles = STYLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logging: Logging,
}

/// The styles of clap, with the colors of the other output.
const STYLES: Styles =
    Styles::styled().error(color(Color::Red).bold()).valid(color(Color::Green)).invalid(color(Color::Amber));

const fn color(color: Color) -> Style {
    Ansi256Color(color.number()).on_default()
}

const AFTER_HELP: &str = "\
Exit codes: 0 success, 1 unexpected error, 2 invalid usage, 3 not authorized,
4 not found, 5 rejected, 6 the service is unreachable, 7 timed out,
8 the cluster is unreachable, 9 tests failed, 10 not compliant, 11 not genuine";

/// Each in one line, unlike in the help of a command.
const OPTIONS: &str = "  \
  -v, --verbose              Log more: -vv also of libraries, -vvv everything
      --log-format <FORMAT>  Log as text or json [env: SUPERCARGO_LOG_FORMAT]
  -h, --help, -V, --version  Print help, or the version";

/// A section of the manual page.
const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  unexpected error
  2  invalid usage or configuration, or an unreadable input file
  3  not authorized by the service (401, 403)
  4  not found by the service (404)
  5  rejected by the service (other 4xx)
  6  the service, or the database of serve, is unreachable or keeps failing, or
     the URL is not that of a compliance service; a target did not accept a test
     (action test)
  7  wait timed out
  8  the cluster is unreachable or denies access, or an environment that must
     not be empty has no pods
  9  attested, but not all tests passed (--fail-on-failures)
  10 not compliant (assert)
  11 the log does not match the records or a checkpoint (log verify), a statement
     its signature (verify), or a file its SHA-256 (download)";

/// The headings of the help, and the commands below each.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Cluster", &["agent"]),
    ("Pipeline", &["attest", "wait", "assert", "approve", "approval"]),
    ("Read", &["list", "get", "diff", "search", "download", "export", "verify"]),
    ("Service", &["serve", "issuer", "policy", "token", "environment", "repository", "action", "log"]),
    ("More", &["demo", "completions", "man"]),
];

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch the pods of a cluster and report them
    Agent(Box<agent::Agent>),
    /// List environments, flows, trails, artifacts and other resources
    List(Group<read::ListResource>),
    /// Show an environment, snapshot, trail, artifact or other resource
    Get(Group<read::GetResource>),
    /// Compare two snapshots
    Diff(read::Diff),
    /// Search by a commit, a digest, or a part of a name
    Search(read::Search),
    /// Save the file that is attached to an attestation
    Download(Group<read::Subject>),
    /// Export what ran in an environment as a signed statement
    Export(read::Export),
    /// Verify an exported statement, without the service
    Verify(read::Verify),
    /// Wait until artifacts run, or have stopped running
    Wait(pipeline::wait::Wait),
    /// Attest test results
    Attest(Group<pipeline::attest::AttestationKind>),
    /// Check whether artifacts may run, or an environment is compliant
    Assert(Group<pipeline::assert::Subject>),
    /// Approve an artifact for an environment
    Approve(pipeline::approve::Approve),
    /// Withdraw an approval
    Approval(Group<pipeline::approval::ApprovalChange>),
    /// Show what a policy would change
    Policy(Group<service::policy::PolicyCommand>),
    /// Print what the bootstrap file needs to trust a cluster
    Issuer(service::issuer::Issuer),
    /// Create, list and revoke tokens
    Token(Group<service::token::TokenCommand>),
    /// Create or archive an environment
    Environment(Group<service::environment::EnvironmentChange>),
    /// Close or reopen a repository
    Repository(Group<service::repository::RepositoryChange>),
    /// Send a test message to the targets of an action
    Action(Group<service::action::ActionCommand>),
    /// Verify or export the log of acknowledged changes
    Log(Group<service::log::Command>),
    /// Run the compliance service
    #[cfg(feature = "service")]
    Serve(service::serve::Serve),
    /// Run a demo on this machine, without a cluster or an account
    #[cfg(feature = "service")]
    Demo(demo::Demo),
    /// Generate shell completions
    Completions(manual::Completions),
    /// Generate manual pages
    Man(manual::Man),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One thread, for commands that mostly wait.
    One,
    /// One thread per core.
    #[cfg(feature = "service")]
    Many,
}

const LOGGING: &str = "Logging (to stderr)";

#[derive(Debug, Args)]
#[command(next_help_heading = LOGGING)]
struct Logging {
    /// Log more: -vv also of libraries, -vvv everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Log format
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        env = "SUPERCARGO_LOG_FORMAT"
    )]
    log_format: Format,
}

impl Cli {
    /// Parses the arguments of the process. Exits after `--help` and `--version`, and on a usage error.
    #[must_use]
    pub fn from_args() -> Self {
        let mut command = grouped(with_short_help(with_variables(Self::command())));
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let cli = matches
            .and_then(|matches| Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
        cli.unwrap_or_else(|error| print_and_exit(error))
    }

    #[must_use]
    pub fn logging(&self) -> (Format, Prefix, Verbosity) {
        let verbosity = match (self.logging.verbose, &self.command) {
            // The demo prints all results itself.
            #[cfg(feature = "service")]
            (0, Command::Demo(_)) => Verbosity::Warnings,
            (0, _) => Verbosity::Info,
            (1, _) => Verbosity::Debug,
            (2, _) => Verbosity::Libraries,
            (3.., _) => Verbosity::Trace,
        };
        let is_daemon = match self.command {
            #[cfg(feature = "service")]
            Command::Serve(_) | Command::Demo(_) => true,
            Command::Agent(ref agent) => !agent.once,
            _ => false,
        };
        let prefix =
            if is_daemon || self.logging.verbose > 0 { Prefix::TimeAndLevel } else { Prefix::Warning };
        (self.logging.log_format, prefix, verbosity)
    }

    /// Runs the command. Boxed, since each crate that awaits an async function compiles all of it again.
    ///
    /// # Errors
    ///
    /// All failures, each with its exit code. The process exits with the first one.
    #[must_use]
    pub fn run(&self) -> Pin<Box<dyn Future<Output = Result<(), Vec<Failure>>> + '_>> {
        Box::pin(async {
            match &self.command {
                Command::Agent(agent) => drop(agent.run().await?),
                Command::List(list) => list.command.run(&list.service).await?,
                Command::Get(get) => get.command.run(&get.service).await?,
                Command::Diff(diff) => diff.run().await?,
                Command::Search(search) => search.run().await?,
                Command::Download(download) => download.command.run(&download.service).await?,
                Command::Export(export) => export.run().await?,
                Command::Verify(verify) => verify.run()?,
                Command::Wait(wait) => wait.run().await?,
                Command::Attest(attest) => attest.command.run(&attest.service).await?,
                Command::Assert(assert) => assert.command.run(&assert.service).await?,
                Command::Approve(approve) => approve.run().await?,
                Command::Approval(approval) => approval.command.run(&approval.service).await?,
                Command::Policy(policy) => policy.command.run(&policy.service).await?,
                Command::Issuer(issuer) => issuer.run().await?,
                Command::Token(token) => token.command.run(&token.service).await?,
                Command::Environment(environment) => environment.command.run(&environment.service).await?,
                Command::Repository(repository) => repository.command.run(&repository.service).await?,
                Command::Action(action) => action.command.run(&action.service).await?,
                Command::Log(log) => log.command.run(&log.service).await?,
                #[cfg(feature = "service")]
                Command::Serve(serve) => serve.run().await?,
                #[cfg(feature = "service")]
                Command::Demo(demo) => demo.run(run_line).await?,
                Command::Completions(completions) => completions.run(Self::command())?,
                Command::Man(man) => man.run(Self::command().after_help(EXIT_CODES))?,
            }
            Ok(())
        })
    }

    #[must_use]
    pub fn threads(&self) -> Threads {
        match self.command {
            #[cfg(feature = "service")]
            Command::Serve(_) | Command::Demo(_) => Threads::Many,
            _ => Threads::One,
        }
    }
}

/// Runs a command line of the demo in this process, and returns its results instead of printing them.
#[cfg(feature = "service")]
fn run_line(words: Vec<String>) -> demo::CommandResult {
    Box::pin(async move {
        let words = std::iter::once("supercargo".to_owned()).chain(words);
        let matches = with_variables(Cli::command()).try_get_matches_from(words);
        let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        let cli = cli.map_err(Failure::unexpected)?;
        match &cli.command {
            Command::Agent(agent) => Ok(agent.run().await?.iter().map(ToString::to_string).collect()),
            Command::Attest(attest) => {
                Ok(attest.command.record(&attest.service).await?.into_iter().collect())
            }
            _ => cli.run().await.map(|()| Vec::new()),
        }
    })
}

/// Prints clap's help, version or usage error, and exits.
fn print_and_exit(mut message: clap::Error) -> ! {
    // The usage line would list every option with a variable or default value as if it were required.
    message.remove(ContextKind::Usage);
    let code = match message.print() {
        Err(error) if !message.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            logs::fail(
                Format::Text,
                &["failed to write to standard output".to_owned(), error.to_string()],
                None,
            );
            Exit::Unexpected as i32
        }
        _ => message.exit_code(),
    };
    logs::finish();
    std::process::exit(code)
}

/// Lists the commands by group in the help.
fn grouped(mut command: clap::Command) -> clap::Command {
    use std::fmt::Write as _;

    command.build();
    let heading = *command.get_styles().get_header();
    let name = *command.get_styles().get_literal();
    let mut list = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(list, "{heading}{group}:{heading:#}");
        let commands = names.iter().filter_map(|name| command.find_subcommand(name));
        for member in commands {
            let about = member.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(list, "  {name}{:<11}{name:#}  {about}", member.get_name());
        }
    }
    let _ = write!(list, "{heading}Options:{heading:#}\n{OPTIONS}");
    command
        .help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}{{after-help}}"))
}

/// With `-h`, a command shows its own options, and a line about those that it shares with others. `--help` shows all.
fn with_short_help(command: clap::Command) -> clap::Command {
    command.mut_args(hide_if_shared).mut_subcommands(|command| {
        let calls_service =
            command.get_arguments().any(|arg| arg.get_help_heading() == Some(connection::HEADING));
        let shared = if calls_service {
            "Options of the service (--base-url, --org, --token-file, …) and of logs: --help"
        } else {
            "Options of logs: --help"
        };
        with_shared_options(command, shared)
    })
}

/// `shared` names the options that the command shares with others.
fn with_shared_options(command: clap::Command, shared: &'static str) -> clap::Command {
    let long = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let short = format!("{shared}\n\n{long}");
    command
        .mut_args(hide_if_shared)
        .after_help(short.trim_end().to_owned())
        .after_long_help(long)
        .mut_subcommands(|command| with_shared_options(command, shared))
}

fn hide_if_shared(arg: Arg) -> Arg {
    let is_shared = matches!(arg.get_help_heading(), Some(connection::HEADING | LOGGING));
    arg.hide_short_help(is_shared)
}

/// Treats an empty variable as unset, because charts and pipelines set variables to "". Hides the values of variables in
/// the help.
fn with_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg.hide_env_values(true) })
        .mut_subcommands(with_variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands in a text: lines that start with the program name, split as a shell does.
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
    fn command_line_passes_clap_assertions() {
        Cli::command().debug_assert();
    }

    /// Commands without subcommands.
    fn leaves(command: &clap::Command) -> Vec<clap::Command> {
        if command.has_subcommands() {
            command.get_subcommands().filter(|inner| !inner.is_hide_set()).flat_map(leaves).collect()
        } else {
            vec![command.clone()]
        }
    }

    #[test]
    fn help_has_every_command_in_one_group_and_fits_a_terminal() {
        let mut command = grouped(Cli::command()).term_width(80);
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        let mut all: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        all.retain(|name| *name != "help");
        grouped.sort_unstable();
        all.sort_unstable();
        assert!(grouped.iter().copied().eq(&all), "{grouped:?} {all:?}");
        let help = command.try_get_matches_from_mut(["supercargo", "--help"]).unwrap_err().to_string();
        assert!(help.lines().count() <= 40 && help.lines().all(|line| line.len() <= 80), "{help}");
    }

    #[test]
    fn short_help_shows_own_options_first_and_fits_a_terminal() {
        let mut command = with_short_help(Cli::command()).term_width(80);
        command.build();
        let inner = |command: &clap::Command| -> Vec<_> {
            command.get_subcommands().filter(|inner| inner.get_name() != "help").cloned().collect()
        };
        let mut commands = inner(&command);
        while let Some(command) = commands.pop() {
            commands.extend(inner(&command));
            let mut command = command.term_width(80);
            let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
            let shared = short.lines().filter(|line| line.starts_with("Options of ")).count();
            assert_eq!(shared, 1, "{short}");
            for heading in [connection::HEADING, LOGGING] {
                assert!(!short.contains(&format!("{heading}:")), "{short}");
            }
            assert!(!short.contains("--ca-file") && !long.contains("Options of "), "{short}{long}");
            // Usage is one line.
            let is_long = |line: &&str| line.chars().count() > 80 && !line.starts_with("Usage: ");
            assert_eq!(short.lines().find(is_long), None, "{short}");
        }
        let help = |option| {
            let command = with_short_help(Cli::command());
            command.try_get_matches_from(["supercargo", "wait", option]).unwrap_err().to_string()
        };
        let (short, long) = (help("-h"), help("--help"));
        assert!(short.contains("  --environment <NAME>") && !short.contains("--log-format"), "{short}");
        assert!(long.contains("--base-url <URL>") && long.contains("--log-format <FORMAT>"), "{long}");
    }

    #[test]
    fn every_command_has_an_example() {
        for command in leaves(&Cli::command()) {
            let name = command.get_name();
            let names_it = |example: &Vec<String>| example.iter().take(3).any(|word| word == name);
            assert!(examples(&command).iter().any(names_it), "{name}");
        }
    }

    #[test]
    fn help_examples_parse() {
        let examples = examples(&Cli::command());
        assert!(examples.len() > 15, "{examples:?}");
        for words in examples {
            // Sentences that start with the name, versions and log lines are not commands.
            let is_command = words.get(1).is_some_and(|word| {
                Cli::command().get_subcommands().any(|command| command.get_name() == word)
            });
            if is_command && let Err(error) = Cli::try_parse_from(&words) {
                use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
                assert!(matches!(error.kind(), DisplayHelp | DisplayVersion), "{words:?}: {error}");
            }
        }
    }
}
