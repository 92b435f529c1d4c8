"""The one table of the errors' stable slugs, and an error from what a plane answered.

The command line, the SDK, HTTP and the docs read the same table. A row is added here and
nowhere else, which makes this longer than others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpulayer.errors import (
    GPULayerError,
    JobCancelledError,
    JobFailedError,
    JobLostError,
    JobTimedOutError,
    NotFoundError,
    PreparationError,
    Problem,
    RefusedError,
    SchedulingError,
    SpecError,
    StorageError,
    UnreachableError,
    UsageError,
)


@dataclass(frozen=True, slots=True)
class Slug:
    """One kind of error: its exit codes, HTTP status, and the text of `gpulayer help SLUG`."""

    name: str
    error: type[GPULayerError]
    exit: int
    """Exit code of the looking and acting verbs: 1 failed, 2 usage, 3 not found, 4 not allowed,
    5 unreachable."""
    run_exit: int
    """Exit code of run, launch, map, wait."""
    status: int
    """HTTP status."""
    explanation: str
    """What it means and what to do, in plain words."""


def error_from_json(body: Mapping[str, Any]) -> GPULayerError:
    """The exception for what a plane answered. Unknown slugs become a plain `GPULayerError`."""
    slug = SLUGS.get(str(body.get("code", "")))
    fields: dict[str, Any] = {
        "where": body.get("where", ""),
        "why": body.get("why", ""),
        "hint": body.get("hint", ()),
        "job_id": body.get("job_id"),
        "details": body.get("details"),
    }
    cls = slug.error if slug is not None else GPULayerError
    if issubclass(cls, SpecError):
        fields["problems"] = [Problem(**p) for p in body.get("problems", ())]
    return cls(str(body.get("code", "unknown")), str(body.get("message", "")), **fields)


# fmt: off
_TABLE: tuple[Slug, ...] = (
    # --- asking ---------------------------------------------------------------------------
    Slug("usage", UsageError, 2, 125, 400, "The command line is not one that GPUlayer knows."),
    Slug("invalid-field", SpecError, 2, 125, 422,
         "A field of the job has a value that it cannot have. The message says which and why."),
    Slug("unknown-field", SpecError, 2, 125, 422,
         "The job has a field that JobSpec does not know. `gpulayer schema` lists all of them."),
    Slug("unsafe-path", SpecError, 2, 125, 422,
         "A path of the job leaves its own folder. Use a relative path such as data/x."),
    Slug("invalid-file", SpecError, 2, 125, 422,
         "A job, a trace or a fleet cannot be read from its file. The message names the line."),
    Slug("not-yet", RefusedError, 2, 125, 501,
         "The field is part of the contract, but this version does not act on it yet. It is "
         "refused so that nothing is silently ignored. Leave it out."),
    Slug("too-large", RefusedError, 2, 125, 413,
         "Something is past its documented limit. The message says which, and how large it is."),
    Slug("value-not-portable", UsageError, 2, 125, 422,
         "An argument or a result would change on its way, or cannot be read where it arrived. The "
         "message says which part and what to do; see docs/how-to/values.md for what travels."),
    Slug("function-not-importable", UsageError, 2, 127, 422,
         "A function must be importable by name where it runs: not a lambda, not inside another "
         "function, in a module that is found from its own folder. The message carries what "
         "Python said; a module that it lacks is installed with "
         "`gpulayer run -- python -m pip install NAME`."),
    Slug("source-refused", RefusedError, 2, 125, 422,
         "The folder cannot be sent as it is: it is a home folder or holds one, or it has names "
         "that are one name on another system, or a file that cannot be read. Send a folder of "
         "its own, or none: `--source none`."),
    Slug("idempotency-conflict", RefusedError, 1, 125, 409,
         "The same idempotency key came with another job. Use a new key for a new job."),
    # --- finding --------------------------------------------------------------------------
    Slug("not-exact", RefusedError, 1, 125, 409,
         "What the job had is no longer there: its code, an input, its Python or packages. The "
         "message names each. `gpulayer retry` without --exact takes what is there now."),
    Slug("job-not-found", NotFoundError, 3, 125, 404,
         "No job has that id, prefix or name. `gpulayer ps -a` lists all jobs."),
    Slug("log-removed", NotFoundError, 3, 125, 404,
         "The log was removed while it was read, to make room: see docs/reference/limits.md."),
    Slug("ambiguous-job", NotFoundError, 3, 125, 409,
         "Several jobs begin with that prefix. Give more characters, or the whole id."),
    Slug("artifact-not-found", NotFoundError, 3, 125, 404,
         "No artifact has that digest, or the job left no such file. `gpulayer status JOB` "
         "lists its outputs."),
    Slug("digest-mismatch", RefusedError, 1, 125, 422,
         "The bytes that arrived are not those that were announced. Send them again."),
    Slug("worker-not-found", NotFoundError, 3, 125, 404,
         "No worker has that id or name. `gpulayer workers` lists them."),
    Slug("environment-not-found", NotFoundError, 3, 125, 404,
         "No worker has an environment whose key begins like this. `gpulayer env ls` lists them."),
    Slug("environment-in-use", RefusedError, 1, 125, 409,
         "A job uses the environment, or it is being made: it is removed once that has ended."),
    Slug("server-not-found", NotFoundError, 3, 125, 404,
         "You have neither logged in to nor joined a server of that name. `gpulayer use` lists "
         "those that you logged in to."),
    Slug("token-not-found", NotFoundError, 3, 125, 404,
         "No token, code or session has that id. `gpulayer token ls` lists them."),
    Slug("file-not-found", NotFoundError, 2, 125, 404,
         "The file does not exist or cannot be read."),
    Slug("topic-not-found", NotFoundError, 3, 125, 404,
         "There is no help page of that name. `gpulayer help` lists them."),
    # --- placing --------------------------------------------------------------------------
    Slug("no-matching-worker", SchedulingError, 1, 125, 409,
         "No worker could ever run the job. `gpulayer why JOB` shows each worker and each check; "
         "`gpulayer submit` waits for a worker to come instead of failing."),
    Slug("no-gpu", SchedulingError, 1, 125, 409,
         "The job asks for a GPU and no worker has a usable one. `gpulayer gpus` and "
         "`gpulayer doctor` say what was found and why it cannot be used."),
    Slug("python-mismatch", SchedulingError, 1, 125, 409,
         "No worker has a Python of the version that the job asks for."),
    # --- preparing ------------------------------------------------------------------------
    Slug("secret-missing", PreparationError, 1, 126, 409,
         "The worker has no value for a secret that the job names. Set it where the worker "
         "runs; for a job on this machine, export it in the terminal."),
    Slug("data-missing", PreparationError, 1, 126, 409,
         "A data set is not at its path any more. `gpulayer join --data NAME=PATH` there says "
         "where it is; for a job on this machine, export GPULAYER_DATA_NAME."),
    Slug("secret-unsafe", PreparationError, 1, 126, 409,
         "A secret's file can be read by others: `chmod 600` it. Or a value is under 6 bytes, "
         "so it cannot be told from other output: pass it as a variable with `--env`."),
    Slug("start-failed", PreparationError, 1, 126, 409,
         "The system refused to start the command. The message carries its own words."),
    Slug("folder-gone", PreparationError, 1, 126, 409,
         "The folder of the job no longer exists or was replaced before the job began. "
         "`gpulayer retry JOB` uses the folder that has its name now."),
    Slug("envelope-lost", JobLostError, 1, 125, 409,
         "The terminal's environment, kept for the job, was lost before the job began (a reboot "
         "or a killed supervisor). Submit the job again."),
    Slug("interpreter-gone", PreparationError, 1, 126, 409,
         "The Python of the job is no longer there. `gpulayer retry JOB` looks for it again."),
    Slug("environment-failed", PreparationError, 1, 126, 409,
         "What the job requires could not be installed, or not in time. See `help requirements`."),
    Slug("image-unresolved", RefusedError, 2, 125, 422,
         "The image is named by a tag, and nobody could say which digest that is now. See "
         "`help images` for how to find it, and write name@sha256:DIGEST."),
    Slug("image-failed", PreparationError, 1, 126, 409,
         "The image could not be made ready on that worker: it is not there, or not for this kind "
         "of machine, or its engine refuses. The message carries the engine's words. See "
         "`help images`."),
    Slug("container-failed", PreparationError, 1, 125, 409,
         "Podman or Docker could not run the container, or ended while it ran. The job's log has "
         "its words."),
    Slug("fetch-failed", PreparationError, 1, 126, 409,
         "An input that the worker fetches from an address is not there, cannot be reached from "
         "that machine, is too large, or is another file than its digest says. For s3:// the "
         "worker needs AWS_ACCESS_KEY_ID and its kin where `gpulayer join` runs, and `pip install "
         "'gpulayer[s3]'`."),
    Slug("bad-bundle", RefusedError, 1, 126, 422,
         "The archive is not a bundle that may be unpacked. Nothing of it was. Send the folder "
         "itself: `gpulayer run --source DIR`, `--input DIR`."),
    # --- running --------------------------------------------------------------------------
    Slug("job-failed", JobFailedError, 1, 1, 409,
         "The job's own code failed. `gpulayer logs JOB` shows what it printed."),
    Slug("command-not-found", JobFailedError, 1, 127, 409,
         "The command is not on the PATH that the job saw. Aliases, shell functions and "
         "builtins are not commands: use `sh -c`."),
    Slug("not-executable", JobFailedError, 1, 126, 409,
         "The file exists but cannot be executed. `chmod +x` it, or name its interpreter."),
    Slug("killed", JobFailedError, 1, 137, 409,
         "A signal ended the job. A cause is named only where there is evidence for it."),
    Slug("timeout", JobTimedOutError, 1, 124, 409,
         "The job reached its time limit and was ended. `--timeout` sets another."),
    Slug("cancelled", JobCancelledError, 1, 130, 409,
         "The job was cancelled. `gpulayer retry JOB` begins it again."),
    Slug("result-not-json", JobFailedError, 1, 1, 409,
         "The function finished, but its result would not come back the same. The message says "
         "which part and what to do; docs/how-to/values.md lists what travels. Write everything "
         "else to a file in GPULAYER_OUTPUT_DIR."),
    Slug("worker-lost", JobLostError, 1, 125, 409,
         "The worker, or the process that watched the job, ended while the job ran. `--retries` "
         "gives such a job out again by itself."),
    Slug("not-joined", JobFailedError, 1, 125, 409,
         "The nodes of a distributed job did not find each other in time, so no rank began. The "
         "message names who was missing. Each node must reach the first one at the address and "
         "port that it names."),
    Slug("port-taken", JobFailedError, 1, 125, 409,
         "Another process has the port at which the nodes of a distributed job were to meet. "
         "Leave `rendezvous.port` out, and a free one is taken at each attempt."),
    Slug("dependency-failed", JobFailedError, 1, 125, 409,
         "It was to come after a job that did not succeed. `--after JOB:any` waits for its end."),
    Slug("job-not-finished", RefusedError, 1, 125, 409,
         "The job has not ended yet. `gpulayer wait JOB` waits for it."),
    Slug("no-result", RefusedError, 1, 125, 409,
         "The job has no return value: it is a command. `gpulayer logs JOB` shows its output."),
    Slug("metric-not-found", NotFoundError, 3, 125, 404,
         "The job has reported no metric of that name. `gpulayer metrics JOB` lists those it has."),
    Slug("wrong-world", RefusedError, 1, 125, 409,
         "The local plane lives in another container, namespace or user than this terminal, so a "
         "job would not see the same files. Set GPULAYER_HOME to a folder of this world."),
    Slug("job-not-running", RefusedError, 1, 125, 409,
         "Only a job that runs now can be entered: this one waits, is being prepared, or has "
         "ended. `gpulayer status JOB` says which."),
    Slug("worker-unreachable", UnreachableError, 5, 125, 504,
         "The way into the job is not there, or was lost: its worker is silent, speaks with "
         "another of several planes, or a process in between ended. The job itself goes on; a "
         "command that was inside it is hung up."),
    Slug("too-many-streams", RefusedError, 1, 125, 409,
         "Commands inside jobs and forwarded connections have a limit, for each job and for the "
         "plane: see docs/reference/limits.md. End some of them."),
    # --- the plane ------------------------------------------------------------------------
    Slug("plane-unreachable", UnreachableError, 5, 125, 503,
         "The local plane does not answer. `gpulayer doctor` lists its processes; "
         "`gpulayer stop` ends them."),
    Slug("server-unreachable", UnreachableError, 5, 125, 503,
         "Nothing answers at the server's address: it is down, or the way to it is cut. Jobs there "
         "go on by themselves, and the next command finds it once it is back. `gpulayer use local` "
         "works without it."),
    Slug("tls-untrusted", RefusedError, 5, 125, 502,
         "The server's certificate is not the one that was pinned when you logged in or joined, or "
         "its TLS is older than 1.2. Nothing was sent. If the server was set up anew, log in or "
         "join again: `gpulayer invite --client` or `gpulayer invite` there prints a line with the "
         "new fingerprint."),
    Slug("not-a-server", RefusedError, 5, 125, 502,
         "Something answers at that address, and it is no GPUlayer server: another program, a "
         "proxy, or a server without TLS. Compare the address with the invite's. "
         "Redirects are not followed."),
    Slug("not-encrypted", RefusedError, 4, 125, 400,
         "Plain http is for this machine alone. Use the gl:// line that "
         "`gpulayer invite` prints: it carries the certificate's fingerprint."),
    Slug("token-unsafe", StorageError, 4, 125, 403,
         "The file with the token is missing, belongs to somebody else, or can be read by others: "
         "`chmod 600` it, or log in again."),
    Slug("plane-start-failed", UnreachableError, 5, 125, 503,
         "The local plane could not start. The message carries its own last words."),
    Slug("plane-held", RefusedError, 1, 125, 409,
         "Another process holds this data folder and cannot hand it over. The message says who."),
    Slug("inside-job", UnreachableError, 5, 125, 503,
         "There is no plane, and a job must not start one: it would end with the job."),
    Slug("version-mismatch", RefusedError, 5, 125, 426,
         "Client and plane do not speak the same version. `gpulayer stop` ends the plane; the next "
         "command starts one of its own version. A worker that is too old is upgraded where it "
         "runs."),
    Slug("database-unreachable", StorageError, 5, 125, 507,
         "The PostgreSQL server does not answer, or refuses the login; the message carries its own "
         "words. What was being written is not kept, unless the message says so. The plane goes on "
         "by itself once the server is back."),
    Slug("folder-not-shared", StorageError, 1, 125, 409,
         "Planes that share a database must share one folder for artifacts and logs, on a file "
         "system that all of them mount: `gpulayer serve --artifacts FOLDER`, the same for each."),
    Slug("bucket-unreachable", StorageError, 5, 125, 507,
         "The object store does not answer, or not in time; the message carries its own words. "
         "Nothing was kept; workers wait until it is back. Look at AWS_ENDPOINT_URL and at the way "
         "there."),
    Slug("bucket-refused", StorageError, 4, 125, 507,
         "The object store does not take the keys, or they may not do this, or obstore is missing "
         "(`pip install 'gpulayer[s3]'`). The plane reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY "
         "and AWS_REGION where it starts; its keys must list, read, write and delete."),
    Slug("bucket-not-found", StorageError, 3, 125, 507,
         "The object store has no bucket of that name. Buckets are not made here: make it with the "
         "store's own tools, or name another with `gpulayer serve --artifacts s3://BUCKET/PREFIX`."),
    Slug("bucket-full", StorageError, 1, 125, 507,
         "The object store takes no more, so nothing was kept. `gpulayer gc` removes what no job "
         "needs."),
    Slug("bucket-taken", StorageError, 1, 125, 409,
         "The place in the bucket belongs to another plane, which would remove our artifacts as we "
         "its. Give each a prefix of its own: `gpulayer serve --artifacts s3://BUCKET/PREFIX`."),
    Slug("newer-database", StorageError, 1, 125, 409,
         "The data folder was written by a newer GPUlayer. Use that version, or another folder."),
    Slug("disk-full", StorageError, 1, 125, 507,
         "The disk is full, so nothing was accepted. `gpulayer gc --dry-run` shows what can go."),
    Slug("disk-error", StorageError, 1, 125, 507,
         "The disk refused to read or write. The system's log says why; `gpulayer doctor` checks "
         "the database."),
    Slug("read-only", StorageError, 1, 125, 507,
         "The data folder cannot be written. Set GPULAYER_HOME to one that can."),
    Slug("folder-unsafe", StorageError, 4, 125, 403,
         "A folder that must be private belongs to somebody else or is open to others."),
    Slug("corrupt", StorageError, 1, 125, 500,
         "The database or an artifact does not hold what it should. Nothing of it was used. "
         "Set GPULAYER_HOME to another folder, or move this one away."),
    Slug("already-there", RefusedError, 1, 125, 409,
         "A file of that name exists, and nothing is overwritten. Give another place: "
         "`gpulayer get JOB other-folder`."),
    Slug("not-allowed", RefusedError, 4, 125, 403,
         "Who calls may not do that. `gpulayer help roles` says what each role may."),
    Slug("unauthorized", RefusedError, 4, 125, 401,
         "The server does not take this token or code: it is unknown, used up, expired or revoked. "
         "An administrator makes another with `gpulayer invite` (for a machine) or "
         "`gpulayer invite --client` (for a person)."),
    Slug("name-taken", RefusedError, 1, 125, 409,
         "Another worker has that name. Join by another name, or take the old one's right away "
         "with `gpulayer worker revoke NAME`."),
    Slug("worker-replaced", RefusedError, 4, 125, 409,
         "Two machines worked by one name and credential: a disk was copied, or a backup restored. "
         "The newer one stays; this one has ended its jobs. To go on with both, join this one by "
         "an invitation of its own: `gpulayer invite`."),
    Slug("port-in-use", RefusedError, 1, 125, 409,
         "Another program listens on that port. Choose another: "
         "`gpulayer serve --listen 0.0.0.0:8766`."),
    Slug("plane-full", RefusedError, 1, 125, 429,
         "The queue is at its limit. Wait for jobs to end, or cancel some."),
    Slug("plane-busy", RefusedError, 1, 125, 429,
         "More submissions were on their way than the plane takes at the same moment. Clients of "
         "GPUlayer wait and try again for a minute. Then try again yourself, or send many jobs in "
         "one batch: `gpulayer submit -f jobs.yaml`."),
    Slug("internal", GPULayerError, 1, 125, 500,
         "A fault of GPUlayer itself. `--debug` shows where; please report it."),
)
# fmt: on

SLUGS: dict[str, Slug] = {slug.name: slug for slug in _TABLE}
