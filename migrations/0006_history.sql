-- What must not take longer the more ended long ago. SQLite keeps no figures of how many rows have a key, and of two
-- indexes takes the one in which more columns are asked for: each of these has all that what it is for asks for.

-- What runs in an environment, and whether an artifact does.
CREATE INDEX artifact_runs_now ON artifact_runs (environment, ended_at, fingerprint) WHERE ended_at IS NULL;
-- What ended, by its whole name; of an image's, which nobody bounds, by as much as PostgreSQL takes into an index.
CREATE INDEX artifact_runs_named ON artifact_runs (organization, substr(name, 1, 255), ended_at)
    WHERE ended_at IS NOT NULL;
CREATE INDEX pod_runs_named ON pod_runs (environment, pod, ended_at) WHERE ended_at IS NOT NULL;
-- The snapshot of a moment.
CREATE INDEX snapshots_received ON snapshots (environment, received_at);
