-- Approvals by tokens, which a reload of the bootstrap file does not change, and tokens of role approve.

-- Name of the token that made the approval; NULL: the bootstrap file declares it.
ALTER TABLE approvals ADD COLUMN created_by TEXT;
-- Name of the token that withdrew the approval when it was closed, and its comment.
ALTER TABLE approvals ADD COLUMN withdrawn_by TEXT;
ALTER TABLE approvals ADD COLUMN withdrawal_comment TEXT;

CREATE INDEX approvals_of_file ON approvals (organization) WHERE closed_at IS NULL AND created_by IS NULL;
-- Approvals that a previous version of the program closed, since the bootstrap file does not declare them.
CREATE INDEX approvals_to_reopen ON approvals (organization)
    WHERE closed_at IS NOT NULL AND created_by IS NOT NULL AND withdrawn_by IS NULL;
-- The latest approval of a flow for an environment.
CREATE INDEX approvals_of_environment ON approvals (organization, flow, COALESCE(environment, ''), number)
    WHERE closed_at IS NULL AND state = 'APPROVED';

-- Environments and flows of a token of role approve, as JSON; its column role has 'read'. NULL: another role.
ALTER TABLE tokens ADD COLUMN approves TEXT;
