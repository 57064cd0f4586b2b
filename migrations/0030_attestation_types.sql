-- Attestations of other types than JUnit, and fields that clients send and no column has.

-- Whether the type has a verdict; if not, is_compliant is false.
ALTER TABLE attestations ADD COLUMN has_verdict BOOLEAN NOT NULL DEFAULT TRUE;
-- JSON object of the fields without a column, and the repository as it was sent; NULL: recorded by a previous version.
ALTER TABLE attestations ADD COLUMN other_fields TEXT;
ALTER TABLE attestations ADD COLUMN repo_info TEXT;

-- A repository is identified by provider and external_id, or else by provider and name. `provider` is the provider, or
-- PROVIDER:ID for a second repository with the same name and provider.
CREATE INDEX repositories_by_id ON repositories (organization, external_id) WHERE external_id IS NOT NULL;

-- Later names of repositories, by which they are found unless another repository has the name.
CREATE TABLE repository_names (
    organization TEXT NOT NULL,
    name TEXT NOT NULL,
    repository UUID NOT NULL REFERENCES repositories (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization, name, repository)
);
