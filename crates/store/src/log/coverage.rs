//! The columns of the schema that the log covers. A new one is compared, or docs/reference/log.md names it.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::RowKind;

const SCHEMA: &str = include_str!("../../migrations/0001_schema.sql");

/// Columns that are compared besides those of records in `rows`: with the change of an environment, as a part of another record,
/// or with the rows that they are derived from.
const COMPARED: [(&str, &str); 19] = [
    ("organizations", "name audit_removed_before"),
    ("log_entries", "sequence at kind record record_hash hash"),
    ("log_heads", "size hash"),
    (
        "environments",
        "id name compliance compliant_artifacts unknown_artifacts non_compliant_artifacts horizon_at",
    ),
    (
        "snapshots",
        "environment snapshot received_at reported_by report_hash compliance confirmed_at superseded_at",
    ),
    ("gaps", "environment from_at to_at"),
    ("artifact_runs", "environment fingerprint first_snapshot last_snapshot name pods started_at ended_at"),
    ("workloads", "hash digests owners"),
    ("pod_runs", "id environment namespace pod created_at workload reported_by started_at ended_at"),
    ("verdicts", "environment fingerprint from_at until_at compliance is_allowed reasons"),
    ("attachments", "sha256 content"),
    ("attestations", "superseded_by"),
    ("attested_artifacts", "fingerprint attestation trail report"),
    ("latest_attestations", "fingerprint flow name attestation created_at is_compliant kind trail"),
    ("artifact_authors", "fingerprint flow author attestation report created_at"),
    ("flow_artifacts", "flow fingerprint created_at modified_at trail report"),
    ("image_manifests", "image_index fingerprint platform flow created_at is_recent"),
    (
        "claims",
        "fingerprint flow repository url commit_sha commit_url commit_report attestation reported_by recorded_at",
    ),
    ("provenance", "repository fingerprint flow commit_sha commit_url reported_by recorded_at priority"),
];

/// Columns that docs/reference/log.md names as not covered. No columns: the whole table.
const NOT_COMPARED: [(&str, &str); 28] = [
    ("organizations", "attachments_removed_before created_at closed_at"),
    ("bootstraps", ""),
    ("tokens", "last_used_at"),
    ("sessions", ""),
    ("leases", ""),
    ("log_heads", "checkpoint_size checkpoint_at"),
    (
        "environments",
        "description created_at created_by_token archived_at is_declared silent_after min_artifacts max_drop_percent
         forbids_exclusion changed_at last_report_at reported_by body_hash report_hash excluded_pods snapshot
         silent_since evaluated_at compliant_until evaluate_at reference_artifacts absence",
    ),
    ("environment_tags", ""),
    ("reporters", ""),
    ("confirmations", ""),
    ("artifact_runs", "namespaces"),
    ("evaluation_queue", ""),
    ("flows", ""),
    ("flow_tags", ""),
    ("repository_names", ""),
    ("trails", "last_modified_at created_by_token"),
    ("attachments", "created_at"),
    ("removed_attachments", ""),
    ("latest_attestations", "attachment"),
    ("bills", ""),
    ("packages", ""),
    ("bill_packages", ""),
    ("idempotency_keys", ""),
    ("claims", "priority"),
    ("actions", ""),
    ("targets", ""),
    ("events", ""),
    ("notifications", ""),
];

/// The columns of each table of the schema, without the organization.
fn schema() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut tables = BTreeMap::new();
    for table in SCHEMA.split("CREATE TABLE ").skip(1) {
        let (name, rest) = table.split_once(" (").unwrap();
        let (columns, _) = rest.split_once("\n);").unwrap();
        let lines = columns.lines().filter_map(|line| line.trim().split_once(' '));
        let columns = lines
            .map(|(first, _)| first)
            .filter(|first| first.starts_with(|c: char| c.is_ascii_lowercase()) && *first != "organization");
        tables.insert(name, columns.collect());
    }
    tables
}

#[test]
fn each_column_is_compared_or_named_as_not_covered() {
    let mut covered: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for kind in RowKind::all() {
        let columns = covered.entry(kind.row.table).or_default();
        columns.extend(kind.row.compared());
        columns.insert(kind.time.to_owned());
    }
    let lists = COMPARED.into_iter().chain(NOT_COMPARED);
    let schema = schema();
    for (table, columns) in lists {
        let of_table = covered.entry(table).or_default();
        let all: Vec<&str> = match columns {
            "" => schema[table].iter().copied().collect(),
            columns => columns.split_whitespace().collect(),
        };
        for column in all {
            assert!(of_table.insert(column.to_owned()), "{table}.{column} is in two lists");
        }
    }
    for (table, columns) in &schema {
        let columns: BTreeSet<String> = columns.iter().map(|&column| column.to_owned()).collect();
        let missing: Vec<_> = columns.difference(&covered[table]).collect();
        assert!(missing.is_empty(), "{table}: {missing:?}");
    }
    assert_eq!(schema.keys().collect::<Vec<_>>(), covered.keys().collect::<Vec<_>>());
}
