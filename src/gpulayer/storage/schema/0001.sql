-- The first schema. Column names are the field names of gpulayer.contracts.records.
-- The law of contracts.states is repeated here, so that no bug above can break it; a test compares.
-- Checks are chains of OR: SQLite builds a table for each IN of more than two, at every write (5 us).

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Every legal move. A state never moves to itself.
CREATE TABLE job_moves (before TEXT, after TEXT, PRIMARY KEY (before, after)) WITHOUT ROWID;
INSERT INTO job_moves VALUES
    ('queued', 'provisioning'), ('queued', 'scheduled'), ('queued', 'failed'),
    ('queued', 'cancelled'),
    ('provisioning', 'queued'), ('provisioning', 'scheduled'), ('provisioning', 'failed'),
    ('provisioning', 'cancelled'),
    ('scheduled', 'queued'), ('scheduled', 'running'), ('scheduled', 'succeeded'),
    ('scheduled', 'failed'), ('scheduled', 'cancelled'), ('scheduled', 'timed_out'),
    ('running', 'queued'), ('running', 'succeeded'), ('running', 'failed'),
    ('running', 'cancelled'), ('running', 'timed_out');

CREATE TABLE task_moves (before TEXT, after TEXT, PRIMARY KEY (before, after)) WITHOUT ROWID;
INSERT INTO task_moves VALUES
    ('assigned', 'running'), ('assigned', 'succeeded'), ('assigned', 'failed'),
    ('assigned', 'cancelled'), ('assigned', 'timed_out'), ('assigned', 'lost'),
    ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'),
    ('running', 'timed_out'), ('running', 'lost');

CREATE TABLE shapes (
    id TEXT PRIMARY KEY,
    body TEXT NOT NULL
) WITHOUT ROWID;

-- What the scheduler answered for a shape; equal answers in a row are one row with a count.
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    shape_id TEXT NOT NULL,
    outcome TEXT NOT NULL
        CHECK (outcome = 'placed' OR outcome = 'waiting' OR outcome = 'unschedulable'),
    body TEXT NOT NULL,
    inputs TEXT,
    count INTEGER NOT NULL DEFAULT 1,
    first_at REAL NOT NULL,
    last_at REAL NOT NULL,
    first_job_id TEXT NOT NULL,
    last_job_id TEXT NOT NULL
);
CREATE INDEX decisions_of_shape ON decisions (shape_id, outcome, id);

-- AUTOINCREMENT: a seq is never given twice, not even after the newest job was deleted.
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    shape_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state = 'queued' OR state = 'provisioning'
        OR state = 'scheduled' OR state = 'running' OR state = 'succeeded' OR state = 'failed'
        OR state = 'cancelled' OR state = 'timed_out'),
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    lost INTEGER NOT NULL CHECK (lost >= 0),
    max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),
    retry_on TEXT NOT NULL,
    fail_if_unschedulable INTEGER NOT NULL
        CHECK (fail_if_unschedulable = 0 OR fail_if_unschedulable = 1),
    exit_code INTEGER,
    submitted_at REAL NOT NULL,
    not_before REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    cancel_requested_at REAL,
    cancel_mode TEXT CHECK (cancel_mode = 'int' OR cancel_mode = 'term' OR cancel_mode = 'kill'),
    cancel_grace REAL NOT NULL,
    cancel_reason TEXT,
    retry_of TEXT,
    envelope_id TEXT,
    origin TEXT NOT NULL,
    owner TEXT NOT NULL,
    idempotency_key TEXT UNIQUE,
    request_digest TEXT,
    version INTEGER NOT NULL,
    session TEXT,
    parent TEXT,
    decision_id INTEGER REFERENCES decisions (id) ON DELETE SET NULL,
    CHECK ((finished_at IS NULL) = (state = 'queued' OR state = 'provisioning'
        OR state = 'scheduled' OR state = 'running'))
);
CREATE INDEX jobs_by_parent ON jobs (parent) WHERE finished_at IS NULL AND parent IS NOT NULL;
CREATE INDEX jobs_by_name ON jobs (name, seq);
CREATE INDEX jobs_by_decision ON jobs (decision_id) WHERE decision_id IS NOT NULL;
CREATE INDEX jobs_queue ON jobs (shape_id, priority DESC, seq) WHERE state = 'queued';
CREATE INDEX jobs_unfinished ON jobs (seq) WHERE finished_at IS NULL;
CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TRIGGER jobs_move BEFORE UPDATE OF state ON jobs
WHEN OLD.state <> NEW.state AND NOT EXISTS
    (SELECT 1 FROM job_moves WHERE before = OLD.state AND after = NEW.state)
BEGIN SELECT RAISE(ABORT, 'illegal job move'); END;

CREATE TRIGGER jobs_unfinished_stay BEFORE DELETE ON jobs
WHEN OLD.finished_at IS NULL
BEGIN SELECT RAISE(ABORT, 'an unfinished job cannot be deleted'); END;

-- How many jobs are in each state: kept by every transaction that moves one, never counted.
CREATE TABLE job_counts (
    state TEXT PRIMARY KEY,
    n INTEGER NOT NULL CHECK (n >= 0)
) WITHOUT ROWID;
INSERT INTO job_counts VALUES
    ('queued', 0), ('provisioning', 0), ('scheduled', 0), ('running', 0),
    ('succeeded', 0), ('failed', 0), ('cancelled', 0), ('timed_out', 0);

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    target TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    capabilities TEXT NOT NULL,
    labels TEXT NOT NULL,
    draining INTEGER NOT NULL CHECK (draining = 0 OR draining = 1),
    registered_at REAL NOT NULL,
    seen_at REAL NOT NULL,
    nonce TEXT NOT NULL,
    plane TEXT NOT NULL,
    held TEXT NOT NULL,
    turn INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX workers_by_turn ON workers (turn);
