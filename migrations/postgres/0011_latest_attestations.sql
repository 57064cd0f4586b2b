-- Maintains latest_attestations; the same on SQLite.
CREATE FUNCTION record_latest_attestations() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO latest_attestations (organization, fingerprint, flow, name, attestation, created_at, is_compliant)
    SELECT DISTINCT ON (x.organization, x.fingerprint, a.flow, a.name)
           x.organization, x.fingerprint, a.flow, a.name, a.id, a.created_at, a.is_compliant
    FROM inserted x JOIN attestations a ON a.id = x.attestation
    ORDER BY x.organization, x.fingerprint, a.flow, a.name, a.created_at DESC, a.id DESC
    ON CONFLICT (organization, fingerprint, flow, name) DO UPDATE
    SET attestation = excluded.attestation, created_at = excluded.created_at, is_compliant = excluded.is_compliant
    WHERE (excluded.created_at, excluded.attestation) > (latest_attestations.created_at, latest_attestations.attestation);
    RETURN NULL;
END
$$;

CREATE TRIGGER attested_artifacts_latest AFTER INSERT ON attested_artifacts
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION record_latest_attestations();
