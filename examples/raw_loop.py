"""A loop of your own on any device and number of processes: `python examples/raw_loop.py`,
or two of them: `gpulayer launch --procs-per-node 2 examples/raw_loop.py`."""

import torch

import gpulayer.torch as glt

glt.seed_everything(1)
with glt.processes("cpu") as world:
    model = glt.ddp(torch.nn.Linear(4, 1), world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = torch.Generator().manual_seed(world.rank)  # each process has data of its own
    for _ in range(200):
        x = torch.randn(16, 4, generator=made).to(world.device)
        with glt.autocast("bf16-mixed", world.device):
            loss = (model(x).squeeze(1) - x.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if world.is_first:
        print(f"{world.size} processes, loss {loss.item():.3f}")
