-- Who looks at pages in a browser: each session was made of a token, and is gone with it. It is no evidence, so what
-- is over is removed.
CREATE TABLE sessions (
    -- Of the secret that the browser keeps in a cookie.
    sha256 BYTEA NOT NULL PRIMARY KEY,
    -- The hash of the token.
    token BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL
);

CREATE INDEX sessions_used ON sessions (last_used_at);
