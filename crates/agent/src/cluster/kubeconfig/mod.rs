//! Reads kubeconfigs as client-go's `clientcmd` does.
//!
//! Called by `configuration`. This file replaces kube's `Kubeconfig`, `Config::from_custom_kubeconfig` and their errors,
//! which reject what client-go accepts: a key that occurs twice, an empty value for an unset one, base64 and `!!binary`
//! with line breaks, broken blocks in PEM, incomplete entries that are not selected, and a second YAML document. It can be
//! deleted when kube accepts them.

pub(in crate::cluster) mod insecure;
pub(in crate::cluster) mod pem;
pub(in crate::cluster) mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use self::pem::decode_base64;
use model::escape::Escaped;
use model::null_is_default;
pub(in crate::cluster) use runtime::files::quoted;

/// Extension of a cluster for credential plugins.
const PLUGIN_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The kubeconfig is invalid. The message does not quote it, because it contains credentials.
#[derive(Debug, thiserror::Error)]
pub(in crate::cluster) enum KubeconfigError {
    #[error("failed to read {}", quoted(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("{}: expected UTF-8 or UTF-16 with a byte order mark", quoted(.0))]
    Encoding(PathBuf),
    #[error("{}: {}", quoted(.0), place(.1.as_deref()))]
    Syntax(PathBuf, Option<Box<serde_saphyr::Location>>),
    #[error("no cluster in {0}; is it empty?")]
    Empty(String),
    #[error("{files} has no current-context: set --context to {known}")]
    NoCurrentContext { files: String, known: String },
    #[error("{files} has no context \"{}\": expected {known}", Escaped(.name))]
    NoContext { files: String, name: String, known: String },
    #[error("it has no cluster \"{}\", which its context names", Escaped(.0))]
    NoCluster(String),
    #[error("in its exec, {0}")]
    Plugin(&'static str),
    #[error("in its auth-provider, {0}")]
    AuthProvider(String),
    #[error("{0}")]
    Invalid(String),
}

fn place(location: Option<&serde_saphyr::Location>) -> String {
    match location {
        Some(place) => format!("unexpected value in line {}, column {}", place.line(), place.column()),
        None => "expected the YAML of a kubeconfig".to_owned(),
    }
}

/// A value, or `None` if it is empty, null or missing. A number or a boolean is a text, as it is written.
#[derive(Clone, Default)]
pub(in crate::cluster) struct Text(Option<String>);

impl Text {
    pub(in crate::cluster) fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub(in crate::cluster) fn secret(&self) -> Option<SecretString> {
        self.get().map(SecretString::from)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty())))
    }
}

/// Base64 in a kubeconfig, or `None` as for [`Text`]. What YAML has decoded already, because of `!!binary`, may be PEM.
#[derive(Clone, Default)]
struct Data(Option<Vec<u8>>);

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let decode = |text: &str| {
            let is_pem = text.starts_with("-----BEGIN ");
            let decoded = if is_pem { Some(text.as_bytes().to_vec()) } else { decode_base64(text) };
            decoded.ok_or_else(|| D::Error::custom("expected base64"))
        };
        Ok(Self(Text::deserialize(from)?.get().map(decode).transpose()?))
    }
}

/// A list, empty if it is null or missing. Go reads a null in it as an empty value.
fn list<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(List::deserialize(from)?.0)
}

fn map_of_lists<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let map = Option::<BTreeMap<String, List<String>>>::deserialize(from)?.unwrap_or_default();
    Ok(map.into_iter().map(|(key, values)| (key, values.0)).collect())
}

