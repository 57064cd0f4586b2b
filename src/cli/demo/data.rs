//! Reads the data of the demo: its images, the test results of the steps, and the events of the history.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, json};

use super::error::{DemoError, Result};
use model::Fingerprint;
use model::envelope::STATEMENT_V1;

/// Organization in the bootstrap file.
pub(super) const ORGANIZATION: &str = "acme";

const DATA: &str = include_str!("data/demo.yaml");

/// The bootstrap file without its end, which [`bootstrap`] appends.
const BOOTSTRAP: &str = include_str!("data/bootstrap.yaml");

/// The pods of the cluster, as `kubectl get pods -A -o json` prints them.
pub(super) const PODS: &str = include_str!("../../../examples/pods.json");

/// The bill of materials of a version of the web image.
pub(super) const BILL_OF_WEB: &str = include_str!("data/web.cdx.json");

/// The file, whose comments describe the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Data {
    images: Vec<Image>,
    pub(super) results: Vec<Attest>,
    pub(super) authors: BTreeMap<String, String>,
    pub(super) history: Vec<HistoryEvent>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) kind: String,
    repository: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct HistoryEvent {
    /// Minutes before the demo.
    #[serde(deserialize_with = "minutes")]
    pub(super) ago: u64,
    #[serde(flatten)]
    pub(super) action: HistoryAction,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum HistoryAction {
    Attest(Attest),
    Approve(Approval),
    Run { image: String, version: String, pods: BTreeMap<String, usize> },
    Silent(String),
    Report(String),
    Chat(ChatState),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attest {
    pub(super) flow: String,
    pub(super) name: String,
    pub(super) image: String,
    pub(super) version: String,
    pub(super) tests: u32,
    #[serde(default)]
    pub(super) failures: Vec<TestFailure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Approval {
    pub(super) image: String,
    version: String,
    from: String,
    by: String,
    ticket: String,
    #[serde(default)]
    pending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChatState {
    Up,
    Down,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TestFailure {
    class: String,
    name: String,
    message: String,
}

impl Data {
    pub(super) fn read() -> Result<Self> {
        Ok(serde_saphyr::from_str(DATA)?)
    }

    pub(super) fn image(&self, name: &str) -> Result<&Image> {
        let image = self.images.iter().find(|image| image.name == name);
        Ok(image.ok_or_else(|| DemoError::Missing(format!("image \"{name}\"")))?)
    }
}

impl Image {
    /// A version as pods name it.
    pub(super) fn reference(&self, version: &str) -> String {
        let Self { name, namespace, repository, .. } = self;
        match repository {
            Some(repository) => format!("{repository}:{version}"),
            None => format!("registry.example.com/{namespace}/{name}:{version}"),
        }
    }

    pub(super) fn digest(&self, version: &str) -> Fingerprint {
        Fingerprint::from_content(self.reference(version).as_bytes())
    }

    /// The made-up commit of a version.
    pub(super) fn commit(&self, version: &str) -> String {
        hash(&format!("{} {version}", self.name), 40)
    }
}

impl HistoryAction {
    /// The image and the version that the event is about.
    pub(super) fn version(&self) -> Option<(&str, &str)> {
        match self {
            Self::Attest(Attest { image, version, .. })
            | Self::Approve(Approval { image, version, .. })
            | Self::Run { image, version, .. } => Some((image, version)),
            Self::Silent(_) | Self::Report(_) | Self::Chat(_) => None,
        }
    }
}

impl Approval {
    /// The entry in the bootstrap file.
    pub(super) fn entry(&self, number: usize, image: &Image, at: Timestamp) -> String {
        let Self { version, from, by, ticket, pending, .. } = self;
        let (at, url) = (at.to_string(), format!("https://tickets.example.com/{ticket}"));
        let sign_off = json!({ "by": by, "at": at, "comment": "checked the rollout plan", "url": url });
        let entry = json!({
            "number": number,
            "artifact": image.digest(version),
            "base": image.digest(from),
            "name": image.reference(version),
            "description": format!("{} {version} to production", image.name),
            "environment": "production",
            "commits": [image.commit(version)],
            "state": if *pending { "PENDING" } else { "APPROVED" },
            "approvals": if *pending { Vec::new() } else { vec![sign_off] },
        });
        // JSON is YAML.
        format!("          - {entry}\n")
    }
}

/// The bootstrap file with these approvals. Its generation counts them, because each change needs a new one.
pub(super) fn bootstrap(approvals: &[String]) -> String {
    let heading = if approvals.is_empty() { "" } else { "        approvals:\n" };
    format!("{BOOTSTRAP}{heading}{}generation: {}\n", approvals.concat(), approvals.len() + 1)
}

/// A version of the web image, and how it was built.
pub(super) struct Build {
    pub(super) version: &'static str,
    builder: &'static str,
    commit: &'static str,
}

pub(super) const BUILDS: [Build; 2] = [
    Build {
        version: "1.5.0",
        builder: "https://ci.example.com/acme/web/build.yaml",
        commit: "c07d3b58f2e94a6170bd5c8e3f9a1264d7b0e5c9",
    },
    Build {
        version: "1.6.0",
        builder: "https://laptop.example.com/kim",
        commit: "9d1e4a7b03c65f28d0b7e9a41c3f6852e7d09b14",
    },
];

/// The in-toto statement about a build.
pub(super) fn provenance(image: &Image, Build { version, builder, commit }: &Build) -> Value {
    let source = format!("git+https://github.com/{ORGANIZATION}/{}", image.name);
    let dependency = json!({"uri": source, "digest": {"gitCommit": commit}});
    json!({
        "_type": STATEMENT_V1,
        "subject": [{"name": image.reference(version), "digest": {"sha256": image.digest(version)}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {"resolvedDependencies": [dependency]},
            "runDetails": {"builder": {"id": builder}},
        },
    })
}

/// JUnit XML: passing tests in four suites, and a suite for each class with failures.
pub(super) fn junit_xml(image: &str, tests: u32, failures: &[TestFailure]) -> String {
    const SUITES: [&str; 4] = ["api", "rules", "storage", "events"];
    let passing = tests.saturating_sub(u32::try_from(failures.len()).unwrap_or(u32::MAX));
    let mut xml = String::from("<testsuites>\n");
    for (suite, first) in SUITES.iter().zip(0..) {
        let class = format!("{image}.{suite}");
        let _ = writeln!(xml, "<testsuite name=\"{class}\">");
        for test in (first..passing).step_by(SUITES.len()) {
            let time = 3 + (test * 7) % 40;
            let case = format!("classname=\"{class}\" name=\"case {test}\" time=\"0.0{time:02}\"");
            let _ = writeln!(xml, "<testcase {case}/>");
        }
        xml.push_str("</testsuite>\n");
    }
    for suite in failures.chunk_by(|one, next| one.class == next.class) {
        let class = suite.first().map_or("", |failure| &failure.class);
        let _ = writeln!(xml, "<testsuite name=\"{class}\">");
        for TestFailure { name, message, .. } in suite {
            let case = format!("classname=\"{class}\" name=\"{name}\" time=\"0.021\"");
            let _ = writeln!(xml, "<testcase {case}><failure message=\"{message}\"/></testcase>");
        }
        xml.push_str("</testsuite>\n");
    }
    xml + "</testsuites>\n"
}

/// The first hex digits of the SHA-256 of a text.
pub(super) fn hash(text: &str, digits: usize) -> String {
    Fingerprint::from_content(text.as_bytes()).to_string().chars().take(digits).collect()
}

/// The present in whole seconds, as Kubernetes writes times.
pub(super) fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

/// Minutes from a text such as `47h50m`.
fn minutes<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration: SignedDuration = text.parse().map_err(de::Error::custom)?;
    u64::try_from(duration.as_mins()).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use junit;

    #[test]
    fn history_is_in_order_and_names_known_images_and_authors() {
        let Ok(data) = Data::read() else { panic!("{:?}", serde_saphyr::from_str::<Data>(DATA)) };
        assert!(data.history.is_sorted_by_key(|event| std::cmp::Reverse(event.ago)));
        assert_eq!(data.history.iter().map(|event| event.ago).max(), Some(48 * 60));
        for event in &data.history {
            let Some((image, _)) = event.action.version() else { continue };
            let Ok(image) = data.image(image) else { panic!("{event:?}") };
            let is_attested = matches!(event.action, HistoryAction::Attest(_));
            assert!(!is_attested || data.authors.contains_key(&image.namespace), "{event:?}");
        }
    }

    #[test]
    fn junit_xml_holds_all_tests_and_a_suite_for_each_failing_class() {
        let failure =
            |name: &str| TestFailure { class: "a.B".into(), name: name.into(), message: "expected 1".into() };
        let xml = junit_xml("cart", 11, &[failure("one"), failure("two")]);
        let suites = junit::read(xml.as_bytes()).unwrap().results;
        assert_eq!(suites.iter().map(|suite| suite.total).sum::<u32>(), 11);
        let failing: Vec<_> = suites.iter().filter(|suite| suite.failures > 0).collect();
        assert_eq!((failing.len(), failing[0].failures, failing[0].name.as_str()), (1, 2, "a.B"));
    }
}
