"""Where values go: a line of JSON or a row of CSV each time. Files are open only while written."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpulayer.runtime.reporting import VARIABLE, report


class FileLogger:
    """Lines in `folder/run-N/`; `N` is the first that is free, or that of a resumed run."""

    file_name = "metrics"

    def __init__(self, save_dir: str | os.PathLike[str] = "logs", name: str | None = None) -> None:
        self.save_dir, self.name = Path(save_dir), name
        self._folder: Path | None = None

    @property
    def log_dir(self) -> Path:
        """The folder of this run; it is made when it is first asked for."""
        if self._folder is None:
            number = 0
            while True:
                folder = self.save_dir / (self.name or f"run-{number}")
                try:
                    folder.mkdir(parents=True, exist_ok=self.name is not None)
                    break
                except FileExistsError:
                    number += 1
            self._folder = folder
        return self._folder

    @property
    def path(self) -> Path:
        return self.log_dir / self.file_name

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        if params:
            text = json.dumps(dict(params), indent=2, default=str)
            (self.log_dir / "hparams.json").write_text(text + "\n")

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        raise NotImplementedError

    def save(self) -> None:
        """All is on the disk already."""

    def finalize(self, status: str) -> None:
        """All is on the disk already."""

    def state_dict(self) -> dict[str, Any]:
        return {"folder": None if self._folder is None else str(self._folder)}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        """Go on in the folder of a resumed run: what it wrote after the checkpoint is dropped."""
        folder = state.get("folder")
        if folder and Path(folder).is_dir():
            self._folder = Path(folder)
            if self.path.exists():
                text = self.path.read_text()
                _replace(self.path, self._until(text, step))

    def _until(self, text: str, step: int) -> str:
        raise NotImplementedError


class JSONLLogger(FileLogger):
    """One object a line: `{"step": 50, "epoch": 0, "loss": 0.1}`."""

    file_name = "metrics.jsonl"

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps({"step": step} | {n: _finite(v) for n, v in metrics.items()}))
            file.write("\n")

    def _until(self, text: str, step: int) -> str:
        def is_before(line: str) -> bool:
            try:
                return bool(json.loads(line)["step"] <= step)
            except (ValueError, KeyError, TypeError):  # the half line of a killed process
                return False

        return _kept(text.splitlines(keepends=True), is_before)


class CSVLogger(FileLogger):
    """One row each time; a name that comes later gets a column at the end."""

    file_name = "metrics.csv"

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        row = {"step": step} | metrics
        rows: list[dict[str, Any]] = []
        names: list[str] = []
        if self.path.exists():
            with open(self.path, newline="") as file:
                names = next(csv.reader(file), [])
                if not set(row) <= set(names):
                    file.seek(0)
                    rows = list(csv.DictReader(file))
        if set(row) <= set(names):
            with open(self.path, "a", newline="") as file:
                csv.DictWriter(file, names, restval="").writerow(row)
        else:
            names += [name for name in row if name not in names]
            _replace(self.path, _table(names, [*rows, row]))

    def _until(self, text: str, step: int) -> str:
        rows = list(csv.DictReader(io.StringIO(text)))
        if not rows:
            return text
        names = text.splitlines()[0].split(",")
        whole = [row for row in rows if (row.get("step") or "").isdigit()]
        return _table(names, [row for row in whole if int(row["step"]) <= step])


class JobLogger:
    """The metrics of the job that this runs in, for `gpulayer metrics`; nothing elsewhere. A
    Trainer has one by itself. Where a resumed run goes on, the plane goes on from there too."""

    @property
    def is_heard(self) -> bool:
        """Whether this is a job whose worker reads them."""
        return bool(os.environ.get(VARIABLE))

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        report(metrics, step=step)


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _kept(lines: list[str], is_kept: Callable[[str], bool]) -> str:
    return "".join(line for line in lines if is_kept(line))


def _table(names: list[str], rows: list[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, newline="")
    os.replace(new, path)
