-- Named, versioned policies, attached to environments. Table policies keeps the unnamed policy of the bootstrap file, which
-- previous versions of the program read.

-- Versions of policies; the open row is the current version. A policy without an open row was removed from the bootstrap
-- file; its next version continues the numbers.
CREATE TABLE policy_versions (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    description TEXT NOT NULL,
    comment TEXT NOT NULL,
    -- The policy file as received.
    content TEXT NOT NULL,
    -- Whether the policy requires that trails comply with their templates.
    needs_trails BOOLEAN NOT NULL,
    -- Whether the bootstrap file declares the policy: operations cannot change it.
    is_declared BOOLEAN NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    UNIQUE (organization, name, version)
);

CREATE UNIQUE INDEX policy_versions_open ON policy_versions (organization, name) WHERE closed_at IS NULL;

-- Policies of environments: the current version applies.
CREATE TABLE policy_attachments (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    environment TEXT NOT NULL,
    policy TEXT NOT NULL,
    -- Whether the bootstrap file declares the attachment: operations cannot remove it.
    is_declared BOOLEAN NOT NULL,
    attached_by TEXT NOT NULL,
    attached_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE UNIQUE INDEX policy_attachments_open ON policy_attachments (organization, environment, policy)
    WHERE closed_at IS NULL;
CREATE INDEX policy_attachments_of_policy ON policy_attachments (organization, policy) WHERE closed_at IS NULL;

-- The namespaces in which the artifact runs, as a sorted JSON list; NULL: recorded by a previous version.
ALTER TABLE artifact_runs ADD COLUMN namespaces TEXT;

-- Names of images, in which * stands for any characters; NULL: the entry is for one artifact. The fingerprint of an entry
-- with a pattern is the hash of the pattern, so that previous versions of the program ignore it.
ALTER TABLE allowances ADD COLUMN pattern TEXT;

-- Type and trail of the attestation.
ALTER TABLE latest_attestations ADD COLUMN kind TEXT;
ALTER TABLE latest_attestations ADD COLUMN trail UUID;
