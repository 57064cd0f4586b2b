-- Issuers of tokens that the bootstrap file declares. A changed issuer gets a new row.
CREATE TABLE issuers (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    -- The claim `iss` of its tokens.
    url TEXT NOT NULL,
    -- Name, audience, keys and rules, as JSON.
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT
);

CREATE INDEX issuers_open ON issuers (organization, url) WHERE closed_at IS NULL;
