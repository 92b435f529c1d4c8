"""`gpulayer serve`: be the plane of other machines."""

from __future__ import annotations

import json
import os

import click

from gpulayer.cli import declaring
from gpulayer.cli.session import options
from gpulayer.errors import RefusedError, UsageError


@click.command("serve")
@options(
    "listen", "advertise", "server_name", "database", "artifacts", "durability", "no_worker",
    "worker_data", "worker_secrets",
    "tls_cert", "tls_key", "plain", "json", "quiet",
)  # fmt: skip
def command(
    listen: str | None,
    advertise: str | None,
    server_name: str | None,
    database: str | None,
    artifacts: str | None,
    durability: str | None,
    no_worker: bool,
    worker_data: tuple[str, ...],
    worker_secrets: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    plain: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Serve this machine's plane to other machines until Ctrl-C or SIGTERM.

    It makes its own certificate and prints one line for another machine to join with, and one for
    a person to log in with. Jobs and terminals here go on as before. With -q no line is made:
    `gpulayer invite` makes one at any time.
    """
    from gpulayer.runtime import daemon
    from gpulayer.sdk import listening
    from gpulayer.sdk.declared import Declared, environment_file
    from gpulayer.sdk.places import Places

    if "GPULAYER_JOB_ID" in os.environ:
        raise RefusedError("not-allowed", "a job cannot be a server: it would end with the job")
    if bool(tls_cert) != bool(tls_key):
        raise UsageError(
            "usage", "--tls-cert and --tls-key belong together", hint="gpulayer serve --help"
        )
    address = listening.parse(listen or "")
    if advertise:
        listening.parse(advertise)
    if no_worker and (worker_data or worker_secrets):
        raise UsageError(
            "usage",
            "--data and --secret are of this machine's own worker, and --no-worker wants none",
            hint="gpulayer serve --help",
        )
    data, sources = (
        declaring.data_sets(worker_data, "serve"),
        declaring.secrets(worker_secrets, "serve"),
    )
    places = Places.find()
    places.create()
    declared = Declared(places.state)
    declared.keep(data, sources)
    asked = {
        "host": address.host,
        "port": address.port,
        "advertise": advertise,
        "name": server_name or os.uname().nodename.partition(".")[0],
        "database": _database(database),
        "artifacts": _artifacts(artifacts),
        "environ": _for_a_bucket(artifacts),
        "durability": durability or "power",
        "has_worker": not no_worker,
        "chain": os.path.abspath(tls_cert) if tls_cert else "",
        "key": os.path.abspath(tls_key) if tls_key else "",
        "plain": plain,
        "json": as_json,
        "quiet": quiet,
    }
    variables = environment_file(declared.variables(os.environ))
    daemon.stay(
        "gpulayer.cli.serve_process", places.argv(), json.dumps(asked), [variables.fileno()]
    )


def _artifacts(asked: str | None) -> str:
    """A bucket's address as it is, a folder by its whole path, nothing for the home's own."""
    if not asked:
        return ""
    if asked.startswith("s3://"):
        from gpulayer.artifacts import s3

        return str(s3.parse(asked))
    if "://" in asked:
        raise UsageError(
            "usage",
            f"--artifacts {asked.partition('://')[0]}://: artifacts go to a folder or to s3://",
            hint="gpulayer serve --help",
        )
    return os.path.abspath(asked)


def _for_a_bucket(artifacts: str | None) -> dict[str, str]:
    """Where to find it and with which keys: a plane is told nothing else of a terminal."""
    if not (artifacts or "").startswith("s3://"):
        return {}
    from gpulayer.artifacts import s3

    return s3.variables(os.environ)


def _database(asked: str | None) -> str:
    """A URL as it is, a file by its whole path, nothing for the home's own."""
    if not asked or "://" in asked:
        return asked or ""
    return os.path.abspath(asked)
