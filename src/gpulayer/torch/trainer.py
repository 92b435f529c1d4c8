"""`Trainer`: fit, validate, test and predict. The loop itself is in `fitting`."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gpulayer.torch import files, launch, precision, state
from gpulayer.torch.assembly import callbacks_of, loggers_of, world_of
from gpulayer.torch.batches import mover
from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.evaluating import evaluate
from gpulayer.torch.facts import Facts
from gpulayer.torch.fitting import Fit, Progress
from gpulayer.torch.hooks import Callback, Hooks
from gpulayer.torch.ledger import Ledger
from gpulayer.torch.loaders import check_lengths, loaders_of
from gpulayer.torch.module import DataModule, Module
from gpulayer.torch.optimising import Optimising
from gpulayer.torch.options import Options, made
from gpulayer.torch.phases import Phases
from gpulayer.torch.processes import connect, leave
from gpulayer.torch.resuming import Checkpoints


class Trainer(Facts, Checkpoints):
    """Trains a `Module`. The keywords are those of Lightning's Trainer: see `Options`."""

    __signature__ = inspect.signature(Options)

    model: Module
    hooks: Hooks
    optimising: Optimising

    def __init__(self, **keywords: Any) -> None:
        self.options = self._wish = made(keywords)
        self.is_away = launch.is_away(self.options)
        if self.is_away:
            self.options = self.options.at_home()
        self.world = world_of(self.options)
        self.device = self.world.device
        self.precision = str(self.options.precision)
        precision.check(self.precision, self.device)
        self.root = Path(self.options.default_root_dir or ".")
        self.callbacks: list[Callback] = callbacks_of(self.options)
        self.loggers: list[Any] = loggers_of(self.options, self.root)
        self.at = Progress()
        self.ledger = Ledger(on_step=True)
        self.phases = Phases()
        """Where the time of the last `fit` went; `.seconds` by name."""
        self.writer = files.Writer()
        self.fit_loop: Fit | None = None
        self.datamodule: DataModule | None = None
        self.seed = 0
        self.moves = self._meets = False
        self.is_fitting = self.is_ending = self.sanity_checking = False
        self.should_stop = self.interrupted = False
        self.callback_metrics: dict[str, torch.Tensor] = {}
        self.logged_metrics: dict[str, torch.Tensor] = {}
        self.progress_bar_metrics: dict[str, float] = {}
        self.noted: dict[str, float] = {}
        """What callbacks want to be told with the next values."""
        self.job: Any = None
        """That the newest `fit` ran as, if it was sent."""
        self._serials: dict[Path, int] = {}
        self._saved: dict[str, Any] | None = None
        self._folder: Path | None = None

    # What is asked of it -----------------------------------------------------------------------
    def fit(
        self, model: Module, train_dataloaders: Any = None, val_dataloaders: Any = None,
        datamodule: DataModule | None = None, ckpt_path: str | os.PathLike[str] | None = None,
    ) -> None:  # fmt: skip
        """Train. `ckpt_path` goes on from a file, or from the newest (`last`) or best (`best`).

        In a job with a checkpoint folder (`gpulayer run --checkpoint DIR`) a run goes on from the
        newest one by itself; `ckpt_path="new"` begins anew.

        With `on`, `gpus` or `nodes` a job trains, and what it came to is here when this returns:
        see `launch`. The module is built once more there, and so is the data.
        """
        if self.is_away:
            self.job = launch.fit(self, self._wish, model)
            return
        self.is_fitting = True
        self._folder = None
        self._folder = self.checkpoint_folder
        with self._running(model, "fit", datamodule):
            saved = self._find(ckpt_path)
            self.phases = Phases()
            self.optimising = Optimising(self)
            self.at.__init__()  # type: ignore[misc]  # a second fit begins at zero
            self.ledger = Ledger(on_step=True)
            self.seed = self.world.from_first(torch.initial_seed())
            if saved is not None:
                state.apply_model(self, saved)
                state.apply_callbacks(self, saved)
            self._saved = saved
            feed, val_feeds = loaders_of(self, train_dataloaders, val_dataloaders)
            check_lengths(self.world, feed)
            try:
                self._introduce()
                begun = self.at.step
                self.fit_loop = Fit(self, feed, val_feeds)
                self.hooks.call("on_fit_start")
                with self._terminated_gently():
                    self.fit_loop.run()
                self.writer.wait()
                self.hooks.call("on_fit_end")
                if self.options.profiler:
                    self.say(self.phases.table(self.at.step - begun))
                if launch.is_sent(self.options):
                    launch.leave(self)
            finally:
                for each in (feed, *val_feeds):
                    each.close()
        if launch.is_sent(self.options):
            raise SystemExit(0)  # what follows in the script is for whoever sent it

    def validate(
        self, model: Module | None = None, dataloaders: Any = None, ckpt_path: Any = None,
        verbose: bool = True, datamodule: DataModule | None = None,
    ) -> list[dict[str, float]]:  # fmt: skip
        """One pass over validation data; the values that were logged."""
        return [self._evaluate(model, dataloaders, ckpt_path, datamodule, "validation")[0]]

    def test(
        self, model: Module | None = None, dataloaders: Any = None, ckpt_path: Any = None,
        verbose: bool = True, datamodule: DataModule | None = None,
    ) -> list[dict[str, float]]:  # fmt: skip
        """One pass over test data; the values that were logged."""
        return [self._evaluate(model, dataloaders, ckpt_path, datamodule, "test")[0]]

    def predict(
        self, model: Module | None = None, dataloaders: Any = None,
        datamodule: DataModule | None = None, return_predictions: bool = True,
        ckpt_path: Any = None,
    ) -> Any:  # fmt: skip
        """What `predict_step` returned for each batch; a list of such lists for several loaders."""
        kept = self._evaluate(model, dataloaders, ckpt_path, datamodule, "predict")[1]
        return kept[0] if len(kept) == 1 else kept

    def _evaluate(
        self, model: Module | None, loaders: Any, ckpt_path: Any, datamodule: Any, stage: str
    ) -> tuple[dict[str, float], list[list[Any]]]:
        if model is None:
            model = self.model
        self.is_fitting = False
        with self._running(model, {"validation": "validate"}.get(stage, stage), datamodule):
            if ckpt_path is not None:
                saved = files.load(self._path_of(ckpt_path) or ckpt_path)
                model.load_state_dict(saved["state_dict"], strict=model.strict_loading)
            _, feeds = loaders_of(self, None, loaders, stage)
            try:
                return evaluate(self, feeds, stage)
            finally:
                for feed in feeds:
                    feed.close()

    # A run -------------------------------------------------------------------------------------
    @contextmanager
    def _running(self, model: Module, stage: str, datamodule: DataModule | None) -> Iterator[None]:
        """The module on its device, in this trainer's hands, until the run is over."""
        if not isinstance(model, Module):
            raise ConfigurationError(
                f"a {type(model).__name__} is no gpulayer.torch.Module",
                remedy="class Mine(glt.Module) in the place of LightningModule or nn.Module",
            )
        # It lasts until the process ends: to part and meet again at one port is a race.
        self._meets = connect(self.world) or self._meets
        self.model = model
        model._trainer = self
        self.datamodule = datamodule
        self.should_stop = self.interrupted = self.is_ending = False
        callbacks = callbacks_of(self.options, model, self) if stage == "fit" else self.callbacks
        self.callbacks = callbacks
        self.hooks = Hooks(self, model, callbacks)
        is_whole = True
        try:
            for part in (datamodule, model):
                if part is not None and self.world.local_rank == 0:
                    part.prepare_data()
            self.world.barrier()
            if datamodule is not None:
                datamodule.trainer = self
                datamodule.setup(stage)
            self.hooks.call("setup", stage)
            model.configure_model()
            precision.check(self.precision, self.device, model)
            model.to(self.device)
            self._choose_mover(model)
            with torch.autograd.set_detect_anomaly(self.options.detect_anomaly):
                yield
        except BaseException as error:
            self.hooks.call("on_exception", error)
            self._finish("failed")
            is_whole = False
            raise
        else:
            self._finish("success")
        finally:
            self.hooks.call("teardown", stage)
            if datamodule is not None:
                datamodule.teardown(stage)
            self.fit_loop, self._saved = None, None
            self.ledger.batch = None
            if self._meets and not is_whole:
                leave()  # so that the others need not wait for this one

    def _finish(self, status: str) -> None:
        for logger in self.loggers:
            getattr(logger, "finalize", lambda status: None)(status)

    def _choose_mover(self, model: Module) -> None:
        move = mover(self.device)
        names = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
        own = {name: getattr(model, name, None) for name in names}
        self.moves = self.device.type != "cpu" or any(own.values())

        def bring(batch: Any, which: int = 0) -> Any:
            before, transfer, after = (own[name] for name in names)
            batch = before(batch, which) if before else batch
            batch = transfer(batch, self.device, which) if transfer else move(batch)
            return after(batch, which) if after else batch

        self.bring: Callable[..., Any] = bring if self.moves else lambda batch, which=0: batch

    def _introduce(self) -> None:
        """One line on what begins, and the hyperparameters for the loggers."""
        if self.options.enable_model_summary is not False:
            count = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
            where = (
                f"{self.world.size} x {self.device.type}" if self.world.size > 1 else self.device
            )
            self.say(
                f"{type(self.model).__name__}: {count:,} parameters to train on {where}, "
                f"{self.precision}, {self.optimising.described}"
            )
        for logger in self.loggers:
            if self.world.is_first and hasattr(logger, "log_hyperparams"):
                logger.log_hyperparams(dict(self.model.hparams))

    @contextmanager
    def _terminated_gently(self) -> Iterator[None]:
        """SIGTERM, as before a preemption: save at the next safe point, then leave with 143."""
        usual = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        ours = usual and threading.current_thread() is threading.main_thread()

        def note(*_: Any) -> None:
            self.interrupted = True

        if ours:
            signal.signal(signal.SIGTERM, note)
        try:
            yield
            if self.world.any(self.interrupted):
                self.writer.wait()
                raise SystemExit(128 + signal.SIGTERM)
        finally:
            if ours:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    # Values ------------------------------------------------------------------------------------
    def publish(self, values: dict[str, float], ledger: Ledger | None = None) -> None:
        """Make values known to callbacks, the progress bar and the loggers."""
        values, self.noted = self.noted | values, {}
        if not values or self.sanity_checking:
            return
        self.set_metrics(values)
        shown = {n: v for n, v in values.items() if ledger is None or not ledger.hidden(n)}
        self.logged_metrics.update({n: self.callback_metrics[n] for n in shown})
        if ledger is not None:
            entries = ledger.entries
            bar = {n: v for n, v in values.items() if n in entries and entries[n].prog_bar}
            self.progress_bar_metrics.update(bar)
        if shown and self.world.is_first:
            for logger in self.loggers:
                logger.log_metrics({"epoch": self.at.epoch} | shown, step=self.at.step)

    def set_metrics(self, values: dict[str, float]) -> None:
        self.callback_metrics.update({name: torch.tensor(v) for name, v in values.items()})

    def say(self, text: str) -> None:
        """A line for the person who watches, from the first process."""
        if self.world.is_first:
            print(text, file=sys.stderr, flush=True)  # noqa: T201  it is what it is for

    def scaled(self, loss: Any) -> Any:
        scaler = self.optimising.scaler
        return loss if scaler is None else scaler.scale(loss)
