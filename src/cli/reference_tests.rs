//! Generates the reference in `docs/reference/configuration.md`: options, variables and file keys, and the table of roles in
//! `docs/reference/security.md`. Options have their help without examples.
//!
//! The tests compare the section between the two marks with the code. `INSTA_UPDATE=always` rewrites it.

#![cfg(feature = "service")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgGroup, Command, CommandFactory};
use regex::Regex;
use serde_json::Value;

use model::access::{Operation, Role, Scope};

use crate::cli::{Cli, LOGGING, connection};

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// Groups of commands that share options.
const ALL: &str = "all commands";
const CLIENT: &str = "client commands";

/// Commands that manifests and scripts run. The options of each are described; of others, only the usage is listed.
const TABLES: [&str; 5] = ["agent", "attest", "wait", "assert", "serve"];

/// Variables that clap does not read: secrets, which its messages would print, and variables of other programs.
const VARIABLES: [(&str, &str); 8] = [
    (
        "SUPERCARGO_TOKEN",
        "API token, without --token-file. Not an option, since the process list shows those",
    ),
    (
        "SUPERCARGO_DATABASE, SUPERCARGO_DATABASE_READ",
        "URLs with a password, which --database and --database-read reject",
    ),
    (
        "SUPERCARGO_POD_NAME, SUPERCARGO_POD_UID",
        "metadata.name and metadata.uid of the agent's pod, for --exclude-self",
    ),
    ("KUBECONFIG", "Paths of kubeconfigs, separated by colons"),
    (
        "HTTPS_PROXY, ALL_PROXY",
        "Proxy for the compliance service, and the first one for the API server; never for plain http",
    ),
    ("NO_PROXY", "Hosts to reach without the proxy, separated by commas; * for all"),
    ("RUST_LOG", "Log filter such as supercargo=debug; overrides -v"),
    ("NO_COLOR", "Disables colors if it is not empty"),
];

/// An option, without its commands.
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
                Some(connection::HEADING) => CLIENT.to_owned(),
                Some(LOGGING) => ALL.to_owned(),
                _ => path.to_owned(),
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
    rows.sort_by_key(|(commands, _)| commands.first().is_some_and(|command| !is_group(command)));
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
    let option = format!("{}{repeated}", format!("{flags} {value}").trim());
    let variable = arg.get_env().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.filter(|_| takes_value).collect();
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
    let possible: Vec<_> = possible.map(|value| value.get_name().to_owned()).collect();
    let possible = if possible.is_empty() { String::new() } else { format!(": {}", possible.join(", ")) };
    let description = format!("{help}{possible}").replace('`', "");
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
    let others: Vec<_> = others.filter_map(Arg::get_long).map(|long| format!("--{long}")).collect();
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

/// A help text without examples and formats, which the table of values has.
fn brief(help: &str) -> String {
    let examples = Regex::new(r",? such as .*?(; .*| \(default.*|$)|, as .*?(; .*| \(default.*|$)").unwrap();
    examples.replace_all(help, "$1$2").replace("; repeatable", "").replace("; may be repeated", "")
}

/// A line of an option, with its variable, the start of its help, and its default.
fn option_line(prefix: &str, row: &OptionRow, text: &mut String) {
    let OptionRow { option, variable, default, description } = row;
    let variable = if variable.is_empty() { String::new() } else { format!("{variable}; ") };
    let default = match default.as_str() {
        "" => String::new(),
        required if required.starts_with("required") => format!(" ({required})"),
        default => format!(" (default: {default})"),
    };
    line(option, &format!("{prefix}{variable}{}{default}", brief(description)), text);
}

fn top_level(command: &str) -> &str {
    command.split(' ').next().unwrap_or_default()
}

/// Whether an option is described once for several commands.
fn is_shared((commands, row): &(Vec<String>, OptionRow)) -> bool {
    let mut tables = commands.iter().map(|command| top_level(command)).filter(|name| TABLES.contains(name));
    let first = tables.next();
    let is_option = row.option.starts_with('-');
    is_option && (commands.len() > 3 || tables.any(|other| Some(other) != first) || is_group(&commands[0]))
}

fn is_group(command: &str) -> bool {
    [ALL, CLIENT].contains(&command)
}

