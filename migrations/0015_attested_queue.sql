-- The attested artifacts to be evaluated, as a JSON array of fingerprints; NULL: all artifacts of the environment.
ALTER TABLE evaluation_queue ADD COLUMN artifacts TEXT;
