//! Generates the tables of `docs/reference/configuration.md`, of options, variables and file keys, and the table of roles in
//! `docs/reference/security.md`.
//!
//! The tests compare the section between the two marks with the code. `INSTA_UPDATE=always` rewrites it.

#![cfg(feature = "service")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgGroup, Command, CommandFactory};
use regex::Regex;
use serde_json::Value;

use model::access::{Operation, Role, Scope};

use crate::cli::Cli;

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// Variables that clap does not read: secrets, which its messages would print, and variables of other programs.
const VARIABLES: [(&str, &str, &str); 11] = [
    (
        "`SUPERCARGO_TOKEN`",
        "client commands",
        "API token, if `--token-file` is not set. There is no option, because the process list shows arguments",
    ),
    (
        "`SUPERCARGO_DATABASE`",
        "`serve`",
        "Database URL, if `--database` is not set; may contain a password, which the option rejects",
    ),
    (
        "`SUPERCARGO_DATABASE_READ`",
        "`serve`",
        "URL of the replica, if `--database-read` is not set; may contain a password, which the option rejects",
    ),
    (
        "`SUPERCARGO_POD_NAME`",
        "`agent`",
        "Name of the agent's own pod, for `--exclude-self`: `metadata.name` of the downward API",
    ),
    ("`SUPERCARGO_POD_UID`", "`agent`", "UID of the same pod: `metadata.uid` of the downward API"),
    ("`KUBECONFIG`", "`agent`", "Paths of kubeconfigs, separated by colons, if `--kubeconfig` is not set"),
    (
        "`HTTPS_PROXY`, `ALL_PROXY`",
        "client commands",
        "Proxy for the service, and the first one for the API server; never used for plain http",
    ),
    ("`NO_PROXY`", "client commands", "Hosts to reach without the proxy, separated by commas; `*` for all"),
    ("`RUST_LOG`", "all commands", "Log filter such as `supercargo=debug`; overrides `-v`"),
    (
        "`NO_COLOR`",
        "all commands",
        "Disables colors if it is not empty; pipes and `TERM=dumb` have none either",
    ),
    (
        "variables of the CI system",
        "`attest junit`",
        "Provenance as GitHub Actions, GitLab and others set it; `--dry-run` shows the source of each fact",
    ),
];

/// A row of the table of options, without the commands.
#[derive(PartialEq, Eq)]
struct OptionRow {
    option: String,
    variable: String,
    default: String,
    description: String,
}

/// All distinct options with their commands.
fn options() -> Vec<(Vec<String>, OptionRow)> {
    fn collect(command: &Command, path: &str, rows: &mut Vec<(Vec<String>, OptionRow)>) {
        for arg in command.get_arguments().filter(|arg| is_visible(arg)) {
            let name = match arg.get_help_heading() {
                Some("Compliance service") => "client commands".to_owned(),
                Some("Logging (to stderr)") => "all commands".to_owned(),
                _ => format!("`{path}`"),
            };
            let row = row(command, arg);
            match rows.iter_mut().find(|(_, other)| *other == row) {
                Some((commands, _)) if commands.contains(&name) => {}
                Some((commands, _)) => commands.push(name),
                None => rows.push((vec![name], row)),
            }
        }
        for inner in
            command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
        {
            collect(inner, format!("{path} {}", inner.get_name()).trim(), rows);
        }
    }
    let mut command = Cli::command();
    command.build();
    let mut rows = Vec::new();
    collect(&command, "", &mut rows);
    // Groups of commands first; only single commands are in backquotes.
    rows.sort_by_key(|(commands, _)| commands.first().is_some_and(|command| command.starts_with('`')));
    rows
}

