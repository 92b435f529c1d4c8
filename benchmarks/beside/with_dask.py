"""Dask: a local cluster of two processes."""

from __future__ import annotations

import time

import telling

BEGUN = time.perf_counter()


def main() -> None:
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                           dashboard_address=None, silence_logs=50)  # fmt: skip
    client = Client(cluster)

    def one(function):
        return lambda: client.submit(function, pure=False).result()

    def many(function, count):
        return lambda: client.gather(client.map(function, range(count), pure=False))

    one(telling.noop)()
    telling.cold(BEGUN)
    telling.memory()
    telling.call("call", one(telling.noop), 200, 20)
    telling.rate("map", many(telling.noop, 10_000), 10_000, 2)
    telling.call("command", one(telling.true), 100)
    telling.rate("commands", many(telling.true, 1000), 1000, 2)
    client.close()
    cluster.close()


if __name__ == "__main__":
    main()
