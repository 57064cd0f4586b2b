-- Order and merging of waiting notifications. Rows of a previous version have the defaults: they are not sent first, and
-- not merged.

-- 0 for the compliance of an environment, which is sent first.
ALTER TABLE notifications ADD COLUMN priority BIGINT NOT NULL DEFAULT 1;
-- Number of earlier events that were merged into this notification.
ALTER TABLE notifications ADD COLUMN merged_events BIGINT NOT NULL DEFAULT 0;
-- Environment and kind of the event.
ALTER TABLE notifications ADD COLUMN environment UUID;
ALTER TABLE notifications ADD COLUMN kind TEXT;

-- Pending notifications. Queries with COALESCE cannot use notifications_due, which both databases prefer without
-- statistics: they would read, and sort, all pending notifications of a target.
CREATE INDEX notifications_in_order ON notifications (target, priority, due_at, id)
    WHERE COALESCE(sent_at, dropped_at) IS NULL;
CREATE INDEX notifications_unattempted ON notifications (target, environment)
    WHERE COALESCE(sent_at, dropped_at) IS NULL AND attempts = 0;
