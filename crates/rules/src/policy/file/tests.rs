use super::*;

fn version() -> PolicyVersion {
    PolicyVersion { name: "prod-rules".to_owned(), version: 3 }
}

fn parse(text: &str) -> Result<Policy, String> {
    Policy::parse(version(), text).map_err(|error| error.to_string())
}

const SCHEMA: &str = "_schema: https://example.com/schemas/policy/environment/v1\n";

#[test]
fn public_policy_file_is_parsed_with_its_defaults() {
    let text = format!(
        "{SCHEMA}artifacts:
  provenance:
    required: true
    exceptions:
      - if: ${{{{ matches(artifact.name, \"^datadog:.*\") }}}}
  trail-compliance:
    required: true
  attestations:
    - name: unit
      type: junit
    - type: \"custom:coverage\"
      if: ${{{{ flow.tags.risk-level == \"high\" }}}}
      must_be_compliant: false
      for_control: C-1
    - name: scan
      type: \"*\"
      when: namespaces.exists(n, n == \"pay\")
      max_age: 30d
      min_tests: 10
      max_skipped: 0
  approval: {{count: 2, not_author: true}}
"
    );
    let policy = parse(&text).unwrap();
    assert_eq!(policy.name, version());
    let definitions: Vec<_> =
        policy.rules.iter().map(|rule| (rule.kind(), serde_json::to_value(rule).unwrap())).collect();
    assert_eq!(
        definitions,
        [
            (
                "provenance",
                serde_json::json!({"required": true, "exceptions": [
                    {"if": {"text": "${{ matches(artifact.name, \"^datadog:.*\") }}"}}]}),
            ),
            ("trail-compliance", serde_json::json!({"required": true, "exceptions": []})),
            (
                "attestation",
                serde_json::json!({"name": "unit", "type": "junit", "if": null, "must_be_compliant": true}),
            ),
            (
                "attestation",
                serde_json::json!({
                    "name": "*", "type": "custom:coverage", "must_be_compliant": false, "for_control": "C-1",
                    "if": {"text": "${{ flow.tags.risk-level == \"high\" }}"},
                }),
            ),
            (
                "attestation",
                serde_json::json!({
                    "name": "scan", "type": "*", "must_be_compliant": true, "max_age": "2592000s", "min_tests": 10,
                    "max_skipped": 0, "if": {"text": "namespaces.exists(n, n == \"pay\")"},
                }),
            ),
            ("approval", serde_json::json!({"required": true, "count": 2, "not_author": true})),
        ]
    );
    assert_eq!(parse(SCHEMA).unwrap().rules, []);
}

#[test]
fn invalid_policy_file_is_rejected_with_key_and_line() {
    let attestation = |rule: &str| format!("{SCHEMA}artifacts:\n  attestations:\n    - {rule}\n");
    for (text, expected) in [
        (String::new(), &["unexpected end of input at line 1"][..]),
        ("artifacts: {}".to_owned(), &["missing field `_schema`"]),
        ("_schema: v2".to_owned(), &["_schema", "expected a text that ends in /v1, got \"v2\""]),
        (format!("{SCHEMA}artefacts: {{}}"), &["artefacts", "line 2", "expected one of _schema, artifacts"]),
        (
            attestation("{type: junit, nme: unit}"),
            &["artifacts.attestations[0].nme", "line 4", "unknown field"],
        ),
        (attestation("{name: unit}"), &["artifacts.attestations[0]", "missing field `type`"]),
        (
            format!("{SCHEMA}artifacts: {{digests: any}}"),
            &["artifacts.digests", "expected one of image, exact"],
        ),
        (attestation("{type: \"*\"}"), &["artifacts.attestations[0]", "name and type must not both be *"]),
        (attestation("{type: junti}"), &["unknown type \"junti\": expected generic, junit"]),
        (attestation("{type: \"custom:\"}"), &["unknown type \"custom:\""]),
        (
            attestation("{type: junit, max_age: 30}"),
            &["artifacts.attestations[0].max_age", "invalid age \"30\""],
        ),
        (
            attestation("{type: junit, max_age: 0d}"),
            &["invalid age \"0d\": expected an age such as 12h, 30d or 4w"],
        ),
        (attestation("{type: junit, max_age: 99999999999999999999w}"), &["invalid age"]),
        (attestation("{type: junit, min_tests: -1}"), &["min_tests", "line 4"]),
        (
            attestation("{type: junit, if: \"${{ flow.nme }}\"}"),
            &["artifacts.attestations[0].if", "line 4", "at character 10", "expected flow.name or flow.tags"],
        ),
        (attestation("{type: junit, when: \"user\"}"), &["attestations[0].when", "unknown name \"user\""]),
        (
            attestation("{type: junit, if: \"${{ exists(flow) }}\", when: \"true\"}"),
            &["at most one of if and when"],
        ),
        (
            format!("{SCHEMA}artifacts: {{provenance: {{required: true, exceptions: [{{}}]}}}}"),
            &["artifacts.provenance.exceptions", "exactly one of if and when"],
        ),
        (format!("{SCHEMA}artifacts: {{approval: {{count: 0}}}}"), &["artifacts.approval.count", "from 1"]),
        (format!("{SCHEMA}artifacts: [1]"), &["artifacts"]),
        (format!("{SCHEMA}x: &x [*x]"), &["invalid policy file"]),
        (format!("{SCHEMA}{}", "a".repeat(MAX_FILE)), &["too large: expected at most 131072 bytes, got "]),
    ] {
        let error = parse(&text).unwrap_err();
        for part in expected {
            assert!(error.contains(part), "{part:?} in {error:?} for {text:.200}");
        }
    }
}

#[test]
fn many_rules_and_aliases_are_limited() {
    let rules = |n: usize| {
        let rules: Vec<_> = (0..n).map(|n| format!("    - {{name: a{n}, type: junit}}\n")).collect();
        let rules = rules.concat();
        format!("{SCHEMA}artifacts:\n  attestations:\n{rules}")
    };
    assert_eq!(parse(&rules(MAX_RULES)).unwrap().rules.len(), MAX_RULES);
    let error = parse(&rules(1_000)).unwrap_err();
    assert!(error.contains("artifacts.attestations: expected at most 100 attestations, got 1000"), "{error}");
    // Each line repeats the previous one ten times.
    let repeated = |n: u8| format!("x{n}: &x{n} [{}]\n", vec![format!("*x{}", n - 1); 10].join(", "));
    let lines = (1..12).map(repeated).collect::<Vec<_>>().concat();
    assert!(parse(&format!("{SCHEMA}x0: &x0 [lol]\n{lines}")).is_err());
    assert!(parse(&format!("{SCHEMA}artifacts: {}", "[".repeat(10_000))).is_err());
}

#[test]
fn example_of_the_documentation_is_valid() {
    let page = include_str!("../../../../../docs/guides/policies.md");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let policy = parse(example).unwrap();
    assert_eq!(policy.rules.len(), 5);
}

/// One policy must not take the memory and the time of all organizations.
#[test]
fn regular_expressions_and_steps_of_a_policy_are_limited() {
    let policy = |conditions: &[String]| {
        let rule =
            |condition: &String| format!("    - {{type: junit, when: {}}}\n", serde_json::json!(condition));
        parse(&format!(
            "{SCHEMA}artifacts:\n  attestations:\n{}",
            conditions.iter().map(rule).collect::<String>()
        ))
    };
    let patterns = |conditions: usize| {
        let condition =
            |n: usize| format!("artifact.name.matches('^a{n}') || artifact.name.matches('^b{n}')");
        policy(&(0..conditions).map(condition).collect::<Vec<_>>())
    };
    assert!(patterns(32).is_ok());
    assert!(
        patterns(33)
            .unwrap_err()
            .contains("artifacts: expected at most 64 regular expressions in all conditions")
    );
    let list = format!("[{}]", ["1"; 30].join(","));
    let steps =
        |conditions: usize| policy(&vec![format!("{list}.all(a, {list}.all(b, a == b))"); conditions]);
    assert!(steps(1).is_ok());
    assert!(steps(4).unwrap_err().contains("artifacts: expected at most 20000 steps in all conditions"));
    for (pattern, expected) in [("(a{1000}){1000}", "exceeds size limit"), ("[", "unclosed character class")]
    {
        let error = policy(&[format!("artifact.name.matches('{pattern}')")]).unwrap_err();
        assert!(error.contains(&format!("artifacts: invalid regular expression {pattern:?}")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    for pattern in [r"^[\\w.-]+/\\w+$", r"^registry\\.example\\.com/(a|b|c)/.*:\\d+$", r"(?i)^\\w{2}"] {
        let usual = policy(&[format!("artifact.name.matches('{pattern}')")]);
        assert!(usual.is_ok(), "{usual:?}");
    }
}
