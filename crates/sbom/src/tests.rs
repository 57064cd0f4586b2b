use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/sbom");

fn read(content: &str) -> Document {
    Document::read(content.as_bytes()).unwrap().unwrap()
}

#[test]
fn packages_of_each_producer_are_as_many_as_counted_independently() {
    let folder = Path::new(FIXTURES);
    let counts = fs::read(folder.join("counts.json")).unwrap();
    let counts: BTreeMap<String, usize> = serde_json::from_slice(&counts).unwrap();
    assert!(counts.len() >= 9);
    for (name, expected) in counts {
        let read = Document::read(&fs::read(folder.join(&name)).unwrap()).unwrap().unwrap();
        assert_eq!(read.packages.len(), expected, "{name}");
    }
}

#[test]
fn package_without_url_has_group_name_and_version_of_the_component() {
    let document = read(
        r#"{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [
            {"type": "library", "group": "org.acme", "name": "cart", "version": "1.0"},
            {"type": "library", "name": "base", "version": "2", "purl": "pkg:rpm/base@2-1?epoch=3", "components": [
                {"type": "library", "name": "inner", "purl": "no URL"}]},
            {"type": "library", "name": "test", "scope": "excluded"},
            {"type": "file", "name": "/bin/sh"}]}"#,
    );
    assert_eq!(document.format, "CycloneDX 1.6");
    let texts = |p: &Package| [&p.purl_type, &p.namespace, &p.name, &p.version, &p.purl].map(String::clone);
    assert_eq!(
        document.packages.iter().map(texts).collect::<Vec<_>>(),
        [
            ["", "", "inner", "", ""],
            ["", "org.acme", "cart", "1.0", ""],
            ["rpm", "", "base", "3:2-1", "pkg:rpm/base@2-1?epoch=3"],
        ]
    );
}

