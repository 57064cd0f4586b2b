-- Origins of artifacts with the flows that named them, and the repositories and images that flows own.

-- Declared patterns of a flow, as JSON; NULL: none.
ALTER TABLE flows ADD COLUMN ownership TEXT;
CREATE INDEX flows_with_ownership ON flows (organization, name) WHERE ownership IS NOT NULL;

-- Flow and token of the first attestation that named the repository; NULL: recorded by a previous version.
ALTER TABLE repositories ADD COLUMN flow TEXT;
ALTER TABLE repositories ADD COLUMN reported_by TEXT;
-- Attestations must not name a closed repository.
ALTER TABLE repositories ADD COLUMN closed_at BIGINT;

-- Origins of artifacts as flows named them: the first of each flow and repository.
CREATE TABLE claims (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    flow TEXT NOT NULL,
    repository UUID NOT NULL REFERENCES repositories (id),
    -- URL of the repository, if it differs from that of `repositories`.
    url TEXT,
    -- From the first attestation that has a commit.
    commit_sha TEXT,
    commit_url TEXT,
    attestation UUID NOT NULL REFERENCES attestations (id),
    reported_by TEXT NOT NULL,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (organization, fingerprint, flow, repository)
);
CREATE INDEX claims_of_repository ON claims (organization, repository, fingerprint);

-- provenance has the claim that counts for each artifact: the first of a flow that owns repositories or images, else the
-- first. A previous version, whose rows have no flow, recorded the last claim of each repository.
ALTER TABLE provenance ADD COLUMN flow TEXT;
ALTER TABLE provenance ADD COLUMN reported_by TEXT;
ALTER TABLE provenance ADD COLUMN is_owner BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX provenance_of_artifact ON provenance (organization, fingerprint);
