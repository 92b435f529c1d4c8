"""Every hint in the source is a line that can be pasted."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import gpulayer
from tests.support.lines import refusal

ROOT = Path(gpulayer.__file__).parent
OPTION_ALONE = re.compile(r"--[a-z-]+( .+)?")
"""The command line puts the rest of what was typed around it; see `cli.session.whole_line`."""


def hints() -> list[tuple[str, str]]:
    """(place, text) of each text that is given as `hint=`; what is filled in reads as `x`."""
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                place = f"{file.relative_to(ROOT)}:{node.value.lineno}"
                found += [(place, text) for text in texts(node.value)]
    return found


def texts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant):
        return [str(node.value)] if node.value else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(texts(part)[0] if texts(part) else "x" for part in node.values)]
    if isinstance(node, ast.Tuple | ast.List):
        return [text for item in node.elts for text in texts(item)]
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    if isinstance(node, ast.BoolOp):
        return [text for item in node.values for text in texts(item)]
    if isinstance(node, ast.BinOp):
        left, right = texts(node.left), texts(node.right) or ["x"]
        are_lists = any(isinstance(part, ast.List) for part in ast.walk(node))
        return left + right if are_lists else [one + right[0] for one in left]
    return []


@pytest.mark.parametrize(("place", "text"), hints())
def test_a_hint_can_be_pasted(place: str, text: str) -> None:
    if text.startswith(("x -", "x ")):
        text = text.replace("x", "gpulayer run", 1)
    text = re.sub(r"^gpulayer( --debug)? x\b", r"gpulayer\1 ps", text)
    assert OPTION_ALONE.fullmatch(text) or not refusal(text), f"{place}: {refusal(text)}"


def test_there_are_hints() -> None:
    assert len(hints()) > 30
