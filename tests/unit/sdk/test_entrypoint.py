"""A function travels by its name; what has none is refused where it is written."""

from __future__ import annotations

import functools
import math
import os

import pytest

from gpulayer.errors import UsageError
from gpulayer.sdk.entrypoint import entrypoint_of


def square(x: int) -> int:
    return x * x


class Thing:
    def method(self) -> None: ...


def test_a_function_of_a_module_is_found_by_its_root() -> None:
    found = entrypoint_of(os.path.join)
    assert found.name == "posixpath:join"
    assert found.sys_path == (os.path.dirname(os.__file__),)


def test_a_function_of_a_package_is_found_from_above_the_package() -> None:
    from email.utils import parseaddr

    assert entrypoint_of(parseaddr).name == "email.utils:parseaddr"
    assert entrypoint_of(parseaddr).sys_path == (os.path.dirname(os.__file__),)


def test_a_function_that_is_built_in_is_found_wherever_its_module_is() -> None:
    found = entrypoint_of(math.sqrt)
    assert (found.name, found.origin()) == ("math:sqrt", {})
    assert entrypoint_of(print).name == "builtins:print"


def _nested() -> object:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    "function", [lambda: 1, _nested(), Thing.method, functools.partial(square, 1), [].append, Thing]
)
def test_what_has_no_name_to_import_is_refused(function: object) -> None:
    with pytest.raises(UsageError) as caught:
        entrypoint_of(function)  # type: ignore[arg-type]
    assert caught.value.code == "function-not-importable"
    assert caught.value.why
    assert caught.value.hint


def test_a_class_of_python_itself_is_a_function_as_any() -> None:
    assert entrypoint_of(str).name == "builtins:str"
    assert entrypoint_of(str).origin() == {}
