-- What pages ask for: the artifacts that an attestation is about; what started with each snapshot, and what was scaled
-- while it held; what was last sent to a target, whose notifications are numbered in the order in which they came.

CREATE INDEX attested_artifacts_of ON attested_artifacts (attestation);
CREATE INDEX artifact_runs_started ON artifact_runs (environment, first_snapshot);
CREATE INDEX events_scaled ON events (environment, occurred_at) WHERE kind = 'ON_SCALED_ARTIFACT';
CREATE INDEX notifications_of_target ON notifications (target, id);
