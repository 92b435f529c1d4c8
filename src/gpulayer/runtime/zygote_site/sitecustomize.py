"""First on the path of a template for scripts: makes it one, then loads the user's own module of
this name, if there is one. See `zygote_script`."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_RUNTIME = os.path.dirname(_HERE)
_SEEN = frozenset(sys.modules)
_WRITES, sys.dont_write_bytecode = sys.dont_write_bytecode, True
sys.path.remove(_HERE)
sys.path.insert(0, _RUNTIME)

import zygote_script  # type: ignore[import-not-found]  # noqa: E402

del sys.path[0]
sys.dont_write_bytecode = _WRITES
for _path in (_HERE, _RUNTIME):
    sys.path_importer_cache.pop(_path, None)
zygote_script.take_over(_SEEN)
del sys.modules[__name__]
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401  where there is none, `site` hears what it expects
