"""The short pages of `gpulayer help`, and a sentence for each reason. Text only."""

from __future__ import annotations

PAGES = {
    "exit-codes": """run, wait and logs -f --exit-code end as the workload ended:
  0-123   its own exit code
  124     it reached its time limit
  125     GPUlayer could not run it, or lost it
  126     a step before it failed, or it cannot be executed
  127     the command or function was not found
  128+n   signal n ended it; 130 is Ctrl-C
All other verbs: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 unreachable.
With --json an error is {"error": {"code": SLUG, ...}}, so that 125 is never ambiguous.""",
    "selectors": """A job is named by its id, the beginning of its id, its name (the newest of
that name) or the word last (your newest).""",
    "environment": """GPULAYER_HOME     folder of the local plane's data
GPULAYER_URL      server to use, gl://HOST:PORT/sha256.FINGERPRINT; before what `use` chose
GPULAYER_TOKEN    token for it
GPULAYER_DEBUG    1: show where an error comes from, as --debug does
NO_COLOR          no colours
Inside a job: GPULAYER_JOB_ID, GPULAYER_ATTEMPT, GPULAYER_INPUT_DIR, GPULAYER_OUTPUT_DIR,
GPULAYER_WORKSPACE, GPULAYER_METRICS_FILE (`help metrics`), and GPULAYER_FENCE, by which its
processes are known.""",
    "requirements": """What a job needs installed: -r FILE or -r 'einops>=0.8', requirements=[...],
environment.requirements in a job file, or the PEP 723 header of `python SCRIPT`.
FILE is a requirements file, or a lock: uv.lock or pyproject.toml (with the uv.lock beside it),
pylock.toml, a requirements file with hashes. A lock is used as it is and never solved again; it
goes along with the folder, as environment.file. The project itself, members of its workspace
and packages by path are used from that folder, where they are Python alone.
Refused, with the line: options (-e, -r, --index-url), addresses and paths, for they would let a
job choose where code comes from. That is for the machine that runs it: UV_INDEX_URL,
PIP_INDEX_URL, uv.toml, pip.conf; for a job here, the terminal's variables. A worker that has
GPULAYER_REQUIREMENT_LINES=any in its environment lets options and addresses in a file pass.
They are installed beside the packages of the job's own Python, never into it, once for all
jobs that ask for the same. The time it takes is preparation and no part of the run.""",
    "secrets": """A job names a secret: --secret NAME, NAME=VARIABLE, NAME=@FILE. It finds the value
in the variable NAME, and the log and the results show [redacted:NAME] instead.
A job on this machine has it from its terminal, or from a file that you alone can read.
A job elsewhere has what the owner of its worker allowed, by name:
  gpulayer join --secret HF_TOKEN                      a variable of that terminal
  gpulayer join --secret hf=env:HF_TOKEN               the same under another name
  gpulayer join --secret hf=file:~/.hf                 a file of mode 600
  gpulayer join --secret 'hf=command:pass show hf'     what a command prints, without a shell
  gpulayer join --secret none                          nothing any more
`gpulayer serve` takes the same for the server's own worker. A job says --secret HF_TOKEN=hf.
For jobs here, the same list is secrets.json in the data folder, of mode 600:
  {"hf": "command:pass show hf"}""",
    "images": """A job in a container image: --image NAME, image= in Python, image in a job file.
A tag is pinned to its digest when the job is submitted: its registry is asked, with the login
of `podman login` or `docker login`, else an engine of this machine that has the image. Where
neither knows it, where it can be pulled:
  podman pull NAME:TAG
  podman image inspect --format '{{.Digest}}' NAME:TAG     then --image NAME@sha256:...
It runs where Podman or Docker is; `gpulayer workers --json` says which (containers), and
GPULAYER_ENGINE=docker or podman, set where `join` runs, chooses. The worker pulls it once, with
its own login. A pull may take an hour unless environment.timeout_seconds says otherwise.
It has the folders of the job at their own paths, the machine's network, and the same user.""",
    "roles": """Who may do what on a server; each role has what the one before it has.
  viewer      look at all jobs, logs, files and workers
  submitter   submit jobs, and cancel, retry and go into their own
  operator    act on everybody's jobs; drain, resume and label workers
  admin       invite, create and revoke tokens and workers; gc; go into others' jobs
A worker may speak for itself alone, and fetch what its own tasks name. Whoever is logged in
to the server's own machine as its user needs no token there and may do everything.""",
    "arrays": """One job of many elements: one command or function, over numbers or things.
  --array 0-99:3%8                indices 0, 3 ... 99, at most 8 at one time
  --each-line FILE                a line of FILE each, also an empty one; - is standard input
  gpulayer run CMD ::: a b c      a word each
  --matrix lr=0.1,0.01 seed=1,2   every pair
  gpulayer map MODULE:FUNCTION    a function over any of these, or --over FILE, lines of JSON
{index}, {item} and the names of a matrix are replaced in the command and in --env; {{ is a
brace, and any other {word} stays as it is. An item that the command does not name is its last
word. An element has GPULAYER_ARRAY_INDEX, and GPULAYER_PARAM_NAME for a matrix.
  gpulayer status JOB             counts, and which have failed
  gpulayer logs JOB --index 4     what one of them wrote
  gpulayer get JOB:4/out.txt      a file that it left
  gpulayer result JOB             what functions returned, a line each
  gpulayer retry JOB              an array of those that did not succeed""",
    "interrupts": """Ctrl-C in run: SIGINT to the job, TERM after 10 s, then KILL; a second one
kills at once and waits for the proof; a third leaves. In a terminal that the job
has for itself Ctrl-C is a key like any other; three within 2 s kill.
logs -f, events -f and wait leave on Ctrl-C; the job goes on.
Closing the terminal leaves the job running: gpulayer logs -f JOB.""",
}

