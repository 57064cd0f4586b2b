-- The attestations before the trigger. A replica of the previous version may attest meanwhile.
INSERT INTO latest_attestations (organization, fingerprint, flow, name, attestation, created_at, is_compliant)
SELECT organization, fingerprint, flow, name, id, created_at, is_compliant
FROM (SELECT x.organization, x.fingerprint, a.flow, a.name, a.id, a.created_at, a.is_compliant,
             ROW_NUMBER() OVER (PARTITION BY x.organization, x.fingerprint, a.flow, a.name
                                ORDER BY a.created_at DESC, a.id DESC) AS place
      FROM attested_artifacts x JOIN attestations a ON a.id = x.attestation) AS attested
WHERE place = 1
ON CONFLICT (organization, fingerprint, flow, name) DO UPDATE
SET attestation = excluded.attestation, created_at = excluded.created_at, is_compliant = excluded.is_compliant
WHERE (excluded.created_at, excluded.attestation) > (latest_attestations.created_at, latest_attestations.attestation);