fn shared_options(options: &[(Vec<String>, OptionRow)]) -> String {
    let mut text = String::new();
    for (commands, row) in options.iter().filter(|option| is_shared(option)) {
        let mut names: Vec<_> = commands.iter().map(|command| top_level(command)).collect();
        names.dedup();
        let prefix = match names.as_slice() {
            _ if is_group(&commands[0]) => String::new(),
            [one] => format!("{one}: "),
            [_, _] => format!("{}: ", commands.join(", ")),
            _ => String::new(),
        };
        option_line(&prefix, row, &mut text);
    }
    text
}

/// The options of one of [`TABLES`].
fn options_of(name: &str, options: &[(Vec<String>, OptionRow)]) -> String {
    let own = |commands: &[String]| -> Vec<String> {
        commands.iter().filter(|command| top_level(command) == name).cloned().collect()
    };
    let all: BTreeSet<_> = options.iter().flat_map(|(commands, _)| own(commands)).collect();
    let mut text = String::new();
    for (commands, row) in options.iter().filter(|option| !is_shared(option)) {
        let prefix = match own(commands).as_slice() {
            [] => continue,
            [one] if all.len() > 1 => format!("{}: ", one.replace(&format!("{name} "), "")),
            _ => String::new(),
        };
        option_line(&prefix, row, &mut text);
    }
    text
}

/// The usage of each command without a table.
fn other_commands(options: &[(Vec<String>, OptionRow)]) -> String {
    fn leaves(command: &Command, path: &str, names: &mut Vec<String>) {
        let inner: Vec<_> = command.get_subcommands().filter(|inner| inner.get_name() != "help").collect();
        if inner.is_empty() {
            names.push(path.to_owned());
        }
        for inner in inner {
            leaves(inner, format!("{path} {}", inner.get_name()).trim(), names);
        }
    }
    let mut command = Cli::command();
    command.build();
    let mut names = Vec::new();
    leaves(&command, "", &mut names);
    let mut text = String::new();
    for name in names.into_iter().filter(|name| !TABLES.contains(&top_level(name))) {
        let own = options.iter().filter(|option| option.0.contains(&name) && !is_shared(option));
        let (required, others): (Vec<_>, Vec<_>) = own.partition(|(_, row)| row.default == "required");
        let required = required.iter().map(|(_, row)| row.option.clone());
        let usage: Vec<_> = std::iter::once(name).chain(required).collect();
        let others: Vec<_> =
            others.iter().map(|(_, row)| format!("[{}]", row.option.replace(' ', "\u{a0}"))).collect();
        line(&usage.join(" "), &others.join(" "), &mut text);
    }
    text
}

/// Width of an outline, and the column of its comments.
const WIDTH: usize = 120;
const COMMENTS: usize = 38;

/// A file from its JSON Schema: required keys first, objects last, each with its type and description.
fn outline(schema: &Value) -> String {
    let mut text = String::new();
    object(schema, schema, "", "", &mut text);
    text
}

/// Writes the keys of an object. `indent` ends with a dash for an item of a list.
fn object(root: &Value, schema: &Value, parent: &str, indent: &str, text: &mut String) {
    let mut indent = indent.to_owned();
    for Key { name, kind, suffix, is_required, description, inner } in keys(root, schema) {
        let is_secret = inner.is_some_and(is_secret);
        let (value, values) = match (suffix, &inner) {
            ("[]", Some(_)) if is_secret => (" [secret]".to_owned(), String::new()),
            (_, Some(_)) if is_secret => (" secret".to_owned(), String::new()),
            (_, Some(_)) => Default::default(),
            (_, None) if kind.len() > COMMENTS => {
                (" [string]".to_owned(), format!(": {}", kind.trim_matches(['[', ']']).replace('|', ", ")))
            }
            (_, None) => (format!(" {kind}"), String::new()),
        };
        let description = format!("{}{values}", uncapitalized(&description));
        let parts = [
            if is_required { "required" } else { "" },
            if repeats(&description, parent, name) { "" } else { &description },
        ];
        let comment: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        line(&format!("{indent}{name}:{value}"), &comment.join("; "), text);
        indent = indent.replace('-', " ");
        if let Some(inner) = inner.filter(|_| !is_secret) {
            object(root, inner, name, &format!("{indent}  {}", if suffix == "[]" { "- " } else { "" }), text);
        }
    }
}

