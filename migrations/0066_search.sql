-- The images of an organization that ended last.
CREATE INDEX artifact_runs_latest ON artifact_runs (organization, ended_at) WHERE ended_at IS NOT NULL;
