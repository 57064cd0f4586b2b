//! Operation 4: what runs now of a repository.

use std::collections::HashMap;

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Kept, null_is_default, optional_whole, time};
use crate::domain::live::collapse::digest_of;
use crate::domain::model::{Fingerprint, Provider, RepositoryName, Timestamp};
use crate::domain::wait::Running;

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
    /// Its digest, as the service writes it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub fingerprint: String,
    /// The commit's hash.
    #[serde(default)]
    pub commit_sha: Option<String>,
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
    /// When it was last reported; not every service says so.
    #[serde(default, deserialize_with = "time")]
    pub last_report_at: Option<Timestamp>,
}

/// One of [`LiveArtifacts::joined`].
#[derive(Debug, Clone, Copy)]
pub struct Joined<'a> {
    /// The artifact that runs.
    pub live: &'a LiveArtifact,
    /// What is said of it beside where it runs.
    pub artifact: Option<&'a Artifact>,
    /// Where it runs.
    pub environment: Option<&'a Environment>,
}

impl Artifact {
    /// Its digest, where it is one.
    #[must_use]
    pub fn digest(&self) -> Option<Fingerprint> {
        digest_of(&self.fingerprint)
    }
}

impl LiveArtifacts {
    /// Each artifact with what is said of it and of its environment. Of two that share an identifier and
    /// differ, none is meant.
    pub fn joined(&self) -> impl Iterator<Item = Joined<'_>> {
        let artifacts = by_id(&self.embedded.artifacts, |artifact| &artifact.id);
        let environments = by_id(&self.embedded.environments, |environment| &environment.id);
        self.live_artifacts.iter().map(move |live| Joined {
            live,
            artifact: artifacts.get(live.artifact_id.as_str()).copied().flatten(),
            environment: environments.get(live.environment_id.as_str()).copied().flatten(),
        })
    }

    /// Each artifact by its digest, in each environment by its name. Without a digest beside it, an
    /// artifact's identifier is taken for one where it can be.
    pub fn running(&self) -> impl Iterator<Item = Running<'_>> {
        self.joined().map(|Joined { live, artifact, environment }| Running {
            fingerprint: artifact.map_or_else(|| digest_of(&live.artifact_id), Artifact::digest),
            environment: environment.map(|environment| environment.name.as_str()),
            is_silent: environment.is_some_and(|environment| environment.is_silent == Some(true)),
            last_report: environment.and_then(|environment| environment.last_report_at),
        })
    }
}

/// By identifier; `None` for one that means several.
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
        let joined: Vec<_> = live.joined().collect();
        let [first, second] = joined.as_slice() else { panic!("{live:?}") };
        assert_eq!(first.artifact.unwrap().commit_sha.as_deref(), Some("c0ffee"));
        assert_eq!(first.environment.unwrap().name, "prod");
        assert_eq!((second.artifact, second.environment), (None, None));
    }

    #[test]
    fn what_cannot_be_told_is_nothing_in_particular() {
        let digest = "a".repeat(64);
        let live = |artifacts: serde_json::Value, environments: serde_json::Value| -> LiveArtifacts {
            serde_json::from_value(json!({
                "live_artifacts": [{"environment_id": "e", "artifact_id": "a"}, {"environment_id": "e", "artifact_id": digest}],
                "_embedded": {"artifacts": artifacts, "environments": environments},
            }))
            .unwrap()
        };
        let said = |live: &LiveArtifacts| -> Vec<_> {
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
            assert_eq!(said(&live(artifacts.clone(), environments)), expected, "{artifacts}");
        }
    }
}
