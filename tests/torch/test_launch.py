"""`Trainer(on=...)`: `fit` runs as a job, and what it came to is here afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import gpulayer.torch as glt  # noqa: E402
from gpulayer.torch import launch  # noqa: E402
from tests.support.local_home import SOURCE, LocalHome  # noqa: E402

# Whoever runs it says what its end was, in a file of the process's own: `said-PID.json`.
SCRIPT = """
import json, os, sys
sys.path[:0] = {path!r}
import torch
from torch.utils.data import DataLoader, TensorDataset
import gpulayer.torch as glt

class Net(glt.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.layer(x), y)
        self.log("loss", loss, on_epoch=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

glt.seed_everything(3)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))
how = json.loads(sys.argv[1])
model = Net()
trainer = glt.Trainer(
    max_epochs=2, enable_progress_bar=False, accelerator="cpu", log_every_n_steps=2, **how
)
print("fits in", os.getcwd())
trainer.fit(model, DataLoader(data, 8, shuffle=True))
said = dict(
    weights=model.layer.weight.tolist(),
    metrics={{name: float(value) for name, value in trainer.callback_metrics.items()}},
    step=trainer.global_step,
    job=trainer.job and trainer.job.id,
    told=sorted(trainer.job.metrics()) if trainer.job else None,
)
with open(f"said-{{os.getpid()}}.json", "w") as file:
    json.dump(said, file)
if how:
    try:
        glt.Trainer(**how).fit(model, DataLoader(data, 8))
    except glt.ConfigurationError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    lent = os.environ.get("PYTHONPATH", "")
    with LocalHome() as home:
        home.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [SOURCE, lent]))
        path = [SOURCE, *filter(None, lent.split(os.pathsep))]
        (home.work / "train.py").write_text(SCRIPT.format(path=path))
        yield home


def trained(home: LocalHome, **how: Any) -> tuple[dict[str, Any], str]:
    """What the one process that went on behind `fit` came to, and what was printed."""
    for old in home.work.glob("said-*"):
        old.unlink()
    done = home.typed(sys.executable, "-W", "ignore", "train.py", json.dumps(how), text=True)
    assert done.returncode == 0, done
    (said,) = home.work.glob("said-*")
    return json.loads(said.read_text()), done.stdout


@pytest.mark.e2e
def test_what_a_job_elsewhere_trains_is_what_would_be_trained_here(home: LocalHome) -> None:
    here, _ = trained(home)
    there, out = trained(home, on="any")
    assert there["weights"] == here["weights"]
    assert there["metrics"] == here["metrics"]
    assert (there["step"], here["step"], here["job"]) == (16, 16, None)
    assert "loss_step" in there["told"]
    folders = [line.split()[-1] for line in out.splitlines() if line.startswith("fits in")]
    assert folders[0] == str(home.work.resolve()) != folders[1]  # the job's was a copy
    assert (home.work / "checkpoints" / f"{there['job']}.ckpt").is_file()
    assert "this program has sent a fit already" in out


@pytest.mark.e2e
def test_several_processes_are_launched_and_one_end_comes_home(home: LocalHome) -> None:
    told, out = trained(home, on="here", devices=2)
    assert told["step"] == 8
    assert told["metrics"].keys() == {"loss", "loss_step", "loss_epoch"}
    job = json.loads(home.gpulayer("status", "--json", told["job"]).stdout)["job"]
    assert job["spec"]["workload"]["procs_per_worker"] == 2
    assert out.count("fits in") == 3


@pytest.mark.e2e
def test_a_job_that_fails_is_an_error_with_its_last_words(home: LocalHome) -> None:
    (home.work / "bad.py").write_text(
        "import gpulayer.torch as glt\n"
        "class Bad(glt.Module):\n"
        "    def configure_optimizers(self): raise ValueError('no such digit')\n"
        "glt.Trainer(on='here', logger=False).fit(Bad(), [1])\n"
    )
    done = home.typed(sys.executable, "-W", "ignore", "bad.py", text=True)
    assert done.returncode == 1
    assert "JobFailedError" in done.stderr
    assert "no such digit" in done.stderr


class Net(glt.Module):
    def __init__(self, what: object = None) -> None:
        super().__init__()
        self.save_hyperparameters()


def test_a_program_without_a_file_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    code = "import gpulayer.torch as glt; glt.Trainer(on='here').fit(glt.Module(), [])"
    environ = {**os.environ, "GPULAYER_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environ, capture_output=True, text=True
    )
    assert "sends the script that calls it, and this program has none" in done.stderr
    assert not (tmp_path / "home").exists()


def test_one_of_several_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(glt.ConfigurationError, match="this is one of several"):
        glt.Trainer(on="here").fit(Net(), [])


def test_what_no_checkpoint_can_hold_is_refused_before_it_is_trained() -> None:
    with pytest.raises(glt.CheckpointError, match=r"hparams\['what'\] is a object"):
        glt.Trainer(nodes=2).fit(Net(object()), [])


def test_options_of_another_machine_are_not_held_against_this_one() -> None:
    trainer = glt.Trainer(
        on="lab", gpus=8, nodes=2, devices=8, precision="16-mixed", accelerator="gpu"
    )
    assert (trainer.is_away, trainer.world_size) == (True, 1)


def test_inside_a_job_it_trains_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULAYER_JOB_ID", "j1")
    trainer = glt.Trainer(on="lab", gpus=1)
    assert not trainer.is_away
    assert not launch.is_sent(trainer.options)
    monkeypatch.setenv(launch.MARK, "1")
    assert launch.is_sent(trainer.options)
    assert not launch.is_sent(glt.Trainer().options)
