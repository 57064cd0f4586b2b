//! Operation 4: get the running artifacts of a repository.

use std::collections::HashMap;

use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::hint::Resource;
use super::operation::Operation;
use super::raw_response::{Parsed, optional_integer, time};
use crate::wait::RunningArtifact;
use model::image_id::digest_of;
use model::{Fingerprint, Provider, RepositoryName, Timestamp, null_is_default};

/// The running artifacts of a repository.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LiveArtifacts {
    /// One per artifact and environment.
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
    #[serde(default, deserialize_with = "optional_integer")]
    pub snapshot_index: Option<u64>,
    /// When it started.
    #[serde(default, deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    /// `COMPLIANT`, `NON-COMPLIANT`, `UNKNOWN`, or an unknown state.
    #[serde(default, deserialize_with = "null_is_default")]
    pub compliance: String,
}

/// The resources that the list refers to by identifier.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Embedded {
    #[serde(deserialize_with = "null_is_default")]
    artifacts: Vec<EmbeddedArtifact>,
    #[serde(deserialize_with = "null_is_default")]
    environments: Vec<EmbeddedEnvironment>,
}

/// An artifact and the commit that it was built from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EmbeddedArtifact {
    id: String,
    /// Its digest, unvalidated.
    #[serde(default, deserialize_with = "null_is_default")]
    pub fingerprint: String,
    /// The commit's hash.
    pub commit_sha: Option<String>,
    /// Number of other origins that flows named for it; an extension of the interface.
    #[serde(default)]
    pub provenance_conflicts: u64,
}

/// An environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EmbeddedEnvironment {
    id: String,
    /// Its name.
    pub name: String,
    /// Whether it is silent; an extension of the interface.
    pub is_silent: Option<bool>,
    /// When it was last reported; an extension of the interface.
    #[serde(default, deserialize_with = "time")]
    pub last_report_at: Option<Timestamp>,
}

/// One of [`LiveArtifacts::joined`].
#[derive(Debug, Clone, Copy)]
pub struct JoinedArtifact<'a> {
    /// The running artifact.
    pub live: &'a LiveArtifact,
    /// Its embedded artifact.
    pub artifact: Option<&'a EmbeddedArtifact>,
    /// Its embedded environment.
    pub environment: Option<&'a EmbeddedEnvironment>,
}

impl EmbeddedArtifact {
    /// Its digest, if valid.
    #[must_use]
    pub fn digest(&self) -> Option<Fingerprint> {
        digest_of(&self.fingerprint)
    }
}

impl LiveArtifacts {
    /// The number of running artifacts for which flows named several origins.
    #[must_use]
    pub fn conflicts(&self) -> usize {
        self.embedded.artifacts.iter().filter(|artifact| artifact.provenance_conflicts > 0).count()
    }

    /// Each artifact with its embedded resources. Resources that share an identifier and differ are ignored.
    pub fn joined(&self) -> impl Iterator<Item = JoinedArtifact<'_>> {
        let artifacts = by_id(&self.embedded.artifacts, |artifact| &artifact.id);
        let environments = by_id(&self.embedded.environments, |environment| &environment.id);
        self.live_artifacts.iter().map(move |live| JoinedArtifact {
            live,
            artifact: artifacts.get(live.artifact_id.as_str()).copied().flatten(),
            environment: environments.get(live.environment_id.as_str()).copied().flatten(),
        })
    }

    /// Each artifact with its digest and the name of its environment. Without an embedded artifact, its identifier is
    /// used as the digest if valid.
    pub fn running(&self) -> impl Iterator<Item = RunningArtifact<'_>> {
        self.joined().map(|JoinedArtifact { live, artifact, environment }| RunningArtifact {
            fingerprint: artifact.map_or_else(|| digest_of(&live.artifact_id), EmbeddedArtifact::digest),
            environment: environment.map(|environment| environment.name.as_str()),
            is_silent: environment.is_some_and(|environment| environment.is_silent == Some(true)),
            last_report: environment.and_then(|environment| environment.last_report_at),
        })
    }
}

/// Items by identifier; `None` for an identifier of different items.
fn by_id<'a, T: PartialEq>(
    items: &'a [T],
    id: impl Fn(&'a T) -> &'a String,
) -> HashMap<&'a str, Option<&'a T>> {
    let mut by_id = HashMap::new();
    for item in items {
        let known = by_id.entry(id(item).as_str()).or_insert(Some(item));
        *known = known.filter(|known| *known == item);
    }
    by_id
}

impl Client {
    /// GETs the running artifacts of a repository: `/repos/{org}/live-artifacts/{repo_name}`. Slashes in the name are
    /// percent-encoded. The provider is required if several have a repository with this name.
    pub async fn live_artifacts(
        &self,
        repository: &RepositoryName,
        provider: Option<&Provider>,
    ) -> Result<Parsed<LiveArtifacts>, Error> {
        let about = Resource::Repository(repository.as_str());
        let operation = Operation::new(about, &["repos", "live-artifacts", repository.as_str()]);
        self.get(&operation.with("provider", provider.map(Provider::as_str))).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn artifact_is_joined_with_commit_and_environment_and_unknown_fields_are_ignored() {
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
        let joined: Vec<_> = live.joined().collect();
        let [first, second] = joined.as_slice() else { panic!("{live:?}") };
        assert_eq!(first.artifact.unwrap().commit_sha.as_deref(), Some("c0ffee"));
        assert_eq!(first.environment.unwrap().name, "prod");
        assert_eq!((second.artifact, second.environment), (None, None));
    }

    #[test]
    fn missing_or_ambiguous_resources_are_unknown() {
        let digest = "a".repeat(64);
        let live = |artifacts: serde_json::Value, environments: serde_json::Value| -> LiveArtifacts {
            serde_json::from_value(json!({
                "live_artifacts": [{"environment_id": "e", "artifact_id": "a"}, {"environment_id": "e", "artifact_id": digest}],
                "_embedded": {"artifacts": artifacts, "environments": environments},
            }))
            .unwrap()
        };
        let running = |live: &LiveArtifacts| -> Vec<_> {
            live.running()
                .map(|running| (running.fingerprint.is_some(), running.environment.map(str::to_owned)))
                .collect()
        };
        let prod = || Some("prod".to_owned());
        for (artifacts, environments, expected) in [
            (json!([]), json!([]), [(false, None), (true, None)]),
            (
                json!([{"id": "a", "fingerprint": format!("sha256:{digest}")}]),
                json!([{"id": "e", "name": "prod"}]),
                [(true, prod()), (true, prod())],
            ),
            (
                json!([{"id": "a", "fingerprint": "odd"}]),
                json!([{"id": "e", "name": "prod"}]),
                [(false, prod()), (true, prod())],
            ),
            (
                json!([{"id": "a", "fingerprint": digest}, {"id": "a", "fingerprint": "other"}]),
                json!([{"id": "e", "name": "prod"}, {"id": "e", "name": "dev"}]),
                [(false, None), (true, None)],
            ),
        ] {
            assert_eq!(running(&live(artifacts.clone(), environments)), expected, "{artifacts}");
        }
    }
}
