"""Loggers that hand values to programs of others, where those are installed."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulayer.torch.errors import ConfigurationError


def _needed(module: str, name: str, package: str) -> Any:
    """A module of another package, or what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{name} needs {package}, which is not installed here",
            str(error),
            f"pip install {package}, or glt.JSONLLogger(), which needs nothing",
        ) from error


class TensorBoardLogger:
    """Scalars for TensorBoard in `save_dir/name`. A resumed run goes on in its folder, and what
    it wrote after the checkpoint is left out."""

    def __init__(
        self, save_dir: str | os.PathLike[str] = "logs", name: str = "tensorboard"
    ) -> None:
        self.log_dir = Path(save_dir) / name
        self._module = _needed("torch.utils.tensorboard", "TensorBoardLogger", "tensorboard")
        self._writer: Any = None
        self._purge: int | None = None

    @property
    def experiment(self) -> Any:
        """The `SummaryWriter`, opened when it is first asked for."""
        if self._writer is None:
            self._writer = self._module.SummaryWriter(str(self.log_dir), purge_step=self._purge)
        return self._writer

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        if params:
            text = json.dumps(dict(params), indent=2, default=str)
            self.experiment.add_text("hparams", f"```json\n{text}\n```")

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        for name, value in metrics.items():
            self.experiment.add_scalar(name, value, step)

    def finalize(self, status: str) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def state_dict(self) -> dict[str, Any]:
        return {"folder": str(self.log_dir)}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        self.log_dir, self._purge = Path(state["folder"]), step + 1


class WandbLogger:
    """A run of Weights & Biases; `options` are those of `wandb.init`. A resumed run goes on in
    the same one."""

    def __init__(
        self, name: str | None = None, project: str | None = None, save_dir: str | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        self._module = _needed("wandb", "WandbLogger", "wandb")
        self._options = {"name": name, "project": project, "dir": save_dir, "id": None, **options}
        self._run: Any = None

    @property
    def experiment(self) -> Any:
        """The run, begun when it is first asked for."""
        if self._run is None:
            self._run = self._module.init(**self._options, resume="allow")
            self._options["id"] = self._run.id
        return self._run

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        self.experiment.config.update(dict(params), allow_val_change=True)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        # W&B takes a step once and only upwards; a value of its own may come again.
        self.experiment.log({**metrics, "trainer/global_step": step})

    def finalize(self, status: str) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if status == "success" else 1)
            self._run = None

    def state_dict(self) -> dict[str, Any]:
        return {"id": self._options["id"]}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        self._options["id"] = state["id"]


class MLFlowLogger:
    """A run of MLflow, in the experiment of that name. A resumed run goes on in the same one."""

    def __init__(
        self, experiment_name: str = "gpulayer", run_name: str | None = None,
        tracking_uri: str | None = None, run_id: str | None = None,
    ) -> None:  # fmt: skip
        self._module = _needed("mlflow", "MLFlowLogger", "mlflow")
        self.experiment_name, self.run_name, self.run_id = experiment_name, run_name, run_id
        self.experiment = self._module.MlflowClient(tracking_uri)
        self._begun = False

    def _run(self) -> str:
        """The run's name for MLflow; it is made when the first value comes."""
        if self.run_id is None:
            found = self.experiment.get_experiment_by_name(self.experiment_name)
            where = found.experiment_id if found else None
            where = where or self.experiment.create_experiment(self.experiment_name)
            self.run_id = self.experiment.create_run(where, run_name=self.run_name).info.run_id
        elif not self._begun:
            self.experiment.update_run(self.run_id, status="RUNNING")
        self._begun = True
        return str(self.run_id)

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        held = [self._module.entities.Param(n, str(v)[:6000]) for n, v in params.items()]
        self.experiment.log_batch(self._run(), params=held)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        now = int(time.time() * 1000)  # noqa: TID251  the time of day is what MLflow keeps
        held = [self._module.entities.Metric(n, v, now, step or 0) for n, v in metrics.items()]
        self.experiment.log_batch(self._run(), metrics=held)

    def finalize(self, status: str) -> None:
        if self._begun:
            ended = "FINISHED" if status == "success" else "FAILED"
            self.experiment.set_terminated(self._run(), status=ended)
            self._begun = False

    def state_dict(self) -> dict[str, Any]:
        return {"run": self.run_id}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        self.run_id = state["run"]
