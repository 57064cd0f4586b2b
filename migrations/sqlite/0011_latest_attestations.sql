-- Maintains latest_attestations; the same on PostgreSQL.
CREATE TRIGGER attested_artifacts_latest AFTER INSERT ON attested_artifacts BEGIN
    INSERT INTO latest_attestations (organization, fingerprint, flow, name, attestation, created_at, is_compliant)
    SELECT NEW.organization, NEW.fingerprint, flow, name, id, created_at, is_compliant
    FROM attestations WHERE id = NEW.attestation
    ON CONFLICT (organization, fingerprint, flow, name) DO UPDATE
    SET attestation = excluded.attestation, created_at = excluded.created_at, is_compliant = excluded.is_compliant
    WHERE (excluded.created_at, excluded.attestation) > (latest_attestations.created_at, latest_attestations.attestation);
END;
