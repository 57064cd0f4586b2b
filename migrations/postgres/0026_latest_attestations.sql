-- The function of 0011, with type and trail. On SQLite, other triggers add these.
CREATE OR REPLACE FUNCTION record_latest_attestations() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO latest_attestations
        (organization, fingerprint, flow, name, attestation, created_at, is_compliant, kind, trail)
    SELECT DISTINCT ON (x.organization, x.fingerprint, a.flow, a.name)
           x.organization, x.fingerprint, a.flow, a.name, a.id, a.created_at, a.is_compliant, a.kind, a.trail
    FROM inserted x JOIN attestations a ON a.id = x.attestation
    ORDER BY x.organization, x.fingerprint, a.flow, a.name, a.created_at DESC, a.id DESC
    ON CONFLICT (organization, fingerprint, flow, name) DO UPDATE
    SET attestation = excluded.attestation, created_at = excluded.created_at, is_compliant = excluded.is_compliant,
        kind = excluded.kind, trail = excluded.trail
    WHERE (excluded.created_at, excluded.attestation) > (latest_attestations.created_at, latest_attestations.attestation);
    RETURN NULL;
END
$$;
