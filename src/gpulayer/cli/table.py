"""The one table of the command line: its verbs, their groups, and every flag.

`--help`, completion, the reference in the docs and the tests are made from it. A verb lives in
the module that its row names, which is imported only when the verb is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from gpulayer.contracts import limits


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    group: str
    about: str
    """One line, as shown by `gpulayer --help`."""
    module: str
    """Under `gpulayer.cli`; holds a click command named `command`."""
    alias_of: str | None = None
    """A second word for a verb: works, and is shown by `help all` alone."""
    rare: bool = False
    """Shown by `help all` alone too: the first page has room for thirty."""


VERBS: tuple[Verb, ...] = (
    Verb("run", "Start work", "Run a command here and stay with it.", "run"),
    Verb("submit", "Start work", "Queue a command, function or job file.", "submit"),
    Verb("map", "Start work", "Call a function for each of many items.", "map"),
    Verb("launch", "Start work", "Run a training script on several processes.", "launch"),
    Verb("plan", "Start work", "Say where a job would run, and why.", "plan"),
    Verb("simulate", "Look", "Replay a trace of jobs on a fleet.", "simulate", rare=True),
    Verb("ps", "Look", "List jobs that are waiting or running.", "ps"),
    Verb("status", "Look", "Show one job.", "status"),
    Verb("logs", "Look", "Print what a job wrote.", "logs"),
    Verb("events", "Look", "Tell a job's story.", "events"),
    Verb("metrics", "Look", "Print the numbers that a job reports.", "metrics", rare=True),
    Verb("stacks", "Look", "Show what the processes of a job are at.", "stacks", rare=True),
    Verb("why", "Look", "Explain where a job is, worker by worker.", "why"),
    Verb("result", "Look", "Print what a function returned.", "result"),
    Verb("diff", "Look", "Say what differs between two jobs.", "diff", rare=True),
    Verb("workers", "Look", "List workers.", "workers"),
    Verb("gpus", "Look", "List GPUs and who holds them.", "gpus"),
    Verb("wait", "Act", "Wait for jobs to end.", "wait"),
    Verb("cancel", "Act", "End jobs.", "cancel"),
    Verb("retry", "Act", "Submit a job again.", "retry"),
    Verb("get", "Act", "Fetch a job's files or an artifact.", "get"),
    Verb("put", "Act", "Store a file as an artifact.", "put", rare=True),
    Verb("exec", "Act", "Run a command inside a running job.", "exec"),
    Verb("shell", "Act", "Open a shell inside a running job.", "shell"),
    Verb("forward", "Act", "Reach a port of a running job from here.", "forward", rare=True),
    Verb("serve", "Machines", "Serve this plane to other machines.", "serve"),
    Verb("join", "Machines", "Work for a server, as a worker.", "join"),
    Verb("leave", "Machines", "Leave a server.", "leave"),
    Verb("login", "Machines", "Work on a server from here.", "login"),
    Verb("use", "Machines", "Choose the server that you mean.", "use"),
    Verb("invite", "Machines", "Let another machine or person in.", "invite"),
    Verb("worker", "Machines", "Drain, resume, label or revoke a worker.", "worker"),
    Verb("token", "Machines", "Create, list or revoke tokens.", "token", rare=True),
    Verb("env", "Machines", "Prepare, list or remove environments of jobs.", "env", rare=True),
    Verb("stop", "Care", "End the local plane.", "stop"),
    Verb("gc", "Care", "Remove what no job needs.", "gc"),
    Verb("doctor", "Care", "Check this installation and list its processes.", "doctor"),
    Verb("schema", "Care", "Print the JSON Schema of a job, or a part of it.", "schema", rare=True),
    Verb("completion", "Care", "Print a completion script for a shell.", "completion", rare=True),
    Verb("help", "Care", "Explain a verb, an error or a topic.", "help"),
    Verb("version", "Care", "Print the version.", "version", rare=True),
    Verb("explain", "Look", "The same as why.", "why", alias_of="why"),
    Verb("list", "Look", "The same as ps.", "ps", alias_of="ps"),
    Verb("ls", "Look", "The same as ps.", "ps", alias_of="ps"),
)

OTHER_WORDS = {
    "attach": "logs", "delete": "cancel", "describe": "status", "info": "doctor",
    "inspect": "status", "jobs": "ps", "kill": "cancel", "prune": "gc",
    "queue": "ps", "rm": "gc", "sbatch": "submit", "scancel": "cancel", "show": "status",
    "squeue": "ps", "srun": "run", "start": "submit", "tail": "logs", "top": "ps",
    "torchrun": "launch",
}  # fmt: skip
"""What other tools call our verbs: not taken, but understood by the message that refuses them."""

LATER_FLAGS = frozenset(["--max-price"])
"""Of a later version, so that they are refused by name and not taken for a slip."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One option. `settings` go to `click.option`."""

    names: tuple[str, ...]
    about: str
    settings: dict[str, Any]
    advanced: bool = False
    """Shown by `--help-all` and the reference, not by `--help`."""


