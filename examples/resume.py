"""N steps, `kill -9`, and N more are 2N steps, to the bit: `python examples/resume.py`."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer.torch as glt

N = 30


class Net(glt.Module):
    """Dropout, a shuffle and a momentum: enough that a careless resume would show."""

    def __init__(self, dies: bool) -> None:
        super().__init__()
        self.dies = dies
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(32, 1)
        )

    def training_step(self, batch, batch_idx):
        if self.dies and self.global_step == N:
            os.kill(os.getpid(), signal.SIGKILL)
        x, y = batch
        return (self.net(x).squeeze(1) - y).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def train(folder: str, dies: bool) -> None:
    """2N steps with a checkpoint at every tenth, from the newest one that lies there."""
    glt.seed_everything(1)
    x = torch.randn(400, 8)
    model = Net(dies)
    keeps = glt.ModelCheckpoint(folder, every_n_train_steps=10)
    options = {"logger": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = glt.Trainer(max_steps=2 * N, callbacks=[keeps], **options)
    trainer.fit(model, DataLoader(TensorDataset(x, x.sum(1)), 10, shuffle=True), ckpt_path="last")
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    print(hashlib.sha256(str(weights.tolist()).encode()).hexdigest()[:16])


def process(folder: str, dies: str = "") -> subprocess.CompletedProcess:
    command = [sys.executable, __file__, folder, dies]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1], dies=bool(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as cut:
            uninterrupted = process(whole).stdout
            killed = process(cut, "dies").returncode
            resumed = process(cut).stdout
        print(f"uninterrupted {uninterrupted}killed {killed}\nresumed {resumed}", end="")
        sys.exit(0 if killed == -signal.SIGKILL and resumed == uninterrupted else 1)