REASONS = {
    "submitted": "The job was accepted and waits for its turn.",
    "placed": "A worker has it and prepares it.",
    "started": "Its own code runs.",
    "exited": "It ended by itself; the exit code says how.",
    "killed": "A signal that GPUlayer did not send ended it.",
    "out_of_memory": "The kernel ended it for memory, and the kernel's own count says so.",
    "not_found": "The command, function or interpreter does not exist (exit code 127).",
    "not_executable": "The file exists and cannot be executed (exit code 126).",
    "preparation": "A step before it failed (exit code 126).",
    "secret_missing": "A secret that it names has no value.",
    "envelope_lost": "The terminal's environment, kept for it, was lost before it began.",
    "folder_gone": "Its folder was deleted or replaced before it began.",
    "result_not_json": "The function ended, and what it returned would not come back the same.",
    "exception": "The function raised an exception.",
    "timeout": "It reached its time limit.",
    "user": "Somebody asked for its end.",
    "shutdown": "The embedded plane that it belonged to ended.",
    "worker_lost": "Its worker stopped answering.",
    "supervisor_lost": "The process that watched it was killed.",
    "preempted": "The machine's owner took the machine back.",
    "unschedulable": "No worker could ever run it, and it asked to fail rather than wait.",
    "dependency": "A job that it waits for did not succeed.",
    "crash_limit": "It ended several workers; it is not tried again.",
    "retry": "An attempt ended and another one follows.",
    "retracted": "It was taken back from a worker before it began; no attempt was used.",
    "disk_full": "The disk was full.",
    "report_refused": "It ended, and its end could not be recorded: too much, or malformed.",
    "rendezvous": "The nodes of a distributed job did not find each other in time.",
    "port_taken": "Another process took the port at which the nodes were to meet.",
    "elements_failed": "All elements of the array have ended, and some of them failed.",
    "max_failures": "More elements of the array had failed than it allows.",
    "peer_failed": "It was ended because another rank or node of its job had failed.",
}