/// Whether a description says no more than the key and its parent, such as "name of the flow".
fn repeats(description: &str, parent: &str, name: &str) -> bool {
    let path = format!("{parent} {name}").to_lowercase();
    description
        .split(' ')
        .filter(|word| !["of", "the", "its", "by"].contains(word))
        .all(|word| path.contains(word.trim_end_matches("'s")))
}

/// Writes a line with its comment, which continues on further lines.
fn line(code: &str, comment: &str, text: &mut String) {
    let mut current = format!("{:COMMENTS$}", format!("{code} "));
    for word in comment.split(' ') {
        if current.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(text, "{}", current.trim_end().replace('\u{a0}', " ")).unwrap();
            current = format!("{:COMMENTS$}", "");
        }
        write!(current, " {word}").unwrap();
    }
    writeln!(text, "{}", current.trim_end().replace('\u{a0}', " ")).unwrap();
}

/// Whether an object refers to a secret in a file or a variable.
fn is_secret(object: &Value) -> bool {
    object["properties"].as_object().is_some_and(|all| all.keys().eq(["file", "variable"]))
}

/// A key of a file.
struct Key<'a> {
    name: &'a str,
    kind: String,
    suffix: &'static str,
    is_required: bool,
    description: String,
    inner: Option<&'a Value>,
}

fn keys<'a>(root: &'a Value, object: &'a Value) -> Vec<Key<'a>> {
    let is_required = |key: &str| object["required"].as_array().into_iter().flatten().any(|name| name == key);
    let mut all: Vec<_> = object["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let (suffix, kind, inner) = kind(root, property);
            let text = property["description"].as_str().unwrap_or_default();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let description = brief(text.split(". ").next().unwrap().trim_end_matches('.'));
            Key { name, kind, suffix, is_required: is_required(name), description, inner }
        })
        .collect();
    all.sort_by_key(|key| (key.inner.is_some(), !key.is_required, key.name));
    all
}

/// All keys of a file.
fn schema_keys(root: &Value) -> Vec<Key<'_>> {
    fn add<'a>(root: &'a Value, object: &'a Value, all: &mut Vec<Key<'a>>) {
        for key in keys(root, object) {
            let inner = key.inner;
            all.push(key);
            if let Some(inner) = inner {
                add(root, inner, all);
            }
        }
    }
    let mut all = Vec::new();
    add(root, root, &mut all);
    all
}

/// Type of a value: a suffix (`[]` for a list), a description, and the nested object.
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
        values.filter_map(Value::as_str).collect::<Vec<_>>().join("|")
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
            ("[]", format!("[{words}]"), inner)
        }
        Some("object") if schema["properties"].is_object() => ("", "object".to_owned(), Some(schema)),
        Some("object") if schema["additionalProperties"]["type"] == "string" => {
            ("", "{string: string}".to_owned(), None)
        }
        Some("string") if schema["format"] == "date-time" => ("", "time".to_owned(), None),
        Some(other @ ("object" | "string" | "integer" | "boolean")) => ("", other.to_owned(), None),
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
    let options = options();
    let mut text = String::new();
    let mut section = |heading: &str, lines: &str| {
        write!(text, "\n### {heading}\n\n```text\n{lines}```\n").unwrap();
    };
    section("Options of several commands", &shared_options(&options));
    for name in TABLES {
        section(&format!("`{name}`"), &options_of(name, &options));
    }
    section("Other commands", &other_commands(&options));
    section("Variables without an option", &variables());
    section("Keys of the agent's `--config`", &outline(&agent::environment::schema()));
    section("Keys of the service's `--bootstrap`", &outline(&service::bootstrap::schema()));
    text.push('\n');
    text
}

fn variables() -> String {
    let mut text = String::new();
    for (name, description) in VARIABLES {
        line(name, description, &mut text);
    }
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
        Operation::ReadEnvironment(_) => "read an environment and its snapshots",
        Operation::Attest(_) => "attest in a flow, report its artifacts, begin its trails",
        Operation::CreateFlow => "create a flow, or change its template",
        Operation::Approve(_) => "approve in a flow for an environment, and withdraw approvals of tokens",
        Operation::Read => "read everything else, except for the next row",
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
        for key in schema_keys(&schema) {
            assert!(!key.description.is_empty(), "{}", key.name);
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
        assert!(
            page.split(|c: char| !(c == '_' || c.is_ascii_alphanumeric())).any(|word| word == name),
            "{name} of {} is missing",
            path.display()
        );
    }
}
