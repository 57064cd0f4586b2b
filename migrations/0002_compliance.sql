-- Policies, approvals, the allow-list, verdicts, events, and what is sent of them. Whatever is added to a
-- table of before may be left out, so that a replica of the version before goes on while this one starts.

-- In how many pods it runs; NULL where that was not counted.
ALTER TABLE artifact_runs ADD COLUMN pods BIGINT;
-- How it stands by what was last seen, and when that was decided; NULL: nobody can say.
ALTER TABLE environments ADD COLUMN compliance TEXT;
ALTER TABLE environments ADD COLUMN judged_at BIGINT;
-- When the next allow-list entry ends that this rests on.
ALTER TABLE environments ADD COLUMN compliant_until BIGINT;
-- How the environment stood once the snapshot was there.
ALTER TABLE snapshots ADD COLUMN compliance TEXT;

CREATE INDEX provenance_of_commit ON provenance (organization, commit_sha);

-- What environments require.
CREATE TABLE policies (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    environment TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE UNIQUE INDEX policies_open ON policies (organization, environment) WHERE closed_at IS NULL;

-- What may run whatever is attested of it.
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

-- A row for each state that an approval was in; the open one is the current, and one without any was taken
-- out of the bootstrap file.
CREATE TABLE approvals (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    number BIGINT NOT NULL,
    target BYTEA NOT NULL,
    -- The environment that it is for; NULL: any.
    environment TEXT,
    state TEXT NOT NULL,
    -- All else that was declared.
    content TEXT NOT NULL,
    -- When the number was first there, and this state of it.
    created_at BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    closed_at BIGINT,
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

CREATE UNIQUE INDEX approvals_open ON approvals (organization, flow, number) WHERE closed_at IS NULL;
CREATE INDEX approvals_of_number ON approvals (organization, flow, number, modified_at);
CREATE INDEX approvals_of_artifact ON approvals (organization, target);

-- Whether an artifact may run in an environment, from one time to another. Without a row: nobody can say.
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

-- What is sent where when something happens: a row for each form that an action had, as with approvals.
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

-- Where an action sends to. An address that is a credential, and every secret, is in the memory of the
-- replicas that were given it, and not here.
CREATE TABLE targets (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    action BIGINT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- As much of the address as everybody may see, as JSON.
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

-- The outbox: an event on its way to a target.
CREATE TABLE notifications (
    id UUID NOT NULL PRIMARY KEY,
    event UUID NOT NULL REFERENCES events (id),
    target UUID NOT NULL REFERENCES targets (id),
    created_at BIGINT NOT NULL,
    -- When it is tried next; while it is tried, when another may.
    due_at BIGINT NOT NULL,
    tries BIGINT NOT NULL,
    sent_at BIGINT,
    -- When it was given up.
    dropped_at BIGINT,
    -- What the last try failed at.
    problem TEXT
);

CREATE INDEX notifications_due ON notifications (target, due_at) WHERE sent_at IS NULL AND dropped_at IS NULL;
CREATE INDEX notifications_of_event ON notifications (event);

-- What the bootstrap file and tokens of role admin changed.
CREATE TABLE audit (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    change TEXT NOT NULL
);
