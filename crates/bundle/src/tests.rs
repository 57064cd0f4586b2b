use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sigstore_verify::crypto::KeyPair;
use sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;
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
        check_root(trust.root.as_deref().unwrap_or(SIGSTORE_PRODUCTION_TRUSTED_ROOT)).unwrap();
        trust.keys.iter().for_each(|key| check_key(key).unwrap());
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
    assert_eq!(
        verified,
        Verified { kind: EvidenceKind::Provenance, passes: Some(true), evidence: expected, bill: None }
    );
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
fn rejection_by_many_entries_of_trust_is_shortened() {
    let Case { bundle, artifact, mut trust } = case("happy-path-v0.3");
    trust.identities = vec![identity(ISSUER, "https://github.com/acme/*")];
    let rejected = verify(bundle.as_bytes(), artifact, &vec![trust; 20], now()).unwrap_err().to_string();
    assert!((1_000..2_100).contains(&rejected.len()), "{rejected}");
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
        ("https://slsa.dev/provenance/v1", v1(json!(null)), ("slsa-provenance", Some(true), builder, None)),
        (
            "https://slsa.dev/provenance/v1",
            json!({"runDetails": {"builder": {"id": null}}, "buildDefinition": null}),
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
        let Verified { kind, passes, evidence, bill } =
            signer.verify_statement(predicate_type, &predicate).unwrap();
        let found = (kind.as_str(), passes, evidence.builder.as_deref(), evidence.source.as_deref());
        assert_eq!(found, expected, "{predicate_type} {predicate}");
        assert_eq!(evidence.commit.is_some(), evidence.source.is_some());
        assert_eq!(bill, (kind == EvidenceKind::Sbom).then(|| predicate.to_string()));
        assert!(evidence.key.is_some() && evidence.subject.is_none() && evidence.signed_at.is_none());
    }
}

