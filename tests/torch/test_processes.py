"""Two processes on this machine that meet over gloo, started as torchrun does."""

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

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import gpulayer.torch as glt  # noqa: E402
from tests.torch.small import Net, quiet, train_once  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def both(work: Callable[[int], None]) -> list[int]:
    """Do it in two forked processes; their exit codes. The one that is left when the other was
    killed is ended too, as a launcher does."""
    port = free_port()
    children: dict[int, int] = {}
    for rank in (0, 1):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.environ |= {
                    "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
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
    codes = [0, 0]
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


def test_two_killed_processes_resume_to_the_same_bits(folder: Path) -> None:
    def work(rank: int, to: Path, **options: Any) -> None:
        train_once(to, **options) if rank == 0 else train_once(to, end="other.json", **options)

    assert both(lambda rank: work(rank, folder / "whole", max_epochs=2)) == [0, 0]
    killed = both(lambda rank: work(rank, folder / "cut", max_epochs=2, killed_after=9))
    assert -signal.SIGKILL in killed  # the other may have seen the line break first
    assert both(lambda rank: work(rank, folder / "cut", max_epochs=2, seed=50 + rank)) == [0, 0]
    for name in ("end.json", "other.json", "log/metrics.jsonl"):
        assert (folder / "cut" / name).read_text() == (folder / "whole" / name).read_text()
