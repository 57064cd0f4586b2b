-- Policies of an environment at a point in time.
CREATE INDEX policies_of_environment ON policies (organization, environment, created_at);
CREATE INDEX policy_attachments_of_environment ON policy_attachments (organization, environment, attached_at);
