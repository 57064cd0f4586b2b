-- The cost of an evaluation depends on what it changes, not on what was recorded before.

-- The latest attestation of an artifact by flow and name: the input of an evaluation. A trigger on attested_artifacts
-- maintains it, so that attestations by a replica of the previous version count too.
CREATE TABLE latest_attestations (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    flow TEXT NOT NULL,
    name TEXT NOT NULL,
    attestation UUID NOT NULL REFERENCES attestations (id),
    created_at BIGINT NOT NULL,
    is_compliant BOOLEAN NOT NULL,
    PRIMARY KEY (organization, fingerprint, flow, name)
);

-- Running artifacts by verdict, as of counted_at. If that is not evaluated_at, a replica of the previous version evaluated
-- last: the counts are outdated, and the environment is evaluated again.
ALTER TABLE environments ADD COLUMN compliant_artifacts BIGINT;
ALTER TABLE environments ADD COLUMN unknown_artifacts BIGINT;
ALTER TABLE environments ADD COLUMN non_compliant_artifacts BIGINT;
ALTER TABLE environments ADD COLUMN counted_at BIGINT;
-- Next expiry of an allow-list entry of a running artifact, at which the evaluation is repeated.
ALTER TABLE environments ADD COLUMN evaluate_at BIGINT;

CREATE INDEX environments_evaluate_at ON environments (evaluate_at) WHERE evaluate_at IS NOT NULL;
CREATE INDEX environments_uncounted ON environments (id)
    WHERE snapshot > 0 AND (counted_at IS NULL OR counted_at <> evaluated_at);

-- Environments to be evaluated by any replica, and the cause of it as JSON.
CREATE TABLE evaluation_queue (
    environment UUID NOT NULL PRIMARY KEY REFERENCES environments (id),
    organization TEXT NOT NULL,
    cause TEXT NOT NULL,
    queued_at BIGINT NOT NULL
);
