-- The rows of one report or evaluation, read to verify the log. The expressions, which come first, keep other queries from
-- using these indexes.
CREATE INDEX pod_runs_of_report ON pod_runs ((started_at + 0), environment);
CREATE INDEX verdicts_of_change ON verdicts ((from_at + 0), environment);
