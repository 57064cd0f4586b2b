-- Separate from the changed tables: PostgreSQL blocks writes while it builds an index, and all access to a changed table.

-- Pending notifications. Queries with COALESCE cannot use notifications_due, which both databases prefer without
-- statistics: they would read, and sort, all pending notifications of a target.
CREATE INDEX notifications_in_order ON notifications (target, priority, due_at, id)
    WHERE COALESCE(sent_at, dropped_at) IS NULL;
CREATE INDEX notifications_unattempted ON notifications (target, environment)
    WHERE COALESCE(sent_at, dropped_at) IS NULL AND attempts = 0;
