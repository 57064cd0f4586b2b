-- The schema of SQLite and PostgreSQL. migrations/postgres has the settings of tables that only PostgreSQL knows.
--
-- Times and durations are microseconds, times since the epoch of Unix. Digests, fingerprints and hashes are the 32 bytes of
-- SHA-256. Identifiers are UUIDs of version 7, in order of creation. JSON is text, since PostgreSQL's JSONB would change it.
--
-- The primary key of a tenant's table begins with the organization, unique constraints and foreign keys contain it, and each
-- statement names it. So the rows of a tenant can be partitioned or placed together. Global are organizations, bootstraps,
-- tokens, sessions, issuers and leases.
--
-- Evidence is not updated or deleted: a row is closed (`closed_at`), superseded, ended, or past the retention. What is
-- updated is derived from evidence, or a setting: repositories, trails, the settings of environments and organizations,
-- the name of a running artifact, its origin, and its latest attestations.


-- Organizations and access

CREATE TABLE organizations (
    name TEXT NOT NULL PRIMARY KEY,
    -- The retention removed attached files and audit entries from before these times; NULL: none.
    attachments_removed_before BIGINT,
    audit_removed_before BIGINT,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

-- Retention of the history of environments, of attached files and of the audit log; NULL: forever. A changed retention gets
-- a new row, with which the log explains what was removed. No open row: everything is kept.
CREATE TABLE retentions (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    history BIGINT,
    attachments BIGINT,
    audit BIGINT,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id)
);

CREATE UNIQUE INDEX retentions_open ON retentions (organization) WHERE closed_at IS NULL;

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
    -- JSON: environments and flows; empty lists for roles without; "*" means all.
    scope TEXT NOT NULL,
    -- Whether reports of the token create environments. Tokens of role admin always may.
    can_create BOOLEAN NOT NULL,
    expires_at BIGINT,
    -- Name of the token that created it; NULL: the bootstrap file declares it.
    created_by TEXT,
    -- Time of the last use, up to an hour late; NULL: never used.
    last_used_at BIGINT,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE UNIQUE INDEX tokens_open ON tokens (sha256) WHERE closed_at IS NULL;
CREATE INDEX tokens_of_organization ON tokens (organization) WHERE closed_at IS NULL;

-- Browser sessions. Not evidence: ended sessions are deleted.
CREATE TABLE sessions (
    -- Hash of the secret in the browser's cookie.
    sha256 BYTEA NOT NULL PRIMARY KEY,
    -- Hash of the token that opened it, with which it ends; for a person, of organization, issuer and subject.
    token BYTEA NOT NULL,
    -- JSON: issuer, subject and name of the person, the claims that rules name, and when the identity ends. NULL: a token
    -- opened the session.
    person TEXT,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL
);

CREATE INDEX sessions_of_token ON sessions (token, last_used_at);
CREATE INDEX sessions_used ON sessions (last_used_at);
CREATE INDEX sessions_begun ON sessions (created_at);

-- Issuers of tokens that the bootstrap file declares. A changed issuer gets a new row.
CREATE TABLE issuers (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    -- The claim `iss` of its tokens.
    url TEXT NOT NULL,
    -- JSON: name, audience, keys and rules.
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE INDEX issuers_open ON issuers (organization, url) WHERE closed_at IS NULL;

-- Signers of evidence that the bootstrap file declares. A changed entry gets a new row.
CREATE TABLE trusted_signers (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    -- JSON: name, root, keys and identities.
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id)
);

-- Which replica does a task of the maintenance.
CREATE TABLE leases (
    task TEXT NOT NULL PRIMARY KEY,
    replica UUID NOT NULL,
    leased_until BIGINT NOT NULL
);

-- Changes by the bootstrap file and by tokens.
CREATE TABLE audit (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    change TEXT NOT NULL,
    PRIMARY KEY (organization, id)
);

CREATE INDEX audit_of_organization ON audit (organization, at);


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


-- Environments and what runs there

