-- Indexes for pages: artifacts of an attestation, artifacts that started with a snapshot or were scaled during it, and
-- the latest notifications of a target, whose identifiers are in order of creation.

CREATE INDEX attested_artifacts_of ON attested_artifacts (attestation);
CREATE INDEX artifact_runs_started ON artifact_runs (environment, first_snapshot);
CREATE INDEX events_scaled ON events (environment, occurred_at) WHERE kind = 'ON_SCALED_ARTIFACT';
CREATE INDEX notifications_of_target ON notifications (target, id);
