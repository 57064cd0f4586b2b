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

-- Indexes for the retention, whose cost must depend only on the rows that it removes.
CREATE INDEX pod_runs_of_workload ON pod_runs (workload);
-- With all columns of its query: on SQLite, reading a row reads the pages of its file.
CREATE INDEX attachments_created ON attachments (organization, created_at, sha256);
CREATE INDEX attestations_of_attachment ON attestations (organization, attachment, created_at)
    WHERE attachment IS NOT NULL;
CREATE INDEX audit_of_organization ON audit (organization, at);
CREATE INDEX notifications_created ON notifications (created_at);
