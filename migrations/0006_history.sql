-- Indexes for queries whose cost must not grow with the ended history. Without statistics, SQLite prefers the index that
-- matches more columns of a query, so each index has all columns of its query.

-- Running artifacts of an environment, and a single running artifact.
CREATE INDEX artifact_runs_now ON artifact_runs (environment, ended_at, fingerprint) WHERE ended_at IS NULL;
-- Ended artifacts and pods by full name. Image names are unbounded and indexed up to the size that PostgreSQL accepts.
CREATE INDEX artifact_runs_named ON artifact_runs (organization, substr(name, 1, 255), ended_at)
    WHERE ended_at IS NOT NULL;
CREATE INDEX pod_runs_named ON pod_runs (environment, pod, ended_at) WHERE ended_at IS NOT NULL;
-- The snapshot at a given time.
CREATE INDEX snapshots_received ON snapshots (environment, received_at);
