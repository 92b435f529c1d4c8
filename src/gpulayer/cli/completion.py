"""`gpulayer completion SHELL`: a script that completes verbs, flags, and the names of jobs.

Verbs and flags are written into the script, so that no Python starts for them; only a job's name
asks the plane.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence

import click

from gpulayer.cli import render
from gpulayer.cli.table import VERBS

SHELLS = ("bash", "zsh", "fish")
TAKES_JOBS = frozenset("status logs events metrics why result wait cancel retry get".split())
JOBS = "gpulayer ps -a -q -n 50 2>/dev/null"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a completion script. For bash: gpulayer completion bash >> ~/.bashrc"""
    words = dict(_flags())
    render.data({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](words))


def _flags() -> Iterator[tuple[str, list[str]]]:
    for verb in VERBS:
        if verb.alias_of is None:
            found = importlib.import_module(f"gpulayer.cli.{verb.module}").command
            shown = (p for p in found.params if isinstance(p, click.Option) and not p.hidden)
            yield verb.name, sorted(o for p in shown for o in p.opts if o.startswith("--"))


def _bash(words: Mapping[str, Sequence[str]]) -> str:
    cases = "\n".join(f"    {name}) flags='{' '.join(flags)}' ;;" for name, flags in words.items())
    return f"""_gpulayer() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} verb=${{COMP_WORDS[1]}} flags=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(words)}' -- "$word")); return
  fi
  case " ${{COMP_WORDS[*]:1:$((COMP_CWORD - 1))}} " in *' -- '*) return ;; esac
  case "$verb" in
{cases}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) case "$verb" in
      {"|".join(sorted(TAKES_JOBS))}) COMPREPLY=($(compgen -W "$({JOBS})" -- "$word")) ;;
    esac ;;
  esac
}}
complete -o default -F _gpulayer gpulayer"""


def _zsh(words: Mapping[str, Sequence[str]]) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(words)


def _fish(words: Mapping[str, Sequence[str]]) -> str:
    about = {verb.name: verb.about.replace("'", r"\'") for verb in VERBS}
    lines = [
        f"complete -c gpulayer -n __fish_use_subcommand -f -a {name} -d '{about[name]}'"
        for name in words
    ]
    for name, flags in words.items():
        if name in TAKES_JOBS:
            seen = f"'__fish_seen_subcommand_from {name}'"
            lines.append(f"complete -c gpulayer -n {seen} -f -a '({JOBS})'")
        lines += [
            f"complete -c gpulayer -n '__fish_seen_subcommand_from {name}' -l {flag[2:]}"
            for flag in flags
        ]
    return "\n".join(lines)
