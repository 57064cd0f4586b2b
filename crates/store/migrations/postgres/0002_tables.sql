-- One report or attestation may insert many rows into these tables, and the planner needs their statistics soon after:
-- PostgreSQL's default waits for a tenth of the table.
ALTER TABLE artifact_runs SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE pod_runs SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE verdicts SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE workloads SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE attested_artifacts SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE latest_attestations SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE claims SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE provenance SET (autovacuum_analyze_scale_factor = 0.02);

-- An environment belongs to one organization. Without this, the planner multiplies the selectivities of both, expects a
-- single row of a small organization beside large ones, and joins all its rows with each other.
CREATE STATISTICS artifact_runs_of_environment (dependencies) ON organization, environment FROM artifact_runs;
CREATE STATISTICS pod_runs_of_environment (dependencies) ON organization, environment FROM pod_runs;
CREATE STATISTICS verdicts_of_environment (dependencies) ON organization, environment FROM verdicts;
