"""`gpulayer help [TOPIC]`: an error, a verb, or one of the short pages below, all offline."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.table import VERBS
from gpulayer.contracts.states import Reason
from gpulayer.errors import SLUGS, NotFoundError

PAGES = {
    "exit-codes": """run, wait and logs -f --exit-code end as the workload ended:
  0-123   its own exit code
  124     it reached its time limit
  125     GPUlayer could not run it, or lost it
  126     a step before it failed, or it cannot be executed
  127     the command or function was not found
  128+n   signal n ended it; 130 is Ctrl-C
All other verbs: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 unreachable.""",
    "selectors": """A job is named by its id, the beginning of its id, its name (the newest of
that name) or the word last (your newest).""",
    "environment": """GPULAYER_HOME     folder of the local plane's data
GPULAYER_URL      a served plane to use instead
GPULAYER_TOKEN    the token for it
Inside a job: GPULAYER_JOB_ID, GPULAYER_ATTEMPT, GPULAYER_INPUT_DIR, GPULAYER_OUTPUT_DIR,
GPULAYER_WORKSPACE.""",
}


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> None:
    """Explain an error's slug, a verb, a reason or a page. `help all` lists everything."""
    if topic is None:
        assert ctx.parent is not None
        render.data(ctx.parent.get_help())
        render.data(f"\nPages: {', '.join(PAGES)}, and every error[slug].")
    elif topic == "all":
        _everything()
    elif topic in PAGES:
        render.data(PAGES[topic])
    elif topic in SLUGS:
        slug = SLUGS[topic]
        render.data(f"{slug.name}\n\n{slug.explanation}")
        render.data(f"\nexit code: {slug.exit}; of run and wait: {slug.run_exit}")
    elif any(verb.name == topic for verb in VERBS):
        assert ctx.parent is not None
        found = ctx.parent.command.get_command(ctx.parent, topic)  # type: ignore[attr-defined]
        render.data(found.get_help(click.Context(found, ctx.parent, topic)))
    elif topic in {reason.value for reason in Reason}:
        render.data(f"{topic} is a reason that `gpulayer status` shows beside a job's state.")
    else:
        raise NotFoundError("topic-not-found", f"there is no page '{topic}'", hint="gpulayer help")


def _everything() -> None:
    for verb in VERBS:
        render.data(f"{verb.name:<14} {verb.about}")
    render.data("")
    for name in PAGES:
        render.data(f"{name:<14} page")
    render.data("")
    for slug in SLUGS.values():
        render.data(f"{slug.name}")
