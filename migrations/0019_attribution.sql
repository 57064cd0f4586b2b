-- Names of the tokens behind confirmations and pods. NULL: recorded by a previous version.

-- The last report.
ALTER TABLE environments ADD COLUMN reported_by TEXT;
-- The first report with the pod.
ALTER TABLE pod_runs ADD COLUMN reported_by TEXT;

-- Tokens that reported a snapshot without changing its artifacts, except for the first and for uninterrupted reports of
-- one token.
CREATE TABLE confirmations (
    environment UUID NOT NULL REFERENCES environments (id),
    snapshot BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    first_at BIGINT NOT NULL,
    -- Start of the latest uninterrupted reports.
    last_at BIGINT NOT NULL,
    PRIMARY KEY (environment, snapshot, reported_by)
);