CREATE TABLE environments (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    -- Hash of the token that created it; NULL: the bootstrap file did.
    created_by_token BYTEA,
    -- Since then it is not listed, and rejects reports; NULL: it is not archived.
    archived_at BIGINT,

    -- Settings of the bootstrap file. is_declared: the file lists the environment.
    is_declared BOOLEAN NOT NULL DEFAULT FALSE,
    -- A longer silence is a gap; NULL: the default.
    silent_after BIGINT,
    -- Minimum number of running artifacts, and the percentage by which it may fall; NULL: none.
    min_artifacts BIGINT,
    max_drop_percent BIGINT,
    -- Whether reports that exclude pods are rejected.
    forbids_exclusion BOOLEAN NOT NULL DEFAULT FALSE,

    -- The latest time of its records: each report, evaluation and silence is later, whatever the clock. 0: none yet.
    changed_at BIGINT NOT NULL DEFAULT 0,

    -- The last report: time of receipt, name of its token, hash of its bytes, hash of its decoded content, number of pods that
    -- its agent excluded.
    last_report_at BIGINT,
    reported_by TEXT,
    body_hash BYTEA,
    report_hash BYTEA,
    excluded_pods BIGINT NOT NULL DEFAULT 0,
    -- The number of the current snapshot; 0 before the first.
    snapshot BIGINT NOT NULL,
    -- Last report before a silence that was recorded, or the creation of an environment without reports; NULL: not silent.
    silent_since BIGINT,

    -- The last evaluation: its time, the compliance, and the running artifacts by verdict; NULL: no report yet.
    evaluated_at BIGINT,
    compliance TEXT,
    compliant_artifacts BIGINT NOT NULL DEFAULT 0,
    unknown_artifacts BIGINT NOT NULL DEFAULT 0,
    non_compliant_artifacts BIGINT NOT NULL DEFAULT 0,
    -- Next expiry of an allow-list entry that the compliance depends on, and of any entry of a running artifact: then the
    -- environment is evaluated again.
    compliant_until BIGINT,
    evaluate_at BIGINT,
    -- Number of artifacts that the next number is compared with; NULL: not evaluated since the percentage was changed.
    reference_artifacts BIGINT,
    -- Why the environment runs too few artifacts, as JSON; NULL: it does not.
    absence TEXT,

    -- Rows that ended before this time were removed; NULL: none were.
    horizon_at BIGINT,
    PRIMARY KEY (organization, id),
    UNIQUE (organization, name)
);

CREATE INDEX environments_evaluate_at ON environments (organization, evaluate_at) WHERE evaluate_at IS NOT NULL;
CREATE INDEX environments_declared ON environments (organization, name) WHERE is_declared;
-- Limits the environments that a token creates. Partial, so that no query by organization alone uses it.
CREATE INDEX environments_of_token ON environments (organization, created_by_token, created_at)
    WHERE created_by_token IS NOT NULL;

CREATE TABLE environment_tags (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    environment TEXT NOT NULL,
    tag TEXT NOT NULL,
    tag_value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, name)
);

CREATE UNIQUE INDEX environment_tags_open ON environment_tags (organization, environment, tag) WHERE closed_at IS NULL;

-- A token or identity that reports an environment from a cluster. The latest 20 of each environment are kept.
CREATE TABLE reporters (
    organization TEXT NOT NULL,
    environment UUID NOT NULL,
    name TEXT NOT NULL,
    -- UID of the cluster's namespace kube-system; empty if the agent does not send it.
    cluster TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    first_at BIGINT NOT NULL,
    -- Last report. Later heartbeats of the last reporter are in the row of the environment.
    last_at BIGINT NOT NULL,
    pods BIGINT NOT NULL,
    PRIMARY KEY (organization, environment, name, cluster),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);

-- A snapshot is valid from its receipt to its last confirmation.
CREATE TABLE snapshots (
    organization TEXT NOT NULL,
    environment UUID NOT NULL,
    snapshot BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    report_hash BYTEA NOT NULL,
    -- Compliance of the environment after the snapshot was received.
    compliance TEXT,
    confirmed_at BIGINT,
    superseded_at BIGINT,
    PRIMARY KEY (organization, environment, snapshot),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);

-- The snapshot at a given time.
CREATE INDEX snapshots_received ON snapshots (organization, environment, received_at);

-- Tokens that reported a snapshot without changing its artifacts, except for the first and for uninterrupted reports of
-- one token.
CREATE TABLE confirmations (
    organization TEXT NOT NULL,
    environment UUID NOT NULL,
    snapshot BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    first_at BIGINT NOT NULL,
    -- Start of the latest uninterrupted reports.
    last_at BIGINT NOT NULL,
    PRIMARY KEY (organization, environment, snapshot, reported_by),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);

-- Silences of an environment, in which the running artifacts are unknown.
CREATE TABLE gaps (
    organization TEXT NOT NULL,
    environment UUID NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT NOT NULL,
    PRIMARY KEY (organization, environment, from_at),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);

