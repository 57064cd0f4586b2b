//! The temporary folder of the demo, which only its owner may read.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::{DemoError, Result};
use runtime::files::{Existing, Readers, write_atomically};

pub(super) const BOOTSTRAP: &str = "bootstrap.yaml";
pub(super) const SIGNING_KEY: &str = "signing.pem";
pub(super) const TOKEN: &str = "token";

/// The folder; dropping it removes it.
pub(super) struct Files(TempDir);

impl Files {
    pub(super) fn create() -> Result<Self> {
        let mut folder = tempfile::Builder::new();
        folder.prefix("supercargo-demo-").permissions(Permissions::from_mode(0o700));
        Ok(Self(folder.tempdir()?))
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, or replaces it at once.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.path(name);
        let written = write_atomically(&path, content.as_bytes(), Existing::Replace, Readers::Owner);
        written.map_err(|error| DemoError::Write(path.clone(), error))?;
        Ok(path)
    }

    /// The database's URL. SQLite decodes percent signs in it, and a question mark ends its path.
    pub(super) fn database(&self) -> String {
        let path = self.path("evidence.db").display().to_string();
        format!("sqlite:{}", path.replace('%', "%25").replace('?', "%3F"))
    }

    pub(super) fn remove(self) -> Result<()> {
        Ok(self.0.close()?)
    }
}