fn is_visible(arg: &Arg) -> bool {
    !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

fn row(command: &Command, arg: &Arg) -> OptionRow {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let value =
        arg.get_value_names().filter(|_| takes_value).map_or_else(String::new, |names| names.join(" "));
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    let repeated = if matches!(arg.get_action(), ArgAction::Append) { "…" } else { "" };
    let option = format!("`{}{repeated}`", format!("{flags} {value}").trim());
    let variable = arg.get_env().map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()));
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.filter(|_| takes_value).map(|value| format!("`{value}`")).collect();
    let default = match defaults.as_slice() {
        [] if arg.is_required_set() => "required".to_owned(),
        [] => alternatives(command, arg),
        defaults => defaults.join(", "),
    };
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(StyledStr::to_string).unwrap_or_default();
    // The heading names the condition under which the option applies.
    let condition = arg.get_help_heading().filter(|heading| heading.starts_with("With"));
    let help = match condition {
        Some(condition) => format!("{condition}: {}", uncapitalized(&help)),
        None => help,
    };
    let possible = arg.get_possible_values().into_iter().filter(|value| takes_value && !value.is_hide_set());
    let possible: Vec<_> = possible
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), uncapitalized(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    let possible = if possible.is_empty() { String::new() } else { format!(": {}", possible.join(", ")) };
    let description = cell(&format!("{help}{possible}"));
    OptionRow { option, variable, default, description }
}

/// Alternatives to an option of a required group.
fn alternatives(command: &Command, arg: &Arg) -> String {
    let group = command.get_groups().find(|group| {
        ArgGroup::clone(group).is_required_set() && group.get_args().any(|id| id == arg.get_id())
    });
    let Some(group) = group else { return String::new() };
    let others = command.get_arguments().filter(|other| group.get_args().any(|id| id == other.get_id()));
    let others = others.filter(|other| other.get_id() != arg.get_id());
    let others: Vec<_> = others.filter_map(Arg::get_long).map(|long| format!("`--{long}`")).collect();
    format!("required, or {}", others.join(", "))
}

/// Lowercases the first letter, unless the word is an acronym.
fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

/// Text for a table cell: one line, with options and variables as code.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let name = Regex::new(
        r"(^|[ (])(--[a-z][a-z-]*|-[ov]+|SUPERCARGO_[A-Z_]+|KUBECONFIG|/livez|/readyz|/metrics|/api/v2)",
    )
    .unwrap();
    // Text in backquotes is already code.
    let parts = text.split('`').enumerate().map(|(n, part)| match n % 2 {
        0 => name.replace_all(part, "$1`$2`").into_owned(),
        _ => format!("`{part}`"),
    });
    parts.collect()
}

/// Keys of a file from its JSON Schema: required keys first, objects last.
fn keys(schema: &Value) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    properties(schema, schema, "", &mut rows);
    rows
}

fn properties(root: &Value, object: &Value, path: &str, rows: &mut Vec<[String; 4]>) {
    let Some(all) = object["properties"].as_object() else { return };
    let is_required = |key: &str| object["required"].as_array().into_iter().flatten().any(|name| name == key);
    let mut all: Vec<_> = all.iter().map(|(key, property)| (key, property, kind(root, property))).collect();
    all.sort_by_key(|(key, _, (.., inner))| (inner.is_some(), !is_required(key), *key));
    for (key, property, (suffix, kind, inner)) in all {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let default = match &property["default"] {
            _ if is_required(key) => "required".to_owned(),
            Value::Null => String::new(),
            Value::Array(items) if items.is_empty() => String::new(),
            Value::Object(entries) if entries.is_empty() => String::new(),
            Value::String(text) if text.is_empty() => String::new(),
            Value::String(text) => format!("`{text}`"),
            other => format!("`{other}`"),
        };
        let description = property["description"].as_str().unwrap_or_default();
        rows.push([format!("`{path}`"), kind, default, cell(description.trim_end_matches('.'))]);
        if let Some(inner) = inner {
            properties(root, inner, &format!("{path}{suffix}"), rows);
        }
    }
}

