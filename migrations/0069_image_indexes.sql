-- Image indexes and the manifests that they list: an index and a manifest are digests of one image.

CREATE TABLE image_indexes (
    id UUID NOT NULL PRIMARY KEY,
    organization TEXT NOT NULL REFERENCES organizations (name),
    fingerprint BYTEA NOT NULL,
    -- The flow and the token of the request that recorded it.
    flow TEXT NOT NULL,
    reported_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (organization, fingerprint)
);

-- flow and created_at are those of the index. is_recent: one of the newest indexes of the manifest in the flow, so that the
-- evidence of the index counts.
CREATE TABLE image_manifests (
    organization TEXT NOT NULL,
    image_index BYTEA NOT NULL,
    fingerprint BYTEA NOT NULL,
    platform TEXT NOT NULL,
    flow TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    is_recent BOOLEAN NOT NULL,
    PRIMARY KEY (organization, image_index, fingerprint),
    FOREIGN KEY (organization, image_index) REFERENCES image_indexes (organization, fingerprint)
);

CREATE INDEX image_manifests_newest ON image_manifests (organization, fingerprint, flow, created_at DESC);
CREATE INDEX image_manifests_recent ON image_manifests (organization, fingerprint) WHERE is_recent;
