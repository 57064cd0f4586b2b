-- Type and trail of the attestations before 0026.
UPDATE latest_attestations
SET kind = (SELECT a.kind FROM attestations a WHERE a.id = latest_attestations.attestation),
    trail = (SELECT a.trail FROM attestations a WHERE a.id = latest_attestations.attestation)
WHERE trail IS NULL;

CREATE INDEX latest_attestations_of_trail ON latest_attestations (trail);
