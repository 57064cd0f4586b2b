//! Responses of the interface, each with an undocumented field.

use serde_json::{Value, json};

pub const FINGERPRINT: &str = "4f9c5e0a7b3d2c1e8f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e";
pub const COMMIT: &str = "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21";

/// The list variant of an action: a chat, a webhook and an email.
pub fn notification() -> Value {
    json!({
        "name": "tell the team", "type": "env", "number": 7,
        "environments": ["prod", "staging"],
        "triggers": ["ON_NON_COMPLIANT_ENV", "ON_A_FULL_MOON"],
        "targets": [
            {"type": "SLACK", "webhook": "https://chat.example.com",
             "context": {"channel_id": "C1", "channel_name": "#alerts", "team_id": "T1"}, "last_success_at": 1.5},
            {"type": "WEBHOOK", "webhook": "https://hooks.example.com"},
            {"type": "EMAIL"},
        ],
        "created_by": "jo", "is_created_from_slack_app": true, "last_modified_at": 1_790_000_000,
        "is_failing": true, "last_success_timestamp": null, "last_failure_timestamp": 1_790_000_000.5,
        "invented_later": {"a": 1},
    })
}

/// The get-action variant.
pub fn action() -> Value {
    json!({
        "name": "tell the team", "type": "flow", "number": 7.0, "environments": null, "flows": ["cart"],
        "triggers": ["ON_SCALED_ARTIFACT"], "targets": [{"invented": true}],
        "created_by": "jo", "is_created_from_chat_app": false, "last_modified_at": 1_790_000_000,
    })
}

/// The artifact-approvals variant: commits are hashes.
pub fn artifact_approval() -> Value {
    json!({
        "release_number": 12, "base_artifact": "b".repeat(64), "artifact_name": "cart:5.3.1",
        "target_artifact": FINGERPRINT, "description": "may go", "src_commit_list": [COMMIT],
        "created_at": 1_790_000_000, "last_modified_at": 1_790_000_000, "state": "APPROVED",
        "approvals": [
            {"comment": "looks good", "approved_by": "kim", "approval_url": "https://x", "timestamp": 1_790_000_000},
        ],
        "environment": null, "user_data": [1, {"free": "form"}],
    })
}

/// The get-approval variant: commits list their artifacts.
pub fn approval() -> Value {
    let mut approval = artifact_approval();
    approval["src_commit_list"] = json!([{"commit_sha": COMMIT, "artifact_fingerprints": [FINGERPRINT]}]);
    approval["environment"] = json!("prod");
    approval
}

pub fn trail(name: &str) -> Value {
    json!({
        "name": name, "flow": {"name": "cart", "tags": {"team": "shop"}}, "is_compliant": false,
        "last_modified_at": 1_790_000_000.25, "created_by": "ci", "git_commit_info": {"sha1": COMMIT},
        "template": null, "invented_later": [],
    })
}

pub fn attestation(id: &str) -> Value {
    json!({
        "attestation_id": id, "attestation_name": "unit-tests", "attestation_type": "junit",
        "created_at": 1_790_000_000, "is_compliant": true, "reported_by": "ci", "schema_version": 1,
        "user_data": {"build": 5},
    })
}

pub fn live_artifacts() -> Value {
    json!({
        "live_artifacts": [
            {"environment_id": "e1", "artifact_id": "a1", "artifact_name": "registry.example.com/cart:5.3.1",
             "snapshot_index": 2.0, "started_at": 1_790_000_000, "compliance": "NON-COMPLIANT", "_links": {}},
            {"environment_id": "e9", "artifact_id": "a9", "artifact_name": "gone", "compliance": "A-NEW-WORD"},
        ],
        "_embedded": {
            "artifacts": [{"id": "a1", "fingerprint": FINGERPRINT, "commit_sha": COMMIT, "commit_url": null}],
            "environments": [{"id": "e1", "name": "prod", "type": "K8S"}],
        },
        "_links": {"self": {"href": "https://x"}},
    })
}
