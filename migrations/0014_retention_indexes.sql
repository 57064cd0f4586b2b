-- Indexes for the retention, whose cost must depend only on the rows that it removes.
CREATE INDEX pod_runs_of_workload ON pod_runs (workload);
-- With all columns of its query: on SQLite, reading a row reads the pages of its file.
CREATE INDEX attachments_created ON attachments (organization, created_at, sha256);
CREATE INDEX attestations_of_attachment ON attestations (organization, attachment, created_at)
    WHERE attachment IS NOT NULL;
CREATE INDEX audit_of_organization ON audit (organization, at);
CREATE INDEX notifications_created ON notifications (created_at);
