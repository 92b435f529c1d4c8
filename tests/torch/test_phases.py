"""Where the time of a step goes, and the module's arithmetic compiled."""

from __future__ import annotations

import copy
import timeit
from time import process_time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import gpulayer.torch as glt  # noqa: E402
from gpulayer.torch.phases import CALLBACKS, Phases  # noqa: E402
from tests.torch.small import Net, quiet  # noqa: E402

BATCHES = [(torch.randn(4, 8), torch.ones(4).long()) for _ in range(6)]


def test_each_part_of_a_step_has_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    def busy() -> None:
        until = process_time() + 0.03
        while process_time() < until:
            pass

    class Slow(Net):
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            busy()

    def slowly() -> Any:
        for batch in BATCHES:
            busy()
            yield batch

    class Data:
        def __iter__(self) -> Any:
            return slowly()

    trainer = quiet(max_epochs=1, profiler="simple")
    trainer.fit(Slow(), Data())
    spent = trainer.phases.seconds
    assert spent["data"] >= 0.18
    assert spent["callbacks and logging"] >= 0.18
    assert 0 < spent["optimiser"] < 0.18
    assert spent["validation"] == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition("%")[0].rsplit(" ", 1)[0].strip() for line in told[1:]] == list(spent)


def test_it_costs_less_than_a_microsecond_a_step() -> None:
    end = Phases().end
    each = min(timeit.repeat(lambda: end(CALLBACKS), process_time, repeat=20, number=2000)) / 2000
    assert 5 * each < 1e-6 * 1.5  # the lambda of this loop is counted too


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of torch, about parts in a row
@pytest.mark.parametrize("has_forward", [True, False])
def test_a_compiled_module_learns_the_same_under_the_same_names(has_forward: bool) -> None:
    seen: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(graph)
        return graph.forward

    class Own(glt.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
            self.head = torch.nn.Linear(4, 2)
            if has_forward:
                type(self).forward = lambda self, x: self.head(self.net(x))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            x, y = batch
            made = self(x) if has_forward else self.head(self.net(x))
            loss = torch.nn.functional.cross_entropy(made, y)
            self.log("loss", loss)
            return loss

        validation_step = training_step

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def weights(how: Any) -> dict[str, Any]:
        model = Own()
        quiet(max_epochs=2, compile=how).fit(model, BATCHES, BATCHES)
        copy.deepcopy(model)  # as EMA of others and tests of users do
        return dict(model.state_dict())

    plain, made = weights(False), weights({"backend": backend})
    assert seen
    assert plain.keys() == made.keys()
    assert all(torch.allclose(value, made[name]) for name, value in plain.items())


def test_what_compile_does_not_take_is_refused_before_the_first_step() -> None:
    with pytest.raises(glt.ConfigurationError, match=r"a dict of what torch\.compile takes"):
        quiet(compile={"speed": 11}).fit(Net(), BATCHES)
