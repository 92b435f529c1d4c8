"""The digits at one learning rate; a sweep is an array of it, a line of JSON for each rate:
`gpulayer run --matrix lr=0.0005,0.02,0.5 -- python examples/sweep.py {lr}`."""

import json
import sys

from digits_mlp import Digits, drawn
from torch.utils.data import DataLoader

import gpulayer.torch as glt

lr = float(sys.argv[1])
glt.seed_everything(1)
trainer = glt.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False,
)  # fmt: skip
trainer.fit(Digits(lr=lr), DataLoader(drawn(2000, 1), 50, shuffle=True))
(found,) = trainer.validate(dataloaders=DataLoader(drawn(500, 2), 250))
print(json.dumps({"lr": lr, "accuracy": round(found["accuracy"], 2)}))
