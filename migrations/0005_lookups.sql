-- What was read through to be found: the targets of an action, sessions that began long ago, the trails of a commit, whose
-- hash is what is written first of it.

CREATE INDEX targets_of_action ON targets (organization, action);
CREATE INDEX sessions_begun ON sessions (created_at);
CREATE INDEX trails_of_commit ON trails (organization, substr(git_commit_info, 10, 40));