struct List<T>(Vec<T>);

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let items = Option::<Vec<Option<T>>>::deserialize(from)?.unwrap_or_default();
        Ok(Self(items.into_iter().map(Option::unwrap_or_default).collect()))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Document {
    #[serde(deserialize_with = "list")]
    clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "list")]
    users: Vec<NamedUser>,
    #[serde(deserialize_with = "list")]
    contexts: Vec<NamedContext>,
    current_context: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    name: Text,
    #[serde(deserialize_with = "null_is_default")]
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    name: Text,
    #[serde(deserialize_with = "null_is_default")]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: Text,
    #[serde(deserialize_with = "null_is_default")]
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: Text,
    user: Text,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(in crate::cluster) struct Cluster {
    pub(in crate::cluster) server: Text,
    pub(in crate::cluster) tls_server_name: Text,
    #[serde(deserialize_with = "null_is_default")]
    pub(in crate::cluster) insecure_skip_tls_verify: bool,
    certificate_authority: Text,
    certificate_authority_data: Data,
    pub(in crate::cluster) proxy_url: Text,
    #[serde(deserialize_with = "null_is_default")]
    disable_compression: bool,
    #[serde(deserialize_with = "list")]
    extensions: Vec<Extension>,
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Extension {
    name: Text,
    extension: Value,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(in crate::cluster) struct User {
    client_certificate: Text,
    client_certificate_data: Data,
    client_key: Text,
    client_key_data: Data,
    pub(in crate::cluster) token: Text,
    #[serde(rename = "tokenFile")]
    token_file: Text,
    pub(in crate::cluster) username: Text,
    pub(in crate::cluster) password: Text,
    #[serde(rename = "as")]
    pub(in crate::cluster) impersonate: Text,
    #[serde(rename = "as-uid")]
    pub(in crate::cluster) impersonate_uid: Text,
    #[serde(rename = "as-groups", deserialize_with = "list")]
    pub(in crate::cluster) impersonate_groups: Vec<String>,
    #[serde(rename = "as-user-extra", deserialize_with = "map_of_lists")]
    pub(in crate::cluster) impersonate_extra: BTreeMap<String, Vec<String>>,
    pub(in crate::cluster) auth_provider: Option<AuthProvider>,
    pub(in crate::cluster) exec: Option<Exec>,
    /// The kubeconfig that defines the user.
    #[serde(skip)]
    pub(in crate::cluster) file: PathBuf,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct AuthProvider {
    pub(in crate::cluster) name: Text,
    #[serde(deserialize_with = "null_is_default")]
    pub(in crate::cluster) config: BTreeMap<String, Text>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cluster) struct Exec {
    pub(in crate::cluster) api_version: Text,
    command: Text,
    #[serde(deserialize_with = "list")]
    pub(in crate::cluster) args: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(in crate::cluster) env: Vec<Variable>,
    #[serde(deserialize_with = "null_is_default")]
    pub(in crate::cluster) provide_cluster_info: bool,
    pub(in crate::cluster) interactive_mode: Text,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct Variable {
    pub(in crate::cluster) name: Text,
    pub(in crate::cluster) value: Text,
}

/// What a plugin is told about the cluster: `Cluster` of `client.authentication.k8s.io`.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cluster) struct ClusterInfo {
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_url: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_compression: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Value>,
}

/// The bytes of a file, or of base64 in the kubeconfig.
#[derive(Clone)]
pub(in crate::cluster) enum Content {
    Inline(Vec<u8>),
    File(PathBuf),
}

impl Content {
    fn of(data: &Data, file: Option<PathBuf>) -> Option<Self> {
        data.0.clone().map(Self::Inline).or_else(|| file.map(Self::File))
    }
}

impl Cluster {
    pub(in crate::cluster) fn authorities(&self) -> Option<Content> {
        let file = self.certificate_authority.get().map(|path| self.folder.join(path));
        Content::of(&self.certificate_authority_data, file)
    }

    pub(in crate::cluster) fn info(&self, authorities: Option<&[u8]>) -> ClusterInfo {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let text = |text: &Text| text.get().map(str::to_owned);
        let plugin = self.extensions.iter().find(|extension| extension.name.get() == Some(PLUGIN_EXTENSION));
        ClusterInfo {
            server: text(&self.server),
            tls_server_name: text(&self.tls_server_name),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            certificate_authority_data: authorities.map(|pem| STANDARD.encode(pem)),
            proxy_url: text(&self.proxy_url),
            disable_compression: self.disable_compression,
            config: plugin.map(|plugin| plugin.extension.clone()),
        }
    }
}

impl User {
    fn path(&self, path: &Text) -> Option<PathBuf> {
        path.get().map(|path| folder_of(&self.file).join(path))
    }

    pub(in crate::cluster) fn token_file(&self) -> Option<PathBuf> {
        self.path(&self.token_file)
    }

    /// The client certificate. client-go ignores a key without a certificate.
    pub(in crate::cluster) fn certificate(&self) -> Option<Content> {
        Content::of(&self.client_certificate_data, self.path(&self.client_certificate))
    }

    pub(in crate::cluster) fn key(&self) -> Option<Content> {
        Content::of(&self.client_key_data, self.path(&self.client_key))
    }

    /// The command of the plugin: a path relative to the kubeconfig, or a name in `PATH`.
    pub(in crate::cluster) fn plugin_command(&self, exec: &Exec) -> Option<PathBuf> {
        let command = exec.command.get()?;
        Some(if command.contains('/') { self.path(&exec.command)? } else { command.into() })
    }
}

/// The cluster and the user of a context. A user that is missing has no credentials.
pub(in crate::cluster) struct Selected {
    pub(in crate::cluster) cluster: Cluster,
    pub(in crate::cluster) user: User,
}

/// Merges the files, each key from the first one that has it, and selects a context.
pub(in crate::cluster) fn select(
    files: &[&Path],
    context: Option<&str>,
) -> Result<Selected, KubeconfigError> {
    let documents: Vec<_> = files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    let files = || files.iter().map(|file| quoted(file)).collect::<Vec<_>>().join(", ");
    if documents.iter().all(|document| document.clusters.is_empty()) {
        return Err(KubeconfigError::Empty(files()));
    }
    let known = || one_of(documents.iter().flat_map(|document| &document.contexts));
    let current = || documents.iter().find_map(|document| document.current_context.get());
    let context = context
        .or_else(current)
        .ok_or_else(|| KubeconfigError::NoCurrentContext { files: files(), known: known() })?;
    let Context { cluster, user } = documents
        .iter()
        .flat_map(|document| &document.contexts)
        .find(|named| named.name.get() == Some(context))
        .map(|named| &named.context)
        .ok_or_else(|| KubeconfigError::NoContext {
            files: files(),
            name: context.to_owned(),
            known: known(),
        })?;
    let cluster_name = cluster.get().unwrap_or_default();
    let cluster = documents
        .iter()
        .flat_map(|document| &document.clusters)
        .find(|named| named.name.get().unwrap_or_default() == cluster_name)
        .map(|named| named.cluster.clone())
        .ok_or_else(|| KubeconfigError::NoCluster(cluster_name.to_owned()))?;
    let users = documents.iter().flat_map(|document| &document.users);
    let user = users.into_iter().find(|named| named.name.get() == user.get()).map(|named| named.user.clone());
    Ok(Selected { cluster, user: user.unwrap_or_default() })
}

/// Lists contexts in a message.
fn one_of<'a>(contexts: impl Iterator<Item = &'a NamedContext>) -> String {
    let names: BTreeSet<_> = contexts.filter_map(|context| context.name.get()).collect();
    let names: Vec<_> = names.into_iter().map(|name| format!("\"{}\"", Escaped(name))).collect();
    match &*names {
        [] => "a context, but it has none".to_owned(),
        [only] => only.clone(),
        several => format!("one of {}", several.join(", ")),
    }
}

/// Reads a file, in which paths are relative to its folder.
fn read(file: &Path) -> Result<Document, KubeconfigError> {
    let bytes = std::fs::read(file).map_err(|error| KubeconfigError::Unreadable(file.to_owned(), error))?;
    let text = decode(bytes).ok_or_else(|| KubeconfigError::Encoding(file.to_owned()))?;
    let mut document = parse(&text)
        .map_err(|error| KubeconfigError::Syntax(file.to_owned(), error.location().map(Box::new)))?;
    for NamedCluster { cluster, .. } in &mut document.clusters {
        cluster.folder = folder_of(file).into();
    }
    for NamedUser { user, .. } in &mut document.users {
        user.file = file.into();
    }
    Ok(document)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Decodes UTF-8, or UTF-16 that PowerShell writes.
fn decode(bytes: Vec<u8>) -> Option<String> {
    let utf16 = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, _) = rest.as_chunks::<2>();
        String::from_utf16(&pairs.iter().map(|pair| unit(*pair)).collect::<Vec<_>>()).ok()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes).ok(),
    }
}

