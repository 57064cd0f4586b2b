//! A log that was changed, entry by entry.

use serde_json::json;

use super::*;
use crate::log::{NewEntry, start_record};

/// In microseconds.
const HOUR: i64 = 60 * 60 * 1_000_000;

/// A log of these records, with a start at time 0.
fn log(records: &[(Kind, &str, i64, Value)]) -> Vec<RecordedEntry> {
    let mut head = Head::EMPTY;
    let start = (Kind::Start, "acme", 0, start_record("acme"));
    let append = |(kind, id, at, record): &(Kind, &str, i64, Value)| {
        let mut record = record.clone();
        if let (Some(column), Some(columns)) = (kind.time_column(), record.as_object_mut()) {
            columns.entry(column).or_insert(json!(at));
        }
        let record = &record;
        let new = NewEntry { at: *at, kind: *kind, id: (*id).to_owned(), record_hash: record_hash(record) };
        RecordedEntry { entry: head.append(new), record: Some(record.clone()), is_attachment_removed: false }
    };
    [start].iter().chain(records).map(append).collect()
}

fn three() -> Vec<RecordedEntry> {
    let records = [
        (Kind::Audit, "one", HOUR, json!({"change": 1})),
        (Kind::Environment, "prod", 2 * HOUR, json!({"snapshot": {}, "artifacts_started": ["a", "b"]})),
        (Kind::Attestation, "two", 3 * HOUR, json!({"name": "junit"})),
    ];
    log(&records)
}

fn verify(entries: &[RecordedEntry], since: Option<Head>, rows: &RowCounts) -> Result<Head, String> {
    let mut verifier = Verifier::new(Some("acme"), since);
    let head = entries.last().map_or(Head::EMPTY, |last| last.entry.head());
    let checkpoint = Checkpoint { origin: "example.com/acme".into(), head };
    let accepted = entries.iter().try_for_each(|entry| verifier.accept(entry.clone()));
    accepted.and_then(|()| verifier.finish(&checkpoint, Some(rows))).map_err(|error| error.to_string())
}

fn checked(entries: &[RecordedEntry]) -> String {
    verify(entries, None, &RowCounts::new()).unwrap_err()
}

#[test]
fn unchanged_log_is_verified() {
    let entries = three();
    let rows = [
        ("audit", 1),
        ("snapshot", 1),
        ("running-artifact", 2),
        ("verdict", 0),
        ("attestation", 1),
        ("policy", 0),
    ];
    let rows = rows.into_iter().map(|(kind, rows)| (kind.to_owned(), rows)).collect();
    let head = verify(&entries, Some(entries[1].entry.head()), &rows);
    assert_eq!(head, Ok(entries[3].entry.head()));
}

#[test]
fn first_changed_entry_is_named() {
    let mut removed = three();
    removed.remove(2);
    assert_eq!(checked(&removed), "entry 3 is missing: entry 4 follows entry 2");
    let mut swapped = three();
    swapped.swap(1, 2);
    assert!(checked(&swapped).starts_with("entry 2 is missing: entry 3"), "{}", checked(&swapped));
    let mut renumbered = three();
    renumbered.swap(1, 2);
    (renumbered[1].entry.sequence, renumbered[2].entry.sequence) = (2, 3);
    assert!(checked(&renumbered).starts_with("entry 2 (environment prod, at 7200.000000 s) was changed"));
    let mut changed = three();
    changed[3].record = Some(json!({"name": "other"}));
    assert!(checked(&changed).starts_with("entry 4 (attestation two, at 10800.000000 s) does not match"));
    let mut hidden = three();
    hidden[3].record = None;
    assert!(checked(&hidden).starts_with("entry 4 (attestation two, at 10800.000000 s) has no record"));
    assert!(checked(&three()[1..]).starts_with("entry 1 is missing"));
    let mut of_other = Verifier::new(Some("other"), None);
    assert_eq!(of_other.accept(three().remove(0)), Err(Mismatch::NoStart));
}

#[test]
fn log_that_does_not_extend_a_checkpoint_is_found() {
    let entries = three();
    let none = RowCounts::new();
    let last = entries[3].entry.head();
    let error = verify(&entries[..3], Some(last), &none).unwrap_err();
    assert_eq!(error, "the log has 3 entries, and the checkpoint 4: entries were removed from its end");
    // Another log, which is consistent in itself.
    let other = log(&[(Kind::Audit, "other", HOUR, json!({}))]);
    let error = verify(&other, Some(entries[1].entry.head()), &none).unwrap_err();
    assert_eq!(error, "the log does not extend the checkpoint: entry 2 has another hash");
}

