"""The side of a trainer that keeps checkpoints and goes on from them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulayer.torch import files, state
from gpulayer.torch.callbacks.checkpointing import ModelCheckpoint
from gpulayer.torch.errors import CheckpointError

_fits = itertools.count(1)


class Checkpoints:
    """Where they lie, which one a run goes on from, and how one is written."""

    _saved: dict[str, Any] | None
    _folder: Path | None
    _serials: dict[Path, int]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def checkpoint_folder(self) -> Path:
        """Where checkpoints lie that name no folder. In a job that keeps one, each `fit` of the
        program has its own, by its number, so that all of them go on where they were."""
        if self._folder is None:
            kept = os.environ.get("GPULAYER_CHECKPOINT_DIR")
            self._folder = Path(kept) / f"fit-{next(_fits)}" if kept else self.root / "checkpoints"
        return self._folder

    def _find(self, ckpt_path: Any) -> dict[str, Any] | None:
        """The state to go on from, the same on all processes."""
        path: Path | None = None
        found: dict[str, Any] | None = None
        problem = ""
        if self.world.is_first:
            try:
                path = self._path_of(ckpt_path)
                found = None if path is None else files.load(path, ours=True)
            except CheckpointError as error:
                problem = str(error)
        found, problem, name = self.world.from_first((found, problem, str(path)))
        if problem:
            raise CheckpointError(problem)
        if found is None:
            return None
        state.check(self._itself(), found, name)
        at = found["gpulayer"]["progress"]
        self.say(
            f"goes on from {name}: epoch {at['epoch']}, batch {at['batch']}, step {at['step']}"
        )
        return dict(found)

    def _path_of(self, ckpt_path: Any) -> Path | None:
        if ckpt_path == "new" or (ckpt_path is None and not self.goes_on_by_itself()):
            return None
        if ckpt_path == "best":
            best = self.checkpoint_callback and self.checkpoint_callback.best_model_path
            if not best:
                raise CheckpointError(
                    "there is no best checkpoint yet", remedy="ckpt_path='last', or a path"
                )
            return Path(best)
        if ckpt_path is not None and ckpt_path != "last":
            return Path(ckpt_path)
        folders = [self.checkpoint_folder] if ckpt_path is None else self._folders()
        found = [path for folder in folders if (path := files.newest(folder, self.say))]
        return max(found, key=files.steps_of, default=None)

    def _folders(self) -> list[Path]:
        """Where `last` looks: where this run's callbacks keep theirs, or the usual folder."""
        kept = [callback.dirpath for callback in self.checkpoint_callbacks if callback.dirpath]
        return list(dict.fromkeys(kept)) or [self.checkpoint_folder]

    def goes_on_by_itself(self) -> bool:
        keeps = any(isinstance(callback, ModelCheckpoint) for callback in self.callbacks)
        return bool(os.environ.get("GPULAYER_CHECKPOINT_DIR")) and self.is_fitting and keeps

    def save_checkpoint(self, filepath: str | os.PathLike[str], weights_only: bool = False) -> None:
        """Write the state now. Within a step's hooks, go on from it at the next batch."""
        path = Path(filepath)
        self.keep(path, path.parent, weights_only=weights_only, beside=False, then=lambda: None)

    def keep(
        self, path: Path, folder: Path, *, weights_only: bool, beside: bool,
        then: Callable[[], None],
    ) -> None:  # fmt: skip
        """Write a checkpoint, in the first process; `then` happens once it is whole."""
        collected = state.collect(self._itself(), weights_only)
        if self.world.is_first:
            if folder not in self._serials:
                self._serials[folder] = files.next_serial(folder)
            serial = self._serials[folder]
            self._serials[folder] += 1
            self.writer.write(collected, path, serial, self.at.step, beside=beside, then=then)

    def resume_exactly(self) -> None:
        """Where a run was resumed: the saved state once more, then never again."""
        if self._saved is not None:
            state.apply_exactly(self._itself(), self._saved)
            self._saved = None

    def _itself(self) -> Any:
        return self