#[test]
fn format_is_recognized_by_content_in_each_supported_version() {
    for version in ["1.2", "1.3", "1.4", "1.5", "1.6", "1.7"] {
        let document = read(&format!(r#"{{"bomFormat": "CycloneDX", "specVersion": "{version}"}}"#));
        assert_eq!(document.format, format!("CycloneDX {version}"));
    }
    for version in ["2.2", "2.3"] {
        let document = read(&format!(r#"{{"spdxVersion": "SPDX-{version}", "packages": []}}"#));
        assert_eq!(document.format, format!("SPDX {version}"));
    }
    let graph = r#"{"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld", "@graph": []}"#;
    assert_eq!(read(graph).format, "SPDX 3.0");
    for other in
        ["", "{}", "[]", "no JSON", r#"{"specVersion": "1.6"}"#, r#"{"@context": "x", "@graph": []}"#]
    {
        assert_eq!(Document::read(other.as_bytes()).unwrap(), None, "{other}");
    }
}

#[test]
fn unreadable_document_is_rejected_with_the_problem() {
    let long = "x".repeat(MAX_TEXT + 1);
    for (content, expected) in [
        (r#"{"bomFormat": "CycloneDX", "specVersion": "1.1"}"#, "CycloneDX 1.1 is not supported"),
        (r#"{"bomFormat": "CycloneDX"}"#, "CycloneDX  is not supported"),
        (r#"{"spdxVersion": "SPDX-2.0"}"#, "SPDX 2.0 is not supported"),
        (r#"{"@context": "https://spdx.org/rdf/3.1.0/x", "@graph": []}"#, "SPDX 3 is not supported"),
        (r#"{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": {}}"#, "invalid CycloneDX 1.6"),
        (r#"{"bomFormat": "CycloneDX", "specVersion": "1.6", "comp"#, "invalid CycloneDX or SPDX document"),
        (r#"{"spdxVersion": "SPDX-2.3", "packages": [{"name": ""}]}"#, "an empty name"),
        (
            &format!(r#"{{"spdxVersion": "SPDX-2.3", "packages": [{{"name": "{long}"}}]}}"#),
            "more than 512 bytes",
        ),
    ] {
        let error = Document::read(content.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{content}: {error}");
    }
}

/// Versions in order; those of one group are equal. Compared with dpkg, packaging, semver of npm, Maven 3.8.7 and rpm.
const ORDERS: [(&str, &str); 5] = [
    (
        "deb",
        "1.0~~ < 1.0~ < 1.0~rc1 < 1.0 = 1.0-0 = 1.00 = 0:1.0 < 1.0-1 < 1.0-1ubuntu1.2 < 1.0-1.1 < 1.0a < 1.0+dfsg-1 < \
         1.0+dfsg-1+b1 < 1.0-1-1 < 1.0.0 < 1.0.a < 1.2.3~beta2-1 < 1.2.3 < 2.36-9 < 2.36-9+deb12u9 < 2.36-9+deb12u10 < \
         9.9 < 10.0 < 20230311 < 1:0.9 < 2:0",
    ),
    (
        "pypi",
        "0.0 < 1.0.dev1 < 1.0a1.dev2 < 1.0a1 < 1.0b2 < 1.0rc1 = 1.0c1 < 1.0 = 1.0.0 = v1.0 = 1.0.0.0 < 1.0+local < \
         1.0+local.2 < 1.0.post1 = 1.0-1 < 1.0.0.1 < 1.9 < 1.10 < 2.0 < 2024.1.1 < 1!0.5",
    ),
    (
        "npm",
        "0.0.1 < 1.0.0-0 < 1.0.0-1 < 1.0.0-alpha < 1.0.0-alpha.1 < 1.0.0-alpha.beta < 1.0.0-beta < 1.0.0-beta.2 < \
         1.0.0-beta.11 < 1.0.0-rc.1 < 1.0.0 = 1.0.0+build1 = 1.0.0+build2 < 1.9.9 < 1.10.0 < 2.0.0 < 10.20.30",
    ),
    (
        "maven",
        "r09 < 0.3.0-jre < 1.0-alpha-1 = 1.0-alpha1 < 1.0-beta < 1.0-b2 = 1.0-beta2 < 1.0-m1 < 1.0-milestone-2 < \
         1.0-rc1 < 1.0.0.RC2 = 1.0-cr2 < 1.0-SNAPSHOT < 1 = 1.0 = 1.0.0 = 1.0-ga = 1.0-final = 1.0.Final = 1.0.RELEASE < \
         1.0-sp < 1.0-sp1 < 1.0_1 < 1.a = 1.0a < 1.0-b < 1.0-foo = 1.0.foo = 1.0.0-foo.0.0 < 1.x < 1.0-xyz-1 < \
         1.0-1 = 1-1 < 1-1.foo-bar1baz-.1 < 1..2 < 1.0.20230101.1 < 1.1 < 1.2.3.4.5 < 1.8-b01 < 1.9 < 1.10 < \
         2.0-beta9 = 2.0-beta-9 < 2.9.10.8 < 2.10.0 < 2.10.0.pr1 < 2.14.1 < 2.17 < 2.17.1 < 3.0.0-M7 < 4.1.99.Final < \
         4.1.100.Final < 4.1.100.Final-redhat-1 < 5.0.0.M1 < 5.0.0.M3 < 5.0.0.RC2 < 5.0.0.RC10 < 5.0.0.RELEASE = 5.0.0 < \
         5.0.1 < 9.4.50.v20221201 < 9.4.51.v20230217 < 31.1-android < 31.1-jre < 32.0.0-jre < 20040616",
    ),
    (
        "rpm",
        "1.0~rc1-1 < 1.0-1 = 1.00-1 = 0:1.0-1 < 1.0-1.el9_2 < 1.0-1.el9_10 < 1.0-2.fc38 < 1.0^git1-1 < 1.0a-1 < 1.0.1-1 < \
         2.34-60.el9 < 2.34-100.el9 < 9-1 < 10-1 < 1:0.9-1",
    ),
];

fn check(purl_type: &str, version: &str, requirement: &str) -> Answer {
    requirement.parse::<Requirement>().unwrap().check(purl_type, version)
}

#[test]
fn versions_compare_by_the_rules_of_their_ecosystem() {
    for (purl_type, order) in ORDERS {
        let groups: Vec<Vec<&str>> = order.split(" < ").map(|group| group.split(" = ").collect()).collect();
        for (at, group) in groups.iter().enumerate() {
            for (other_at, other_group) in groups.iter().enumerate() {
                for (version, other) in group.iter().flat_map(|v| other_group.iter().map(move |o| (v, o))) {
                    let holds = |operator: &str| check(purl_type, version, &format!("{operator}{other}"));
                    let expected = [at < other_at, at == other_at, at > other_at];
                    let expected = expected.map(|holds| if holds { Answer::Yes } else { Answer::No });
                    assert_eq!(["<", "=", ">"].map(holds), expected, "{purl_type} {version} {other}");
                }
            }
        }
    }
}

#[test]
fn rpm_versions_without_a_release_match_each_release() {
    for version in ["1.0-1", "1.0-2.fc38"] {
        assert_eq!(check("rpm", version, "=1.0"), Answer::Yes);
        assert_eq!(check("rpm", version, "<1.0.1, >=1.0"), Answer::Yes);
    }
}

#[test]
fn version_without_a_known_order_is_unclear_unless_it_is_equal() {
    for (purl_type, version) in [("apk", "1.0-r1"), ("", "1.0-r1"), ("npm", "latest"), ("pypi", "local")] {
        assert_eq!(check(purl_type, version, "<2"), Answer::Unclear, "{purl_type}");
        assert_eq!(check(purl_type, version, &format!("={version}")), Answer::Yes, "{purl_type}");
        assert_eq!(check(purl_type, version, "=2"), Answer::No, "{purl_type}");
        assert_eq!(check(purl_type, version, "!=2"), Answer::Yes, "{purl_type}");
    }
    assert_eq!(check("npm", "", "=1"), Answer::Unclear);
    assert_eq!(check("golang", "v1.2", ">=1.1, <1.2"), Answer::No);
    assert_eq!(check("deb", "1_\u{e4}", "<2"), Answer::Unclear);
}

#[test]
fn requirement_is_rejected_unless_it_has_comparisons_only() {
    let requirement: Requirement = ">= 2.0,<2.17.1, !=2.15, ==3".parse().unwrap();
    assert_eq!(requirement.to_string(), ">=2.0, <2.17.1, !=2.15, =3");
    for text in ["", "<", "^1.2", "~1", "1.*", "1.0 || 2.0", "<1,", "[1,2)", "1 - 2", "<1\u{1b}"] {
        assert!(text.parse::<Requirement>().is_err(), "{text}");
    }
}
