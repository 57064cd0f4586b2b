use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sigstore_verify::crypto::KeyPair;
use sigstore_verify::types::{DsseEnvelope, DsseSignature, KeyId, PayloadBytes, pae};

use super::*;
use rules::trust::Identity;

const ISSUER: &str = "https://token.actions.githubusercontent.com";
const WORKFLOW: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";

fn now() -> Timestamp {
    Timestamp::parse("2026-11-29T00:00:00Z").unwrap()
}

/// Bundles of Sigstore's conformance suite.
fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sigstore")
}

fn identity(issuer: &str, subject: &str) -> Identity {
    Identity { issuer: issuer.to_owned(), subject: subject.parse().unwrap() }
}

struct Case {
    bundle: String,
    artifact: Fingerprint,
    trust: Trust,
}

fn case(name: &str) -> Case {
    let folder = suite().join(name);
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let text =
        |file: &str, default: &str| read(file).map_or(default.to_owned(), |text| text.trim().to_owned());
    let artifact = fs::read(folder.join("artifact")).or_else(|_| fs::read(suite().join("a.txt"))).unwrap();
    let key = read("key.pub");
    let identities = match key {
        Some(_) => Vec::new(),
        None => vec![identity(&text("issuer", ISSUER), &text("identity", WORKFLOW))],
    };
    let root =
        read("trusted_root.json").or_else(|| fs::read_to_string(suite().join("trusted_root.json")).ok());
    Case {
        bundle: read("bundle.sigstore.json").unwrap(),
        artifact: Fingerprint::from_content(&artifact),
        trust: Trust { name: "suite".to_owned(), root, keys: key.into_iter().collect(), identities },
    }
}

impl Case {
    fn verify(&self) -> Result<Verified, String> {
        let Self { bundle, artifact, trust } = self;
        check(trust).unwrap();
        verify(bundle.as_bytes(), *artifact, std::slice::from_ref(trust), now())
            .map_err(|error| error.to_string())
    }

    fn rejection(&self) -> String {
        self.verify().unwrap_err()
    }
}

#[test]
fn bundles_of_the_conformance_suite_are_accepted_or_rejected_as_named() {
    let mut names: Vec<_> = fs::read_dir(suite()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.is_dir());
    names.sort();
    assert_eq!(names.len(), 37);
    for path in names {
        let name = path.file_name().unwrap().to_str().unwrap();
        let verified = case(name).verify();
        assert_eq!(verified.is_err(), name.ends_with("_fail"), "{name}: {verified:?}");
    }
}

#[test]
fn evidence_has_the_builder_and_source_of_the_certificate_before_those_of_the_statement() {
    let verified = case("happy-path-intoto-in-dsse-v3").verify().unwrap();
    // The statement names https://github.com/loosebazooka/aa-test.
    let expected = SignedEvidence {
        trust: "suite".to_owned(),
        issuer: Some(ISSUER.to_owned()),
        subject: Some(WORKFLOW.to_owned()),
        key: None,
        predicate_type: Some("https://slsa.dev/provenance/v1".to_owned()),
        builder: Some(WORKFLOW.to_owned()),
        source: Some(
            "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon".to_owned(),
        ),
        commit: verified.evidence.commit.clone(),
        signed_at: verified.evidence.signed_at,
    };
    assert_eq!(verified, Verified { kind: EvidenceKind::Provenance, passes: Some(true), evidence: expected });
    assert!(verified.evidence.commit.unwrap() != "ebff8dfbd609b7b22237c7719ce07f2dc7934f5f");
    assert!(verified.evidence.signed_at.unwrap().iso_8601().starts_with("202"));
    let plain = case("happy-path-v0.3").verify().unwrap();
    assert_eq!(
        (plain.kind, plain.passes, plain.evidence.predicate_type),
        (EvidenceKind::Signature, Some(true), None)
    );
}

#[test]
fn the_root_of_the_public_instance_is_the_default() {
    let mut case = case("happy-path-v0.3");
    case.trust.root = None;
    case.verify().unwrap();
}

