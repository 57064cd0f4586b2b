//! Operation 4: what runs now of a repository.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::kept::{Kept, null_is_default, optional_whole, time};
use crate::domain::model::{Fingerprint, Provider, RepositoryName, Timestamp};
use crate::domain::waiting::Running;

/// What runs of a repository.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LiveArtifacts {
    /// One for each artifact and environment that it runs in.
    pub live_artifacts: Vec<LiveArtifact>,
    #[serde(default, rename = "_embedded", deserialize_with = "null_is_default")]
    embedded: Embedded,
}

/// An artifact that runs in an environment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LiveArtifact {
    /// The identifier of its environment.
    pub environment_id: String,
    /// Its own identifier.
    pub artifact_id: String,
    /// The name of the image.
    #[serde(default, deserialize_with = "null_is_default")]
    pub artifact_name: String,
    /// The environment's current snapshot.
    #[serde(default, deserialize_with = "optional_whole")]
    pub snapshot_index: Option<u64>,
    /// Since when it runs.
    #[serde(default, deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    /// Whether it may run there: `COMPLIANT`, `NON-COMPLIANT`, `UNKNOWN`, or a word that is not known here.
    #[serde(default, deserialize_with = "null_is_default")]
    pub compliance: String,
}

/// What the list names by identifier.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Embedded {
    #[serde(deserialize_with = "null_is_default")]
    artifacts: Vec<Artifact>,
    #[serde(deserialize_with = "null_is_default")]
    environments: Vec<Environment>,
}

/// An artifact and the commit that it was built from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Artifact {
    id: String,
    /// Its digest.
    pub fingerprint: Fingerprint,
    /// The commit's hash.
    #[serde(default)]
    pub commit_sha: Option<String>,
    /// The commit's page.
    #[serde(default)]
    pub commit_url: Option<String>,
}

/// An environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Environment {
    id: String,
    /// Its name.
    pub name: String,
    /// Whether nobody has reported it for long; not every service says so.
    #[serde(default)]
    pub is_silent: Option<bool>,
}

impl LiveArtifacts {
    /// What is said of an artifact of this list beside where it runs.
    #[must_use]
    pub fn artifact(&self, of: &LiveArtifact) -> Option<&Artifact> {
        self.embedded.artifacts.iter().find(|artifact| artifact.id == of.artifact_id)
    }

    /// Each artifact by its digest, in each environment by its name. Without a digest beside it, an
    /// artifact's identifier is taken for one where it can be.
    pub fn running(&self) -> impl Iterator<Item = Running<'_>> {
        self.live_artifacts.iter().map(|of| {
            let (artifact, environment) = (self.artifact(of), self.environment(of));
            Running {
                fingerprint: artifact.map_or_else(|| of.artifact_id.parse().ok(), |a| Some(a.fingerprint)),
                environment: environment.map_or(&of.environment_id, |environment| &environment.name),
                is_silent: environment.is_some_and(|environment| environment.is_silent == Some(true)),
            }
        })
    }

    /// The environment that an artifact of this list runs in.
    #[must_use]
    pub fn environment(&self, of: &LiveArtifact) -> Option<&Environment> {
        self.embedded.environments.iter().find(|environment| environment.id == of.environment_id)
    }
}

impl Client {
    /// GETs what runs of a repository: `/repos/{org}/live-artifacts/{repo_name}`. A slash in the name
    /// travels as `%2F`. A provider is needed where several have a repository of this name.
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 200 with the JSON that is expected.
    pub async fn live_artifacts(
        &self,
        repository: &RepositoryName,
        provider: Option<Provider>,
    ) -> Result<Kept<LiveArtifacts>, Error> {
        let path = ["repos", self.organization().as_str(), "live-artifacts", repository.as_str()];
        let mut request = self.request(Method::GET, &path);
        if let Some(provider) = provider {
            request = request.with("provider", provider.as_str());
        }
        self.get(request).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_artifact_is_joined_with_its_commit_and_its_environment_and_unknown_fields_do_no_harm() {
        let digest = "a".repeat(64);
        let live: LiveArtifacts = serde_json::from_value(json!({
            "live_artifacts": [
                {"environment_id": "e1", "artifact_id": "a1", "artifact_name": "cart:1", "started_at": 1.5, "new": {}},
                {"environment_id": "e2", "artifact_id": "a2", "artifact_name": "cart:2", "snapshot_index": null},
            ],
            "_embedded": {
                "artifacts": [{"id": "a1", "fingerprint": digest, "commit_sha": "c0ffee", "commit_url": null}],
                "environments": [{"id": "e1", "name": "prod", "type": "K8S"}],
            },
            "_links": {},
        }))
        .unwrap();
        let [first, second] = live.live_artifacts.as_slice() else { panic!("{live:?}") };
        assert_eq!(live.artifact(first).unwrap().commit_sha.as_deref(), Some("c0ffee"));
        assert_eq!(live.environment(first).unwrap().name, "prod");
        assert_eq!((live.artifact(second), live.environment(second)), (None, None));
    }
}
