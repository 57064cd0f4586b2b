-- The person of a session that an identity provider opened, as JSON: issuer, subject, name, the claims that rules name, and
-- when the identity ends. NULL: a token opened the session. For a person, `token` is a hash of organization, issuer and subject.
ALTER TABLE sessions ADD COLUMN person TEXT;