#[test]
fn certificate_of_another_identity_issuer_or_root_is_rejected() {
    let dsse = || case("happy-path-intoto-in-dsse-v3");
    for (subject, issuer) in [
        ("https://github.com/sigstore-conformance/extremely-dangerous/*", ISSUER),
        ("https://github.com/sigstore/*", ISSUER),
        ("https://github.com/sigstore-conformance/*", "https://accounts.google.com"),
    ] {
        let mut case = dsse();
        case.trust.identities = vec![identity(issuer, subject)];
        let rejection = case.rejection();
        let expected =
            format!("its signature is not trusted: suite: no trusted identity is {WORKFLOW} of {ISSUER}");
        assert_eq!(rejection, expected);
    }
    let mut of_owner = dsse();
    of_owner.trust.identities = vec![identity(ISSUER, "https://github.com/sigstore-conformance/*")];
    of_owner.verify().unwrap();
    let mut other_root = dsse();
    other_root.trust.root = case("intoto-with-custom-trust-root").trust.root;
    assert!(other_root.rejection().starts_with("its signature is not trusted: suite: "));
    let mut keys = dsse();
    keys.trust = case("managed-key-and-trusted-root").trust;
    assert_eq!(
        keys.rejection(),
        "it is signed with a certificate, and the organization trusts no identities"
    );
    let mut none = dsse();
    none.trust = Trust { identities: Vec::new(), ..none.trust };
    assert!(none.verify().is_err());
}

#[test]
fn root_that_expired_before_the_signature_is_rejected() {
    for list in ["certificateAuthorities", "tlogs", "ctlogs"] {
        let mut case = case("happy-path-v0.3");
        let mut root: Value = serde_json::from_str(case.trust.root.as_ref().unwrap()).unwrap();
        for entry in root[list].as_array_mut().unwrap() {
            let validity = if list == "certificateAuthorities" { entry } else { &mut entry["publicKey"] };
            validity["validFor"] = json!({"start": "2021-03-07T03:20:29Z", "end": "2021-03-08T00:00:00Z"});
        }
        case.trust.root = Some(root.to_string());
        assert!(case.rejection().starts_with("its signature is not trusted: suite: "), "{list}");
    }
}

#[test]
fn bundle_that_is_replayed_for_another_artifact_is_rejected() {
    for name in ["happy-path-v0.3", "happy-path-intoto-in-dsse-v3", "managed-key-and-trusted-root"] {
        let mut case = case(name);
        case.artifact = Fingerprint::from_content(b"other");
        assert!(case.verify().is_err(), "{name}");
    }
}

#[test]
fn evidence_of_the_future_is_rejected() {
    let Case { bundle, artifact, trust } = case("happy-path-v0.3");
    let early = Timestamp::parse("2020-01-01T00:00:00Z").unwrap();
    let rejected = verify(bundle.as_bytes(), artifact, &[trust], early).unwrap_err().to_string();
    assert!(rejected.ends_with("which is in the future"), "{rejected}");
}

/// A key, and statements that it signs.
struct Signer {
    pair: KeyPair,
    trust: Trust,
}

const ARTIFACT: &[u8] = b"image";

impl Signer {
    fn new() -> Self {
        let pair = KeyPair::generate_ecdsa_p256().unwrap();
        let keys = vec![pair.public_key_der().unwrap().to_pem()];
        let trust = Trust { name: "release".to_owned(), root: None, keys, identities: Vec::new() };
        Self { pair, trust }
    }

    fn envelope(&self, payload: &str) -> String {
        let signature = self.pair.sign(&pae(STATEMENT, payload.as_bytes())).unwrap();
        let signature = DsseSignature::new(signature, KeyId::default());
        let payload = PayloadBytes::from_bytes(payload.as_bytes());
        serde_json::to_string(&DsseEnvelope::new(STATEMENT, payload, signature)).unwrap()
    }

    fn verify(&self, file: &str) -> Result<Verified, String> {
        let artifact = Fingerprint::from_content(ARTIFACT);
        verify(file.as_bytes(), artifact, std::slice::from_ref(&self.trust), now())
            .map_err(|error| error.to_string())
    }

    fn verify_statement(&self, predicate_type: &str, predicate: &Value) -> Result<Verified, String> {
        self.verify(&self.envelope(&statement(predicate_type, predicate).to_string()))
    }
}

