"""How the ranks of a distributed job are started: numbers, words, environment. Pure.

By torchrun, or by `rank_launcher`, which sets the same variables.

torchrun with a static rendezvous (torch.distributed.run; `static_tcp_rendezvous.py`): node 0 serves
the store at the address and port that all are given. Ranks are numbered node by node. Words are
those of the oldest torchrun that has them, so any torch from 2.0 on understands.
"""

from __future__ import annotations

GRACE_SECONDS = 10
"""What a rank gets between SIGTERM and SIGKILL once another one has failed."""
LOOPBACK = "127.0.0.1"

_ONE_RANKS_OWN = (
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME "
    "ROLE_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT PYTHON_EXEC".split()
)
_LAUNCHERS_OWN = (
    "TORCHELASTIC_ TORCH_ELASTIC_ PET_ SLURM_ PMI_ PMIX_ OMPI_ MV2_ JSM_ LSB_ ACCELERATE_".split()
)
"""Variables of an outer launcher: torchrun reads some as its own options, and frameworks guess
ranks from the others (Lightning #6797), so no rank sees them."""


def ranks_of(node: int, procs: int) -> range:
    """The ranks of one node."""
    return range(node * procs, (node + 1) * procs)


def torchrun(
    python: str, *, nodes: int, node: int, procs: int, job: str, patience: float, address: str
) -> list[str]:
    """Its words, with `{port}` where the port belongs, before the program of a rank. `patience`:
    seconds that it waits for other nodes. An IPv6 address goes in brackets, which the ranks do not
    see: torch takes them off (`parse_rendezvous_endpoint`)."""
    shown = f"[{address}]" if ":" in address else address
    return [
        python,
        "-m",
        "torch.distributed.run",
        f"--nnodes={nodes}",
        f"--node_rank={node}",
        f"--nproc_per_node={procs}",
        "--rdzv_backend=static",
        f"--rdzv_id={job}",
        f"--rdzv_conf=timeout={max(1, round(patience))}",
        f"--master_addr={shown}",
        "--master_port={port}",
        "--max_restarts=0",
        "--no_python",
    ]


def variables(
    *, nodes: int, node: int, procs: int, job: str, address: str, folder: str
) -> list[dict[str, str]]:
    """What torchrun sets for each rank of a node (`local_elastic_agent.py`, 2.13), less the port.
    Frameworks know by `TORCHELASTIC_RUN_ID` that ranks are given. Without
    `TORCHELASTIC_USE_AGENT_STORE` rank 0 serves the store itself. `folder`: for error files."""
    ranks = ranks_of(node, procs)
    world = str(nodes * procs)
    return [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": str(procs),
            "GROUP_RANK": str(node),
            "GROUP_WORLD_SIZE": str(nodes),
            "ROLE_NAME": "default",
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": world,
            "MASTER_ADDR": address,
            "TORCHELASTIC_RUN_ID": job,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_ERROR_FILE": f"{folder}/{rank}.error",
        }
        for local, rank in enumerate(ranks)
    ]


def loopback(system: str) -> str:
    """The loopback interface's name."""
    return "lo" if system == "Linux" else "lo0"


def defaults(procs: int, cores: float, interface: str | None) -> dict[str, str]:
    """Variables for ranks that do not have them. Threads share the cores of the node: torchrun
    would set one and warn. The interface keeps gloo and NCCL from asking the host's name, which
    often means loopback (gloo #367)."""
    found = {
        "OMP_NUM_THREADS": str(max(1, int(cores // procs))),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(GRACE_SECONDS - 2),
    }
    if interface is not None:
        found.update(GLOO_SOCKET_IFNAME=interface, NCCL_SOCKET_IFNAME=interface)
    return found


def scrub() -> dict[str, list[str]]:
    """What is taken out of the environment before the launcher: names, and beginnings of names."""
    return {"names": _ONE_RANKS_OWN, "prefixes": _LAUNCHERS_OWN}
