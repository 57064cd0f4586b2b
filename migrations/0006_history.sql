-- What must not take longer the more ended long ago. SQLite keeps no figures of how many rows have a key, and takes, of
-- two indexes that begin alike, the wrong one as soon as the right one: each of these answers more of what it is for.

-- What runs in an environment.
CREATE INDEX artifact_runs_now ON artifact_runs (environment, ended_at) WHERE ended_at IS NULL;
-- What ended, by its whole name.
CREATE INDEX artifact_runs_named ON artifact_runs (organization, name) WHERE ended_at IS NOT NULL;
CREATE INDEX pod_runs_named ON pod_runs (environment, pod) WHERE ended_at IS NOT NULL;
