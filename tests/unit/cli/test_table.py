"""One table of verbs and flags: what help shows, what works, and that nothing lies beside it."""

from __future__ import annotations

import importlib
import re
import subprocess

import click
import pytest

from gpulayer.cli.completion import SHELLS, command as completion
from gpulayer.cli.pages import PAGES, REASONS
from gpulayer.cli.table import FLAGS, VERBS, Verb
from gpulayer.contracts.states import Reason
from gpulayer.control_plane.settings import Settings
from gpulayer.slugs import SLUGS
from tests.support.lines import refusal

SHOWN = [verb for verb in VERBS if verb.alias_of is None]
LOOKING = "ps status logs events why result workers gpus plan doctor gc version wait".split()
MOST_VERBS, MOST_FLAGS = 30, 25
COMMAND_IN_TEXT = re.compile(r"`(gpulayer [^`]*)`")


def command_of(verb: Verb) -> click.Command:
    found = importlib.import_module(f"gpulayer.cli.{verb.module}").command
    assert isinstance(found, click.Command)
    return found


def options_of(verb: Verb) -> list[click.Option]:
    return [p for p in command_of(verb).params if isinstance(p, click.Option)]


def test_the_first_page_stays_readable() -> None:
    assert len([verb for verb in SHOWN if not verb.rare]) <= MOST_VERBS
    assert all(len(verb.about) <= 60 for verb in VERBS)


@pytest.mark.parametrize("verb", SHOWN, ids=lambda verb: verb.name)
def test_a_verbs_help_stays_readable(verb: Verb) -> None:
    shown = [option for option in options_of(verb) if not option.hidden]
    assert len(shown) + 1 <= MOST_FLAGS  # and --help
    assert all(option.help for option in shown)
    assert command_of(verb).name == verb.name
    assert command_of(verb).help


@pytest.mark.parametrize("verb", SHOWN, ids=lambda verb: verb.name)
def test_every_flag_stands_in_the_table(verb: Verb) -> None:
    known = {frozenset(flag.names) for flag in FLAGS.values()} | {frozenset({"--help-all"})}
    for option in options_of(verb):
        if option.name != "debug":
            assert frozenset(option.opts) in known


def test_every_flag_of_the_table_is_taken_by_a_verb() -> None:
    taken = {frozenset(option.opts) for verb in SHOWN for option in options_of(verb)}
    assert {frozenset(flag.names) for flag in FLAGS.values()} <= taken


def test_run_submit_and_plan_describe_a_job_with_the_same_flags() -> None:
    own = {"detach", "get", "quiet", "dry_run", "job_file", "args", "kwargs", "as_json", "debug"}
    own |= {"planned_fleet"}
    run, submit, plan = (
        {option.name for option in options_of(verb)} - own
        for verb in SHOWN
        if verb.name in ("run", "submit", "plan")
    )
    assert run == submit == plan


@pytest.mark.parametrize("name", LOOKING)
def test_every_looking_verb_has_json_and_quiet(name: str) -> None:
    verb = next(verb for verb in SHOWN if verb.name == name)
    names = {option.name for option in options_of(verb)}
    assert {"as_json", "quiet"} <= names


def test_names_are_used_once_across_verbs_pages_errors_and_reasons() -> None:
    assert not set(PAGES) & (set(SLUGS) | {verb.name for verb in VERBS} | set(REASONS))
    assert set(REASONS) == {reason.value for reason in Reason}


@pytest.mark.parametrize("name", [*SLUGS, *PAGES, *REASONS, *(verb.name for verb in VERBS)])
def test_there_is_a_page_for_every_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from gpulayer.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["help", name])
    told = capsys.readouterr().out
    assert ended.value.code == 0
    assert len(told) > 40
    for line in COMMAND_IN_TEXT.findall(told):
        assert not refusal(re.sub(r"\s+", " ", line)), line


@pytest.mark.parametrize("slug", SLUGS.values(), ids=lambda slug: slug.name)
def test_commands_in_explanations_parse(slug) -> None:  # type: ignore[no-untyped-def]
    for line in COMMAND_IN_TEXT.findall(slug.explanation):
        assert not refusal(line), line


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_script_names_every_verb(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    completion.main([shell], standalone_mode=False)
    script = capsys.readouterr().out
    assert all(verb.name in script for verb in SHOWN)
    assert "timeout" in script


def test_the_bash_completion_completes() -> None:
    script = subprocess.run(
        ["bash", "-n"], input=_script("bash"), text=True, capture_output=True, check=False
    )
    assert (script.returncode, script.stderr) == (0, "")
    ask = (
        _script("bash")
        + "\nCOMP_WORDS=(gpulayer st); COMP_CWORD=1; _gpulayer; echo ${COMPREPLY[@]}"
        + "\nCOMP_WORDS=(gpulayer run --ti); COMP_CWORD=2; _gpulayer; echo ${COMPREPLY[@]}"
        + "\ngpulayer() { echo train-1 tune-2; }; COMP_WORDS=(gpulayer logs tr); COMPREPLY="
        + "\n_gpulayer; echo ${COMPREPLY[@]}"
        + "\nCOMP_WORDS=(gpulayer run -- git --ti); COMP_CWORD=4; COMPREPLY=none"
        + "\n_gpulayer; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(["bash", "-c", ask], text=True, capture_output=True, check=True)
    assert done.stdout == "status stacks stop\n--timeout\ntrain-1\nnone\n"


def test_the_zsh_completion_has_nothing_that_zsh_reads_in_another_way() -> None:
    """There a colon and a letter within `${ }` is a modifier, not the begin of a number."""
    assert not re.search(r"\$\{[^}]*:[A-Za-z]", _script("zsh"))


def _script(shell: str) -> str:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        completion.main([shell], standalone_mode=False)
    return out.getvalue()


def test_the_help_of_gc_names_the_limits_of_the_history() -> None:
    gc = next(verb for verb in VERBS if verb.name == "gc")
    settings = Settings()
    about = " ".join((command_of(gc).help or "").split())
    assert f"all but the last {settings.history_jobs:,}" in about
    assert f"more than {settings.history_seconds / 86_400:.0f} days ago" in about
