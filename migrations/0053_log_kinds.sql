-- Records that the log covers.

-- The repositories and images that flows own, as JSON; the open row applies. Replaces flows.ownership.
CREATE TABLE flow_ownerships (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);
CREATE UNIQUE INDEX flow_ownerships_open ON flow_ownerships (organization, flow) WHERE closed_at IS NULL;

-- The report of an artifact that added the commit; NULL: an attestation did, or there is none.
ALTER TABLE claims ADD COLUMN commit_report UUID REFERENCES reported_artifacts (id);
