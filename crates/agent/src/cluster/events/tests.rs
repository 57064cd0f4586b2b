//! Recorded watches, and invalid ones.

use proptest::prelude::*;

use super::*;
use crate::cluster::messages::Pod;

macro_rules! recorded {
    ($name:literal) => {
        [
            (
                Encoding::Protobuf,
                &include_bytes!(concat!("../../../../../tests/fixtures/kube-api/", $name, ".pb"))[..],
            ),
            (
                Encoding::Json,
                &include_bytes!(concat!("../../../../../tests/fixtures/kube-api/", $name, ".ndjson"))[..],
            ),
        ]
    };
}

fn read<'a>(
    encoding: Encoding,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<DecodedEvent>, Result<(), DecodeError>) {
    let mut reader = EventReader::from_encoding(encoding).unwrap();
    let mut events = Vec::new();
    for chunk in chunks {
        reader.feed(chunk);
        loop {
            match reader.next::<Pod>() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
    }
    let end = reader.finish();
    (events, end)
}

fn describe(event: &DecodedEvent) -> String {
    match event {
        DecodedEvent::Object { change, object: Ok(pod), resource_version } => {
            format!("{change:?} {} {resource_version}", pod.name)
        }
        DecodedEvent::Object { change, object: Err(unreadable), .. } => format!("{change:?} {unreadable:?}"),
        DecodedEvent::Bookmark { resource_version, initial_events_end: false } => {
            format!("at {resource_version}")
        }
        DecodedEvent::Bookmark { resource_version, .. } => format!("list ends at {resource_version}"),
        DecodedEvent::Error(status) => format!("{} {}: {}", status.code, status.reason, status.message),
    }
}

fn frame(r#type: &str, kind: &str, object: impl Into<Bytes>) -> Vec<u8> {
    let type_meta = Some(TypeMeta { kind: kind.into() });
    let unknown = Unknown { type_meta, raw: object.into() }.encode_to_vec();
    let raw = [MAGIC, &unknown].concat().into();
    let object = Some(crate::cluster::messages::RawExtension { raw });
    let event = WatchFrame { r#type: r#type.into(), object }.encode_to_vec();
    [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
}

#[test]
fn recorded_watches_decode_equally_in_both_encodings_and_all_chunk_sizes() {
    for recorded in [recorded!("watch"), recorded!("watch-streaming-list"), recorded!("watch-410")] {
        let (events, end) = read(Encoding::Protobuf, [recorded[0].1]);
        assert_eq!(end, Ok(()));
        for (encoding, bytes) in recorded {
            for size in [1, 3, 4, 5, 100, 4096, bytes.len()] {
                assert_eq!(
                    read(encoding, bytes.chunks(size)),
                    (events.clone(), Ok(())),
                    "{encoding:?} {size}"
                );
            }
        }
    }
}

#[test]
fn recorded_watch_contains_deleted_pods() {
    let [(encoding, bytes), _] = recorded!("watch");
    let events: Vec<_> = read(encoding, [bytes]).0.iter().map(describe).collect();
    assert_eq!(events[0], "Added web-9e2f-uvwxy 310");
    assert_eq!(events[4], "Deleted web-8d1e-qrstu 314");
    assert_eq!(events[13..], ["Modified job-brief-1 323", "at 328", "at 337", "at 337"]);
    let [(encoding, bytes), _] = recorded!("watch-streaming-list");
    let events: Vec<_> = read(encoding, [bytes]).0.iter().map(describe).collect();
    assert_eq!((events.len(), events[26].as_str()), (27, "list ends at 301"));
    let [(encoding, bytes), _] = recorded!("watch-410");
    assert_eq!(describe(&read(encoding, [bytes]).0[0]), "410 Expired: too old resource version: 2 (356)");
}

#[test]
fn truncated_event_is_an_error_after_the_complete_events() {
    for (encoding, bytes) in recorded!("watch-410") {
        for end in 1..bytes.len() - 1 {
            assert_eq!(read(encoding, [&bytes[..end]]), (vec![], Err(DecodeError::Truncated)), "{end}");
        }
    }
    for (encoding, bytes) in recorded!("watch") {
        let (events, end) = read(encoding, [&bytes[..bytes.len() - 5]]);
        assert_eq!((events.len(), end), (16, Err(DecodeError::Truncated)));
    }
}

#[test]
fn invalid_event_is_rejected_with_a_reason() {
    let pod = || Pod::default().encode_to_vec();
    for (bytes, error) in [
        (b"\x01\x00\x00\x01".to_vec(), DecodeError::TooLarge(16 * 1024 * 1024 + 1)),
        (b"HTTP/1.1".to_vec(), DecodeError::TooLarge(0x4854_5450)),
        (b"\x00\x00\x00\x02\xff\xff".to_vec(), DecodeError::Malformed),
        (b"\x00\x00\x00\x00".to_vec(), DecodeError::Malformed),
        (frame("RENAMED", "Pod", pod()), DecodeError::Type("RENAMED".into())),
        (frame("ADDED", "Table", pod()), DecodeError::Kind("Pod", "Table".into())),
        (frame("BOOKMARK", "Pod", b"\xff".to_vec()), DecodeError::Malformed),
    ] {
        assert_eq!(read(Encoding::Protobuf, [bytes.as_slice()]), (vec![], Err(error)));
    }
    let json = |text: &str| read(Encoding::Json, [text.as_bytes()]).1.unwrap_err();
    assert!(matches!(json("<html>\n"), DecodeError::Json(_)));
    assert!(matches!(json("{\"type\":\"ADDED\"}\n"), DecodeError::Json(_)));
    assert_eq!(
        json("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Table\"}}\n"),
        DecodeError::Kind("Pod", "Table".into())
    );
    assert_eq!(json("{\"type\":\"RENAMED\",\"object\":{}}\n"), DecodeError::Type("RENAMED".into()));
    let endless = vec![b' '; MAX_BYTES + 1];
    assert!(matches!(read(Encoding::Json, [endless.as_slice()]).1, Err(DecodeError::TooLarge(_))));
    assert_eq!(read(Encoding::Json, [b"\r\n\n".as_slice()]), (vec![], Ok(())));
}

#[test]
fn unreadable_pod_is_named_and_does_not_affect_others() {
    // metadata { name, namespace }, and a malformed status.
    let named = b"\x0a\x0d\x0a\x05web-1\x1a\x04shop\x1a\x02\x0a\xff".to_vec();
    let nameless = b"\x1a\x02\x0a\xff".to_vec();
    let good = frame("ADDED", "Pod", Pod::default().encode_to_vec());
    let bytes = [frame("MODIFIED", "Pod", named), frame("DELETED", "Pod", nameless), good].concat();
    let (events, end) = read(Encoding::Protobuf, [bytes.as_slice()]);
    assert_eq!((events.len(), end), (3, Ok(())));
    let unreadable = |event: &DecodedEvent| match event {
        DecodedEvent::Object { object: Err(unreadable), resource_version, .. }
            if resource_version.is_empty() =>
        {
            (unreadable.pod.clone().map(|pod| (pod.namespace, pod.name)), unreadable.problem.clone())
        }
        other => panic!("{other:?}"),
    };
    let (name, problem) = unreadable(&events[0]);
    assert_eq!(name, Some(("shop".into(), "web-1".into())));
    assert!(problem.starts_with("a Pod, \"shop/web-1\": "), "{problem}");
    assert_eq!(unreadable(&events[1]).0, None);

    let odd = r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"namespace":"shop","name":"web-1"},"status":{"phase":1}}}"#;
    let (events, _) = read(Encoding::Json, [odd.as_bytes(), b"\n"]);
    let (name, problem) = unreadable(&events[0]);
    assert_eq!(name, Some(("shop".into(), "web-1".into())));
    assert!(problem.starts_with("a Pod, \"shop/web-1\", at status.phase: "), "{problem}");
}

