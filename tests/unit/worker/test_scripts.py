"""Which scripts may be forked from a template, and what is imported ahead of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from gpulayer.worker.steps import scripts
from gpulayer.worker.steps.scripts import Script


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("python t.py", Script((), 1, False)),
        ("python -u t.py -x", Script(("-u",), 1 + 1, False)),
        ("python -uB -O t.py", Script(("-uB", "-O"), 3, False)),
        ("python -m pkg.mod a", Script((), 2, True)),
        ("python -u -m mod", Script(("-u",), 3, True)),
        ("python", None),
        ("python -", None),
        ("python -c pass", None),
        ("python -m", None),
        ("python -I t.py", None),
        ("python -X dev t.py", None),
        ("python -W error t.py", None),
        ("python --version", None),
        ("python -u", None),
    ],
)
def test_a_line_is_a_script_or_starts_cold(words: str, found: Script | None) -> None:
    assert scripts.script_in(words.split()) == found


def heavy(
    folder: Path, text: str, others: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, ...] | None:
    (folder / "t.py").write_text(text)
    for name, other in others.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(other)
    found = scripts.imports_of("t.py", str(folder), is_module=False)
    return None if found is None else found.heavy


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("print(1)", ()),
        ("import json, torch", ("torch",)),
        ("import torch.nn as nn\nimport numpy", ("torch.nn", "numpy")),
        ("from torch import nn", ("torch",)),
        ("def main():\n    import torch", ("torch",)),
        ("import numpy\ndef f():\n    import torch\nimport scipy", ("numpy", "torch", "scipy")),
        ("import os\nprint(os.environ['A'], os.environ.get('B'))\nimport torch", ("torch",)),
        ("import sys\nsys.path.append('a')\nimport torch", ("torch",)),
        ("x = {}\nx.pop('a', 0)\npath = []\npath.insert(0, 1)\nimport torch", ("torch",)),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch", None),
        ("from os import environ\nenviron['A'] = '1'\nimport torch", None),
        ("import os\nos.environ.setdefault('A', '1')\nimport torch", None),
        ("import os\ndel os.environ['A']\nimport torch", None),
        ("import os\nos.putenv('A', '1')\nimport torch", None),
        ("from os import putenv\nimport torch", None),
        ("import sys\nsys.path.insert(0, 'a')\nimport torch", None),
        ("import sys\nsys.path[0] = 'a'\nimport torch", None),
        ("import sys\nsys.path = ['a']\nimport torch", None),
        ("import sys\nsys.modules['torch'] = None\nimport torch", None),
        ("import sys\nsys.meta_path.clear()\nimport torch", None),
        ("def f(:", None),
    ],
)
def test_what_a_script_imports_ahead(
    tmp_path: Path, text: str, names: tuple[str, ...] | None
) -> None:
    assert heavy(tmp_path, text) == names


def test_its_own_modules_are_read_too(tmp_path: Path) -> None:
    assert heavy(tmp_path, "import model", {"model.py": "import torch"}) == ("torch",)
    assert heavy(tmp_path, "import model", {"model.py": "import os\nos.environ['A'] = '1'"}) is None
    package = {
        "pkg/__init__.py": "", "pkg/a.py": "from . import b", "pkg/b.py": "import numpy",
    }  # fmt: skip
    assert heavy(tmp_path, "from pkg.a import x", package) == ("numpy",)
    assert heavy(tmp_path, "from pkg import a", package) == ("numpy",)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    assert heavy(tmp_path, "import torch") == ("torch",)
    assert heavy(tmp_path, "import numpy, scipy") == ("numpy", "scipy")


def test_a_module_is_looked_for_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("import numpy")
    (tmp_path / "pkg" / "__main__.py").write_text("import torch")
    found = scripts.imports_of("pkg", str(tmp_path), is_module=True)
    assert found is not None
    assert set(found.heavy) == {"numpy", "torch"}
    assert len(found.files) == 2
    assert scripts.imports_of("json.tool", str(tmp_path), is_module=True) is None


def test_what_is_no_file_or_too_large_starts_cold(tmp_path: Path) -> None:
    assert scripts.imports_of("no.py", str(tmp_path), is_module=False) is None
    assert scripts.imports_of(".", str(tmp_path), is_module=False) is None
    assert heavy(tmp_path, "#" * (scripts.MOST_BYTES - 1)) == ()
    assert heavy(tmp_path, "#" * (scripts.MOST_BYTES + 1)) is None
