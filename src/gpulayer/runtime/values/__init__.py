"""Values that travel: what a function is given and what it returns, the same on both sides.

The law: `decode(encode(x)) == x` with equal types all the way down, or `encode` raises
`NotPortable` with the place of the first part that would change and its mend. Never pickle.

    plain JSON   travels as it is
    the rest     {"$gpulayer": 1, "value": TAGGED}; or "text": TAGGED as text, where it is deep; or
                 "file": NAME of a file that holds it, where it is large
    calls of a map are in `calls`, what runs before them in `first`
    TAGGED       JSON in which an object with one key that starts with `$` is a value of another
                 type, as `writing` and `reading` list them; numpy, torch and Arrow values stand
                 beside it in formats of their own: see `blobs`

Standard library alone, any Python from 3.8 up: the runner loads this folder by its path, under a
name of its own, which is why its imports are relative.
"""

from __future__ import annotations

from .calls import CallsFile, calls_in, the_call
from .first import initializer
from .folder import FOLDER, FolderSink, FolderSource
from .limits import KEY, NotPortable, TooLarge, Unreadable
from .naming import Classes
from .reading import Source, decode, is_tagged
from .writing import Sink, Written, encode

__all__ = [
    "FOLDER",
    "KEY",
    "CallsFile",
    "Classes",
    "FolderSink",
    "FolderSource",
    "NotPortable",
    "Sink",
    "Source",
    "TooLarge",
    "Unreadable",
    "Written",
    "calls_in",
    "decode",
    "encode",
    "initializer",
    "is_tagged",
    "the_call",
]
