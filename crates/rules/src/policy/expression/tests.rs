use proptest::prelude::*;

use super::*;
use crate::policy::facts::Evidence;
use model::Fingerprint;

/// The variables of an artifact in a flow with these tags.
fn holds_in(
    condition: &Condition,
    flow: Option<&[(&str, &str)]>,
    namespaces: &[&str],
) -> Result<bool, String> {
    let tags: BTreeMap<String, String> = flow
        .unwrap_or_default()
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let namespaces: Vec<String> = namespaces.iter().map(|&name| name.to_owned()).collect();
    let facts = Facts {
        environment: None,
        name: "registry.example.com/shop/cart:1.2",
        fingerprint: &Fingerprint::from_content(b"cart"),
        namespaces: &namespaces,
        evidence: &Evidence::default(),
    };
    let evidence = FlowEvidence { tags: Arc::new(tags), ..FlowEvidence::default() };
    condition.holds(&facts, flow.map(|_| ("cart", &evidence))).map_err(|error| error.to_string())
}

const TAGS: &[(&str, &str)] = &[("team", "shop"), ("risk-level", "high"), ("a.b", "c")];

fn public(expression: &str) -> Result<Condition, String> {
    let condition =
        Condition::parse(&format!("${{{{ {expression} }}}}")).map_err(|error| error.to_string())?;
    compile_patterns([&condition])?;
    Ok(condition)
}