/// Type of a value: the suffix of its key's path (`[]` for a list), a description, and the nested object.
fn kind<'a>(root: &'a Value, schema: &'a Value) -> (&'static str, String, Option<&'a Value>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").unwrap();
        return kind(root, &root["$defs"][name]);
    }
    if let Some(one) = schema["anyOf"].as_array() {
        let mut alternatives = one.iter().filter(|schema| schema["type"] != "null");
        let (first, second) = (alternatives.next().unwrap(), alternatives.next());
        assert!(second.is_none(), "{schema}");
        return kind(root, first);
    }
    let words = |values: &mut dyn Iterator<Item = &'a Value>| {
        values.filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    };
    if let Some(one) = schema["oneOf"].as_array() {
        let mut all = one.iter().flat_map(|schema| match schema["enum"].as_array() {
            Some(values) => values.iter().collect(),
            None => vec![&schema["const"]],
        });
        return ("", words(&mut all), None);
    }
    if let Some(values) = schema["enum"].as_array() {
        return ("", words(&mut values.iter()), None);
    }
    let kind_of = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.as_str(),
    };
    match kind_of {
        Some("array") => {
            let (suffix, words, inner) = kind(root, &schema["items"]);
            assert_eq!(suffix, "", "{schema}");
            let words = if inner.is_some() { "list".to_owned() } else { format!("list of {words}") };
            ("[]", words, inner)
        }
        Some("object") if schema["properties"].is_object() => ("", "map".to_owned(), Some(schema)),
        Some("object") if schema["additionalProperties"]["type"] == "string" => {
            ("", "map of strings".to_owned(), None)
        }
        Some("object") => ("", "map".to_owned(), None),
        Some("string") if schema["format"] == "date-time" => ("", "time".to_owned(), None),
        Some("string") => ("", "string".to_owned(), None),
        Some("integer") => ("", "integer".to_owned(), None),
        Some("boolean") => ("", "`true`, `false`".to_owned(), None),
        other => panic!("{other:?}: {schema}"),
    }
}

fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| {
        format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |")
    };
    let mut text = line(&head.map(str::to_owned));
    writeln!(text, "|{}", "---|".repeat(N)).unwrap();
    rows.into_iter().for_each(|row| text.push_str(&line(&row)));
    text
}

