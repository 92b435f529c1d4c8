-- Jobs that come after others (docs/adr/0135-after.md). A row goes when what it waits for has ended.
CREATE TABLE awaits (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    on_job TEXT NOT NULL,
    must_succeed INTEGER NOT NULL,
    PRIMARY KEY (job_id, on_job)
);
CREATE INDEX awaits_on ON awaits (on_job);
