"""`gpulayer help [TOPIC]`: an error, a verb, a reason, or one of the short pages, all offline."""

from __future__ import annotations

import textwrap

import click

from gpulayer.cli import render
from gpulayer.cli.pages import PAGES, REASONS
from gpulayer.cli.table import VERBS
from gpulayer.errors import NotFoundError
from gpulayer.slugs import SLUGS

_ALIASES = {verb.name: verb.alias_of for verb in VERBS}


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> None:
    """Explain an error's slug, a verb, a reason or a page. `help all` lists everything."""
    if topic is None:
        assert ctx.parent is not None
        render.data(ctx.parent.get_help())
        pages = f"Pages: {', '.join(PAGES)}, and every error[slug]."
        render.data("\n" + textwrap.fill(pages, 99))
    elif topic == "all":
        _everything()
    elif topic in PAGES:
        render.data(PAGES[topic])
    elif topic in SLUGS:
        slug = SLUGS[topic]
        render.data(f"{slug.name}\n")
        for line in render.wrapped(slug.explanation, 80):
            render.data(line)
        if slug.name == "not-yet":
            from gpulayer.contracts.notyet import NOT_YET

            render.data("\n" + "\n".join(f"  {field}" for field in NOT_YET))
        render.data(f"\nexit code: {slug.exit}; of run and wait: {slug.run_exit}")
    elif topic in _ALIASES:
        _verb(ctx, _ALIASES[topic] or topic)
    elif topic in REASONS:
        render.data(f"{topic}: a reason, shown beside a job's state.\n\n{REASONS[topic]}")
    else:
        raise _no_such_page(topic)


def _verb(ctx: click.Context, name: str) -> None:
    assert ctx.parent is not None
    assert isinstance(ctx.parent.command, click.Group)
    found = ctx.parent.command.get_command(ctx.parent, name)
    assert found is not None
    render.data(found.get_help(click.Context(found, ctx.parent, name)))


def _no_such_page(topic: str) -> NotFoundError:
    known = [*PAGES, *SLUGS, *_ALIASES, *REASONS]
    import difflib  # for a slip only

    near = difflib.get_close_matches(topic, known, n=1)
    return NotFoundError(
        "topic-not-found",
        f"there is no page '{topic}'",
        why=f"did you mean '{near[0]}'?" if near else "",
        hint=[f"gpulayer help {near[0]}", "gpulayer help all"] if near else "gpulayer help all",
    )


def _everything() -> None:
    render.data("Verbs")
    for verb in VERBS:
        render.data(f"  {verb.name:<12} {verb.about}")
    for title, names in (("Pages", PAGES), ("Errors", SLUGS), ("Reasons", REASONS)):
        render.data(f"\n{title}")
        for line in render.wrapped(" ".join(names), 76):
            render.data(f"  {line}")
    render.data("\nRead one: gpulayer help NAME")