fn statement(predicate_type: &str, predicate: &Value) -> Value {
    let sha256 = Fingerprint::from_content(ARTIFACT);
    let subject = json!([{"name": "other", "digest": {"sha256": "0"}}, {"name": "image", "digest": {"sha256": sha256}}]);
    json!({"_type": "https://in-toto.io/Statement/v1", "subject": subject, "predicateType": predicate_type, "predicate": predicate})
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn claims_of_a_statement_are_those_of_its_predicate() {
    let signer = Signer::new();
    let git = |uri: &str| json!({"uri": uri, "digest": {"gitCommit": COMMIT}});
    let v1 = |dependencies: Value| json!({"runDetails": {"builder": {"id": "https://b.example/x"}}, "buildDefinition": {"resolvedDependencies": dependencies}});
    let cart = git("git+https://github.com/acme/cart.git@refs/heads/main");
    let builder = Some("https://b.example/x");
    let source = Some("https://github.com/acme/cart");
    let old = json!({"builder": {"id": "https://b.example/x"}, "invocation": {"configSource": {"uri": "git+https://github.com/acme/cart@refs/tags/v1", "digest": {"sha1": COMMIT}}}});
    for (predicate_type, predicate, expected) in [
        (
            "https://slsa.dev/provenance/v1",
            v1(json!([cart])),
            ("slsa-provenance", Some(true), builder, source),
        ),
        (
            "https://slsa.dev/provenance/v1",
            v1(json!([cart, {"uri": "pkg:docker/x", "digest": {"sha256": "00"}}])),
            ("slsa-provenance", Some(true), builder, source),
        ),
        (
            "https://slsa.dev/provenance/v1",
            v1(json!([cart, git("https://github.com/acme/lib")])),
            ("slsa-provenance", Some(true), builder, None),
        ),
        (
            "https://slsa.dev/provenance/v1",
            v1(json!([git("https://token@github.com/acme/cart")])),
            ("slsa-provenance", Some(true), builder, None),
        ),
        ("https://slsa.dev/provenance/v1", v1(json!("x")), ("slsa-provenance", Some(true), builder, None)),
        (
            "https://slsa.dev/provenance/v1",
            json!({"runDetails": {"builder": {"id": 1}}}),
            ("slsa-provenance", Some(true), None, None),
        ),
        ("https://slsa.dev/provenance/v0.2", old, ("slsa-provenance", Some(true), builder, source)),
        ("https://slsa.dev/provenance/v1evil", v1(json!([cart])), ("statement", None, None, None)),
        ("https://spdx.dev/Document/v2.3", json!({}), ("sbom", Some(true), None, None)),
        ("https://spdx.dev/Documents", json!({}), ("statement", None, None, None)),
        (
            "https://slsa.dev/verification_summary/v1",
            json!({"verificationResult": "PASSED"}),
            ("vsa", Some(true), None, None),
        ),
        (
            "https://slsa.dev/verification_summary/v1",
            json!({"verificationResult": "passed"}),
            ("vsa", Some(false), None, None),
        ),
        (
            "https://in-toto.io/attestation/test-result/v0.1",
            json!({"result": "WARNED"}),
            ("test-result", Some(false), None, None),
        ),
        (
            "https://in-toto.io/attestation/test-result/v0.1",
            json!(null),
            ("test-result", Some(false), None, None),
        ),
        ("https://example.com/other", v1(json!([cart])), ("statement", None, None, None)),
    ] {
        let Verified { kind, passes, evidence } =
            signer.verify_statement(predicate_type, &predicate).unwrap();
        let found = (kind.as_str(), passes, evidence.builder.as_deref(), evidence.source.as_deref());
        assert_eq!(found, expected, "{predicate_type} {predicate}");
        assert_eq!(evidence.commit.is_some(), evidence.source.is_some());
        assert!(evidence.key.is_some() && evidence.subject.is_none() && evidence.signed_at.is_none());
    }
}

#[test]
fn envelope_with_an_unclear_statement_is_rejected() {
    let signer = Signer::new();
    let valid = statement("https://example.com/x", &json!({}));
    let changed = |pointer: &str, value: Value| {
        let mut changed = valid.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed.to_string()
    };
    for (payload, expected) in [
        (changed("/subject/1/digest/sha256", json!("00")), "it is about another artifact: no subject"),
        (changed("/subject/1/digest", json!({"sha512": "00"})), "it is about another artifact: no subject"),
        (changed("/subject", json!([])), "it is about another artifact: no subject"),
        (changed("/_type", json!("https://in-toto.io/Statement/v9")), "its payload has the type"),
        (changed("/predicateType", json!("a\u{202e}b")), "its predicate type is unclear"),
        (changed("/predicateType", json!("x".repeat(2_000))), "its predicate type is unclear"),
        (changed("/predicateType", json!("")), "its predicate type is unclear"),
        (
            changed("/predicate", json!({"a": 1})).replace("\"a\":1", "\"a\":"),
            "its payload is not an in-toto statement",
        ),
        (
            valid.to_string().replacen('{', "{\"predicateType\":\"https://slsa.dev/provenance/v1\",", 1),
            "its payload is not an in-toto statement: duplicate field",
        ),
        (
            changed("/predicate", json!(null)).replace("null", &"[".repeat(100_000)),
            "its payload is not an in-toto statement: recursion limit",
        ),
        ("[]".to_owned(), "its payload is not an in-toto statement"),
    ] {
        let rejection = signer.verify(&signer.envelope(&payload)).unwrap_err();
        assert!(rejection.starts_with(expected), "{rejection}");
    }
    let builder = json!({"runDetails": {"builder": {"id": "b\u{202e}"}}});
    let rejection = signer.verify_statement("https://slsa.dev/provenance/v1", &builder).unwrap_err();
    assert!(rejection.starts_with("its builder is unclear"), "{rejection}");
}

#[test]
fn changed_envelope_is_rejected() {
    let signer = Signer::new();
    let envelope = signer.envelope(&statement("https://example.com/x", &json!({})).to_string());
    signer.verify(&envelope).unwrap();
    let parsed: Value = serde_json::from_str(&envelope).unwrap();
    let other = Signer::new().envelope(&statement("https://example.com/y", &json!({})).to_string());
    let other: Value = serde_json::from_str(&other).unwrap();
    let with = |key: &str, value: Value| {
        let mut changed = parsed.clone();
        changed[key] = value;
        changed.to_string()
    };
    let twice = json!([parsed["signatures"][0], parsed["signatures"][0]]);
    for (file, expected) in [
        (with("payload", other["payload"].clone()), "its signature is not trusted: release: "),
        (with("signatures", other["signatures"].clone()), "its signature is not trusted: release: "),
        (with("signatures", json!([])), "it is neither a Sigstore bundle nor a DSSE envelope in JSON: "),
        (with("signatures", twice), "it is neither a Sigstore bundle nor a DSSE envelope in JSON: "),
        (with("payloadType", json!("text/plain")), "the payload of its envelope has the type \"text/plain\""),
        (other.to_string(), "its signature is not trusted: release: "),
        (String::new(), "it is neither a Sigstore bundle nor a DSSE envelope in JSON: "),
        ("[".repeat(100_000), "it is neither a Sigstore bundle nor a DSSE envelope in JSON: "),
        (
            format!("{{\"x\":{}", "[".repeat(100_000)),
            "it is neither a Sigstore bundle nor a DSSE envelope in JSON: ",
        ),
    ] {
        let rejection = signer.verify(&file).unwrap_err();
        assert!(rejection.starts_with(expected), "{rejection}");
    }
}

#[test]
fn key_without_a_root_needs_no_log_and_with_one_it_does() {
    let mut signer = Signer::new();
    let envelope = signer.envelope(&statement("https://example.com/x", &json!({})).to_string());
    signer.trust.root = case("happy-path-v0.3").trust.root;
    let rejection = signer.verify(&envelope).unwrap_err();
    let expected = "its signature is not trusted: release: its root requires the entry of a log, and an envelope has none";
    assert_eq!(rejection, expected);
    signer.trust.keys.clear();
    assert_eq!(
        signer.verify(&envelope).unwrap_err(),
        "it is signed with a key, and the organization trusts no keys"
    );
    let mut logged = case("managed-key-and-trusted-root");
    assert!(logged.verify().unwrap().evidence.signed_at.is_some());
    logged.trust.root = None;
    assert_eq!(logged.verify().unwrap().evidence.signed_at, None);
    logged.artifact = Fingerprint::from_content(b"other");
    assert!(logged.verify().is_err());
}

#[test]
fn bundle_with_too_many_entries_is_rejected_before_they_are_verified() {
    let mut case = case("happy-path-v0.3");
    let mut bundle: Value = serde_json::from_str(&case.bundle).unwrap();
    let entries = bundle["verificationMaterial"]["tlogEntries"].as_array_mut().unwrap();
    let entry = entries.first().unwrap().clone();
    entries.extend(std::iter::repeat_n(entry, 1_000));
    case.bundle = bundle.to_string();
    assert_eq!(case.rejection(), "it has 1001 log entries: expected at most 8");
}

#[test]
fn unusable_root_or_key_is_named() {
    let mut trust = Signer::new().trust;
    check(&trust).unwrap();
    trust.keys.push("secret".to_owned());
    let error = check(&trust).unwrap_err().to_string();
    assert!(
        error.starts_with("invalid public key: expected one in PEM: ") && !error.contains("secret"),
        "{error}"
    );
    trust.root = Some("{}".to_owned());
    assert!(check(&trust).unwrap_err().to_string().starts_with("invalid trusted root: "));
}
