//! Digests of images from the output of build tools. `tests/fixtures/image-layout` was written by buildah.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::attest::{PASSING, attest};
use crate::fake::{Reply, Server};
use crate::program::{Outcome, Program};
use crate::service::report;
use crate::service::rules::policies::{attach, put as put_policy};
use crate::service::{ADMIN, Database, TestService, pod};

const INDEX: &str = "b573f87272754ac0159610b10f23b9072563041668f3ce3d0efddda2e13be551";
const AMD64: &str = "1dc0a87d8cb31cd314f5c8ca7bba3f0a8168b8413a6f5c496711d2ff098b2b38";
const ARM64: &str = "89b5f03ef6798b14ae8e8fe836ea007bf422a2e9580c49b536bea78af4a99c06";

fn layout(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/image-layout").join(path)
}

fn blob(digest: &str) -> Vec<u8> {
    std::fs::read(layout(&format!("blobs/sha256/{digest}"))).unwrap()
}

/// The recorded layout in the folder `image`, without the content of the image.
fn with_layout(program: Program) -> Program {
    let mut program = program.file("image/index.json", std::fs::read(layout("index.json")).unwrap());
    for digest in [INDEX, AMD64, ARM64] {
        program = program.file(&format!("image/blobs/sha256/{digest}"), blob(digest));
    }
    program
}

/// The attested digests of a dry run.
fn digests(outcome: &Outcome) -> Vec<String> {
    let sent: Value = serde_json::from_str(&outcome.expect(0, &[]).stdout).unwrap();
    let more = sent["target_artifacts"].as_array().into_iter().flatten();
    [&sent["artifact_fingerprint"]]
        .into_iter()
        .chain(more)
        .map(|digest| digest.as_str().unwrap().into())
        .collect()
}

fn dry_run(options: &str) -> Program {
    with_layout(attest(&format!("r.xml --dry-run -o json {options}")).file("r.xml", PASSING))
}

#[test]
fn index_and_all_manifests_are_attested() {
    let metadata = |digest: &str, kind: &str| {
        json!({
            "containerimage.config.digest": format!("sha256:{}", "0".repeat(64)),
            "containerimage.digest": format!("sha256:{digest}"),
            "containerimage.descriptor": {"mediaType": format!("application/vnd.oci.image.{kind}.v1+json"), "digest": "x"},
        })
    };
    let only =
        "is attested: the metadata lists no manifests of platforms; set --image-index or --image-layout";
    for (options, metadata, expected, warns) in [
        ("--image-layout image", json!({}), &[INDEX, AMD64, ARM64][..], false),
        ("--image-index image/index", json!({}), &[INDEX, AMD64, ARM64], false),
        (
            "--image-index image/index --metadata-file m.json",
            metadata(INDEX, "index"),
            &[INDEX, AMD64, ARM64],
            false,
        ),
        ("--metadata-file m.json", metadata(INDEX, "index"), &[INDEX], true),
        (
            "--metadata-file m.json",
            json!({"containerimage.digest": format!("sha256:{INDEX}")}),
            &[INDEX],
            true,
        ),
        ("--metadata-file m.json", metadata(AMD64, "manifest"), &[AMD64], false),
        // Several images of docker buildx bake.
        (
            "--metadata-file m.json",
            json!({"one": metadata(AMD64, "manifest"), "two": metadata(ARM64, "manifest"), "buildx.build.warnings": [1]}),
            &[AMD64, ARM64],
            false,
        ),
    ] {
        let program = dry_run(options).file("image/index", blob(INDEX)).file("m.json", metadata.to_string());
        let outcome = program.run();
        assert_eq!(digests(&outcome), expected, "{options} {metadata}");
        assert_eq!(outcome.stderr.contains(only), warns, "{outcome:?}");
    }
    let with_fingerprint = format!("--fingerprint {ARM64} --image-layout image");
    assert_eq!(digests(&dry_run(&with_fingerprint).run()), [ARM64, INDEX, AMD64]);
}

