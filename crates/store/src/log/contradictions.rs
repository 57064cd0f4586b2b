//! SQL conditions for derived rows that differ from the records that they are derived from.

/// Matches a latest attestation `l` that is older than `a`, or that differs from it.
macro_rules! is_latest_contradicted {
    () => {
        "(l.attestation IS NULL OR l.created_at < a.created_at OR (l.created_at = a.created_at AND l.attestation < a.id)
          OR (l.attestation = a.id
              AND (l.is_compliant <> a.is_compliant OR l.created_at <> a.created_at OR l.kind <> a.kind
                   OR l.trail <> a.trail)))"
    };
}

/// Matches an origin `p` that no claim explains, and a claim `c` for an artifact without an origin. A closed repository is the
/// origin of no artifact.
macro_rules! is_origin_contradicted {
    () => {
        "((p.flow IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM claims q
              WHERE q.organization = p.organization AND q.fingerprint = p.fingerprint AND q.flow = p.flow
                AND q.repository = p.repository AND q.commit_sha IS NOT DISTINCT FROM p.commit_sha
                AND q.commit_url IS NOT DISTINCT FROM p.commit_url AND q.recorded_at = p.recorded_at
                AND q.reported_by = p.reported_by))
          OR (EXISTS (SELECT 1 FROM repositories r
                      WHERE r.organization = c.organization AND r.id = c.repository AND r.closed_at IS NULL) AND NOT EXISTS
              (SELECT 1 FROM provenance o WHERE o.organization = c.organization AND o.fingerprint = c.fingerprint)))"
    };
}

pub(crate) use {is_latest_contradicted, is_origin_contradicted};
