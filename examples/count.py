"""Counts to a number, slowly, and goes on from its checkpoint when it is started again.

`gpulayer run --checkpoint counted:1s --retries 5 --retry-on timed_out --timeout 2s --
python examples/count.py 30`
"""

import os
import sys
import time

folder = os.environ.get("GPULAYER_CHECKPOINT_DIR", "counted")
path = os.path.join(folder, "n")
os.makedirs(folder, exist_ok=True)

n = 0
if os.path.exists(path):
    with open(path) as file:
        n = int(file.read())
    print("goes on after", n, flush=True)

while n < int(sys.argv[1]):
    time.sleep(0.1)  # noqa: TID251  a slow step of work
    n += 1
    with open(path + ".new", "w") as file:
        file.write(str(n))
    os.replace(path + ".new", path)  # the old one or the new one, never half of one

print("counted to", n)
