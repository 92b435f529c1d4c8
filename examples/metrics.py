"""Reports numbers of a run: `gpulayer run -- python examples/metrics.py`, then `gpulayer metrics`.

Outside of a job it does the same, and reports to nobody.
"""

import math

import gpulayer as gl

for step in range(0, 100, 5):
    gl.report({"loss": math.exp(-step / 30), "lr": 0.1 * (1 - step / 100)}, step=step)