#[test]
fn missing_record_must_be_explained_by_a_removal() {
    let removal = |subject: &str, before: i64| Removal { subject: subject.into(), before };
    let with = |removal: &Removal| {
        let id = removal.id();
        let records = [
            (Kind::Retention, "r", 0, json!({"history": HOUR, "audit": HOUR})),
            (Kind::Audit, "one", HOUR, json!({})),
            (Kind::Environment, "prod", HOUR, json!({})),
            (Kind::Removal, id.as_str(), 3 * HOUR, removal.record()),
        ];
        log(&records)
    };
    for (subject, before, missing, is_explained) in [
        ("audit", HOUR + 1, 2, true),
        ("audit", HOUR, 2, false),
        ("history/prod", HOUR + 1, 2, false),
        ("history/prod", HOUR + 1, 3, true),
        ("history/test", HOUR + 1, 3, false),
        ("audit", HOUR + 1, 3, false),
    ] {
        let mut entries = with(&removal(subject, before));
        entries[missing].record = None;
        let verified = verify(&entries, None, &RowCounts::new());
        assert_eq!(verified.is_ok(), is_explained, "{subject} {before} {missing}: {verified:?}");
    }
}

#[test]
fn removal_must_be_explained_by_the_retention_in_effect() {
    let retention = |id: &'static str, record: Value| (Kind::Retention, id, 0, record);
    let end = |id: &'static str| (Kind::RetentionEnd, id, HOUR, json!({}));
    let audit = || retention("one", json!({"audit": HOUR}));
    for (before, retentions, subject, is_explained) in [
        (2 * HOUR, vec![], "audit", false),
        (2 * HOUR, vec![audit()], "audit", true),
        (2 * HOUR + 1, vec![audit()], "audit", false),
        (2 * HOUR, vec![audit()], "attachments", false),
        (2 * HOUR, vec![audit()], "history/prod", false),
        (2 * HOUR, vec![retention("one", json!({"history": HOUR}))], "history/prod", true),
        (2 * HOUR, vec![retention("one", json!({"attachments": HOUR}))], "attachments", true),
        (2 * HOUR, vec![audit(), end("one")], "audit", false),
        // A changed retention is opened before the earlier one ends.
        (2 * HOUR, vec![audit(), retention("two", json!({"audit": HOUR / 2})), end("one")], "audit", true),
        (2 * HOUR, vec![audit(), retention("two", json!({"audit": 2 * HOUR})), end("one")], "audit", false),
    ] {
        let removed = Removal { subject: subject.into(), before };
        let id = removed.id();
        let mut records = retentions.clone();
        records.push((Kind::Removal, &id, 3 * HOUR, removed.record()));
        let verified = verify(&log(&records), None, &RowCounts::new());
        assert_eq!(verified.is_ok(), is_explained, "{before} {subject} {retentions:?}: {verified:?}");
    }
}

/// An hour covers clocks that differ, and transactions that wait.
#[test]
fn entry_after_a_checkpoint_is_not_dated_long_before_it() {
    for (at, expected) in [
        (2 * HOUR, ""),
        (HOUR, ""),
        (
            HOUR - 1_000_000,
            "entry 3 (audit two, at 3599.000000 s) was added after the checkpoint, and is dated 3601 s before it",
        ),
    ] {
        let entries = log(&[(Kind::Audit, "one", 2 * HOUR, json!({})), (Kind::Audit, "two", at, json!({}))]);
        for (since, expected) in [(None, ""), (Some(entries[1].entry.head()), expected)] {
            let verified = verify(&entries, since, &RowCounts::new());
            assert_eq!(verified.map_or_else(|error| error, |_| String::new()), expected, "{at} {since:?}");
        }
    }
}

#[test]
fn entry_has_the_time_of_its_record() {
    for (kind, column) in [(Kind::Token, "created_at"), (Kind::TokenEnd, "closed_at"), (Kind::Audit, "at")] {
        let of = |time: i64| log(&[(kind, "one", 2 * HOUR, json!({column: time}))]);
        assert!(verify(&of(2 * HOUR), None, &RowCounts::new()).is_ok(), "{kind:?}");
        let found = checked(&of(HOUR));
        assert!(found.ends_with("one, at 7200.000000 s) does not have the time of its record"), "{found}");
    }
}

#[test]
fn rows_without_an_entry_are_found() {
    let rows = RowCounts::from([("attestation".to_owned(), 2)]);
    let error = verify(&three(), None, &rows).unwrap_err();
    assert_eq!(error, "2 rows of kind attestation are stored, and the log has 1: rows were added or removed");
}

#[test]
fn last_entry_of_a_changed_row_must_match_its_record() {
    let row = |url: &str| json!({"url": url, "created_at": HOUR});
    let records = [("old", HOUR), ("new", 2 * HOUR)].map(|(url, at)| (Kind::Repository, "r", at, row(url)));
    let one = [("repository".to_owned(), 1)].into();
    for (stored, expected) in
        [("new", None), ("old", Some("entry 3 (repository r")), ("other", Some("entry 3 (repository r"))]
    {
        let mut entries = log(&records);
        for entry in &mut entries[1..] {
            entry.record = Some(row(stored));
        }
        let verified = verify(&entries, None, &one);
        let is_expected = verified.as_ref().map_or_else(
            |error| expected.is_some_and(|start| error.starts_with(start)),
            |_| expected.is_none(),
        );
        assert!(is_expected, "{stored}: {verified:?}");
    }
}
