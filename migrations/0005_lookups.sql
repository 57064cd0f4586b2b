-- Indexes that replace scans: targets of an action, old sessions, and trails of a commit, whose hash is the first field
-- of its JSON.

CREATE INDEX targets_of_action ON targets (organization, action);
CREATE INDEX sessions_begun ON sessions (created_at);
CREATE INDEX trails_of_commit ON trails (organization, substr(git_commit_info, 10, 40));