#[test]
fn memory_of_a_large_event_is_released() {
    // An unknown field of 1 MiB.
    let padded = [&b"\x9a\x06\x80\x80\x40"[..], &vec![0; 1 << 20]].concat();
    let padding = "x".repeat(1 << 20);
    let json = format!(r#"{{"type":"ADDED","object":{{"kind":"Pod","padding":"{padding}"}}}}"#) + "\n";
    let large = [(Encoding::Protobuf, frame("ADDED", "Pod", padded)), (Encoding::Json, json.into_bytes())];
    for (encoding, bytes) in large {
        let mut reader = EventReader::from_encoding(encoding).unwrap();
        for chunk in bytes.chunks(10_000) {
            reader.feed(chunk);
        }
        assert!(matches!(reader.next::<Pod>(), Ok(Some(DecodedEvent::Object { object: Ok(_), .. }))));
        assert_eq!(reader.next::<Pod>(), Ok(None));
        assert_eq!(reader.buffer.capacity(), 0);
    }
}

#[test]
fn error_event_contains_the_retry_delay() {
    let json = r#"{"type":"ERROR","object":{"kind":"Status","message":"busy","reason":"TooManyRequests","details":{"retryAfterSeconds":7},"code":429}}"#;
    let (events, _) = read(Encoding::Json, [json.as_bytes(), b"\n"]);
    let DecodedEvent::Error(status) = &events[0] else { panic!("{events:?}") };
    assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (429, 7));
    let bytes = frame("ERROR", "Status", status.encode_to_vec());
    assert_eq!(read(Encoding::Protobuf, [bytes.as_slice()]).0, events);
}

proptest! {
    #[test]
    fn corrupted_bytes_never_panic(
        at in proptest::collection::vec((0..20_000_usize, any::<u8>()), 0..8),
        size in 1..5000_usize,
    ) {
        for (encoding, bytes) in recorded!("watch") {
            let mut bytes = bytes.to_vec();
            for &(at, byte) in &at {
                bytes[at] = byte;
            }
            let _ = read(encoding, bytes.chunks(size));
        }
    }
}
