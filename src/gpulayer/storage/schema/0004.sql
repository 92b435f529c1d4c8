-- What a running task left in its checkpoint folder, as artifacts: the newest few of each job.
CREATE TABLE checkpoints (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    at REAL NOT NULL,
    boot REAL NOT NULL,
    told_at REAL NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    files TEXT NOT NULL
);
CREATE INDEX checkpoints_of_job ON checkpoints (job_id, "index", seq);

-- Only the attempt that lives may add one; fence 0: taken over from another job.
CREATE TRIGGER checkpoints_of_the_living BEFORE INSERT ON checkpoints
WHEN NEW.fence <> 0 AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.fence = NEW.fence
    AND tasks.job_id = NEW.job_id AND (tasks.state = 'assigned' OR tasks.state = 'running'))
BEGIN SELECT RAISE(ABORT, 'a checkpoint of an attempt that is over'); END;