def _flag(*names: str, about: str, advanced: bool = False, **settings: Any) -> Flag:
    return Flag(names, about, settings, advanced)


# fmt: off
FLAGS: dict[str, Flag] = {
    # What the job is
    "name": _flag("--name", about="Name of the job.", metavar="NAME"),
    "env": _flag("-e", "--env", about="Set K=V for the job, or pass K on.", metavar="K[=V]",
                 multiple=True),
    "env_file": _flag("--env-file", about="Read K=V lines from a file.", metavar="FILE",
                      multiple=True, advanced=True),
    "secret": _flag("--secret", about="Give the job a secret by name: NAME, NAME=ENV or "
                    "NAME=@FILE; elsewhere, one that the worker gives.", metavar="NAME",
                    multiple=True),
    "label": _flag("-l", "--label", about="Label the job.", metavar="K=V", multiple=True,
                   advanced=True),
    "timeout": _flag("--timeout", about="End the job after this long: 90, 90s, 2h, 1-12:00:00.",
                     metavar="TIME"),
    "stdin": _flag("--stdin", about="`none`: give the job no standard input.",
                   metavar="none", type=click.Choice(["none"]), advanced=True),
    "source": _flag("--source", about="Send this folder with the job; none: nothing. A job here "
                    "runs in its folder.", metavar="DIR|none"),
    "inputs": _flag("--input", about="Stage a file, a folder, an artifact, JOB:FILE, or an "
                    "https:// or s3:// address, at $GPULAYER_INPUT_DIR/PATH.",
                    metavar="SRC[:PATH]", multiple=True),
    "outputs": _flag("-o", "--output", about="Keep files of the working folder that match, besides "
                     "those in $GPULAYER_OUTPUT_DIR.", metavar="GLOB", multiple=True),
    "data": _flag("--data", about="A data set that the worker must have; the job finds its path in "
                  "$GPULAYER_DATA_NAME.", metavar="NAME", multiple=True, advanced=True),
    "checkpoint": _flag("--checkpoint", about="Keep this folder while the job runs, every 5m or as "
                        "said, and put it back at the next attempt.", metavar="DIR[:TIME]",
                        advanced=True),
    "after": _flag("--after", about="Begin once this job has succeeded; JOB:any: has ended.",
                   metavar="JOB[:any]", multiple=True, advanced=True),
    "cache": _flag("--cache", about="Where the same call has succeeded before, give its result and "
                   "run nothing.", is_flag=True, advanced=True),
    "refresh": _flag("--refresh", about="With --cache: run it all the same, and record that "
                     "instead.", is_flag=True, advanced=True),
    "get": _flag("--get", about="At the end, bring the outputs home: into DIR, or a folder named "
                 "after the job.", metavar="[DIR]", is_flag=False, flag_value=".",
                 default=None),
    "nodes": _flag("--nodes", about="Machines, or shares of one, that run it together.",
                   metavar="N", type=click.IntRange(1, limits.NODES)),
    "procs_per_node": _flag("--procs-per-node", about="Processes on each node. Default: one for "
                            "each GPU.", metavar="N",
                            type=click.IntRange(1, limits.PROCESSES_PER_NODE)),
    "launcher": _flag("--launcher", about="Who starts the processes: torchrun, or direct: GPUlayer "
                      "itself, sooner.", metavar="torchrun|direct",
                      type=click.Choice(["torchrun", "direct"]), advanced=True),
    "file": _flag("-f", "--file", about="Read the job from a JSON or YAML file; - is standard "
                  "input.", metavar="FILE"),
    "over": _flag("--over", about="The items: a line of JSON each; - is standard input.",
                  metavar="FILE"),
    "unordered": _flag("--unordered", about="Print results as calls end, not in the order of the "
                       "items.", is_flag=True, advanced=True),
    "args": _flag("--args", about="Positional arguments of a function, as a JSON list.",
                  metavar="JSON"),
    "kwargs": _flag("--kwargs", about="Named arguments of a function, as a JSON object.",
                    metavar="JSON"),
    "retries": _flag("--retries", about="Further attempts after a failure.", metavar="N",
                     type=click.IntRange(0, 20)),
    "retry_on": _flag("--retry-on", about="What is tried again: worker_lost, failed, timed_out, "
                      "exit:N.", metavar="REASON", multiple=True, advanced=True),
    "array": _flag("--array", about="Run it once for each index: 0-9, 0-99:3, %8 at most at one "
                   "time.", metavar="RANGE"),
    "each_line": _flag("--each-line", about="Run it once for each line of a file, or of -, its "
                       "stdin: {item}.",
                       metavar="FILE", advanced=True),
    "matrix": _flag("--matrix", about="Run it once for each combination: lr=0.1,0.01 seed=1,2.",
                    metavar="K=V,V...", multiple=True, advanced=True),
    "max_failures": _flag("--max-failures", about="End an array when more elements than this have "
                          "failed.", metavar="N", type=click.IntRange(0), advanced=True),
    # What it needs
    "gpus": _flag("--gpus", about="GPUs: N, a100:2, a100,h100:2 or 24GB:2.", metavar="GPUS"),
    "gpu_memory": _flag("--gpu-memory", about="Memory of each GPU, in GB.", metavar="SIZE"),
    "accelerator": _flag("--accelerator", about="cpu, gpu, cuda or mps.", metavar="KIND",
                         advanced=True),
    "cpus": _flag("-c", "--cpus", about="CPU cores.", metavar="N", type=float),
    "memory": _flag("--memory", about="Memory, in GB: 64, 64G.", metavar="SIZE"),
    "disk": _flag("--disk", about="Free disk space, in GB.", metavar="SIZE", advanced=True),
    "profile": _flag("--profile", about="Known requirements by name: pytorch-cuda.",
                     metavar="NAME", advanced=True),
    "python": _flag("--python", about="Version of Python that the worker must have: '>=3.11'.",
                    metavar="SPEC", advanced=True),
    "requirement": _flag("-r", "--requirement", about="Install this for the job: a requirement, "
                         "a file of them, or a lock.", metavar="REQ", multiple=True),
    "image": _flag("--image", about="Container image to run in; a tag is pinned to its digest.",
                   metavar="IMAGE"),
    "cold": _flag("--cold", about="Start Python anew, never from one that has imported already.",
                  is_flag=True, advanced=True),
    # Where and when
    "on": _flag("--on", about="Where: here, any, a worker or LABEL=VALUE.", metavar="WHERE"),
    "target": _flag("--target", about="The same as --on.", metavar="WHERE", hidden=True),
    "priority": _flag("--priority", about="Higher goes first.", metavar="N", type=int),
    "strategy": _flag("--strategy", about="spread, first_fit or most_free_memory.",
                      metavar="NAME", advanced=True),
    "on_unschedulable": _flag("--on-unschedulable", about="fail, or queue until a worker comes.",
                              metavar="fail|queue", advanced=True),
    "idempotency_key": _flag("--idempotency-key", about="The same key again is the same job.",
                             metavar="KEY", advanced=True),
    # How the command line behaves
    "detach": _flag("-d", "--detach", about="Print the job's id and leave.", is_flag=True),
    "dry_run": _flag("--dry-run", about="Say what would happen; do nothing.", is_flag=True),
    "json": _flag("--json", about="Print JSON.", is_flag=True),
    "quiet": _flag("-q", "--quiet", about="Print the least: ids, or one word.", is_flag=True),
    "all": _flag("-a", "--all", about="Also jobs that have ended.", is_flag=True),
    "limit": _flag("-n", "--limit", about="At most this many.", metavar="N", type=int),
    "follow": _flag("-f", "--follow", about="Go on until the job ends.", is_flag=True),
    "tail": _flag("--tail", about="Only the last N lines.", metavar="N", type=int),
    "since": _flag("--since", about="Only what was written in this last time: 10m, 2h.",
                   metavar="TIME"),
    "stream": _flag("--stream", about="stdout, stderr or prepare.", metavar="NAME"),
    "grep": _flag("--grep", about="Only lines that match.", metavar="PATTERN"),
    "exact": _flag("--exact", about="With the code, inputs, packages and image that it had, or not "
                   "at all.", is_flag=True),
    "provenance": _flag("--provenance", about="What ran, exactly: code, inputs, packages, devices.",
                        is_flag=True),
    "rank": _flag("--rank", about="Rank of a distributed job.", metavar="N",
                  type=click.IntRange(0)),
    "index": _flag("--index", about="Element of an array job.", metavar="N", type=int),
    "exit_code": _flag("--exit-code", about="End with the job's own exit code.", is_flag=True),
    "force": _flag("--force", about="End running jobs as well.", is_flag=True),
    "every": _flag("--all", about="Every job that has not ended.", is_flag=True),
    "now": _flag("--now", about="Kill at once, without asking first.", is_flag=True),
    "wait_for": _flag("--timeout", about="Stop waiting after this long; the jobs go on.",
                      metavar="TIME"),
    "tty": _flag("-t", "--tty", about="Give it a terminal, like this one.", is_flag=True),
    "interactive": _flag("-i", "--interactive", about="Standard input is passed on anyway.",
                         is_flag=True, advanced=True),
    "node": _flag("--node", about="Node of a job on several machines; 0.", metavar="N",
                  type=click.IntRange(0)),
    "trace": _flag("--trace", about="The jobs: a CSV file with job_id, submission_time, duration "
                   "and num_gpu.", metavar="FILE"),
    "fleet": _flag("--fleet", about="The machines: a JSON or YAML file.", metavar="FILE"),
    "planned_fleet": _flag("--fleet", about="Ask it of these machines instead, all idle: a JSON or "
                           "YAML file.", metavar="FILE"),
    "policy": _flag("--policy", about="gpulayer, easy or fifo; all three.", metavar="NAME",
                    multiple=True, type=click.Choice(["gpulayer", "easy", "fifo"])),
    "limits": _flag("--limits", about="What jobs promise to run at most: exact, none, or so many "
                    "times what they run; exact.", metavar="exact|none|N", default="exact"),
    "packing": _flag("--strategy", about="Strategy of the jobs: first_fit, spread or "
                     "most_free_memory; first_fit.", metavar="NAME",
                     type=click.Choice(["first_fit", "spread", "most_free_memory"]),
                     default="first_fit"),
    # Machines
    "login_name": _flag("--name", about="What you call that server; its own name.",
                        metavar="NAME"),
    "worker_name": _flag("--name", about="What this worker is called; this host's name.",
                         metavar="NAME"),
    "worker_python": _flag("--python", about="The Python of jobs that bring none; this "
                           "terminal's.", metavar="PATH"),
    "worker_data": _flag("--data", about="A data set that this machine has, for jobs that name it. "
                         "Those that are given replace those of before.", metavar="NAME=PATH",
                         multiple=True),
    "worker_secrets": _flag("--secret", about="A secret that jobs may have: NAME is a variable of "
                            "this terminal; NAME=env:VARIABLE, NAME=file:PATH, NAME=command:LINE; "
                            "'*', every variable; none. Those that are given replace those of "
                            "before.", metavar="NAME[=SOURCE]", multiple=True),
    "worker_labels": _flag("-l", "--label", about="Refused: the server grants labels, with `invite "
                           "-l`.", metavar="K=V", multiple=True, advanced=True),
    "foreground": _flag("--foreground", about="Stay in this terminal; Ctrl-C ends the worker.",
                        is_flag=True),
    "at_once": _flag("--now", about="Do not wait for jobs that run: they are lost.",
                     is_flag=True),
    "listen": _flag("--listen", about="Address and port to serve on; 0.0.0.0:8765.",
                    metavar="ADDR[:PORT]"),
    "advertise": _flag("--advertise", about="Address that others shall use, if another one.",
                       metavar="HOST[:PORT]"),
    "server_name": _flag("--name", about="What this server is called; this host's name.",
                         metavar="NAME"),
    "database": _flag("--database", about="Where jobs are recorded; SQLite in the data folder.",
                      metavar="URL"),
    "artifacts": _flag("--artifacts", about="Folder or s3://BUCKET/PREFIX for artifacts.",
                       metavar="PLACE"),
    "durability": _flag("--durability", about="What an accepted job survives; power.",
                        metavar="process|power", type=click.Choice(["process", "power"])),
    "no_worker": _flag("--no-worker", about="Give no work to this machine itself.", is_flag=True),
    "tls_cert": _flag("--tls-cert", about="Another certificate than its own, in PEM form.",
                      metavar="FILE"),
    "tls_key": _flag("--tls-key", about="The key of that certificate.", metavar="FILE"),
    "for_person": _flag("--client", about="For a person to log in with.", is_flag=True),
    "role": _flag("--role", about="viewer, submitter, operator or admin.", metavar="ROLE",
                  type=click.Choice(["viewer", "submitter", "operator", "admin"])),
    "uses": _flag("--uses", about="How many may come with it; 1.", metavar="N",
                  type=click.IntRange(1, 1000)),
    "ttl": _flag("--ttl", about="How long it is good: 15m, 24h, 90d.", metavar="TIME"),
    "no_expiry": _flag("--no-expiry", about="Good until it is revoked: for a service's account.",
                       is_flag=True),
    "token_name": _flag("--name", about="What the token is called in lists.", metavar="NAME"),
    "plain": _flag("--plain", about="Serve http without TLS; on loopback alone.", is_flag=True),
    "unused": _flag("--unused", about="Every environment that no job uses.", is_flag=True),
    "prepare_timeout": _flag("--timeout", about="How long it may take on each worker; 30m.",
                             metavar="TIME"),
    "older_than": _flag("--older-than", about="Only what ended before this long: 30d.",
                        metavar="TIME"),
}
# fmt: on
