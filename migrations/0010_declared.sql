-- Declared environments, and the origin of those that reports created.

-- Whether the bootstrap file lists the environment. Rows of the previous version count as undeclared until this version
-- applies the file, at its start.
ALTER TABLE environments ADD COLUMN is_declared BOOLEAN NOT NULL DEFAULT FALSE;
-- Hash of the token whose report created the environment; NULL: the bootstrap file or the previous version created it.
ALTER TABLE environments ADD COLUMN created_by_token BYTEA;

-- Limits the environments that a token creates. Partial, so that no query by organization alone uses it.
CREATE INDEX environments_of_token ON environments (organization, created_by_token, created_at)
    WHERE created_by_token IS NOT NULL;
