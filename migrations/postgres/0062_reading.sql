-- The artifacts of each flow, from their first attestation or report on. Triggers maintain it, so that every version of
-- the program does. The same on SQLite.
CREATE TABLE flow_artifacts (
    organization TEXT NOT NULL,
    flow TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, flow, fingerprint)
);

CREATE FUNCTION record_attested_artifacts_of_flow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO flow_artifacts (organization, flow, fingerprint, created_at)
    SELECT x.organization, a.flow, x.fingerprint, a.created_at
    FROM inserted x JOIN attestations a ON a.id = x.attestation
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER attested_artifacts_of_flow AFTER INSERT ON attested_artifacts
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION record_attested_artifacts_of_flow();

CREATE FUNCTION record_reported_artifacts_of_flow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO flow_artifacts (organization, flow, fingerprint, created_at)
    SELECT organization, flow, fingerprint, created_at FROM inserted
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER reported_artifacts_of_flow AFTER INSERT ON reported_artifacts
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION record_reported_artifacts_of_flow();

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
