"""What `fit` does, step by step, against loops written out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import gpulayer.torch as glt  # noqa: E402
from tests.torch.small import Net, Noisy, quiet  # noqa: E402

DATA = TensorDataset(torch.randn(40, 8), torch.randint(0, 2, (40,)))


class Linear(glt.Module):
    """As plain as a module can be."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layer = torch.nn.Linear(8, 2)
        self.options = options
        self.seen: list[int] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        self.seen.append(len(x))
        loss = torch.nn.functional.cross_entropy(self.layer(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def raw_loop(window: int, clip: float | None = None, batch_size: int = 8) -> dict[str, Any]:
    model = Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = list(DataLoader(DATA, batch_size))
    for at in range(0, len(batches), window):
        part = batches[at : at + window]
        optimizer.zero_grad()
        for x, y in part:
            (torch.nn.functional.cross_entropy(model.layer(x), y) / len(part)).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize(("window", "clip"), [(1, None), (2, None), (4, None), (2, 0.01)])
def test_it_learns_what_a_loop_by_hand_learns(window: int, clip: float | None) -> None:
    """Five batches in windows of 1, 2 and 4: the short last window is divided by its own size."""
    model = Linear()
    options = {"accumulate_grad_batches": window, "gradient_clip_val": clip}
    quiet(max_epochs=1, **options).fit(model, DataLoader(DATA, 8))
    expected = raw_loop(window, clip)
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())


def test_nothing_is_read_from_the_device_between_log_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every way in which Python could ask a tensor for its value is counted."""
    reads: list[int] = []
    model = Linear()
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "numpy",
                 "cpu", "__contains__", "__format__"):  # fmt: skip
        real = getattr(torch.Tensor, name)

        def counted(self: Any, *args: Any, real: Callable[..., Any] = real, **kw: Any) -> Any:
            reads.append(trainer.global_step)
            return real(self, *args, **kw)

        monkeypatch.setattr(torch.Tensor, name, counted)
    trainer = quiet(
        max_epochs=1, log_every_n_steps=10, gradient_clip_val=1.0, enable_progress_bar=True,
        callbacks=[glt.EMA(0.9), glt.LearningRateMonitor()], logger=glt.JSONLLogger("log"),
    )  # fmt: skip
    batches = [DATA[i % 10 : i % 10 + 8] for i in range(37)]
    trainer.fit(model, batches)
    assert set(reads) == {10, 20, 30, 37}  # at log points, and at the end of the epoch


def test_what_is_logged_is_the_latest_value_and_the_weighted_mean(folder: Path) -> None:
    class Logs(Linear):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.log("size", float(len(batch[0])), on_step=True, on_epoch=True)
            self.log("most", torch.tensor(float(batch_idx)), on_epoch=True, reduce_fx="max")
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_mean", batch[0].mean())

    trainer = quiet(max_epochs=1, log_every_n_steps=2, logger=glt.JSONLLogger(folder, "log"))
    trainer.fit(Logs(), DataLoader(DATA, 16), DataLoader(DATA, 15))
    rows = [json.loads(line) for line in (folder / "log" / "metrics.jsonl").open()]
    assert rows[0] | {"loss": 0} == {
        "step": 2, "epoch": 0, "loss": 0, "size_step": 16.0, "most_step": 1.0,
    }  # fmt: skip
    epoch = {name: value for row in rows for name, value in row.items()}
    assert epoch["size_epoch"] == pytest.approx((16 * 16 + 16 * 16 + 8 * 8) / 40)
    assert epoch["most_epoch"] == 2.0
    assert epoch["val_mean"] == pytest.approx(float(DATA.tensors[0].mean()), abs=1e-6)


def test_schedules_step_by_step_by_epoch_and_by_a_watched_value() -> None:
    class Scheduled(Linear):
        def configure_optimizers(self) -> Any:
            self.a = torch.optim.SGD(self.parameters(), lr=1.0)
            make = torch.optim.lr_scheduler
            self.plans = [
                {"scheduler": make.LambdaLR(self.a, lambda n: 1.0), "interval": "step",
                 "frequency": 2},
                {"scheduler": make.LambdaLR(self.a, lambda n: 1.0)},
                {"scheduler": make.ReduceLROnPlateau(self.a, patience=0), "monitor": "loss"},
            ]  # fmt: skip
            return [self.a], self.plans

    model = Scheduled()
    trainer = quiet(max_epochs=3)
    trainer.fit(model, DataLoader(DATA, 8))
    counts = [plan["scheduler"].last_epoch for plan in model.plans]
    assert counts == [7, 3, 3]  # of 15 steps every second, and 3 epochs


def test_limits_and_shortcuts() -> None:
    def steps(**options: Any) -> int:
        trainer = quiet(**options)
        trainer.fit(Linear(), DataLoader(DATA, 8))
        return int(trainer.global_step)

    assert steps(max_epochs=2) == 10
    assert steps(max_epochs=2, limit_train_batches=3) == 6
    assert steps(max_epochs=2, limit_train_batches=0.4) == 4
    assert steps(max_steps=7) == 7
    assert steps(fast_dev_run=True, enable_checkpointing=None) == 1
    assert steps(fast_dev_run=3, enable_checkpointing=None) == 3
    assert steps(max_epochs=1, accumulate_grad_batches=2) == 3
    assert steps(max_epochs=100_000, max_time={"seconds": 0.05}) < 500_000
    assert steps(max_epochs=0) == 0


def test_overfitting_sees_the_same_first_batches_each_epoch() -> None:
    class Sees(Linear):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.seen.append(float(batch[0].sum()))  # type: ignore[arg-type]
            return super().training_step(batch, batch_idx)

    model = Sees()
    quiet(max_epochs=2, overfit_batches=2).fit(model, DataLoader(DATA, 8, shuffle=True))
    assert model.seen[0::2][:2] == model.seen[0::2][2:]


def test_the_order_differs_from_epoch_to_epoch_and_is_the_seeds() -> None:
    def order(seed: int) -> list[Any]:
        class Sees(Linear):
            def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
                found.append(batch[0][0, 0].item())

        found: list[float] = []
        model = Sees()
        glt.seed_everything(seed)
        quiet(max_epochs=2).fit(model, DataLoader(DATA, 8, shuffle=True))
        return found

    first = order(1)
    assert first[:5] != first[5:]
    assert order(1) == first
    assert order(2) != first


def test_the_sanity_check_leaves_no_trace() -> None:
    class Draws(Net):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_loss", torch.rand(()))

    def weights(sanity: int) -> dict[str, Any]:
        glt.seed_everything(3)
        model = Draws()
        trainer = quiet(max_epochs=1, num_sanity_val_steps=sanity)
        trainer.fit(model, DataLoader(Noisy(), 20, shuffle=True), DataLoader(Noisy(), 20))
        return model.state_dict()

    with_it, without = weights(2), weights(0)
    assert all(torch.equal(with_it[name], without[name]) for name in with_it)


def test_stopping_early_and_the_best_checkpoint(folder: Path) -> None:
    class Worsens(Linear):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val", [3.0, 1.0, 2.0, 2.0, 2.0, 2.0][self.current_epoch])

    keeps = glt.ModelCheckpoint(folder, "{epoch}-{val:.1f}", monitor="val", save_last=True)
    stops = glt.EarlyStopping("val", patience=2)
    trainer = quiet(max_epochs=6, callbacks=[keeps, stops], enable_checkpointing=None)
    trainer.fit(Worsens(), DataLoader(DATA, 8), DataLoader(DATA, 8))
    assert trainer.current_epoch == 4
    assert sorted(p.name for p in folder.glob("*.ckpt")) == ["epoch=2-val=1.0.ckpt", "last.ckpt"]
    assert keeps.best_model_score == 1.0


def test_hooks_come_in_their_order_and_minus_one_ends_the_epoch() -> None:
    told: list[str] = []

    class Tells(glt.Callback):
        pass

    for event in ("on_fit_start", "on_train_start", "on_train_epoch_start",
                  "on_train_batch_start", "on_before_zero_grad", "on_before_backward",
                  "on_after_backward", "on_before_optimizer_step", "on_train_batch_end",
                  "on_train_epoch_end", "on_train_end", "on_fit_end"):  # fmt: skip
        setattr(Tells, event, lambda self, *args, event=event: told.append(event))

    class Skips(Linear):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
            return -1 if batch_idx == 1 else None

    trainer = quiet(max_epochs=1, callbacks=[Tells()])
    trainer.fit(Skips(), DataLoader(DATA, 8))
    assert told == [
        "on_fit_start", "on_train_start", "on_train_epoch_start", "on_train_batch_start",
        "on_before_zero_grad", "on_before_backward", "on_after_backward",
        "on_before_optimizer_step", "on_train_batch_end", "on_train_batch_start",
        "on_train_epoch_end", "on_train_end", "on_fit_end",
    ]  # fmt: skip
    assert trainer.global_step == 1


def test_optimisers_stepped_by_hand_are_counted() -> None:
    class ByHand(Linear):
        automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(torch.nn.functional.cross_entropy(
                    self.layer(batch[0]), batch[1]))  # fmt: skip
                optimizer.step()

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]

    trainer = quiet(max_epochs=1)
    trainer.fit(ByHand(), DataLoader(DATA, 8))
    assert trainer.global_step == 10


def test_lbfgs_and_an_optimizer_step_of_its_own() -> None:
    class Own(Linear):
        calls = 0

        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)

        def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, closure: Any) -> None:  # type: ignore[override]
            self.calls += 1
            optimizer.step(closure)

    model = Own()
    trainer = quiet(max_epochs=1)
    trainer.fit(model, DataLoader(DATA, 8))
    assert model.calls == trainer.global_step == 5


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision_runs_forward_in_it_and_keeps_weights(precision: str) -> None:
    kinds: list[Any] = []

    class Looks(Linear):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            kinds.append(self.layer(batch[0]).dtype)
            return super().training_step(batch, batch_idx)

    model = Looks()
    quiet(max_epochs=1, precision=precision).fit(model, DataLoader(DATA, 8))
    assert set(kinds) == {torch.bfloat16 if "bf" in precision else torch.float16}
    assert model.layer.weight.dtype == torch.float32
    assert not torch.equal(model.layer.weight, Linear().layer.weight)


def test_validate_test_and_predict() -> None:
    trainer, model = quiet(), Net()
    loader = DataLoader(DATA, 16)
    assert trainer.validate(model, loader)[0].keys() == {"val_loss"}
    several = trainer.test(model, [loader, loader])[0]
    assert set(several) == {"val_loss/dataloader_idx_0", "val_loss/dataloader_idx_1"}
    found = trainer.predict(model, [x for x, _ in loader])
    assert [tuple(part.shape) for part in found] == [(16, 2), (16, 2), (8, 2)]


def test_a_data_module_gives_the_loaders_and_configures_by_stage() -> None:
    stages: list[str] = []

    class Data(glt.DataModule):
        def setup(self, stage: str) -> None:
            stages.append(stage)

        def train_dataloader(self) -> Any:
            return DataLoader(DATA, 8)

        def val_dataloader(self) -> Any:
            return DataLoader(DATA, 8)

    trainer = quiet(max_epochs=1)
    trainer.fit(Net(), datamodule=Data())
    assert trainer.global_step == 5
    assert "val_loss" in trainer.callback_metrics
    trainer.validate(datamodule=Data())
    assert stages == ["fit", "validate"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a keyword that is not one": ({"max_epoch": 3}, "help: max_epochs=..."),
    "one that is to come": ({"sync_batchnorm": True}, "is not there yet"),
    "a profiler": ({"profiler": "advanced"}, "torch.profiler around trainer.fit"),
    "a GPU that is not here": ({"accelerator": "gpu"}, "help: accelerator='cpu'"),
    "processes that nobody started": ({"devices": 2}, "gpulayer launch --nodes 1 --procs-per-node"),
    "a precision": ({"precision": "8-bit"}, "one of 32-true, bf16-mixed, 16-mixed"),
    "a strategy": ({"strategy": "fsdp"}, "one of auto, ddp"),
    "a share above one": ({"limit_train_batches": 1.5}, "a share from 0.0 to 1.0, or a count"),
    "a time": ({"max_time": "soon"}, "DD:HH:MM:SS"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_options_are_refused_with_what_to_do(name: str) -> None:
    if name.startswith("a GPU") and torch.cuda.is_available():
        pytest.skip("there is one here")
    options, words = REFUSED[name]
    with pytest.raises(glt.ConfigurationError) as refused:
        quiet(**options)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("rank", "size", "address"), [("2", "2", "::1"), ("x", "2", "::1"), ("0", "2", "")]
)
def test_a_world_that_cannot_be_is_refused_with_what_to_do(
    rank: str, size: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("RANK", rank), ("WORLD_SIZE", size), ("MASTER_ADDR", address)):
        monkeypatch.setenv(name, value)
    with pytest.raises(glt.ConfigurationError) as refused:
        quiet()
    assert f"RANK={rank}, WORLD_SIZE={size}" in str(refused.value)
    assert "help: gpulayer launch" in str(refused.value)


def test_nccl_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "::1")):
        monkeypatch.setenv(name, value)
    refused = pytest.raises(glt.ConfigurationError, match=r"NCCL needs GPUs.*\n.*help: gloo")
    with refused, glt.processes("cpu", backend="nccl"):
        pass


def test_a_module_that_cannot_be_trained_is_refused_before_the_first_step() -> None:
    with pytest.raises(glt.ConfigurationError, match=r"class Mine\(glt.Module\)"):
        quiet().fit(torch.nn.Linear(1, 1), DATA)  # type: ignore[arg-type]
    with pytest.raises(glt.ConfigurationError, match="an epoch has no batches"):
        quiet().fit(Linear(), DataLoader(DATA, 50, drop_last=True))
    half = Linear().half()
    with pytest.raises(glt.ConfigurationError, match="with a module in float16"):
        quiet(precision="16-mixed").fit(half, DataLoader(DATA, 8))
    with pytest.raises(glt.ConfigurationError, match="logged so far: loss"):
        quiet(max_epochs=1, callbacks=[glt.EarlyStopping("val")]).fit(Linear(), DataLoader(DATA, 8))


def test_worker_processes_are_gone_when_a_run_fails() -> None:
    children: list[int] = []

    class Fails(Linear):
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            loader = self.trainer.fit_loop.feed._open
            children.extend(worker.pid for worker in loader._workers)
            raise ValueError("no")

    loader = DataLoader(DATA, 8, num_workers=2, persistent_workers=True)
    with pytest.raises(ValueError, match="no"):
        quiet(max_epochs=1).fit(Fails(), loader)
    assert len(children) == 2
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def test_it_travels_with_torch_and_the_standard_library_alone() -> None:
    """Importing it loads nothing else of GPUlayer but what reports, which needs nothing either, and
    nothing that only GPUlayer needs."""
    code = (
        "import sys, gpulayer.torch\n"
        "ours = {n for n in sys.modules if n.startswith('gpulayer.')}\n"
        "ours -= {'gpulayer.runtime', 'gpulayer.runtime.reporting', 'gpulayer._version'}\n"
        "assert all(n.startswith('gpulayer.torch') for n in ours), ours\n"
        "assert not {'pydantic', 'yaml', 'httptools', 'click'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_in_a_job_what_is_logged_are_its_metrics_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "metrics.jsonl"

    def fit(**options: Any) -> None:
        trainer = quiet(max_epochs=1, log_every_n_steps=2, default_root_dir=tmp_path, **options)
        trainer.fit(Linear(), DataLoader(DATA, batch_size=8))

    fit(logger=True)
    assert not told.exists()
    monkeypatch.setenv("GPULAYER_METRICS_FILE", str(told))
    fit(logger=False)
    assert not told.exists()
    fit(logger=True)
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    assert all("loss" in line["values"] for line in lines)
