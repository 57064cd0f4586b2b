//! The demo's folder: all that it writes, and that its commands name.
//!
//! Nobody else may enter it, and it goes when [`Files`] does.

use std::fs::OpenOptions;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::sample::{self, API, Build, CART, NEXT_WEB, WEB};
use super::{DemoError, ORGANIZATION};
use crate::domain::model::Fingerprint;

/// The folder, and what lies in it.
pub(super) struct Files {
    folder: TempDir,
    digests: Vec<(Build, Fingerprint)>,
}

impl Files {
    /// Makes the folder and writes everything into it, a new token included.
    pub(super) fn write() -> Result<Self, DemoError> {
        let folder = tempfile::Builder::new()
            .prefix("supercargo-demo-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(DemoError::Folder)?;
        let mut files = Self { folder, digests: Vec::new() };
        let mut token = [0; 32];
        getrandom::fill(&mut token).map_err(DemoError::Random)?;
        let token = hex::encode(token);
        write(&files.token(), &format!("{token}\n"))?;
        write(&files.bootstrap(), &bootstrap())?;

        let pods: Value = serde_json::from_str(sample::PODS).map_err(|_| DemoError::Sample("their JSON"))?;
        let next = sample::made_up_digest(NEXT_WEB.image);
        let after = sample::rolled_out(pods.clone(), &WEB, &NEXT_WEB, next)
            .ok_or(DemoError::Sample("the one that is to start"))?;
        write(&files.pods(), sample::PODS)?;
        write(&files.pods_after(), &pretty(&after))?;
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
        self.folder.path().join("token")
    }

    /// The bootstrap file of the service.
    pub(super) fn bootstrap(&self) -> PathBuf {
        self.folder.path().join("bootstrap.yaml")
    }

    /// The pods before the rollout.
    pub(super) fn pods(&self) -> PathBuf {
        self.folder.path().join("pods.json")
    }

    /// The pods after it.
    pub(super) fn pods_after(&self) -> PathBuf {
        self.folder.path().join("pods-after.json")
    }

    /// The test results of a build.
    pub(super) fn results(&self, build: &Build) -> PathBuf {
        self.folder.path().join(format!("{}-{}.xml", build.name, build.version))
    }

    /// The digest of the image that came of it.
    pub(super) fn digest(&self, build: &Build) -> Option<Fingerprint> {
        self.digests.iter().find(|(other, _)| other == build).map(|(_, digest)| *digest)
    }

    /// The URL of the database. SQLite's URLs are percent-decoded, and end at a question mark.
    pub(super) fn database(&self) -> String {
        let path = self.folder.path().join("evidence.db").display().to_string();
        format!("sqlite:{}", path.replace('%', "%25").replace('?', "%3F"))
    }

    /// Removes the folder.
    pub(super) fn remove(self) -> Result<(), DemoError> {
        self.folder.close().map_err(DemoError::Left)
    }
}

/// The file that tells the service who may use it.
fn bootstrap() -> String {
    format!(
        "generation: 1\norganizations:\n  - name: {ORGANIZATION}\n    tokens:\n      \
         - {{name: demo, role: admin, file: token}}\n"
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