-- An artifact that runs from the first to the last snapshot, both included; the last is NULL while it runs.
CREATE TABLE artifact_runs (
    organization TEXT NOT NULL,
    environment UUID NOT NULL,
    fingerprint BYTEA NOT NULL,
    first_snapshot BIGINT NOT NULL,
    last_snapshot BIGINT,
    -- Image name, number of pods, and namespaces as a sorted JSON list, of the latest report.
    name TEXT NOT NULL,
    pods BIGINT NOT NULL,
    namespaces TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (organization, environment, fingerprint, first_snapshot),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);

-- Without statistics, SQLite prefers the index that matches more columns of a query, so each index has all columns of its
-- query.
-- Running artifacts of an environment, and a single running artifact there or anywhere.
CREATE INDEX artifact_runs_now ON artifact_runs (organization, environment, ended_at, fingerprint) WHERE ended_at IS NULL;
CREATE INDEX artifact_runs_live ON artifact_runs (organization, ended_at, fingerprint) WHERE ended_at IS NULL;
CREATE INDEX artifact_runs_started ON artifact_runs (organization, environment, first_snapshot);
CREATE INDEX artifact_runs_ended ON artifact_runs (organization, environment, ended_at) WHERE ended_at IS NOT NULL;
-- Ended artifacts of an organization: the last ones, and by full name. Image names are unbounded, and indexed up to the size
-- that PostgreSQL accepts.
CREATE INDEX artifact_runs_latest ON artifact_runs (organization, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX artifact_runs_named ON artifact_runs (organization, substr(name, 1, 255), ended_at)
    WHERE ended_at IS NOT NULL;

-- Ended artifacts of an organization in the order of digests. The expression keeps the indexes by time out of its query, which
-- would be sorted for each page.
CREATE INDEX artifact_runs_by_digest ON artifact_runs (organization, fingerprint, ended_at, (ended_at + 0))
    WHERE ended_at IS NOT NULL;

-- Digests and owners of pods, as JSON, deduplicated for each organization. The retention removes those without a pod.
CREATE TABLE workloads (
    organization TEXT NOT NULL,
    hash BYTEA NOT NULL,
    digests TEXT NOT NULL,
    owners TEXT NOT NULL,
    PRIMARY KEY (organization, hash)
);

-- A pod that runs one workload from one report to another. Its environment has no foreign key, which would be checked for
-- each of thousands of pods of a report: the report locks the environment, and environments are never removed.
CREATE TABLE pod_runs (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    environment UUID NOT NULL,
    namespace TEXT NOT NULL,
    pod TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    workload BYTEA NOT NULL,
    -- Name of the token of the first report with the pod.
    reported_by TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, workload) REFERENCES workloads (organization, hash)
);

CREATE UNIQUE INDEX pod_runs_open ON pod_runs (organization, environment, namespace, pod, created_at)
    WHERE ended_at IS NULL;
