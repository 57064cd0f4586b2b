-- The report of an artifact names an origin without an attestation.
ALTER TABLE claims ALTER COLUMN attestation DROP NOT NULL;
