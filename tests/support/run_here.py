"""The thinnest attached client: `run -- COMMAND`, without the command line around it."""

from __future__ import annotations

import secrets
import sys

from gpulayer.errors import GPULayerError
from gpulayer.sdk import interrupts, local, world
from gpulayer.sdk.attach import Attachment
from gpulayer.sdk.origin import origin_of
from gpulayer.sdk.places import Places


def main(argv: list[str]) -> None:
    places = Places.find()
    seen = world.of_terminal(argv)
    wire = local.ensure_plane(places)
    with Attachment.open(places, seen) as attachment:
        body = {
            "spec": {
                "workload": {"kind": "command", "command": seen.line},
                "placement": {"on_unschedulable": "fail"},
            },
            "origin": {**origin_of(seen, argv), "attach_id": attachment.attach_id},
            "envelope_id": attachment.envelope_id,
            "idempotency_key": secrets.token_hex(8),
        }
        job = wire.call("POST", "/v1/jobs", body)
        report = attachment.relay(job["id"])
    interrupts.end_as(report)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except GPULayerError as error:
        print(f"error[{error.code}]: {error} ({error.why})", file=sys.stderr)
        sys.exit(125)
