//! Pods as odd as an API server can hold them, from the program to the service: one of them must not keep an
//! environment from being reported.

use tokio::task::spawn_blocking;

use super::{ADMIN, Database, Running};
use crate::fake::Server;
use crate::fake::kube::protobuf;
use crate::fake::pods::{Message, list, pod};
use crate::program::once;

const DIGEST: &str = "abababababababababababababababababababababababababababababababab";

/// Of a container that runs this image.
fn status(name: &str, image: &str, image_id: &str) -> Message {
    Message::default().text(1, name).text(6, image).text(7, image_id)
}

/// A pod with more in its metadata, and more statuses.
fn odd(name: &str, metadata: &Message, statuses: impl IntoIterator<Item = Message>) -> Message {
    // Repeated fields add up, and messages are merged.
    let statuses = statuses.into_iter().fold(Message::default(), |all, status| all.message(8, &status));
    pod("shop", name, "web", "reg.io/web:1", DIGEST, 0).message(1, metadata).message(3, &statuses)
}

fn owner(name: &[u8], uid: usize) -> Message {
    let owner =
        Message::default().text(1, "Job").bytes(3, name).text(4, &uid.to_string()).text(5, "batch/v1");
    Message::default().message(13, &owner)
}

/// At a time of creation.
fn at(seconds: u64) -> Message {
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
    // A message is the sum of its fields.
    let sum = |fields: Vec<u8>| Message::from(fields);
    vec![
        odd(&longest, &nothing, []),
        odd("owner-of-control-characters", &owner(b"a\0\x01\x1b[31m\n", 1), []),
        odd("owner-that-is-no-text", &owner(b"\xff\xc3", 1), []),
        odd("owner-as-large-as-it-may-be", &owner(&vec![1; 1_400_000], 1), []),
        odd("a-thousand-owners", &sum(owners(1_000, b"o")), []),
        odd("nothing-but-owners", &sum(owners(60_000, b"\"")), []),
        odd("after-9999", &at(253_402_300_800), []),
        odd("at-the-end-of-time", &at(i64::MAX.unsigned_abs()), []),
        odd(
            "a-thousand-images",
            &nothing,
            (0..1_000).map(|n| status(&n.to_string(), &format!("reg.io/a:{n}"), &format!("{n:064x}"))),
        ),
        odd(
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

async fn one_odd_pod_keeps_no_environment_from_being_reported(database: Database) {
    let service = Running::start(database).await;
    let url = service.base.clone();
    let outcomes = spawn_blocking(move || {
        let report = |pods: &[Message]| {
            let body = list(pods, "");
            let api = Server::start(move |_| protobuf(200, body.clone()));
            let program =
                once().args(["--environment", "prod"]).cluster(&api).env("SUPERCARGO_BASE_URL", &url);
            program.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", ADMIN).run()
        };
        let mut pods = pods();
        let alone: Vec<_> = pods.iter().map(|pod| report(std::slice::from_ref(pod))).collect();
        // Its time is none, so that it is left out.
        pods.push(odd("before-1970", &at(5_u64.wrapping_neg()), []));
        (alone, report(&pods))
    });
    let (alone, together) = outcomes.await.unwrap();
    for outcome in &alone {
        outcome.says(0, &["prod: 1 artifact reported"]);
    }
    together.says(0, &[&format!("prod: {} artifacts reported", alone.len()), "1 pod unreadable"]);
    let stored = service.database.rows("SELECT DISTINCT pod FROM pod_runs").await;
    assert_eq!(stored.len(), alone.len(), "{stored:?}");
}

super::on_both!(one_odd_pod_keeps_no_environment_from_being_reported);
