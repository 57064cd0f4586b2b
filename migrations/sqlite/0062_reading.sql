-- The artifacts of each flow, from their first attestation or report on. Triggers maintain it, so that every version of
-- the program does. The same on PostgreSQL.
CREATE TABLE flow_artifacts (
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, flow, fingerprint)
);

CREATE TRIGGER attested_artifacts_of_flow AFTER INSERT ON attested_artifacts BEGIN
    INSERT INTO flow_artifacts (organization, flow, fingerprint, created_at)
    SELECT NEW.organization, flow, NEW.fingerprint, created_at FROM attestations WHERE id = NEW.attestation
    ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER reported_artifacts_of_flow AFTER INSERT ON reported_artifacts BEGIN
    INSERT INTO flow_artifacts (organization, flow, fingerprint, created_at)
    VALUES (NEW.organization, NEW.flow, NEW.fingerprint, NEW.created_at) ON CONFLICT DO NOTHING;
END;

INSERT INTO flow_artifacts (organization, flow, fingerprint, created_at)
SELECT organization, flow, fingerprint, MIN(created_at) FROM (
    SELECT x.organization, a.flow, x.fingerprint, a.created_at
    FROM attested_artifacts x JOIN attestations a ON a.id = x.attestation
    UNION ALL SELECT organization, flow, fingerprint, created_at FROM reported_artifacts) AS known
WHERE TRUE GROUP BY organization, flow, fingerprint
ON CONFLICT DO NOTHING;

CREATE INDEX flow_artifacts_newest ON flow_artifacts (organization, flow, created_at DESC, fingerprint);
CREATE INDEX provenance_newest ON provenance (organization, repository, recorded_at DESC, fingerprint);

-- As flow_tags.
CREATE TABLE environment_tags (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL,
    environment TEXT NOT NULL,
    tag TEXT NOT NULL,
    tag_value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    FOREIGN KEY (organization, environment) REFERENCES environments (organization, name)
);

CREATE UNIQUE INDEX environment_tags_open ON environment_tags (organization, environment, tag) WHERE closed_at IS NULL;
