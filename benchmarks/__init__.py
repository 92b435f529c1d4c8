"""How fast it is, beside what else one could use, in one run: `python -m benchmarks`.

Figures are medians with their count. Each row says what was measured against what, like with
like. Nothing here fails by the clock.
"""
