-- Policies, approvals, the allow-list, verdicts, events and notifications. Columns added to earlier tables are
-- optional, so that a replica of the previous version keeps working while this one starts.

-- Number of pods; NULL if not counted.
ALTER TABLE artifact_runs ADD COLUMN pods BIGINT;
-- Compliance by the latest evidence, and the time of the evaluation; NULL: unknown.
ALTER TABLE environments ADD COLUMN compliance TEXT;
ALTER TABLE environments ADD COLUMN evaluated_at BIGINT;
-- Next expiry of an allow-list entry that the compliance depends on.
ALTER TABLE environments ADD COLUMN compliant_until BIGINT;
-- Compliance of the environment after the snapshot was received.
ALTER TABLE snapshots ADD COLUMN compliance TEXT;

CREATE INDEX provenance_of_commit ON provenance (organization, commit_sha);

-- Policies of environments.
CREATE TABLE policies (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    environment TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE UNIQUE INDEX policies_open ON policies (organization, environment) WHERE closed_at IS NULL;

-- The allow-list: artifacts that may run regardless of the policy.
CREATE TABLE allowances (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    environment TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    reason TEXT NOT NULL,
    author TEXT NOT NULL,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE UNIQUE INDEX allowances_open ON allowances (organization, environment, fingerprint) WHERE closed_at IS NULL;

-- One row for each state of an approval; the open row is the current state. An approval without an open row
-- was removed from the bootstrap file.
CREATE TABLE approvals (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    number BIGINT NOT NULL,
    target BYTEA NOT NULL,
    -- Environment of the approval; NULL: all.
    environment TEXT,
    state TEXT NOT NULL,
    -- Other declared fields.
    content TEXT NOT NULL,
    -- First appearance of the number, and of this state.
    created_at BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    closed_at BIGINT,
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE UNIQUE INDEX approvals_open ON approvals (organization, flow, number) WHERE closed_at IS NULL;
CREATE INDEX approvals_of_number ON approvals (organization, flow, number, modified_at);
CREATE INDEX approvals_of_artifact ON approvals (organization, target);

-- Verdict on an artifact in an environment for a period. Without a row, the verdict is unknown.
CREATE TABLE verdicts (
    environment UUID NOT NULL REFERENCES environments (id),
    fingerprint BYTEA NOT NULL,
    from_at BIGINT NOT NULL,
    until_at BIGINT,
    compliance TEXT NOT NULL,
    is_allowed BOOLEAN NOT NULL,
    reasons TEXT NOT NULL,
    PRIMARY KEY (environment, fingerprint, from_at)
);

CREATE UNIQUE INDEX verdicts_open ON verdicts (environment, fingerprint) WHERE until_at IS NULL;
CREATE INDEX verdicts_ended ON verdicts (environment, until_at) WHERE until_at IS NOT NULL;

-- Actions, which send notifications: one row for each version of an action, as for approvals.
CREATE TABLE actions (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    number BIGINT NOT NULL,
    name TEXT NOT NULL,
    environments TEXT NOT NULL,
    triggers TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE UNIQUE INDEX actions_open ON actions (organization, number) WHERE closed_at IS NULL;

-- Targets of actions. Addresses that are credentials, and secrets, exist only in the memory of the replicas
-- that are configured with them.
CREATE TABLE targets (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    action BIGINT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- Public part of the address, as JSON.
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    last_success_at BIGINT,
    last_failure_at BIGINT
);

CREATE UNIQUE INDEX targets_open ON targets (organization, action, name) WHERE closed_at IS NULL;

CREATE TABLE events (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    environment UUID NOT NULL REFERENCES environments (id),
    kind TEXT NOT NULL,
    occurred_at BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE INDEX events_of_environment ON events (environment, occurred_at);

-- The outbox: events to be delivered to targets.
CREATE TABLE notifications (
    id UUID NOT NULL PRIMARY KEY,
    event UUID NOT NULL REFERENCES events (id),
    target UUID NOT NULL REFERENCES targets (id),
    created_at BIGINT NOT NULL,
    -- Time of the next attempt; during an attempt, the end of its lease.
    due_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    sent_at BIGINT,
    -- Time at which delivery was abandoned.
    dropped_at BIGINT,
    -- Error of the last attempt.
    last_error TEXT
);

CREATE INDEX notifications_due ON notifications (target, due_at) WHERE sent_at IS NULL AND dropped_at IS NULL;
CREATE INDEX notifications_of_event ON notifications (event);

-- Changes by the bootstrap file and by tokens of role admin.
CREATE TABLE audit (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    change TEXT NOT NULL
);
