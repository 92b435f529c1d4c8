"""What of an end may hold a secret, cleaned; and what is done where nobody can clean it."""

from __future__ import annotations

import json

from gpulayer.contracts.messages import Exit
from gpulayer.worker.steps.hiding import UNKNOWN, without_secrets

END = Exit(
    "failed",
    "exception",
    message="bad hunter22",
    exit_code=1,
    value='{"hunter22":["a",1,null,"xhunter22"]}',
    error={"type": "E", "traceback": ["line hunter22"], "count": 2},
    outputs=({"path": "good", "size": 1}, {"path": "d/hunter22", "size": 1}),
)


def clean(texts: list[str]) -> list[str]:
    return [text.replace("hunter22", "[redacted:T]") for text in texts]


def test_every_text_of_an_end_is_cleaned_and_its_shape_stays() -> None:
    end = without_secrets(END, clean)
    assert "hunter22" not in repr(end)
    assert json.loads(end.value or "") == {"[redacted:T]": ["a", 1, None, "x[redacted:T]"]}
    assert end.error == {"type": "E", "traceback": ["line [redacted:T]"], "count": 2}
    assert [output["path"] for output in end.outputs] == ["good"]
    assert end.message == "bad [redacted:T]; not kept as output: 1 with a secret in the name"
    assert (end.outcome, end.exit_code) == ("failed", 1)


def test_where_the_values_are_not_known_nothing_of_it_is_shown() -> None:
    end = without_secrets(END, lambda texts: None)
    assert "hunter22" not in repr(end)
    assert (end.value, end.outputs, end.message) == (None, (), UNKNOWN)
    assert (end.outcome, end.exit_code) == ("failed", 1)
