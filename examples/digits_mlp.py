"""Learns to tell ten digits apart, drawn as segments with noise: `python examples/digits_mlp.py`.

Killed and started again in a job with a checkpoint folder, it goes on where it was:
`gpulayer run --checkpoint digits --retries 3 -- python examples/digits_mlp.py`
On two processes that share the data: `gpulayer launch --procs-per-node 2 examples/digits_mlp.py`
"""

import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulayer.torch as glt

SEGMENTS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"


def drawn(count: int, seed: int) -> TensorDataset:
    """Digits as seven segments, each a bit too bright or too dark."""
    made = torch.Generator().manual_seed(seed)
    shapes = torch.tensor([[float(on) for on in digit] for digit in SEGMENTS.split()])
    digits = torch.randint(0, 10, (count,), generator=made)
    return TensorDataset(shapes[digits] + 0.3 * torch.randn(count, 7, generator=made), digits)


class Digits(glt.Module):
    def __init__(self, width: int = 32, lr: float = 0.02) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(7, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)
        )

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    glt.seed_everything(1)
    trainer = glt.Trainer(max_epochs=4, accelerator="cpu")
    model = Digits()
    trainer.fit(model, DataLoader(drawn(2000, 1), 50, shuffle=True), DataLoader(drawn(500, 2), 250))
    model.print(f"accuracy {float(trainer.callback_metrics['accuracy']):.2f}")
