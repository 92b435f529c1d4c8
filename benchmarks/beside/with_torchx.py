"""torchx: its scheduler for this machine."""

from __future__ import annotations

import os
import tempfile
import time

import telling

BEGUN = time.perf_counter()


def main() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    from torchx.runner import get_runner

    with get_runner() as runner:

        def one() -> None:
            handle = runner.run_component(
                "utils.sh", ["true"], scheduler="local_cwd", cfg={"log_dir": f"{folder}/logs"}
            )
            state = runner.wait(handle, wait_interval=0.01)
            assert state is not None
            assert state.state.name == "SUCCEEDED"

        one()
        telling.cold(BEGUN)
        telling.call("command", one, 20, 2)


if __name__ == "__main__":
    main()
