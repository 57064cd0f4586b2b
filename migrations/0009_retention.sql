-- Retention of attached files and of the audit log, in microseconds; NULL: forever.
ALTER TABLE organizations ADD COLUMN attachment_retention BIGINT;
ALTER TABLE organizations ADD COLUMN audit_retention BIGINT;

-- Attached files that were removed after their retention. A file that is attested again is also in `attachments`.
CREATE TABLE removed_attachments (
    organization TEXT NOT NULL REFERENCES organizations (name),
    sha256 BYTEA NOT NULL,
    -- In bytes.
    size BIGINT NOT NULL,
    removed_at BIGINT NOT NULL,
    PRIMARY KEY (organization, sha256)
);
