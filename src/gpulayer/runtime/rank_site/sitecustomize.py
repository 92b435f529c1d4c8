"""First on the path of a rank: lets its stacks be seen and its last error be known, then loads the
user's own module of this name, if there is one. Nothing of it stays on the path or in the
environment. `rank_shim` leads here."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_RUNTIME = os.path.dirname(_HERE)
_WRITES, sys.dont_write_bytecode = sys.dont_write_bytecode, True
sys.path.remove(_HERE)
sys.path.insert(0, _RUNTIME)

import rank_start  # type: ignore[import-not-found]  # noqa: E402

del sys.path[0], sys.modules["rank_start"]
sys.dont_write_bytecode = _WRITES
for _path in (_HERE, _RUNTIME):
    sys.path_importer_cache.pop(_path, None)
rank_start.begin()
del sys.modules[__name__]
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401  where there is none, `site` hears what it expects
