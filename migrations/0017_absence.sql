-- Environments that run too few artifacts, and tokens that may create environments.

-- Declared limits: minimum number of running artifacts, and the percentage by which it may fall; NULL: none.
ALTER TABLE environments ADD COLUMN min_artifacts BIGINT;
ALTER TABLE environments ADD COLUMN max_drop_percent BIGINT;
-- Number of artifacts that the next number is compared with; NULL: not evaluated since the percentage was changed.
ALTER TABLE environments ADD COLUMN reference_artifacts BIGINT;
-- Why the environment runs too few artifacts; NULL: it does not.
ALTER TABLE environments ADD COLUMN absence TEXT;

-- Whether reports of the token create environments. Tokens of role admin always may.
ALTER TABLE tokens ADD COLUMN can_create BOOLEAN NOT NULL DEFAULT FALSE;
