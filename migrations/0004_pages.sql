-- What pages ask for by itself.

CREATE INDEX attested_artifacts_of ON attested_artifacts (attestation);
