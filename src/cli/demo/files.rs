//! The demo's folder: all that it writes, and that its commands name.
//!
//! Nobody else may enter it, and it goes when [`Files`] does.

use std::fs::OpenOptions;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tempfile::TempDir;

use super::past::{Declared, Past};
use super::receiver::Webhook;
use super::sample::{self, API, Build, CACHE, CART, NEXT_WEB, UNTESTED_WEB, WEB};
use super::{ACTION, CLUSTER, DemoError, ORGANIZATION, STOREFRONT, UNIT_TESTS};
use crate::domain::model::Fingerprint;
use crate::service::random::random;

/// The bootstrap file.
const BOOTSTRAP: &str = "bootstrap.yaml";

/// The file of the token.
const TOKEN: &str = "token";

/// The file of the webhook's address.
const URL: &str = "webhook-url";

/// The file of what notifications are signed with.
pub(super) const SECRET: &str = "webhook-secret";

/// The file of the address of the webhook that hears of the past.
pub(super) const WATCH: &str = "watch-url";

/// The file of the address of the chat that does.
pub(super) const CHAT: &str = "chat-url";

/// How long environments may be silent that are reported when somebody does it by hand.
const BY_HAND: &str = "12h";

/// The folder, and what lies in it.
pub(super) struct Files {
    folder: TempDir,
    token: SecretString,
    cache: Fingerprint,
    digests: Vec<(Build, Fingerprint)>,
}

impl Files {
    /// Makes the folder and writes everything into it, a new token and what leads to the webhook included.
    pub(super) fn write(webhook: &Webhook, past: Option<&Past>) -> Result<Self, DemoError> {
        let folder = tempfile::Builder::new()
            .prefix("supercargo-demo-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(DemoError::Folder)?;
        let pods: Value = serde_json::from_str(sample::PODS).map_err(|_| DemoError::Sample("their JSON"))?;
        let next = sample::made_up_digest(NEXT_WEB.image);
        let after = sample::rolled_out(pods.clone(), &WEB, &NEXT_WEB, next)
            .ok_or(DemoError::Sample("the one that is to start"))?;
        let storefront = sample::storefront(&after).ok_or(DemoError::Sample("the storefront"))?;
        let untested = sample::untested(storefront.clone(), sample::made_up_digest(UNTESTED_WEB))
            .ok_or(DemoError::Sample("what the storefront is to run"))?;
        let cache = sample::digest_of(&storefront, CACHE).ok_or(DemoError::Sample("the cache"))?;
        let token = random::<32>()?;
        let mut files = Self { folder, token: token.as_str().into(), cache, digests: Vec::new() };
        let ([watch, chat], url) = (webhook.urls_beside(), webhook.url());
        for (name, secret) in
            [(TOKEN, token.as_str()), (URL, &url), (SECRET, webhook.secret()), (WATCH, &watch), (CHAT, &chat)]
        {
            write(&files.at(name), &format!("{secret}\n"))?;
        }
        files.declare(&past.map(Past::declared).unwrap_or_default())?;
        write(&files.pods(), sample::PODS)?;
        write(&files.pods_after(), &pretty(&after))?;
        write(&files.storefront(), &pretty(&storefront))?;
        write(&files.storefront_untested(), &pretty(&untested))?;
        for build in [WEB, CART, API, NEXT_WEB] {
            let digest = sample::digest_of(&after, build.image)
                .or_else(|| sample::digest_of(&pods, build.image))
                .ok_or(DemoError::Sample("an image that is attested"))?;
            write(&files.results(&build), &build.results())?;
            files.digests.push((build, digest));
        }
        Ok(files)
    }

    /// The token's file.
    pub(super) fn token(&self) -> PathBuf {
        self.at(TOKEN)
    }

    /// The token.
    pub(super) fn token_itself(&self) -> &str {
        self.token.expose_secret()
    }

    /// The bootstrap file of the service.
    pub(super) fn bootstrap(&self) -> PathBuf {
        self.at(BOOTSTRAP)
    }

    /// The pods before the rollout.
    pub(super) fn pods(&self) -> PathBuf {
        self.at("pods.json")
    }

    /// The pods after it.
    pub(super) fn pods_after(&self) -> PathBuf {
        self.at("pods-after.json")
    }

    /// The storefront's pods, of which each image may run there.
    pub(super) fn storefront(&self) -> PathBuf {
        self.at("storefront.json")
    }

    /// Its pods once an image was rolled out that nobody tested.
    pub(super) fn storefront_untested(&self) -> PathBuf {
        self.at("storefront-untested.json")
    }

    /// The test results of a build.
    pub(super) fn results(&self, build: &Build) -> PathBuf {
        self.at(&format!("{}-{}.xml", build.name, build.version))
    }

    /// The digest of the image that came of it.
    pub(super) fn digest(&self, build: &Build) -> Option<Fingerprint> {
        self.digests.iter().find(|(other, _)| other == build).map(|(_, digest)| *digest)
    }

    /// The URL of the database. SQLite's URLs are percent-decoded, and end at a question mark.
    pub(super) fn database(&self) -> String {
        let path = self.at("evidence.db").display().to_string();
        format!("sqlite:{}", path.replace('%', "%25").replace('?', "%3F"))
    }

    /// Writes the bootstrap file, anew where it is there.
    pub(super) fn declare(&self, past: &Declared) -> Result<(), DemoError> {
        self.put(BOOTSTRAP, &bootstrap(self.cache, past)).map(drop)
    }

    /// Writes a file, anew where it is there.
    pub(super) fn put(&self, name: &str, content: &str) -> Result<PathBuf, DemoError> {
        let path = self.at(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DemoError::File(path, error));
            }
            _ => {}
        }
        write(&path, content)?;
        Ok(path)
    }

    /// The pods of an environment of the past.
    pub(super) fn of(&self, environment: &str) -> PathBuf {
        self.at(&format!("{environment}.json"))
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Removes the folder.
    pub(super) fn remove(self) -> Result<(), DemoError> {
        self.folder.close().map_err(DemoError::Left)
    }
}

/// The file that tells the service who may use it, what may run in the storefront, and who wants to know.
fn bootstrap(cache: Fingerprint, past: &Declared) -> String {
    let Declared { changes, flows, environments, actions } = past;
    format!(
        "\
generation: {generation}
organizations:
  - name: {ORGANIZATION}
    tokens:
      - {{name: demo, role: admin, file: {TOKEN}}}
    flows:
      - name: {flow}
{flows}    environments:
      - name: {CLUSTER}
        silentAfter: {BY_HAND}
      - name: {STOREFRONT}
        silentAfter: {BY_HAND}
        policy:
          attestations:
            - {{flow: {flow}, name: {UNIT_TESTS}}}
        allowed:
          - artifact: {cache}
            reason: {CACHE} is its publisher's to test
            author: platform team
{environments}    actions:
      - number: {ACTION}
        name: storefront-watch
        environments: [{STOREFRONT}]
        triggers: [ON_NON_COMPLIANT_ENV, ON_COMPLIANT_ENV]
        targets:
          - {{name: demo, type: WEBHOOK, url: {{file: {URL}}}, secrets: [{{file: {SECRET}}}]}}
{actions}",
        generation = changes + 1,
        flow = WEB.name
    )
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Writes a file that its owner alone may read.
fn write(path: &Path, content: &str) -> Result<(), DemoError> {
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = written.and_then(|mut file| file.write_all(content.as_bytes()));
    written.map_err(|error| DemoError::File(path.to_owned(), error))
}
