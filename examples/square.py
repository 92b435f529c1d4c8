"""A function as a job, then ten of them at once: `python examples/square.py`."""

import gpulayer as gl


@gl.remote
def square(x: int) -> int:
    return x * x


if __name__ == "__main__":
    print(square.remote(7))
    print(list(square.map(range(10))))
