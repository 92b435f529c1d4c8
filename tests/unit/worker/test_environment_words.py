"""What of an installer is told on, what reaches it, and what a distribution needs."""

from __future__ import annotations

from gpulayer.worker.environments import settings, words

UV = """Using Python 3.11.7 environment at: /h
  \x1b[31m\u00d7\x1b[0m No solution found when resolving dependencies:
  because a==1 depends on b
"""
PIP = """Looking in links: /index
Collecting gamma
ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)
ERROR: No matching distribution found for nosuch
"""


def test_the_lines_begin_where_it_says_what_is_wrong() -> None:
    assert words.meaningful(UV) == [
        "  \u00d7 No solution found when resolving dependencies:",
        "  because a==1 depends on b",
    ]
    assert words.meaningful(PIP)[-1] == "ERROR: No matching distribution found for nosuch"
    assert len(words.meaningful(PIP)) == 2


def test_of_many_lines_the_first_and_the_last_are_told() -> None:
    told = words.meaningful("noise\nerror: begins\n" + "\n".join(map(str, range(100))))
    assert told[0] == "error: begins"
    assert told[-1] == "99"
    assert len(told) == words.LINES
    assert words.meaningful("\n".join(map(str, range(100)))) == [str(n) for n in range(88, 100)]
    assert all(len(line) <= words.CHARACTERS for line in words.meaningful("error: " + "x" * 9999))


def test_no_login_is_told() -> None:
    environ = {
        "PIP_INDEX_URL": "https://me:p%40ss-word@index/simple",
        "UV_INDEX_CORP_PASSWORD": "corporate",
        "PATH": "/bin",
    }
    said = "error: https://other:word@host/x p@ss-word p%40ss-word corporate /bin"
    told = " ".join(words.meaningful(said, settings.secrets(environ)))
    assert told == "error: https://****@host/x **** **** **** /bin"


def test_a_builder_gets_where_packages_come_from_and_nothing_else() -> None:
    worker = {
        "PATH": "/bin", "PIP_INDEX_URL": "https://worker", "UV_INDEX_CORP_PASSWORD": "corporate",
        "PIP_TARGET": "/t", "PIP_USER": "1", "UV_SYSTEM_PYTHON": "1", "LD_PRELOAD": "x",
        "PYTHONPATH": "/p", "AWS_SECRET": "no", "GPULAYER_TOKEN": "no", "VIRTUAL_ENV": "/v",
    }  # fmt: skip
    kept = {"PATH", "PIP_INDEX_URL", "UV_INDEX_CORP_PASSWORD"}
    assert settings.variables(worker).keys() == kept


def test_a_job_here_is_built_for_with_the_settings_of_its_terminal() -> None:
    terminal = {"PATH": "/mine", "UV_INDEX_URL": "https://mine", "PIP_TARGET": "/t"}
    found = settings.variables(
        {"PATH": "/bin", "PIP_INDEX_URL": "https://worker"},
        lambda names: {name: terminal.get(name) for name in names},
    )
    assert found == {"PATH": "/mine", "UV_INDEX_URL": "https://mine"}


def test_a_full_disk_is_known_by_its_words() -> None:
    assert words.is_full("failed to write: No space left on device (os error 28)")
    assert not words.is_full(PIP)
