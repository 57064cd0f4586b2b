-- Flows, trails, environments, artifacts and allow-list entries that operations create.

-- Whether the bootstrap file lists the flow: operations cannot change it.
ALTER TABLE flows ADD COLUMN is_declared BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE flows ADD COLUMN description TEXT;
-- Hash of the token that created it; NULL: the bootstrap file or a previous version did.
ALTER TABLE flows ADD COLUMN created_by_token BYTEA;
-- Only the bootstrap file could set these.
UPDATE flows SET is_declared = TRUE
WHERE ownership IS NOT NULL
   OR EXISTS (SELECT 1 FROM flow_templates t
              WHERE t.organization = flows.organization AND t.flow = flows.name AND t.closed_at IS NULL)
   OR EXISTS (SELECT 1 FROM flow_tags t
              WHERE t.organization = flows.organization AND t.flow = flows.name AND t.closed_at IS NULL);

ALTER TABLE environments ADD COLUMN description TEXT;

-- As for flows; the fields as begin trail sent them.
ALTER TABLE trails ADD COLUMN created_by_token BYTEA;
ALTER TABLE trails ADD COLUMN description TEXT;
ALTER TABLE trails ADD COLUMN origin_url TEXT;
ALTER TABLE trails ADD COLUMN user_data TEXT;
ALTER TABLE trails ADD COLUMN external_urls TEXT;
ALTER TABLE trails ADD COLUMN repository UUID REFERENCES repositories (id);
-- The template that it was begun with, which it keeps; NULL: the current one of its flow.
ALTER TABLE trails ADD COLUMN template UUID REFERENCES flow_templates (id);

-- Limit what a token creates.
CREATE INDEX flows_of_token ON flows (organization, created_by_token, created_at) WHERE created_by_token IS NOT NULL;
CREATE INDEX trails_of_token ON trails (organization, created_by_token, created_at) WHERE created_by_token IS NOT NULL;

-- Whether the bootstrap file lists the entry: operations cannot change it.
ALTER TABLE allowances ADD COLUMN is_declared BOOLEAN NOT NULL DEFAULT TRUE;

-- Artifacts that pipelines report.
CREATE TABLE reported_artifacts (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    -- NULL: reported without a trail, by older clients.
    trail UUID REFERENCES trails (id),
    fingerprint BYTEA NOT NULL,
    -- Name of the file or the image, and name in the template of the trail.
    name TEXT NOT NULL,
    template_name TEXT,
    created_at BIGINT NOT NULL,
    reported_by TEXT NOT NULL,
    -- The report as JSON.
    content TEXT NOT NULL,
    FOREIGN KEY (organization, flow) REFERENCES flows (organization, name)
);

-- The report that linked the artifact to an attestation by name, which was recorded before it; NULL: the attestation did.
ALTER TABLE attested_artifacts ADD COLUMN report UUID REFERENCES reported_artifacts (id);

CREATE INDEX reported_artifacts_of_trail ON reported_artifacts (trail, created_at) WHERE trail IS NOT NULL;
CREATE INDEX reported_artifacts_by_fingerprint ON reported_artifacts (organization, fingerprint, created_at);
