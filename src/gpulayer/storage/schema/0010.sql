-- What jobs have reported (docs/adr/0140-metrics.md): a row for each part, joined from time to time.
CREATE TABLE metrics (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    read_to INTEGER NOT NULL CHECK (read_to >= 0),
    points INTEGER NOT NULL CHECK (points >= 0),
    series TEXT NOT NULL
);
CREATE INDEX metrics_of_job ON metrics (job_id, task_id, seq);
