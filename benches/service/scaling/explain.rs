//! Plans of the most frequent statements. The statements are those of `src/store`, with values instead of parameters.

use crate::database::Database;

/// Prints the plans for an organization with the environment `prod`.
pub(super) fn print(database: &Database, organization: &str) {
    for (label, statement) in statements(database, organization) {
        println!("\n{label}");
        for line in database.explain(&statement) {
            println!("    {line}");
        }
    }
}

fn statements(database: &Database, organization: &str) -> [(&'static str, String); 5] {
    let (hash, now) = (database.bytes("1"), "1800000000000000");
    let (first, last) = (database.uuid("0"), "f".repeat(32));
    let last = if database.is_sqlite() { format!("unhex('{last}')") } else { format!("'{last}'::uuid") };
    let artifacts = if database.is_sqlite() {
        format!("IN (SELECT unhex(value) FROM json_each(json_array(hex({hash}))))")
    } else {
        format!("= ANY(ARRAY[{hash}])")
    };
    let id = format!("(SELECT id FROM environments WHERE organization = '{organization}' AND name = 'prod')");
    [
        (
            "authentication (store/access.rs)",
            format!(
                "SELECT organization, name, sha256, role, scope, expires_at FROM tokens
                 WHERE sha256 = {hash} AND closed_at IS NULL"
            ),
        ),
        (
            "unchanged report (store/reports.rs)",
            format!(
                "UPDATE environments
                 SET last_report_at = CASE WHEN last_report_at > {now} THEN last_report_at ELSE {now} END
                 WHERE organization = '{organization}' AND name = 'prod' AND body_hash = {hash}
                   AND last_report_at >= {now} - COALESCE(silent_after, 180000000)"
            ),
        ),
        (
            "running artifacts of a changed report (store/verdicts.rs)",
            format!(
                "SELECT r.fingerprint, r.name, r.pods, v.compliance,
                        CAST(CASE WHEN v.is_allowed THEN 1 ELSE 0 END AS BIGINT) AS is_allowed, v.reasons
                 FROM artifact_runs r LEFT JOIN verdicts v
                   ON v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
                 WHERE r.environment = {id} AND r.ended_at IS NULL"
            ),
        ),
        (
            "attestations of an evaluation (store/evidence.rs)",
            format!(
                "SELECT fingerprint, flow, name, is_compliant FROM latest_attestations
                 WHERE organization = '{organization}' AND flow IN ('cart') AND name IN ('unit')
                   AND fingerprint IN ({hash})"
            ),
        ),
        (
            "environments of an attestation (store/verdicts.rs)",
            format!(
                "SELECT e.id, e.name, e.compliance, p.content, r.name, r.pods, v.compliance, v.reasons,
                        CASE WHEN EXISTS (SELECT 1 FROM evaluation_queue q WHERE q.environment = e.id) OR EXISTS
                          (SELECT 1 FROM allowances a WHERE a.organization = e.organization AND a.environment = e.name
                             AND a.fingerprint = r.fingerprint AND a.closed_at IS NULL) THEN 1 ELSE 0 END
                 FROM artifact_runs r JOIN environments e ON e.id = r.environment
                   JOIN policies p ON p.organization = e.organization AND p.environment = e.name
                   LEFT JOIN verdicts v
                     ON v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
                 WHERE r.organization = '{organization}' AND r.fingerprint {artifacts}
                   AND CASE WHEN r.environment >= {first} THEN r.environment <= {last} END AND r.ended_at IS NULL
                   AND p.closed_at IS NULL
                 LIMIT 10000"
            ),
        ),
    ]
}
