"""The first job: `gpulayer run -- python examples/hello.py`."""

import platform

print(f"hello from Python {platform.python_version()}")
