-- Tokens that tokens of role admin create at run time, which a reload of the bootstrap file does not close.

-- Name of the token that created it; NULL: the bootstrap file declares it.
ALTER TABLE tokens ADD COLUMN created_by TEXT;
-- Time of the last use, up to an hour late; NULL: never used.
ALTER TABLE tokens ADD COLUMN last_used_at BIGINT;
