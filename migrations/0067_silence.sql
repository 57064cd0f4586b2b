-- Silence of declared environments, which notifications tell.

-- Last report before a silence that was recorded, or the creation of an environment without reports; NULL: not silent.
ALTER TABLE environments ADD COLUMN silent_since BIGINT;

CREATE INDEX environments_declared ON environments (organization, name) WHERE is_declared;