CREATE TRIGGER workers_grow BEFORE UPDATE OF incarnation ON workers
WHEN NEW.incarnation < OLD.incarnation
BEGIN SELECT RAISE(ABORT, 'an incarnation never goes back'); END;

CREATE TABLE tasks (
    fence INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    worker_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state = 'assigned' OR state = 'running'
        OR state = 'succeeded' OR state = 'failed' OR state = 'cancelled' OR state = 'timed_out' OR state = 'lost'),
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    phase TEXT NOT NULL,
    cpu_cores REAL NOT NULL,
    memory_gb REAL NOT NULL,
    gpus TEXT NOT NULL,
    assigned_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    disconnected_since REAL,
    exit_code INTEGER,
    log_size INTEGER NOT NULL,
    log_complete INTEGER NOT NULL CHECK (log_complete = 0 OR log_complete = 1),
    rendezvous TEXT,
    ending TEXT,
    CHECK ((finished_at IS NULL) = (state = 'assigned' OR state = 'running'))
);
CREATE INDEX tasks_of_job ON tasks (job_id, "index", attempt, rank);
CREATE UNIQUE INDEX tasks_one_live ON tasks (job_id, "index", rank)
    WHERE state IN ('assigned', 'running');
CREATE INDEX tasks_live_on_worker ON tasks (worker_id) WHERE state IN ('assigned', 'running');

CREATE TRIGGER tasks_move BEFORE UPDATE OF state ON tasks
WHEN OLD.state <> NEW.state AND NOT EXISTS
    (SELECT 1 FROM task_moves WHERE before = OLD.state AND after = NEW.state)
BEGIN SELECT RAISE(ABORT, 'illegal task move'); END;

CREATE TABLE events (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    task_id TEXT,
    data TEXT NOT NULL,
    PRIMARY KEY (job_id, seq)
) WITHOUT ROWID;

-- Their seq is the order in which jobs ended: whoever waits for many asks for what came after one.
CREATE TABLE results (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state = 'succeeded' OR state = 'failed'
        OR state = 'cancelled' OR state = 'timed_out'),
    exit_code INTEGER,
    value TEXT,
    error TEXT,
    "left" TEXT,
    finished_at REAL NOT NULL,
    UNIQUE (job_id, "index")
);
CREATE TRIGGER results_stay BEFORE UPDATE ON results
BEGIN SELECT RAISE(ABORT, 'a result is written once'); END;
CREATE TRIGGER results_go_with_their_job BEFORE DELETE ON results
WHEN EXISTS (SELECT 1 FROM jobs WHERE id = OLD.job_id)
BEGIN SELECT RAISE(ABORT, 'a result is written once'); END;

-- `path` is bytes: a file name need not be UTF-8.
CREATE TABLE outputs (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    "index" INTEGER NOT NULL,
    path BLOB NOT NULL,
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    size INTEGER NOT NULL CHECK (size >= 0),
    executable INTEGER NOT NULL CHECK (executable = 0 OR executable = 1),
    PRIMARY KEY (job_id, "index", path)
) WITHOUT ROWID;

-- Several planes on one database. Each transaction that writes begins by adding one to the one row
-- of `turn`, and so holds it until it ends: one writer at a time, whichever plane it is. `epoch` is
-- that of the plane which schedules; a new one is one higher. (SQLite has one plane: unused there.)
CREATE TABLE turn (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    n INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    scheduler TEXT
);
INSERT INTO turn VALUES (0, 0, 0, NULL);
CREATE TRIGGER turn_goes_on BEFORE UPDATE ON turn
WHEN NEW.n < OLD.n OR NEW.epoch < OLD.epoch
BEGIN SELECT RAISE(ABORT, 'turn and epoch never go back'); END;

-- `n` of each plane's newest commit: tells one whose connection broke whether it was kept, and the
-- others whether that plane is at work.
CREATE TABLE planes (
    id TEXT PRIMARY KEY,
    home TEXT NOT NULL,
    n INTEGER NOT NULL
) WITHOUT ROWID;

-- Secrets are not in here: `digest` is the SHA-256 of one.
CREATE TABLE credentials (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL
        CHECK (kind = 'client' OR kind = 'join' OR kind = 'worker' OR kind = 'instance'),
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    role TEXT NOT NULL CHECK (role = 'viewer' OR role = 'submitter' OR role = 'operator'
        OR role = 'admin' OR role = 'worker'),
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at REAL NOT NULL,
    issued_by TEXT NOT NULL,
    replaces TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    labels TEXT NOT NULL,
    uses_left INTEGER CHECK (uses_left IS NULL OR uses_left >= 0),
    expires_at REAL,
    used_at REAL,
    revoked_at REAL
) WITHOUT ROWID;
CREATE INDEX credentials_of_worker ON credentials (worker_id) WHERE worker_id <> '';
CREATE TRIGGER credentials_stay_revoked BEFORE UPDATE OF revoked_at ON credentials
WHEN OLD.revoked_at IS NOT NULL
    AND (NEW.revoked_at IS NULL OR NEW.revoked_at <> OLD.revoked_at)
BEGIN SELECT RAISE(ABORT, 'a revoked credential stays revoked'); END;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    credential_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    note TEXT NOT NULL
);
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'what was noted stays noted'); END;