/// Parses the first document. Of a key that occurs twice, the last value counts.
fn parse(text: &str) -> Result<Document, serde_saphyr::Error> {
    let mut bytes = text.as_bytes();
    let first = serde_saphyr::read_with_options(&mut bytes, options()).next();
    first.unwrap_or_else(|| Ok(Document::default()))
}

/// Limit for nested values, which use the stack.
const MAX_DEPTH: usize = 100;

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // The limits for nested values and for aliases of each anchor are low; the number of replayed values stays limited.
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None, max_depth: MAX_DEPTH, enforce_alias_anchor_ratio: false,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    }
}

/// Another value for a text that is a value of a kubeconfig.
pub(in crate::cluster) struct Replacement<'a> {
    pub(in crate::cluster) old: &'a str,
    pub(in crate::cluster) new: &'a str,
}

/// Replaces values in the text of a kubeconfig, which keeps its format and comments. `None` if that would change anything
/// else, or nothing.
pub(in crate::cluster) fn replace(text: &str, replacements: &[Replacement<'_>]) -> Option<String> {
    let replaced = replacements.iter().fold(text.to_owned(), |text, with| text.replace(with.old, with.new));
    let current = values(text)?;
    let mut expected = current.clone();
    for value in &mut expected {
        replace_values(value, replacements);
    }
    (expected != current && values(&replaced)? == expected).then_some(replaced)
}

fn replace_values(value: &mut Value, replacements: &[Replacement<'_>]) {
    match value {
        Value::String(text) => {
            if let Some(with) = replacements.iter().find(|with| with.old == text) {
                with.new.clone_into(text);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| replace_values(value, replacements)),
        Value::Object(values) => values.values_mut().for_each(|value| replace_values(value, replacements)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn values(text: &str) -> Option<Vec<Value>> {
    serde_saphyr::from_multiple_with_options(text, options()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_and_nested_values_are_read_and_expansion_is_limited() {
        let nested = |depth: usize| format!("x: {}{}\n", "[".repeat(depth), "]".repeat(depth));
        let aliases = |number: usize| format!("a: &a [b]\nx: [{}]\n", vec!["*a"; number].join(", "));
        let line = |n: usize| format!("x{n}: &x{n} [{}]\n", vec![format!("*x{}", n - 1); 10].join(", "));
        let bomb = format!("x0: &x0 [a]\n{}", (1..12).map(line).collect::<String>());
        for (text, is_read) in [
            (nested(70), true),
            (nested(150), false),
            (nested(100_000), false),
            (aliases(100), true),
            (aliases(5_000), true),
            (bomb, false),
        ] {
            let read = parse(&format!("{text}current-context: x\n"));
            assert_eq!(read.is_ok(), is_read, "{text:.60}");
        }
    }

    #[test]
    fn null_in_a_list_is_an_empty_value() {
        let text = "
clusters: [null, {name: c, cluster: {server: s, extensions: [null, {name: x}]}}]
contexts: [null, {name: x, context: {cluster: c, user: u}}, {name: y, context: null}]
users:
- null
- name: u
  user:
    as-groups: [null, g]
    as-user-extra: {k: null, l: [null, v]}
    auth-provider: {name: oidc, config: {client-id: null}}
    exec: {command: p, args: [a, null], env: [null, {name: N, value: null}, {name: null, value: v}]}
- {name: other, user: {as-groups: [null], exec: {args: [null], env: [null]}}}
current-context: x
";
        let document = parse(text).unwrap();
        assert_eq!((document.clusters.len(), document.contexts.len(), document.users.len()), (2, 3, 3));
        let NamedUser { user, .. } = &document.users[1];
        assert_eq!(user.impersonate_groups, ["", "g"]);
        assert_eq!(user.impersonate_extra["k"], [""; 0]);
        assert_eq!(user.impersonate_extra["l"], ["", "v"]);
        let exec = user.exec.as_ref().unwrap();
        assert_eq!(exec.args, ["a", ""]);
        assert_eq!(exec.env.iter().filter_map(|variable| variable.name.get()).collect::<Vec<_>>(), ["N"]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, text).unwrap();
        let selected = select(&[&file], None).unwrap();
        assert_eq!(selected.cluster.server.get(), Some("s"));
        assert!(selected.user.exec.is_some());
    }

    #[test]
    fn unknown_context_lists_the_contexts_and_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = file("first", "clusters: [{name: c}]\ncontexts: [{name: prod-eu}, {name: dev}]");
        let second = file("second", "contexts: [{name: dev}, {name: \"\\e[1m\"}]");
        let none = file("none", "clusters: [{name: c}]");
        let [one, two, empty] = [&first, &second, &none].map(|path| quoted(path));
        for (files, context, expected) in [
            (
                &[&*first][..],
                Some("prod"),
                format!(r#"{one} has no context "prod": expected one of "dev", "prod-eu""#),
            ),
            (
                &[&first, &second],
                None,
                format!(
                    r#"{one}, {two} has no current-context: set --context to one of "\u{{1b}}[1m", "dev", "prod-eu""#
                ),
            ),
            (
                &[&none],
                Some("a"),
                format!(r#"{empty} has no context "a": expected a context, but it has none"#),
            ),
        ] {
            let error = select(files, context).err().unwrap();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn only_whole_values_are_replaced_and_the_rest_of_the_text_is_kept() {
        const TEXT: &str =
            "# comment\nusers:\n- name: a-token\n  user: {x: 'old-token'}\n---\nold: [old-token]\n";
        let replace = |old, new| replace(TEXT, &[Replacement { old, new }]);
        assert_eq!(replace("old-token", "new").as_deref(), Some(&*TEXT.replace("old-token", "new")));
        for (old, new) in [("token", "new"), ("missing", "new"), ("old-token", "it's"), ("comment", "new")] {
            assert_eq!(replace(old, new), None, "{old}");
        }
    }
}