CREATE INDEX pod_runs_ended ON pod_runs (organization, environment, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX pod_runs_named ON pod_runs (organization, environment, pod, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX pod_runs_of_workload ON pod_runs (organization, workload);
-- The pods of one report, read to verify the log. The expression, which comes first, keeps other queries from using this.
CREATE INDEX pod_runs_of_report ON pod_runs ((started_at + 0), organization, environment);

-- Verdict on an artifact in an environment for a period. Without a row, the verdict is unknown.
CREATE TABLE verdicts (
    organization TEXT NOT NULL,
    environment UUID NOT NULL,
    fingerprint BYTEA NOT NULL,
    from_at BIGINT NOT NULL,
    until_at BIGINT,
    compliance TEXT NOT NULL,
    is_allowed BOOLEAN NOT NULL,
    -- JSON list: type, rule, flow and attestation of each.
    reasons TEXT NOT NULL,
    PRIMARY KEY (organization, environment, fingerprint, from_at),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);

CREATE UNIQUE INDEX verdicts_open ON verdicts (organization, environment, fingerprint) WHERE until_at IS NULL;
CREATE INDEX verdicts_ended ON verdicts (organization, environment, until_at) WHERE until_at IS NOT NULL;
-- As pod_runs_of_report.
CREATE INDEX verdicts_of_change ON verdicts ((from_at + 0), organization, environment);

-- Environments to be evaluated by any replica.
CREATE TABLE evaluation_queue (
    organization TEXT NOT NULL,
    environment UUID NOT NULL,
    -- JSON.
    cause TEXT NOT NULL,
    queued_at BIGINT NOT NULL,
    -- The artifacts to be evaluated, as a JSON list of fingerprints; NULL: all artifacts of the environment.
    artifacts TEXT,
    -- Of an evaluation of all artifacts that takes several transactions: the last evaluated artifact (NULL: not begun), the
    -- artifact with which it ends, after beginning again at the first one (NULL: it ends with the last one), and the first
    -- expiry of the evaluated ones, as in environments.
    position BYTEA,
    end_position BYTEA,
    compliant_until BIGINT,
    evaluate_at BIGINT,
    -- Attempts that failed, and the time of the next one.
    attempts BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (organization, environment),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);


-- Flows, trails and attestations

CREATE TABLE flows (
    organization TEXT NOT NULL REFERENCES organizations (name),
    name TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    -- Whether the bootstrap file lists the flow: operations cannot change it.
    is_declared BOOLEAN NOT NULL DEFAULT FALSE,
    -- Hash of the token that created it; NULL: the bootstrap file did.
    created_by_token BYTEA,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, name)
);

-- Limits the flows that a token creates; likewise for trails.
CREATE INDEX flows_of_token ON flows (organization, created_by_token, created_at) WHERE created_by_token IS NOT NULL;

CREATE TABLE flow_tags (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    flow TEXT NOT NULL,
    tag TEXT NOT NULL,
    tag_value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE UNIQUE INDEX flow_tags_open ON flow_tags (organization, flow, tag) WHERE closed_at IS NULL;

CREATE TABLE flow_templates (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    flow TEXT NOT NULL,
    version BIGINT NOT NULL,
    -- JSON, and its hash.
    content TEXT NOT NULL,
    sha256 BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id),
    UNIQUE (organization, flow, version),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE UNIQUE INDEX flow_templates_open ON flow_templates (organization, flow) WHERE closed_at IS NULL;
CREATE INDEX flow_templates_by_content ON flow_templates (organization, flow, sha256, version);

-- The repositories and images that flows own, as JSON; the open row applies.
CREATE TABLE flow_ownerships (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    flow TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE UNIQUE INDEX flow_ownerships_open ON flow_ownerships (organization, flow) WHERE closed_at IS NULL;

-- A repository is identified by provider and external_id, or else by provider and name.
CREATE TABLE repositories (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    -- The provider, or PROVIDER:ID for a second repository with the same name and provider; empty if unknown.
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT,
    -- Whether a flow that owns the repository named its URL.
    is_url_of_owner BOOLEAN NOT NULL,
    external_id TEXT,
    description TEXT,
    -- Flow and token of the first attestation that named the repository.
    flow TEXT NOT NULL,
    reported_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Attestations must not name a closed repository.
    closed_at BIGINT,
    PRIMARY KEY (organization, id),
    UNIQUE (organization, name, provider)
);

-- Some providers ignore the case of names.
CREATE INDEX repositories_by_name ON repositories (organization, lower(name));
CREATE INDEX repositories_by_id ON repositories (organization, external_id) WHERE external_id IS NOT NULL;

-- Later names of repositories, by which they are found unless another repository has the name.
CREATE TABLE repository_names (
    organization TEXT NOT NULL,
    name TEXT NOT NULL,
    repository UUID NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, name, repository),
    FOREIGN KEY (organization, repository) REFERENCES repositories (organization, id)
);

CREATE TABLE trails (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    flow TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_modified_at BIGINT NOT NULL,
    -- Name and hash of the token that created it.
    created_by TEXT NOT NULL,
    created_by_token BYTEA,
    -- JSON, from the latest attestation that has a commit. The hash of the commit is its first field.
    git_commit_info TEXT,
    -- As begin trail sent them; the last two are JSON.
    description TEXT,
    origin_url TEXT,
    user_data TEXT,
    external_urls TEXT,
    repository UUID,
    -- The template that it was begun with, which it keeps; NULL: the current one of its flow.
    template UUID,
    PRIMARY KEY (organization, id),
    UNIQUE (organization, flow, name),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name),
    FOREIGN KEY (organization, repository) REFERENCES repositories (organization, id),
    FOREIGN KEY (organization, template) REFERENCES flow_templates (organization, id)
);

CREATE INDEX trails_newest ON trails (organization, created_at DESC, id DESC);
CREATE INDEX trails_newest_of_flow ON trails (organization, flow, created_at DESC, id DESC);
CREATE INDEX trails_of_commit ON trails (organization, substr(git_commit_info, 10, 40));
CREATE INDEX trails_of_token ON trails (organization, created_by_token, created_at) WHERE created_by_token IS NOT NULL;

CREATE TABLE attachments (
    organization TEXT NOT NULL REFERENCES organizations (name),
    sha256 BYTEA NOT NULL,
    content BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, sha256)
);

