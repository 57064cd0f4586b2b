//! Unusual but valid pods, from the API server to the service: none may prevent the report of an environment.

use tokio::task::spawn_blocking;

use crate::fake::Server;
use crate::fake::kube::protobuf;
use crate::fake::pods::{Message, list, pod};
use crate::program::once;
use crate::service::{ADMIN, Database, TestService};

const DIGEST: &str = "abababababababababababababababababababababababababababababababab";

/// The status of a container that runs this image.
fn status(name: &str, image: &str, image_id: &str) -> Message {
    Message::default().text(1, name).text(6, image).text(7, image_id)
}

/// A pod with additional metadata and container statuses.
fn unusual(name: &str, metadata: &Message, statuses: impl IntoIterator<Item = Message>) -> Message {
    // Protobuf concatenates repeated fields and merges messages.
    let statuses = statuses.into_iter().fold(Message::default(), |all, status| all.message(8, &status));
    pod("shop", name, "web", "reg.io/web:1", DIGEST, 0).message(1, metadata).message(3, &statuses)
}

fn owner(name: &[u8], uid: usize) -> Message {
    let owner =
        Message::default().text(1, "Job").bytes(3, name).text(4, &uid.to_string()).text(5, "batch/v1");
    Message::default().message(13, &owner)
}

/// Metadata with this creation time.
fn created_at(seconds: u64) -> Message {
    Message::default().message(8, &Message::default().number(1, seconds))
}

fn pods() -> Vec<Message> {
    let nothing = Message::default();
    let longest = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
    let owners = |count: usize, name: &[u8]| {
        (0..count).fold(Vec::new(), |mut all, n| {
            all.extend_from_slice(owner(name, n).encoded());
            all
        })
    };
    vec![
        unusual(&longest, &nothing, []),
        unusual("owner-with-control-characters", &owner(b"a\0\x01\x1b[31m\n", 1), []),
        unusual("owner-with-invalid-utf-8", &owner(b"\xff\xc3", 1), []),
        unusual("owner-of-maximum-size", &owner(&vec![1; 1_400_000], 1), []),
        unusual("a-thousand-owners", &Message::from(owners(1_000, b"o")), []),
        unusual("only-owners", &Message::from(owners(60_000, b"\"")), []),
        unusual("after-9999", &created_at(253_402_300_800), []),
        unusual("at-the-end-of-time", &created_at(i64::MAX.unsigned_abs()), []),
        unusual(
            "a-thousand-images",
            &nothing,
            (0..1_000).map(|n| status(&n.to_string(), &format!("reg.io/a:{n}"), &format!("{n:064x}"))),
        ),
        unusual(
            "images",
            &nothing,
            [
                status("control", "reg.io/\0\x1b[2J", DIGEST),
                status("long", &format!("reg.io/{}", "x".repeat(1_000_000)), DIGEST),
                status("text", "\u{202e}образ \"'<&\\\u{fffd}", DIGEST),
                status("pin", &format!("reg.io/web:1@sha256:{DIGEST}"), &"cd".repeat(32)),
                status("same", "reg.io/web:1", &"ef".repeat(32)),
                status("bare", DIGEST, DIGEST),
                status("upper", "reg.io/upper", &format!("x@sha256:{}", DIGEST.to_uppercase())),
            ],
        ),
    ]
}

async fn unusual_pods_do_not_prevent_the_report(database: Database) {
    let service = TestService::start(database).await;
    let url = service.base.clone();
    let outcomes = spawn_blocking(move || {
        let report = |pods: &[Message]| {
            let body = list(pods, "");
            let api = Server::start(move |_| protobuf(200, body.clone()));
            let program = once()
                .args(["--environment", "prod", "--create"])
                .cluster(&api)
                .env("SUPERCARGO_BASE_URL", &url);
            program.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", ADMIN).run()
        };
        let mut pods = pods();
        let alone: Vec<_> = pods.iter().map(|pod| report(std::slice::from_ref(pod))).collect();
        // A creation time before 1970 is invalid: the pod is skipped.
        pods.push(unusual("before-1970", &created_at(5_u64.wrapping_neg()), []));
        (alone, report(&pods))
    });
    let (alone, together) = outcomes.await.unwrap();
    for outcome in &alone {
        outcome.expect(0, &["prod: 1 pod reported"]);
    }
    together.expect(0, &[&format!("prod: {} pods reported", alone.len()), "1 pod unreadable"]);
    let stored = service.database.rows("SELECT DISTINCT pod FROM pod_runs").await;
    assert_eq!(stored.len(), alone.len(), "{stored:?}");
}

crate::service::on_both!(unusual_pods_do_not_prevent_the_report);
