-- Array jobs (docs/adr/0118-arrays.md): one row beside the job, and one for each 1,024 elements of
-- which one was given out. Counts are kept by every transaction that moves an element.
ALTER TABLE jobs ADD COLUMN elements INTEGER;

CREATE TABLE arrays (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    waiting INTEGER NOT NULL CHECK (waiting >= 0),
    live INTEGER NOT NULL CHECK (live >= 0),
    succeeded INTEGER NOT NULL CHECK (succeeded >= 0),
    failed INTEGER NOT NULL CHECK (failed >= 0),
    timed_out INTEGER NOT NULL CHECK (timed_out >= 0),
    cancelled INTEGER NOT NULL CHECK (cancelled >= 0),
    returned INTEGER NOT NULL CHECK (returned >= 0 AND returned <= waiting),
    next INTEGER NOT NULL,
    told INTEGER NOT NULL,
    max_parallel INTEGER CHECK (live <= max_parallel),
    max_failures INTEGER
) WITHOUT ROWID;
CREATE INDEX arrays_open ON arrays (job_id) WHERE waiting + live > 0;

CREATE TRIGGER arrays_add_up BEFORE UPDATE ON arrays
WHEN NEW.waiting + NEW.live + NEW.succeeded + NEW.failed + NEW.timed_out + NEW.cancelled
    <> OLD.waiting + OLD.live + OLD.succeeded + OLD.failed + OLD.timed_out + OLD.cancelled
    OR NEW.next < OLD.next
BEGIN SELECT RAISE(ABORT, 'the elements of an array do not add up'); END;

CREATE TABLE array_chunks (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    chunk INTEGER NOT NULL CHECK (chunk >= 0),
    states TEXT NOT NULL CHECK (length(states) >= 1 AND length(states) <= 1024),
    again TEXT NOT NULL,
    due REAL,
    PRIMARY KEY (job_id, chunk)
) WITHOUT ROWID;