#[test]
fn unusable_image_files_are_named_with_the_problem() {
    let index = |digest: &str| {
        let descriptor = json!({"mediaType": "application/vnd.oci.image.index.v1+json", "digest": format!("sha256:{digest}")});
        json!({"manifests": [descriptor]})
    };
    let two = json!({"manifests": [
        {"digest": format!("sha256:{AMD64}")}, {"digest": format!("sha256:{ARM64}")},
    ]});
    let other = json!({"containerimage.digest": format!("sha256:{}", "0".repeat(64))});
    let corrupt = format!("image/blobs/sha256/{ARM64}");
    for (options, file, content, texts) in [
        ("--image-layout none", "x", String::new(), &["failed to read \"none/index.json\""][..]),
        ("--image-layout image", "image/index.json", two.to_string(), &["has 2 images: expected 1"]),
        (
            "--image-layout image",
            &corrupt,
            "{}".into(),
            &["89b5f03e", "has the digest sha256:44136fa3", "expected the one in its name"],
        ),
        (
            "--image-layout image",
            "image/index.json",
            index(&"9".repeat(64)).to_string(),
            &["failed to read \"image/blobs/sha256/9999"],
        ),
        (
            "--image-layout image",
            "image/index.json",
            index(AMD64).to_string(),
            &["1dc0a87d", "is not an image index", "unknown field `config`"],
        ),
        ("--image-index i", "i", "{".into(), &["\"i\" is not an image index", "EOF while parsing"]),
        ("--metadata-file m", "m", "sha256:0".into(), &["failed to parse \"m\" (--metadata-file) as JSON"]),
        (
            "--metadata-file m",
            "m",
            "{}".into(),
            &["\"m\" (--metadata-file) contains no digest: expected \"containerimage.digest\""],
        ),
        (
            "--image-layout image --metadata-file m",
            "m",
            other.to_string(),
            &["which is not in the image of --image-layout or --image-index: use files of one build"],
        ),
        // Not only if it is an index.
        (
            "--image-layout image --metadata-file other",
            "image/index.json",
            json!({"manifests": [{
                "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": format!("sha256:{AMD64}"),
            }]})
            .to_string(),
            &["which is not in the image of --image-layout or --image-index: use files of one build"],
        ),
    ] {
        dry_run(options).file("other", other.to_string()).file(file, &content).run().expect(2, texts);
    }
}

#[test]
fn index_is_recorded_before_the_attestation_and_404_is_a_warning() {
    let run = |server: &Server| {
        with_layout(attest("r.xml --image-layout image").file("r.xml", PASSING)).service(server).run()
    };
    let server = Server::start(|_| Reply::json(201, "\"Creation Success\""));
    run(&server).expect_result(&["attested unit-tests"]);
    let requests = server.requests();
    let paths: Vec<_> = requests.iter().map(|request| request.path.as_str()).collect();
    let attestation = "/api/v2/attestations/acme/cart/trail/build-1/junit";
    assert_eq!(paths, ["/api/v2/artifacts/acme/cart/image-index", attestation]);
    let sent: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(sent, json!({"fingerprint": INDEX, "document": String::from_utf8(blob(INDEX)).unwrap()}));
    let older = Server::start(|request| {
        if request.path.ends_with("image-index") {
            Reply::json(404, r#"{"message": "not found"}"#)
        } else {
            Reply::json(201, "\"Creation Success\"")
        }
    });
    run(&older)
        .expect(0, &["the service does not record image indexes"])
        .expect_result(&["attested unit-tests"]);
    let denying = Server::start(|_| Reply::json(403, r#"{"message": "no"}"#));
    run(&denying).expect(3, &["image-index failed: 403 Forbidden: no"]);
    assert_eq!(denying.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_of_buildah_is_compliant_under_each_of_its_digests() {
    let service = TestService::start(Database::sqlite()).await;
    let mut pods = Vec::new();
    for digest in [INDEX, AMD64, ARM64] {
        let mut pod = pod(&format!("p-{digest}"), "registry.example.com/cart:1", '0');
        pod["digests"] = json!({"registry.example.com/cart:1": digest});
        pods.push(pod);
    }
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    let policy = "digests: exact, attestations: [{name: unit-tests, type: junit}]";
    put_policy(&service, ADMIN, "tested", policy).await.expect(201);
    attach(&service, "prod", &["tested"]).await.expect(200);
    let program = with_layout(attest("r.xml --image-layout image").file("r.xml", PASSING));
    let program = program.env("SUPERCARGO_BASE_URL", &service.base).env("SUPERCARGO_ORG", "acme");
    let program = program.env("SUPERCARGO_TOKEN", ADMIN);
    let outcome = tokio::task::spawn_blocking(|| program.run()).await.unwrap();
    outcome.expect_result(&["attested unit-tests in cart/build-1"]);
    assert_eq!(service.database.rows("SELECT compliance FROM environments").await, ["COMPLIANT"]);
    let platforms = "SELECT platform FROM image_manifests ORDER BY platform";
    assert_eq!(service.database.rows(platforms).await, ["linux/amd64", "linux/arm64/v8"]);
}