fn reference() -> String {
    let mut text = String::from("\n### Options\n\n");
    let options =
        options().into_iter().map(|(commands, OptionRow { option, variable, default, description })| {
            [commands.join(", "), option, variable, default, description]
        });
    text.push_str(&table(["command", "option", "variable", "default", "description"], options));
    text.push_str(
        "\nClient commands are `agent`, `list`, `get`, `diff`, `search`, `download`, `export`, `wait`, `attest`, `assert`, `approve`, `approval`, `policy`, `repository` and `log`.\n",
    );
    text.push_str("\n### Variables without an option\n\n");
    let variables =
        VARIABLES.map(|(name, command, description)| [name, command, description].map(str::to_owned));
    text.push_str(&table(["variable", "command", "description"], variables));
    for (heading, schema) in [
        ("Keys of the agent's `--config`", agent::environment::schema()),
        ("Keys of the service's `--bootstrap`", service::bootstrap::schema()),
    ] {
        write!(text, "\n### {heading}\n\n").unwrap();
        text.push_str(&table(["key", "type", "default", "description"], keys(&schema)));
    }
    text.push('\n');
    text
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a role permits: `all`, only what the token lists, or nothing.
fn permitted(role: Role, operation: Operation<'_>) -> String {
    let named = Scope { environments: vec!["prod".to_owned()], flows: vec!["cart".to_owned()] };
    let permits = |scope: &Scope, operation| role.permits(scope, operation).is_ok();
    let is_permitted = |scope: &Scope| {
        permits(scope, operation)
            && match operation {
                Operation::CreateEnvironment => permits(scope, Operation::Report("prod")),
                Operation::CreateFlow => permits(scope, Operation::Attest("cart")),
                Operation::Approve(_) => role.permits_approval_for(scope, Some("prod")).is_ok(),
                _ => true,
            }
    };
    let needs_create = operation == Operation::CreateEnvironment && role.permits_creation(false).is_err();
    match (is_permitted(&Scope::default()), is_permitted(&named)) {
        (true, _) => "all".to_owned(),
        (false, true) if needs_create => "listed, with `create: true`".to_owned(),
        (false, true) => "listed".to_owned(),
        (false, false) => String::new(),
    }
}

fn described(operation: Operation<'_>) -> &'static str {
    match operation {
        Operation::Report(_) => "report an environment",
        Operation::CreateEnvironment => "create an environment",
        Operation::ReadEnvironment(_) => "read the settings, the status and the snapshots of an environment",
        Operation::Attest(_) => "attest in a flow, report its artifacts, begin its trails",
        Operation::CreateFlow => "create a flow, or change its template",
        Operation::Approve(_) => {
            "approve artifacts in a flow for an environment, and withdraw approvals of tokens"
        }
        Operation::Read => "read everything of the organization, except for the next row",
        Operation::ReadAudit => "read the audit log, the log, access reviews and the list of tokens",
        Operation::Administer => {
            "change policies, allow-lists, tags and tokens, close repositories, test an action"
        }
    }
}

fn roles() -> String {
    let operations = [
        Operation::Report("prod"),
        Operation::CreateEnvironment,
        Operation::ReadEnvironment("prod"),
        Operation::Attest("cart"),
        Operation::CreateFlow,
        Operation::Approve("cart"),
        Operation::Read,
        Operation::ReadAudit,
        Operation::Administer,
    ];
    let [first, second, third, fourth, fifth] = Role::ALL.map(|role| format!("`{role}`"));
    let rows = operations.map(|operation| {
        let [first, second, third, fourth, fifth] = Role::ALL.map(|role| permitted(role, operation));
        [described(operation).to_owned(), first, second, third, fourth, fifth]
    });
    format!("\n{}\n", table(["operation", &first, &second, &third, &fourth, &fifth], rows))
}

#[test]
fn configuration_page_matches_code() {
    check_page("docs/reference/configuration.md", &reference());
}

#[test]
fn table_of_roles_matches_code() {
    check_page("docs/reference/security.md", &roles());
}

fn check_page(path: &str, generated: &str) {
    let path = root().join(path);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("begin mark");
    let (_, after) = rest.split_once(END).expect("end mark");
    let expected = format!("{before}{BEGIN}{generated}{END}{after}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert_eq!(page, expected, "run with INSTA_UPDATE=always to accept");
    }
}

#[test]
fn options_and_keys_have_descriptions() {
    for (commands, OptionRow { option, description, .. }) in options() {
        assert!(!description.is_empty(), "{commands:?} {option}");
    }
    for schema in [agent::environment::schema(), service::bootstrap::schema()] {
        for [key, .., description] in keys(&schema) {
            assert!(!description.is_empty(), "{key}");
        }
    }
}

/// Covers all `SUPERCARGO_*` variables in the sources.
#[test]
fn configuration_page_lists_all_variables() {
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }
    let name = Regex::new(r"\bSUPERCARGO_[A-Z_]*[A-Z]").unwrap();
    let mut named = BTreeMap::new();
    let paths = ["src", "crates"].iter().flat_map(|folder| sources(&root().join(folder)));
    for path in paths.filter(|path| path.extension().is_some_and(|it| it == "rs") && !path.ends_with(file!()))
    {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        named.extend(name.find_iter(code).map(|found| (found.as_str().to_owned(), path.clone())));
    }
    assert!(named.len() > 10, "{named:?}");
    let page = reference();
    for (name, path) in named {
        assert!(page.contains(&format!("`{name}`")), "{name} of {} is missing", path.display());
    }
}
