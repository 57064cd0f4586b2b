-- Which claim counts as the origin of an artifact, and who determines the URL of a repository.

-- 0: the flow owns nothing. 1: it owns repositories or images. 2: the artifact ran under one of its images. The first of the
-- highest priority counts.
ALTER TABLE claims ADD COLUMN priority BIGINT NOT NULL DEFAULT 0;
ALTER TABLE provenance ADD COLUMN priority BIGINT NOT NULL DEFAULT 0;
UPDATE provenance SET priority = 1 WHERE is_owner;
UPDATE claims SET priority = 1 WHERE EXISTS (
    SELECT 1 FROM provenance p
    WHERE p.is_owner AND p.organization = claims.organization AND p.fingerprint = claims.fingerprint
      AND p.flow = claims.flow AND p.repository = claims.repository);

-- Whether a flow that owns the repository named its URL.
ALTER TABLE repositories ADD COLUMN is_url_of_owner BOOLEAN NOT NULL DEFAULT FALSE;
