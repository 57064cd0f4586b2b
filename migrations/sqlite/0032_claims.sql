-- The report of an artifact names an origin without an attestation. SQLite cannot remove NOT NULL from a column.
CREATE TABLE new_claims (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    flow TEXT NOT NULL,
    repository UUID NOT NULL REFERENCES repositories (id),
    url TEXT,
    commit_sha TEXT,
    commit_url TEXT,
    attestation UUID REFERENCES attestations (id),
    reported_by TEXT NOT NULL,
    recorded_at BIGINT NOT NULL,
    priority BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (organization, fingerprint, flow, repository)
);
INSERT INTO new_claims
    (organization, fingerprint, flow, repository, url, commit_sha, commit_url, attestation, reported_by, recorded_at,
     priority)
SELECT organization, fingerprint, flow, repository, url, commit_sha, commit_url, attestation, reported_by, recorded_at,
       priority
FROM claims;
DROP TABLE claims;
ALTER TABLE new_claims RENAME TO claims;
CREATE INDEX claims_of_repository ON claims (organization, repository, fingerprint);
