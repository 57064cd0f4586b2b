-- The log of each organization: a hash chain over the records of its acknowledged changes. Entries are only added, and
-- outlive their records.
CREATE TABLE log_entries (
    organization TEXT NOT NULL,
    -- From 1, without gaps.
    sequence BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    -- Identifier of the record.
    record TEXT NOT NULL,
    record_hash BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (organization, sequence)
);

-- The last entry of each log, locked while entries are added, and the last checkpoint that was written.
CREATE TABLE log_heads (
    organization TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    checkpoint_size BIGINT NOT NULL,
    checkpoint_at BIGINT NOT NULL
);

-- The retention removed attached files and audit entries from before these times; NULL: none.
ALTER TABLE organizations ADD COLUMN attachments_removed_before BIGINT;
ALTER TABLE organizations ADD COLUMN audit_removed_before BIGINT;
