-- Replicas lease targets, so that a target gets one notification at a time from all of them.
ALTER TABLE targets ADD COLUMN leased_until BIGINT NOT NULL DEFAULT 0;
