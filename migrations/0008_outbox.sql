-- Order and merging of waiting notifications. Rows of a previous version have the defaults: they are not sent first, and
-- not merged.

-- 0 for the compliance of an environment, which is sent first.
ALTER TABLE notifications ADD COLUMN priority BIGINT NOT NULL DEFAULT 1;
-- Number of earlier events that were merged into this notification.
ALTER TABLE notifications ADD COLUMN merged_events BIGINT NOT NULL DEFAULT 0;
-- Environment and kind of the event.
ALTER TABLE notifications ADD COLUMN environment UUID;
ALTER TABLE notifications ADD COLUMN kind TEXT;
