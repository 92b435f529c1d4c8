"""Loggers for the programs of others. W&B and MLflow are stood in for by small fakes of the calls
that are made of them; TensorBoard too, where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import gpulayer.torch as glt  # noqa: E402
from tests.torch.small import Net, quiet  # noqa: E402

BATCHES = [(torch.randn(4, 8), torch.ones(4).long()) for _ in range(4)]


def module(name: str, monkeypatch: pytest.MonkeyPatch, **contents: Any) -> None:
    """A fake of a module that is not installed here."""
    made = ModuleType(name)
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, name, made)


def train_twice(make: Any, folder: Path) -> None:
    """Two epochs; then once more from the checkpoint after the first step of the second."""
    for epochs, ckpt in ((1, None), (2, "last")):
        keeps = glt.ModelCheckpoint(folder / "kept", every_n_train_steps=1, save_top_k=-1)
        trainer = quiet(
            max_epochs=epochs, log_every_n_steps=2, logger=make(), callbacks=[keeps],
            enable_checkpointing=None,
        )  # fmt: skip
        trainer.fit(Net(), BATCHES, ckpt_path=ckpt)


def test_tensorboard_gets_scalars_and_a_resumed_run_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    class SummaryWriter:
        def __init__(self, log_dir: str, purge_step: int | None) -> None:
            told.append((log_dir, purge_step))

        def add_text(self, name: str, text: str) -> None:
            told.append((name, "lr" in text))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, type(value), step))

        def close(self) -> None:
            told.append("closed")

    module("torch.utils.tensorboard", monkeypatch, SummaryWriter=SummaryWriter)
    train_twice(lambda: glt.TensorBoardLogger(folder / "logs", "mine"), folder)
    first, second = told[: told.index("closed")], told[told.index("closed") + 1 :]
    assert first[:2] == [(str(folder / "logs/mine"), None), ("hparams", True)]
    assert ("loss_step", float, 2) in first
    assert second[0] == (str(folder / "logs/mine"), 5)
    assert ("loss_step", float, 6) in second
    assert second[-1] == "closed"


def test_wandb_gets_values_and_a_resumed_run_has_the_same_id(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    ended: list[int] = []

    def init(**options: Any) -> Any:
        begun.append(options)
        config = SimpleNamespace(update=lambda values, allow_val_change: told.append(values))
        return SimpleNamespace(
            id=options["id"] or "run7", config=config, log=told.append,
            finish=lambda exit_code: ended.append(exit_code),
        )  # fmt: skip

    module("wandb", monkeypatch, init=init)
    train_twice(lambda: glt.WandbLogger(project="digits", tags=["a"]), folder)
    assert begun[0]["project"] == "digits"
    assert begun[0]["tags"] == ["a"]
    assert [options["id"] for options in begun] == [None, "run7"]
    assert told[0] == {"lr": 0.01}
    assert told[1].keys() == {"epoch", "loss_step", "trainer/global_step"}
    assert ended == [0, 0]


def test_mlflow_gets_values_and_a_resumed_run_is_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    class MlflowClient:
        def __init__(self, tracking_uri: str | None) -> None:
            pass

        def get_experiment_by_name(self, name: str) -> Any:
            return None

        def create_experiment(self, name: str) -> str:
            return f"of {name}"

        def create_run(self, experiment: str, run_name: str | None) -> Any:
            told.append(("made", experiment, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def update_run(self, run: str, status: str) -> None:
            told.append((run, status))

        def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
            told.extend((run, name, value) for name, value in params)
            told.extend((run, name, step) for name, _, _, step in metrics)

        def set_terminated(self, run: str, status: str) -> None:
            told.append((run, status))

    entities = SimpleNamespace(Metric=lambda *values: values, Param=lambda *values: values)
    module("mlflow", monkeypatch, MlflowClient=MlflowClient, entities=entities)
    train_twice(lambda: glt.MLFlowLogger("digits", run_name="one"), folder)
    assert told[:2] == [("made", "of digits", "one"), ("r1", "lr", "0.01")]
    assert ("r1", "loss_step", 2) in told
    ends = [at for at, line in enumerate(told) if line == ("r1", "FINISHED")]
    assert len(ends) == 2
    assert told[ends[0] + 1] == ("r1", "RUNNING")


@pytest.mark.parametrize(
    ("kind", "missing", "package"),
    [
        ("TensorBoardLogger", "torch.utils.tensorboard", "tensorboard"),
        ("WandbLogger", "wandb", "wandb"),
        ("MLFlowLogger", "mlflow", "mlflow"),
    ],
)
def test_one_that_is_not_installed_is_refused_with_what_to_do(
    kind: str, missing: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(glt.ConfigurationError, match=f"help: pip install {package}"):
        getattr(glt, kind)()
