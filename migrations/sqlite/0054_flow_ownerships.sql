-- Databases make identifiers in different ways.
INSERT INTO flow_ownerships (id, organization, flow, content, created_at)
SELECT randomblob(16), organization, name, ownership, created_at FROM flows WHERE ownership IS NOT NULL;