-- With all columns of its query: on SQLite, reading a row reads the pages of its file.
CREATE INDEX attachments_created ON attachments (organization, created_at, sha256);

-- Attached files that are bills of materials, and their packages.
CREATE TABLE bills (
    organization TEXT NOT NULL,
    -- The first half of the hash.
    id UUID NOT NULL,
    -- Of the attached file.
    sha256 BYTEA NOT NULL,
    format TEXT NOT NULL,
    PRIMARY KEY (organization, id),
    UNIQUE (organization, sha256),
    FOREIGN KEY (organization, sha256) REFERENCES attachments (organization, sha256)
);

CREATE TABLE packages (
    organization TEXT NOT NULL REFERENCES organizations (name),
    -- Hashes of the name that searches find, and of all fields: packages of one name are adjacent.
    id UUID NOT NULL,
    -- The type and the other parts of the package URL; empty if there is none.
    purl_type TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    purl TEXT NOT NULL,
    PRIMARY KEY (organization, id)
);

-- A search reads those of one name in each running bill, however many versions there are. Without foreign keys, which would be
-- checked for each of thousands of packages: both rows are inserted and removed with it.
CREATE TABLE bill_packages (
    organization TEXT NOT NULL,
    bill UUID NOT NULL,
    package UUID NOT NULL,
    PRIMARY KEY (organization, bill, package)
);

CREATE INDEX bill_packages_of ON bill_packages (organization, package);

-- Attached files that were removed after their retention. A file that is attested again is also in `attachments`.
CREATE TABLE removed_attachments (
    organization TEXT NOT NULL REFERENCES organizations (name),
    sha256 BYTEA NOT NULL,
    -- In bytes.
    size BIGINT NOT NULL,
    removed_at BIGINT NOT NULL,
    PRIMARY KEY (organization, sha256)
);

CREATE TABLE attestations (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    flow TEXT NOT NULL,
    trail UUID NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- Targeted artifacts of the template, as a sorted JSON list.
    targets TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    schema_version BIGINT NOT NULL,
    -- Whether the type has a verdict; if not, is_compliant is false.
    has_verdict BOOLEAN NOT NULL,
    is_compliant BOOLEAN NOT NULL,
    -- JSON list of results of JUnit.
    results TEXT NOT NULL,
    description TEXT NOT NULL,
    origin_url TEXT NOT NULL,
    -- JSON; other_fields are those that clients send and no column has.
    user_data TEXT NOT NULL,
    annotations TEXT NOT NULL,
    external_urls TEXT NOT NULL,
    other_fields TEXT NOT NULL,
    -- JSON: the commit, and the repository as it was sent.
    git_commit_info TEXT,
    repo_info TEXT,
    -- JSON: who signed it, and what that says of builder and source.
    signed_evidence TEXT,
    repository UUID,
    attachment BYTEA,
    attachment_name TEXT,
    -- The previous and the next attestation with the same trail, name and targets.
    overrides UUID,
    superseded_by UUID,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name),
    FOREIGN KEY (organization, trail) REFERENCES trails (organization, id),
    FOREIGN KEY (organization, repository) REFERENCES repositories (organization, id)
);

CREATE INDEX attestations_newest ON attestations (organization, flow, created_at DESC, id DESC);
CREATE INDEX attestations_of_trail ON attestations (organization, trail);
CREATE INDEX attestations_latest ON attestations (organization, trail) WHERE superseded_by IS NULL;
CREATE INDEX attestations_of_attachment ON attestations (organization, attachment, created_at)
    WHERE attachment IS NOT NULL;

-- Attestations and reports of artifacts with a key, by which a repetition is recognized. Not evidence: deleted after a day.
CREATE TABLE idempotency_keys (
    organization TEXT NOT NULL REFERENCES organizations (name),
    -- Hashes of the caller, of the key, and of the request.
    caller BYTEA NOT NULL,
    idempotency_key BYTEA NOT NULL,
    request BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, caller, idempotency_key)
);

CREATE INDEX idempotency_keys_created ON idempotency_keys (organization, created_at);

-- Artifacts that pipelines report.
CREATE TABLE reported_artifacts (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    flow TEXT NOT NULL,
    -- NULL: reported without a trail, by older clients.
    trail UUID,
    fingerprint BYTEA NOT NULL,
    -- Name of the file or the image, and name in the template of the trail.
    name TEXT NOT NULL,
    template_name TEXT,
    created_at BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    -- The report as JSON.
    content TEXT NOT NULL,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name),
    FOREIGN KEY (organization, trail) REFERENCES trails (organization, id)
);

