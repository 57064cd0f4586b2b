-- Browser sessions. Each belongs to a token and ends with it. Sessions are not evidence, so ended sessions are deleted.
CREATE TABLE sessions (
    -- Hash of the secret in the browser's cookie.
    sha256 BYTEA NOT NULL PRIMARY KEY,
    -- Hash of the token.
    token BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL
);

CREATE INDEX sessions_used ON sessions (last_used_at);
