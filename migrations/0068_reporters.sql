-- The reporters of environments.

-- A token or identity that reports an environment from a cluster. The latest 20 of each environment are kept.
CREATE TABLE reporters (
    environment UUID NOT NULL REFERENCES environments (id),
    name TEXT NOT NULL,
    -- UID of the cluster's namespace kube-system; empty if the agent does not send it.
    cluster TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    first_at BIGINT NOT NULL,
    -- Last report. Later heartbeats of the last reporter are in the row of the environment.
    last_at BIGINT NOT NULL,
    pods BIGINT NOT NULL,
    PRIMARY KEY (environment, name, cluster)
);