CREATE INDEX reported_artifacts_of_trail ON reported_artifacts (organization, trail, created_at) WHERE trail IS NOT NULL;
-- The names of an attested artifact in the template of the trail.
CREATE INDEX reported_artifacts_in_trail ON reported_artifacts (organization, trail, fingerprint) WHERE trail IS NOT NULL;
CREATE INDEX reported_artifacts_by_fingerprint ON reported_artifacts (organization, fingerprint, created_at);

-- Artifacts of each attestation.
CREATE TABLE attested_artifacts (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    attestation UUID NOT NULL,
    trail UUID NOT NULL,
    -- The report that linked the artifact to an attestation by name, which was recorded before it; NULL: the attestation did.
    report UUID,
    PRIMARY KEY (organization, fingerprint, attestation),
    FOREIGN KEY (organization, attestation) REFERENCES attestations (organization, id),
    FOREIGN KEY (organization, trail) REFERENCES trails (organization, id),
    FOREIGN KEY (organization, report) REFERENCES reported_artifacts (organization, id)
);

CREATE INDEX attested_artifacts_of ON attested_artifacts (organization, attestation, fingerprint);

-- The latest attestation of an artifact by flow and name: the input of an evaluation.
CREATE TABLE latest_attestations (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    flow TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Columns of this attestation.
    attestation UUID NOT NULL,
    created_at BIGINT NOT NULL,
    is_compliant BOOLEAN NOT NULL,
    kind TEXT NOT NULL,
    trail UUID NOT NULL,
    -- The first half of the hash of its attachment, as in bills: if it is one, also if it is read later.
    attachment UUID,
    PRIMARY KEY (organization, fingerprint, flow, name),
    FOREIGN KEY (organization, attestation) REFERENCES attestations (organization, id)
);

CREATE INDEX latest_attestations_of_trail ON latest_attestations (organization, trail);

-- With all columns of its query: a search reads the bills of all that runs.
CREATE INDEX latest_attestations_attached ON latest_attestations (organization, fingerprint, attachment)
    WHERE attachment IS NOT NULL;

-- The authors of commits that flows name for artifacts: each with the first attestation or report that does.
CREATE TABLE artifact_authors (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    flow TEXT NOT NULL,
    -- Hash of the names.
    author BYTEA NOT NULL,
    -- NULL: the report does.
    attestation UUID,
    -- The report that names the author, or that linked the artifact to the attestation; NULL: the attestation did.
    report UUID,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, fingerprint, flow, author),
    FOREIGN KEY (organization, attestation) REFERENCES attestations (organization, id),
    FOREIGN KEY (organization, report) REFERENCES reported_artifacts (organization, id)
);

-- The artifacts of each flow, from their first attestation or report on.
CREATE TABLE flow_artifacts (
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    -- Time and trail of the latest attestation or report; no trail in a report of older clients.
    modified_at BIGINT NOT NULL,
    trail UUID,
    -- The latest report.
    report UUID,
    PRIMARY KEY (organization, flow, fingerprint),
    FOREIGN KEY (organization, trail) REFERENCES trails (organization, id),
    FOREIGN KEY (organization, report) REFERENCES reported_artifacts (organization, id)
);

CREATE INDEX flow_artifacts_of_artifact ON flow_artifacts (organization, fingerprint, flow, created_at);
CREATE INDEX flow_artifacts_newest ON flow_artifacts (organization, flow, created_at DESC, fingerprint);

-- Image indexes and the manifests that they list: an index and a manifest are digests of one image.
CREATE TABLE image_indexes (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    fingerprint BYTEA NOT NULL,
    -- The flow and the token of the request that recorded it.
    flow TEXT NOT NULL,
    reported_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, id),
    UNIQUE (organization, fingerprint)
);

CREATE TABLE image_manifests (
    organization TEXT NOT NULL,
    image_index BYTEA NOT NULL,
    fingerprint BYTEA NOT NULL,
    platform TEXT NOT NULL,
    -- Those of the index.
    flow TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- One of the newest indexes of the manifest in the flow, so that the evidence of the index counts.
    is_recent BOOLEAN NOT NULL,
    PRIMARY KEY (organization, image_index, fingerprint),
    FOREIGN KEY (organization, image_index) REFERENCES image_indexes (organization, fingerprint)
);

CREATE INDEX image_manifests_newest ON image_manifests (organization, fingerprint, flow, created_at DESC);
CREATE INDEX image_manifests_recent ON image_manifests (organization, fingerprint) WHERE is_recent;


