-- The same text for SQLite and PostgreSQL. Times are microseconds of Unix time; fingerprints and hashes
-- are 32 bytes; objects are JSON in text. Every key begins with the organization, or with the
-- identifier of a row that belongs to one.
--
-- Recorded evidence is not updated or deleted: rows are closed, superseded, or past the horizon of their
-- environment. Updated columns are derived or settings: repositories, the settings of environments and
-- organizations, the current name of a running artifact, and its provenance. Pods and workloads keep every
-- earlier name, and attestations every commit.

CREATE TABLE organizations (
    name TEXT NOT NULL PRIMARY KEY,
    -- Retention of the history of environments, in microseconds; NULL: forever.
    retention BIGINT,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

-- Applied bootstrap files.
CREATE TABLE bootstraps (
    generation BIGINT NOT NULL PRIMARY KEY,
    sha256 BYTEA NOT NULL,
    applied_at BIGINT NOT NULL
);

CREATE TABLE tokens (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    name TEXT NOT NULL,
    sha256 BYTEA NOT NULL,
    role TEXT NOT NULL,
    -- Environments or flows of the token, as a JSON list; "*" means all.
    scope TEXT NOT NULL,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE UNIQUE INDEX tokens_open ON tokens (sha256) WHERE closed_at IS NULL;

CREATE TABLE flows (
    organization TEXT NOT NULL REFERENCES organizations (name),
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, name)
);

CREATE TABLE flow_tags (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    tag TEXT NOT NULL,
    tag_value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE UNIQUE INDEX flow_tags_open ON flow_tags (organization, flow, tag) WHERE closed_at IS NULL;

CREATE TABLE flow_templates (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    version BIGINT NOT NULL,
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    UNIQUE (organization, flow, version),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE TABLE environments (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- A longer silence, in microseconds, is a gap; NULL: the default.
    silent_after BIGINT,
    -- The last report: time of receipt, hash of its bytes, hash of its decoded content.
    last_report_at BIGINT,
    body_hash BYTEA,
    report_hash BYTEA,
    -- The number of the current snapshot; 0 before the first.
    snapshot BIGINT NOT NULL,
    -- Rows that ended before this time were removed; NULL: none were.
    horizon_at BIGINT,
    UNIQUE (organization, name)
);

-- A snapshot is valid from its receipt to its last confirmation.
CREATE TABLE snapshots (
    environment UUID NOT NULL REFERENCES environments (id),
    snapshot BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    report_hash BYTEA NOT NULL,
    confirmed_at BIGINT,
    superseded_at BIGINT,
    PRIMARY KEY (environment, snapshot)
);

-- Silences of an environment, in which the running artifacts are unknown.
CREATE TABLE gaps (
    environment UUID NOT NULL REFERENCES environments (id),
    from_at BIGINT NOT NULL,
    to_at BIGINT NOT NULL,
    PRIMARY KEY (environment, from_at)
);

-- An artifact that runs from the first to the last snapshot, both included; the last is NULL while it runs.
CREATE TABLE artifact_runs (
    environment UUID NOT NULL REFERENCES environments (id),
    fingerprint BYTEA NOT NULL,
    first_snapshot BIGINT NOT NULL,
    last_snapshot BIGINT,
    organization TEXT NOT NULL,
    -- Image name in the latest report.
    name TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (environment, fingerprint, first_snapshot)
);

CREATE INDEX artifact_runs_open ON artifact_runs (environment) WHERE ended_at IS NULL;
CREATE INDEX artifact_runs_live ON artifact_runs (organization, fingerprint) WHERE ended_at IS NULL;
CREATE INDEX artifact_runs_ended ON artifact_runs (environment, ended_at) WHERE ended_at IS NOT NULL;

-- Digests and owners of pods, deduplicated for each organization.
CREATE TABLE workloads (
    organization TEXT NOT NULL,
    hash BYTEA NOT NULL,
    digests TEXT NOT NULL,
    owners TEXT NOT NULL,
    PRIMARY KEY (organization, hash)
);

-- A pod that runs one workload from one report to another.
CREATE TABLE pod_runs (
    id UUID NOT NULL PRIMARY KEY,
    environment UUID NOT NULL REFERENCES environments (id),
    namespace TEXT NOT NULL,
    pod TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    workload BYTEA NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT
);

CREATE UNIQUE INDEX pod_runs_open ON pod_runs (environment, namespace, pod, created_at) WHERE ended_at IS NULL;
CREATE INDEX pod_runs_ended ON pod_runs (environment, ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE repositories (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    -- Empty if unknown.
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT,
    external_id TEXT,
    description TEXT,
    created_at BIGINT NOT NULL,
    UNIQUE (organization, name, provider)
);

CREATE TABLE trails (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_modified_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    -- From the latest attestation that has a commit.
    git_commit_info TEXT,
    UNIQUE (organization, flow, name),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE INDEX trails_newest ON trails (organization, created_at DESC, id DESC);
CREATE INDEX trails_newest_of_flow ON trails (organization, flow, created_at DESC, id DESC);

CREATE TABLE attachments (
    organization TEXT NOT NULL REFERENCES organizations (name),
    sha256 BYTEA NOT NULL,
    content BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, sha256)
);

CREATE TABLE attestations (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    trail UUID NOT NULL REFERENCES trails (id),
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- Targeted artifacts of the template, as a sorted JSON list.
    targets TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    schema_version BIGINT NOT NULL,
    is_compliant BOOLEAN NOT NULL,
    results TEXT NOT NULL,
    description TEXT NOT NULL,
    origin_url TEXT NOT NULL,
    user_data TEXT NOT NULL,
    annotations TEXT NOT NULL,
    external_urls TEXT NOT NULL,
    git_commit_info TEXT,
    repository UUID REFERENCES repositories (id),
    attachment BYTEA,
    attachment_name TEXT,
    -- The previous and the next attestation with the same trail, name and targets.
    overrides UUID,
    superseded_by UUID,
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE INDEX attestations_newest ON attestations (organization, flow, created_at DESC, id DESC);
CREATE INDEX attestations_of_trail ON attestations (trail);
CREATE INDEX attestations_latest ON attestations (trail) WHERE superseded_by IS NULL;

-- Artifacts of each attestation.
CREATE TABLE attested_artifacts (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    attestation UUID NOT NULL REFERENCES attestations (id),
    trail UUID NOT NULL REFERENCES trails (id),
    PRIMARY KEY (organization, fingerprint, attestation)
);

-- Origin of an artifact, from its latest attestation that names one.
CREATE TABLE provenance (
    organization TEXT NOT NULL,
    repository UUID NOT NULL REFERENCES repositories (id),
    fingerprint BYTEA NOT NULL,
    commit_sha TEXT,
    commit_url TEXT,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (organization, repository, fingerprint)
);