#[test]
fn envelope_with_an_unclear_statement_is_rejected() {
    let signer = Signer::new();
    let valid = statement("https://example.com/x", &json!({}));
    let sha256 = Fingerprint::from_content(ARTIFACT).to_string();
    let changed = |pointer: &str, value: Value| {
        let mut changed = valid.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed.to_string()
    };
    for (payload, expected) in [
        (changed("/subject/1/digest/sha256", json!("00")), "it is about another artifact: no subject"),
        (changed("/subject/1/digest", json!({"sha512": "00"})), "it is about another artifact: no subject"),
        (changed("/subject", json!([])), "it is about another artifact: no subject"),
        (changed("/subject/1/digest", json!({"SHA256": sha256})), "it is about another artifact: no subject"),
        (
            changed("/subject/1/digest/sha256", json!(sha256.to_uppercase())),
            "it is about another artifact: no subject",
        ),
        (
            changed("/subject/1/digest/sha256", json!(format!("sha256:{sha256}"))),
            "it is about another artifact: no subject",
        ),
        (
            valid.to_string().replace(
                &format!("{{\"sha256\":\"{sha256}\"}}"),
                &format!("{{\"sha256\":\"{sha256}\",\"sha256\":\"00\"}}"),
            ),
            "its payload is not an in-toto statement: duplicate field",
        ),
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
            "its payload is not an in-toto statement: expected value",
        ),
        ("[]".to_owned(), "its payload is not an in-toto statement"),
    ] {
        let rejection = signer.verify(&signer.envelope(&payload)).unwrap_err();
        assert!(rejection.starts_with(expected), "{rejection}");
    }
    for (predicate_type, predicate) in [
        ("https://in-toto.io/attestation/test-result/v0.1", r#"{"result":"FAILED","result":"PASSED"}"#),
        (
            "https://slsa.dev/verification_summary/v1",
            r#"{"verificationResult":"FAILED","verificationResult":"PASSED"}"#,
        ),
        (
            "https://slsa.dev/provenance/v1",
            r#"{"runDetails":{"builder":{"id":"https://a","id":"https://b"}}}"#,
        ),
        ("https://slsa.dev/provenance/v1", r#"{"runDetails":{"builder":{"id":1}}}"#),
        ("https://slsa.dev/provenance/v1", r#"{"buildDefinition":{"resolvedDependencies":"x"}}"#),
    ] {
        let payload =
            statement(predicate_type, &json!("PREDICATE")).to_string().replace("\"PREDICATE\"", predicate);
        let rejection = signer.verify(&signer.envelope(&payload)).unwrap_err();
        assert!(rejection.starts_with("its payload is not an in-toto statement: "), "{rejection}");
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

/// A bundle of the suite with another value at a pointer.
fn changed(name: &str, pointer: &str, value: Value) -> Case {
    let mut case = case(name);
    let mut bundle: Value = serde_json::from_str(&case.bundle).unwrap();
    *bundle.pointer_mut(pointer).unwrap() = value;
    case.bundle = bundle.to_string();
    case
}

fn value_at(case: &Case, pointer: &str) -> Value {
    let bundle: Value = serde_json::from_str(&case.bundle).unwrap();
    bundle.pointer(pointer).unwrap().clone()
}

#[test]
fn bundle_with_no_or_more_certificates_than_that_of_its_signer_is_rejected() {
    const CHAIN: &str = "/verificationMaterial/x509CertificateChain/certificates";
    let case = case("happy-path-v0.1");
    let root: Value = serde_json::from_str(case.trust.root.as_ref().unwrap()).unwrap();
    let authorities = root.pointer("/certificateAuthorities/1/certChain/certificates").unwrap();
    let signer = value_at(&case, CHAIN)[0].clone();
    let [intermediate, of_root] = authorities.as_array().unwrap().as_slice() else { panic!("{authorities}") };
    for (certificates, expected) in [
        (json!([]), "it has 0 certificates: expected only that of its signer"),
        (json!([signer, of_root]), "it has 2 certificates: expected only that of its signer"),
        (json!([signer, intermediate, of_root]), "it has 3 certificates: expected only that of its signer"),
    ] {
        assert_eq!(changed("happy-path-v0.1", CHAIN, certificates).rejection(), expected);
    }
}

#[test]
fn log_entry_without_proof_of_inclusion_or_time_is_rejected() {
    const ENTRY: &str = "/verificationMaterial/tlogEntries/0";
    let entry = value_at(&case("happy-path-v0.3"), ENTRY);
    let without = |key: &str| {
        let mut entry = entry.clone();
        entry.as_object_mut().unwrap().remove(key).unwrap();
        json!([entry])
    };
    let unproven = changed("happy-path-v0.1", &format!("{ENTRY}/inclusionProof"), json!(null));
    assert_eq!(unproven.rejection(), "an entry of a log in it has no proof of inclusion");
    for (entries, expected) in [
        (without("inclusionProof"), "an entry of a log in it has no proof of inclusion"),
        (json!([entry, without("inclusionProof")[0]]), "an entry of a log in it has no proof of inclusion"),
        (without("inclusionPromise"), "its signature is not trusted: suite: "),
        (json!([]), "its signature is not trusted: suite: "),
    ] {
        for has_log in [true, false] {
            let mut case = changed("happy-path-v0.3", "/verificationMaterial/tlogEntries", entries.clone());
            let mut root: Value = serde_json::from_str(case.trust.root.as_ref().unwrap()).unwrap();
            if !has_log {
                root["tlogs"] = json!([]);
            }
            case.trust.root = Some(root.to_string());
            let rejection = case.rejection();
            assert!(rejection.starts_with(expected), "{rejection}");
        }
    }
    let of_key = changed("managed-key-and-trusted-root", "/verificationMaterial/tlogEntries", json!([]));
    assert!(of_key.rejection().starts_with("its signature is not trusted: suite: "));
}

#[test]
fn bundle_with_two_contents_or_two_kinds_of_signers_is_rejected() {
    let signer = Signer::new();
    let envelope: Value =
        serde_json::from_str(&signer.envelope(&statement("https://example.com/x", &json!({})).to_string()))
            .unwrap();
    let bundle: Value = serde_json::from_str(&case("happy-path-v0.3").bundle).unwrap();
    let key = json!({"publicKey": {"hint": "x"}});
    let valid = json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                       "verificationMaterial": key, "dsseEnvelope": envelope});
    signer.verify(&valid.to_string()).unwrap();
    let with = |pointer: &str, key: &str, value: &Value| {
        let mut changed = valid.clone();
        changed.pointer_mut(pointer).unwrap()[key] = value.clone();
        changed.to_string()
    };
    let certificate = &bundle["verificationMaterial"]["certificate"];
    for file in [
        with("", "messageSignature", &bundle["messageSignature"]),
        with("", "payloadType", &json!(STATEMENT)),
        with("/verificationMaterial", "certificate", certificate),
        with("/verificationMaterial", "x509CertificateChain", &json!({"certificates": [certificate]})),
        valid.to_string().replacen('{', &format!("{{\"dsseEnvelope\":{envelope},"), 1),
    ] {
        let rejection = signer.verify(&file).unwrap_err();
        assert!(rejection.starts_with("it is neither a Sigstore bundle nor a DSSE envelope"), "{rejection}");
    }
}

#[test]
fn file_that_takes_much_time_or_memory_is_rejected_before_it_is_verified() {
    let entries = "/verificationMaterial/tlogEntries";
    let checkpoint = "/verificationMaterial/tlogEntries/0/inclusionProof/checkpoint/envelope";
    let valid = case("happy-path-v0.3");
    let entry = value_at(&valid, entries)[0].clone();
    let note = value_at(&valid, checkpoint).as_str().unwrap().to_owned();
    let signature = note.lines().last().unwrap();
    let signed_often = format!("{note}{}", format!("{signature}\n").repeat(1_000));
    let nested = changed("happy-path-v0.3", "/mediaType", json!(vec![json!([0]); 50_000]));
    for case in [
        changed("happy-path-v0.3", entries, json!(vec![entry; 100])),
        changed("happy-path-v0.3", checkpoint, json!(signed_often)),
        Case { bundle: nested.bundle.replace("mediaType", "other"), ..nested },
    ] {
        let rejection = case.rejection();
        assert!(rejection.ends_with(" bytes beside its payload: expected at most 65536"), "{rejection}");
    }
    let signer = Signer::new();
    let many = json!(vec![json!({"": 0}); 200_000]);
    let rejection = signer.verify_statement("https://example.com/x", &many).unwrap_err();
    assert_eq!(rejection, "its payload has more than 2000000 JSON values");
    let envelope = signer.envelope("{}");
    let rejection = signer.verify(&envelope.replacen('{', &format!("{{\"x\":{many},"), 1)).unwrap_err();
    assert!(rejection.ends_with(" bytes beside its payload: expected at most 65536"), "{rejection}");
    let payload: Value = serde_json::from_str(&envelope).unwrap();
    let rejection = signer.verify(&envelope.replace(&payload["payload"].to_string(), &many.to_string()));
    assert!(rejection.unwrap_err().starts_with("it is neither a Sigstore bundle nor a DSSE envelope"));
}

#[test]
fn unusable_root_or_key_is_named() {
    check_key(&Signer::new().trust.keys[0]).unwrap();
    let error = check_key("secret").unwrap_err().to_string();
    assert!(
        error.starts_with("invalid public key: expected one in PEM: ") && !error.contains("secret"),
        "{error}"
    );
    assert!(check_root("{}").unwrap_err().to_string().starts_with("invalid trusted root: "));
}
