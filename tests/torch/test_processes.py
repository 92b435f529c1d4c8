"""Some processes on this machine that meet over gloo, started as torchrun does."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

import gpulayer.torch as glt  # noqa: E402
from tests.torch.small import Net, quiet, train_once  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def both(work: Callable[[int], None], count: int = 2) -> list[int]:
    """Do it in two forked processes, or more; their exit codes. Those that are left when another
    was killed are ended too, as a launcher does."""
    port = free_port()
    children: dict[int, int] = {}
    for rank in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.environ |= {
                    "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                    "GLOO_SOCKET_IFNAME": "lo",
                }  # fmt: skip
                work(rank)
                code = 0
            except BaseException as error:
                print(type(error).__name__, error)
            finally:
                os._exit(code)
        children[child] = rank
    codes = [0] * count
    while children:
        child, status = os.wait()
        codes[children.pop(child)] = code = os.waitstatus_to_exitcode(status)
        if code:
            for other in children:
                os.kill(other, signal.SIGKILL)
    return codes


def test_two_processes_learn_what_one_learns_from_all_their_batches(folder: Path) -> None:
    data = TensorDataset(torch.randn(40, 8), torch.randint(0, 2, (40,)))

    class Linear(glt.Module):
        def __init__(self, by_hand: bool) -> None:
            super().__init__()
            torch.manual_seed(7)
            self.layer = torch.nn.Linear(8, 2)
            self.automatic_optimization = not by_hand

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
            self.log("loss", loss, on_epoch=True)
            if not self.automatic_optimization:
                self.optimizers().zero_grad()
                self.manual_backward(loss)
                self.optimizers().step()
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def work(rank: int) -> None:
        for by_hand in (False, True):
            model = Linear(by_hand)
            trainer = quiet(max_epochs=1)
            trainer.fit(model, DataLoader(data, 4))
            found = [float(trainer.callback_metrics["loss"]), model.layer.weight.tolist()]
            (folder / f"{rank}-{by_hand}").write_text(json.dumps(found))

    assert both(work) == [0, 0]
    alone = Linear(False)
    trainer = quiet(max_epochs=1)
    trainer.fit(alone, DataLoader(data, 8))
    for name in ("0-False", "1-False", "0-True", "1-True"):
        loss, weights = json.loads((folder / name).read_text())
        assert torch.allclose(torch.tensor(weights), alone.layer.weight, atol=1e-6), name
        assert loss == pytest.approx(float(trainer.callback_metrics["loss"]), abs=1e-6)


def test_uneven_inputs_are_refused_before_the_first_step(folder: Path) -> None:
    def work(rank: int) -> None:
        try:
            quiet(max_epochs=1).fit(Net(), [(torch.randn(4, 8), torch.ones(4).long())] * (3 + rank))
        except glt.ConfigurationError as error:
            (folder / str(rank)).write_text(str(error))

    both(work)
    for rank in (0, 1):
        assert "(rank 0: 3, rank 1: 4)" in (folder / str(rank)).read_text()


class Stream(IterableDataset):
    """It does not tell how long it is."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return ((torch.full((8,), float(n)), n % 2) for n in range(self.count))


def test_data_without_a_length_ends_together_or_is_refused_where_one_has_no_more(
    folder: Path,
) -> None:
    def work(rank: int) -> None:
        trainer = quiet(max_epochs=2)
        trainer.fit(Net(), DataLoader(Stream(12), 4))
        assert trainer.global_step == 6
        trainer = quiet(max_epochs=1, limit_train_batches=3)
        trainer.fit(Net(), DataLoader(Stream(12 + 8 * rank), 4))
        assert trainer.global_step == 3
        try:
            quiet(max_epochs=1).fit(Net(), DataLoader(Stream(12 + 8 * rank), 4))
        except glt.TrainingError as error:
            (folder / str(rank)).write_text(str(error))

    assert both(work) == [0, 0]
    for rank in (0, 1):
        told = (folder / str(rank)).read_text()
        assert "rank 0 has no batch left after 3, and others have" in told
        assert "limit_train_batches=3" in told


def test_a_samplers_own_share_is_kept_and_differs_from_epoch_to_epoch(folder: Path) -> None:
    """DistributedSampler shares out and is told the epoch; any other sampler is shared out."""
    data = TensorDataset(torch.arange(12.0).reshape(12, 1).repeat(1, 8), torch.ones(12).long())

    class Sees(Net):
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            seen[-1] += batch[0][:, 0].tolist()

        def on_train_epoch_start(self) -> None:
            seen.append([])

    seen: list[list[float]] = []

    def work(rank: int) -> None:
        kinds = torch.utils.data
        own = kinds.DistributedSampler(data, 2, rank, shuffle=True, seed=5)
        weighted = kinds.WeightedRandomSampler([1.0] * 12, 12, replacement=False)
        glt.seed_everything(1)
        for sampler in (own, weighted):
            quiet(max_epochs=2).fit(Sees(), DataLoader(data, 3, sampler=sampler))
        (folder / str(rank)).write_text(json.dumps(seen))

    assert both(work) == [0, 0]
    first, second = (json.loads((folder / str(rank)).read_text()) for rank in (0, 1))
    for epoch, other in zip(first, second, strict=True):
        assert sorted(epoch + other) == [float(n) for n in range(12)]
    assert first[0] != first[1]
    assert first[2] != first[3]


@pytest.mark.parametrize("count", [2, 4])
def test_killed_processes_resume_to_the_same_bits(folder: Path, count: int) -> None:
    def done(to: str, seed: int = 0, **options: Any) -> list[int]:
        options |= {"max_epochs": 2, "val_check_interval": 3, "size": 9}

        def work(rank: int) -> None:
            own = seed and seed + rank
            train_once(folder / to, end=f"end-{rank}.json", seed=own, **options)

        return both(work, count)

    assert done("whole") == [0] * count
    killed = done("cut", killed_after=5)
    assert -signal.SIGKILL in killed  # another may have seen the line break first
    assert done("cut", seed=50) == [0] * count
    ends = [f"end-{rank}.json" for rank in range(count)]
    for name in (*ends, "log/metrics.jsonl"):
        assert (folder / "cut" / name).read_text() == (folder / "whole" / name).read_text()
