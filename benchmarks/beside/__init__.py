"""Other systems, measured beside ours in one run: `python -m benchmarks --peers FOLDER`.

Each peer is driven by a small program that its own Python runs (`with_*.py`), so that none is
ever imported here. `measures.py` says what is measured, `peers.py` which systems there are and
what each of them does for a task: the two tables that the figures are to be read by.
"""
