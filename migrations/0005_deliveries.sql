-- What was last sent to a target is found without reading all that ever was: identifiers are in the order in which
-- notifications came.
CREATE INDEX notifications_of_target ON notifications (target, id);