#[test]
fn expression_is_evaluated_with_flow_tags_artifact_and_namespaces() {
    let digest = Fingerprint::from_content(b"cart");
    for (expression, expected) in [
        (r#"flow.name == "cart""#, true),
        (r"flow.name == 'web'", false),
        (r#"flow.name != "web""#, true),
        (r#"flow.name < "d" and flow.name >= "cart""#, true),
        (r#"flow.name > "cart" or flow.name <= "b""#, false),
        (r#"flow.tags.team == "shop""#, true),
        (r#"flow.tags.risk-level == "high""#, true),
        (r#"flow.tags["risk-level"] == "high""#, true),
        (r#"flow.tags.a.b == "c""#, true),
        (r#"not flow.tags.team == "shop""#, false),
        (r#"not (flow.name == "web") and not not exists(flow)"#, true),
        (r#"flow.name in ["web", "cart"]"#, true),
        (r#"flow.name in ("web", "cart")"#, true),
        (r#"flow.name not in ["web"]"#, true),
        (r"flow.name in []", false),
        (r#""pay" in namespaces"#, true),
        (r#""web" in namespaces"#, false),
        (r#"matches(artifact.name, "^registry\.example\.com/")"#, true),
        (r#"matches(artifact.name, "\.org/")"#, false),
        (r#"matches(flow.tags.team, "sh.p$")"#, true),
        (r"exists(flow.tags.team) == true", true),
        // "and" binds more than "or".
        (r#"exists(flow) or exists(flow) and flow.name == "web""#, true),
        (r#"(exists(flow) or exists(flow)) and flow.name == "web""#, false),
        (r"1 < 2 and 1 == 1.0 and -1 < 0.5", true),
        (r#"artifact.name == "a \" b""#, false),
    ] {
        let condition = public(expression).unwrap();
        assert_eq!(holds_in(&condition, Some(TAGS), &["pay", "shop"]), Ok(expected), "{expression}");
    }
    let condition = public(&format!("artifact.fingerprint == \"{digest}\"")).unwrap();
    assert_eq!(holds_in(&condition, None, &[]), Ok(true));
}

#[test]
fn comparison_with_an_absent_value_is_false() {
    for (expression, expected) in [
        ("exists(flow)", false),
        ("exists(flow.name)", false),
        ("exists(flow.tags.team)", false),
        (r#"flow.tags.team == "shop""#, false),
        (r#"flow.tags.team < "z""#, false),
        (r#"flow.tags.team >= """#, false),
        (r#"flow.tags.team in ["shop"]"#, false),
        (r#"matches(flow.tags.team, "")"#, false),
        (r"flow.tags.team == flow.tags.team", false),
        // Negations.
        (r#"flow.tags.team != "shop""#, true),
        (r#"flow.tags.team not in ["shop"]"#, true),
        (r#"not matches(flow.tags.team, "")"#, true),
    ] {
        let condition = public(expression).unwrap();
        assert_eq!(holds_in(&condition, None, &[]), Ok(expected), "no flow: {expression}");
        if !expression.contains("(flow)") && !expression.contains("flow.name") {
            assert_eq!(holds_in(&condition, Some(&[]), &[]), Ok(expected), "no tag: {expression}");
        }
    }
}

#[test]
fn cel_is_evaluated_and_an_error_is_no_result() {
    for (cel, expected) in [
        (r#"flow.name == "cart""#, Ok(true)),
        (r#"has(flow.tags.team) && flow.tags.team == "shop""#, Ok(true)),
        (r#"flow.tags["risk-level"] == "high""#, Ok(true)),
        (r#"artifact.name.startsWith("registry.")"#, Ok(true)),
        (r#"artifact.name.matches("cart:[0-9.]+$")"#, Ok(true)),
        (r#"matches(artifact.name, "^web")"#, Ok(false)),
        (r#"namespaces.all(n, n.startsWith("p") || n == "shop")"#, Ok(true)),
        (r#"namespaces.exists(n, ["pay"].exists(m, m == n))"#, Ok(true)),
        (r"size(namespaces) == 2", Ok(true)),
        (r#"flow.tags.missing == "x""#, Err("No such key")),
        (r#"flow.tags.missing == "x" || true"#, Ok(true)),
        ("flow.name", Err("expected true or false")),
        ("1 / 0 == 1", Err("Division by zero")),
    ] {
        let condition = Condition::parse_cel(cel).unwrap();
        compile_patterns([&condition]).unwrap();
        match (holds_in(&condition, Some(TAGS), &["pay", "shop"]), expected) {
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{cel}: {error}"),
            (result, expected) => assert_eq!(result, expected.map_err(str::to_owned), "{cel}"),
        }
    }
}

#[test]
fn invalid_expression_is_rejected_with_its_position() {
    for (expression, position, expected) in [
        ("flow.name = \"x\"", 15, "unexpected character '='"),
        (
            "flow.name == ",
            19,
            "expected a value, such as flow.name, a text in quotes or a number, got the end",
        ),
        ("flow.name == x", 18, "got \"x\""),
        ("flow.nme == \"x\"", 10, "expected flow.name or flow.tags, got \"nme\""),
        ("flow.name", 5, "expected a condition"),
        ("flow == \"x\"", 10, "expected two texts"),
        ("flow.tags.level > 3", 21, "expected two texts, two numbers or two conditions"),
        ("flow.name in \"x\"", 15, "a list after it"),
        ("flow.name == \"x\" \"y\"", 22, "expected the end, \"and\" or \"or\", got a text"),
        ("flow.name == \"x", 18, "expected a \" at the end of the text"),
        ("(exists(flow)", 19, "expected \")\""),
        ("matches(artifact.name, flow.name)", 28, "a regular expression in quotes"),
        ("user.name == \"x\"", 5, "expected flow, artifact, namespaces"),
    ] {
        let error = public(expression).unwrap_err();
        assert!(
            error.starts_with(&format!("invalid expression at character {position}: ")),
            "{expression}: {error}"
        );
        assert!(error.contains(expected), "{expression}: {error}");
    }
    let error = public("matches(artifact.name, \"(\")").unwrap_err();
    assert!(error.contains("invalid regular expression \"(\": unclosed group"), "{error}");
    assert!(Condition::parse("flow.name == \"x\"").unwrap_err().to_string().contains("${{ and }}"));
    for (cel, position, expected) in [
        ("flow.name ==", 13, "mismatched input"),
        ("true &&\n  (", 12, "mismatched input"),
        ("user == \"x\"", 1, "unknown name \"user\""),
        ("artifact.name.matches(flow.name)", 1, "expected a regular expression in quotes"),
        ("namespaces.map(n, n).size() > 0", 1, "map and filter are not supported"),
        ("flow.tags.all(t, true)", 1, "expected a loop over namespaces or a written list"),
        ("namespaces.all(a, namespaces.all(b, namespaces.all(c, true)))", 1, "at most 2 loops"),
        ("flow.?name == \"x\"", 1, ""),
    ] {
        let error = Condition::parse_cel(cel).unwrap_err().to_string();
        assert!(error.contains(&format!("at character {position}")) || expected.is_empty(), "{cel}: {error}");
        assert!(error.contains(expected), "{cel}: {error}");
    }
}

#[test]
fn size_depth_and_steps_are_limited() {
    let nested = |n: usize| format!("{}exists(flow){}", "(".repeat(n), ")".repeat(n));
    assert!(public(&nested(16)).is_ok());
    assert!(public(&nested(17)).unwrap_err().contains("at most 16 nested levels"));
    assert!(public(&"not ".repeat(20)).unwrap_err().contains("at most 16 nested levels"));
    assert!(public(&"x".repeat(MAX_EXPRESSION)).unwrap_err().contains("expected at most 2000 bytes"));
    // Long chains are flat.
    let names: Vec<_> = (0..60).map(|n| format!("flow.name == \"f{n}\"")).collect();
    let condition = public(&names.join(" or ")).unwrap();
    assert_eq!(holds_in(&condition, Some(&[]), &[]), Ok(false));
    for cel in [
        format!("1{} > 0", " + 1".repeat(300)),
        format!("{}1{}", "[".repeat(400), "]".repeat(400)),
        format!("flow{}", ".a".repeat(500)),
        format!("artifact{}", "[0]".repeat(400)),
        format!("true{}", " ? true : true".repeat(100)),
    ] {
        assert!(Condition::parse_cel(&cel).is_err(), "{cel}");
    }
    // The regular expression would take exponential time with backtracking.
    let condition = public(r#"matches(flow.tags.a, "^(a+)+$")"#).unwrap();
    let tag = format!("{}!", "a".repeat(10_000));
    assert_eq!(holds_in(&condition, Some(&[("a", &tag)]), &[]), Ok(false));
    assert!(public(r#"matches(flow.name, "(a{1000}){1000}")"#).unwrap_err().contains("exceeds size limit"));
    let each = "namespaces.all(a, namespaces.all(b, a == b || a != b))";
    let condition = Condition::parse_cel(each).unwrap();
    let namespaces: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    assert_eq!(holds_in(&condition, None, &namespaces[..20]), Ok(true));
    // A comparison with a list has as many steps as the list has elements.
    for each in [each, "namespaces.all(a, a in namespaces)"] {
        let error = holds_in(&Condition::parse_cel(each).unwrap(), None, &namespaces).unwrap_err();
        assert!(error.contains("too many steps for 500 namespaces"), "{error}");
    }
    let uncompiled = Condition::parse_cel("!artifact.name.matches('x')").unwrap();
    assert!(holds_in(&uncompiled, None, &[]).unwrap_err().contains("not compiled"));
}

/// Threads of tests have 2 MiB, as those of the service, and a build for tests uses more stack than a release.
#[test]
fn deepest_expression_fits_on_the_stack_of_a_worker() {
    let deepest = |cel: bool| {
        let mut accepted = (1..990).filter_map(|n| {
            let text = format!("{}exists(flow){}", "(".repeat(n), ")".repeat(n));
            let text = if cel { text.replace("exists(flow)", "has(flow.name)") } else { text };
            if cel { Condition::parse_cel(&text).ok() } else { public(&text).ok() }
        });
        accepted.next_back().map(|condition| holds_in(&condition, None, &[]))
    };
    assert_eq!((deepest(true), deepest(false)), (Some(Ok(false)), Some(Ok(false))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_parsed_without_panic(text in "\\PC{0,60}") {
        drop(public(&text));
        drop(Condition::parse_cel(&text));
    }

    #[test]
    fn texts_from_parts_of_the_language_are_evaluated_or_rejected(
        parts in prop::collection::vec(prop::sample::select(vec![
            "flow", ".name", ".tags", ".team", "artifact", "namespaces", "exists", "matches", "(", ")", "[", "]", ",",
            "==", "!=", "<", "in", "not", "and", "or", "\"a\"", "'b'", "1", "2.5", "true", " ",
        ]), 0..12)
    ) {
        if let Ok(condition) = public(&parts.join(" ")) {
            for flow in [None, Some(TAGS)] {
                let holds = holds_in(&condition, flow, &["pay"]);
                prop_assert!(holds.is_ok(), "{:?}: {:?}", condition, holds);
            }
        }
    }
}