-- Origins of artifacts

-- As flows named them: the first of each flow and repository.
CREATE TABLE claims (
    organization TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    flow TEXT NOT NULL,
    repository UUID NOT NULL,
    -- URL of the repository, if it differs from that of `repositories`.
    url TEXT,
    -- From the first attestation that has a commit.
    commit_sha TEXT,
    commit_url TEXT,
    -- The report of an artifact that added the commit; NULL: an attestation did, or there is none.
    commit_report UUID,
    -- NULL: the report of an artifact named the origin.
    attestation UUID,
    reported_by TEXT NOT NULL,
    recorded_at BIGINT NOT NULL,
    -- 0: the flow owns nothing. 1: it owns repositories or images. 2: the artifact ran under one of its images.
    priority BIGINT NOT NULL,
    PRIMARY KEY (organization, fingerprint, flow, repository),
    FOREIGN KEY (organization, repository) REFERENCES repositories (organization, id),
    FOREIGN KEY (organization, attestation) REFERENCES attestations (organization, id),
    FOREIGN KEY (organization, commit_report) REFERENCES reported_artifacts (organization, id)
);

CREATE INDEX claims_of_repository ON claims (organization, repository, fingerprint);

-- The claim that counts for each artifact: the first of the highest priority.
CREATE TABLE provenance (
    organization TEXT NOT NULL,
    repository UUID NOT NULL,
    fingerprint BYTEA NOT NULL,
    flow TEXT NOT NULL,
    commit_sha TEXT,
    commit_url TEXT,
    reported_by TEXT NOT NULL,
    recorded_at BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    PRIMARY KEY (organization, repository, fingerprint),
    FOREIGN KEY (organization, repository) REFERENCES repositories (organization, id)
);

CREATE INDEX provenance_of_artifact ON provenance (organization, fingerprint);
CREATE INDEX provenance_of_commit ON provenance (organization, commit_sha);
CREATE INDEX provenance_newest ON provenance (organization, repository, recorded_at DESC, fingerprint);


-- Rules

-- Versions of policies; the open row is the current version. A policy without an open row was removed from the
-- bootstrap file; its next version continues the numbers.
CREATE TABLE policy_versions (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
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
    PRIMARY KEY (organization, id),
    UNIQUE (organization, name, version)
);

CREATE UNIQUE INDEX policy_versions_open ON policy_versions (organization, name) WHERE closed_at IS NULL;

-- Policies of environments: the current version applies.
CREATE TABLE policy_attachments (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    environment TEXT NOT NULL,
    policy TEXT NOT NULL,
    -- Whether the bootstrap file declares the attachment: operations cannot remove it.
    is_declared BOOLEAN NOT NULL,
    attached_by TEXT NOT NULL,
    attached_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id)
);

CREATE UNIQUE INDEX policy_attachments_open ON policy_attachments (organization, environment, policy)
    WHERE closed_at IS NULL;
CREATE INDEX policy_attachments_of_policy ON policy_attachments (organization, policy) WHERE closed_at IS NULL;
CREATE INDEX policy_attachments_of_environment ON policy_attachments (organization, environment, attached_at);

-- The allow-list: artifacts that may run regardless of the policies.
CREATE TABLE allowances (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    environment TEXT NOT NULL,
    -- Of an entry with a pattern: the hash of the pattern.
    fingerprint BYTEA NOT NULL,
    -- Names of images, in which * stands for any characters; NULL: the entry is for one artifact.
    pattern TEXT,
    reason TEXT NOT NULL,
    author TEXT NOT NULL,
    expires_at BIGINT,
    -- Whether the bootstrap file lists the entry: operations cannot change it.
    is_declared BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id)
);

CREATE UNIQUE INDEX allowances_open ON allowances (organization, environment, fingerprint) WHERE closed_at IS NULL;

