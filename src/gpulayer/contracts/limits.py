"""Every limit of what a spec may hold, and of what travels around it, in one table.

The module is the table: a constant is a row, its docstring says what is counted. Bytes are of UTF-8
text. `tests/unit/contracts/test_limits.py` tries each row of a spec at n-1, n and n+1.
"""

from __future__ import annotations

from typing import Final

# --- a spec -------------------------------------------------------------------------------
SPEC_BYTES: Final = 256 * 1024
"""A whole spec, as compact JSON."""

NAME_CHARACTERS: Final = 63
"""A job's name, a data set's name, an array parameter."""

LABELS: Final = 64
"""Labels of a job, and labels that its placement asks for."""

LABEL_CHARACTERS: Final = 63
"""A label's key, and its value."""

ENV_NAMES: Final = 1_024
"""Variables in `env`."""

ENV_BYTES: Final = 128 * 1024
"""All of `env` as the kernel counts it: name, `=`, value and a NUL for each."""

ARGV_ITEMS: Final = 16_384
"""Words of a command, and arguments of a distributed script."""

JSON_DEPTH: Final = 64
"""Lists and objects inside each other, in arguments and array items."""

SECRETS: Final = 64
"""Secrets of a job."""

SECRET_KEY_CHARACTERS: Final = 1_024
"""Where a secret is found: a variable, a file, a command."""

INPUTS: Final = 1_024
"""Staged inputs of a job."""

CHECKPOINT_FILES: Final = 10_000
"""Files of a checkpoint."""

METRIC_NAME: Final = 128
"""Characters of the name of a metric."""

METRIC_SERIES: Final = 1_000
"""Series of metrics of a job: one for each name, element and attempt."""

METRIC_POINTS: Final = 50_000
"""Points of all of them. Past it they are thinned."""

METRIC_STEP: Final = 2**53
"""The largest step."""

URL_CHARACTERS: Final = 2_048
"""The address of an input."""

OUTPUTS: Final = 256
"""Patterns of files to bring home."""

PATH_BYTES: Final = 1_024
"""A relative path."""

PATH_PART_BYTES: Final = 255
"""One part of a path; what common file systems take."""

PATH_PARTS: Final = 64
"""Folders deep."""

ENTRYPOINT_CHARACTERS: Final = 255
"""`module:function`."""

SPECIFIER_CHARACTERS: Final = 128
"""A PEP 440 version specifier."""

FRAMEWORKS: Final = 64
"""Entries of `resources.frameworks`."""

REQUIREMENTS: Final = 256
"""Lines of `environment.requirements`, and modules of `environment.preload`."""

REQUIREMENT_CHARACTERS: Final = 256
"""One requirement."""

IMAGE_CHARACTERS: Final = 512
"""A container image's reference."""

CHOICES: Final = 256
"""Workers, providers, regions, GPU models, systems, data sets and jobs waited for, each."""

CHOICE_CHARACTERS: Final = 128
"""One of those."""

GPUS_PER_NODE: Final = 1_024
GIGABYTES: Final = 1_000_000
"""Memory or disk asked for."""

CPU_CORES: Final = 65_536
NODES: Final = 1_024
"""`workload.num_workers` of a distributed job."""

PROCESSES_PER_NODE: Final = 1_024
"""`workload.procs_per_worker`."""

ATTEMPTS: Final = 21
"""The first one and 20 retries."""

RESTARTS: Final = 1_000
"""`resume.max_restarts`."""

SECONDS: Final = 366 * 86_400
"""Any time of a spec: a leap year."""

PRIORITY: Final = 1_000_000
"""Either side of 0."""

HOURLY_COST: Final = 1_000_000
ARRAY_ELEMENTS: Final = 1_000_000
"""Elements of one array, however they are given."""

ARRAY_INDEX: Final = 2_000_000_000
"""The largest index of an element."""

ARRAY_ITEMS: Final = 10_000
"""Items written out in the spec, and values of one array parameter; more is an artifact."""

ARRAY_PARAMETERS: Final = 32
"""Names in `array.matrix`."""

# --- a source bundle ----------------------------------------------------------------------
SOURCE_BYTES: Final = 256 << 20
"""A source bundle as it is sent: stored, not compressed."""

SOURCE_ENTRIES: Final = 20_000
"""Files in a source bundle."""

SOURCE_UNPACKED_BYTES: Final = 2 << 30
"""What a bundle's files may say that they hold together, and what is written of them."""

FOLDER_BYTES: Final = 2 << 30
"""The bundle of a folder that is an input."""

# --- an input that a worker fetches from an address ----------------------------------------
FETCHED_BYTES: Final = 50 << 30
"""What one may hold."""

# --- standard input of a job elsewhere ----------------------------------------------------
PIPED_BYTES: Final = 4 << 30
"""What is taken of a pipe; a file may be of any size."""

# --- into a running job -------------------------------------------------------------------
EXEC_BYTES: Final = 64 * 1024
"""The words of a command that is brought into a running job, a NUL for each."""

STREAMS_PER_JOB: Final = 128
"""Commands, forwards and forwarded connections of one job at the same time."""

STREAMS_PER_PLANE: Final = 1_024
"""Those of all jobs of one plane."""

# --- a job file ---------------------------------------------------------------------------
FILE_BYTES: Final = 1024 * 1024
"""A job file."""

FILE_NODES: Final = 100_000
"""Values of a job file, with YAML aliases written out."""

FILE_DEPTH: Final = 100
"""Lists and objects inside each other."""

PROBLEMS: Final = 100
"""Problems that one refusal lists; it says when there are more."""