-- One row for each state of an approval; the open row is the current state. An approval without an open row was removed
-- from the bootstrap file, or withdrawn.
CREATE TABLE approvals (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    flow TEXT NOT NULL,
    number BIGINT NOT NULL,
    target BYTEA NOT NULL,
    -- Environment of the approval; NULL: all.
    environment TEXT,
    state TEXT NOT NULL,
    -- JSON of the other fields.
    content TEXT NOT NULL,
    -- Name of the token that made the approval; NULL: the bootstrap file declares it.
    created_by TEXT,
    -- First appearance of the number, and of this state.
    created_at BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    closed_at BIGINT,
    -- Name of the token that withdrew the approval when it was closed, and its comment.
    withdrawn_by TEXT,
    withdrawal_comment TEXT,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE UNIQUE INDEX approvals_open ON approvals (organization, flow, number) WHERE closed_at IS NULL;
CREATE INDEX approvals_of_number ON approvals (organization, flow, number, modified_at);
CREATE INDEX approvals_of_artifact ON approvals (organization, target);
CREATE INDEX approvals_of_file ON approvals (organization) WHERE closed_at IS NULL AND created_by IS NULL;
-- The latest approval of a flow for an environment.
CREATE INDEX approvals_of_environment ON approvals (organization, flow, COALESCE(environment, ''), number)
    WHERE closed_at IS NULL AND state = 'APPROVED';


-- Notifications

-- Actions, which send notifications: one row for each version of an action.
CREATE TABLE actions (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    number BIGINT NOT NULL,
    name TEXT NOT NULL,
    -- JSON lists.
    environments TEXT NOT NULL,
    triggers TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    closed_at BIGINT,
    PRIMARY KEY (organization, id)
);

CREATE UNIQUE INDEX actions_open ON actions (organization, number) WHERE closed_at IS NULL;

-- Targets of actions. Addresses that are credentials, and secrets, exist only in the memory of the replicas that are
-- configured with them.
CREATE TABLE targets (
    organization TEXT NOT NULL REFERENCES organizations (name),
    id UUID NOT NULL,
    action BIGINT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- Public part of the address, as JSON.
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    last_success_at BIGINT,
    last_failure_at BIGINT,
    -- Why the last delivery failed, or which recipients it did not reach; NULL: it succeeded.
    last_error TEXT,
    -- Until then, the target wants no request (Retry-After).
    paused_until BIGINT NOT NULL DEFAULT 0,
    -- Replicas lease targets, so that a target gets one notification at a time from all of them.
    leased_until BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (organization, id)
);

CREATE UNIQUE INDEX targets_open ON targets (organization, action, name) WHERE closed_at IS NULL;
CREATE INDEX targets_of_action ON targets (organization, action);

CREATE TABLE events (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    environment UUID NOT NULL,
    kind TEXT NOT NULL,
    occurred_at BIGINT NOT NULL,
    -- JSON.
    content TEXT NOT NULL,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, id)
);

CREATE INDEX events_of_environment ON events (organization, environment, occurred_at);
CREATE INDEX events_scaled ON events (organization, environment, occurred_at) WHERE kind = 'ON_SCALED_ARTIFACT';

-- The outbox: events to be delivered to targets.
CREATE TABLE notifications (
    organization TEXT NOT NULL,
    id UUID NOT NULL,
    event UUID NOT NULL,
    -- Environment and kind of the event.
    environment UUID NOT NULL,
    kind TEXT NOT NULL,
    target UUID NOT NULL,
    created_at BIGINT NOT NULL,
    -- 0 for the compliance of an environment, which is sent first.
    priority BIGINT NOT NULL,
    -- Number of earlier events that were merged into this notification.
    merged_events BIGINT NOT NULL,
    -- Time of the next attempt; during an attempt, the end of its lease.
    due_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    sent_at BIGINT,
    -- Time at which delivery was abandoned.
    dropped_at BIGINT,
    -- Error of the last attempt, or the recipients that the mail server refused.
    last_error TEXT,
    -- JSON of the recipients of mail that need no further attempt: null, or why the server refused the recipient. NULL: none.
    recipients TEXT,
    PRIMARY KEY (organization, id),
    FOREIGN KEY (organization, event) REFERENCES events (organization, id),
    FOREIGN KEY (organization, target) REFERENCES targets (organization, id)
);

CREATE INDEX notifications_due ON notifications (organization, target, due_at)
    WHERE sent_at IS NULL AND dropped_at IS NULL;
-- Queries with COALESCE cannot use notifications_due, which both databases prefer without statistics: they would read, and
-- sort, all pending notifications of a target.
CREATE INDEX notifications_in_order ON notifications (organization, target, priority, due_at, id)
    WHERE COALESCE(sent_at, dropped_at) IS NULL;
CREATE INDEX notifications_unattempted ON notifications (organization, target, environment)
    WHERE COALESCE(sent_at, dropped_at) IS NULL AND attempts = 0;
CREATE INDEX notifications_of_event ON notifications (organization, event);
CREATE INDEX notifications_of_target ON notifications (organization, target, id);
CREATE INDEX notifications_created ON notifications (organization, created_at);
