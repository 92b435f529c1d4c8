"""Slurm on this one machine: its daemons under this user, without cgroups and accounting.

Every figure of an array waits for `squeue` to list nothing. It is told to schedule at once, for
by default it starts an array's task every second or less.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import telling

BEGUN = time.perf_counter()
ARRAY = 60


def ran(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def started(folder: Path) -> None:
    """munged, slurmctld and slurmd with files of their own, ready for jobs."""
    host = socket.gethostname().split(".")[0]
    munge = folder / "munge"
    for name in ("munge", "state", "spool", "log"):
        (folder / name).mkdir()
    munge.chmod(0o755)
    (munge / "key").touch(mode=0o600)
    (munge / "key").write_bytes(os.urandom(128))
    conf = folder / "slurm.conf"
    conf.write_text(f"""ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/munge
AuthInfo=socket={munge}/sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")
    os.environ["SLURM_CONF"] = str(conf)
    ran("munged", f"--key-file={munge}/key", f"--socket={munge}/sock", f"--pid-file={munge}/pid",
        f"--log-file={folder}/log/munged", f"--seed-file={munge}/seed", "--force")  # fmt: skip
    ran("slurmctld", "-c", "-f", str(conf))
    ran("slurmd", "-f", str(conf), "-N", host)
    while "idle" not in ran("sinfo", "-h", "-o", "%t"):
        time.sleep(0.02)


def array() -> None:
    job = ran("sbatch", "--parsable", f"--array=1-{ARRAY}", "-o", "/dev/null", "--wrap", "true")
    while ran("squeue", "-h", "-j", job):
        time.sleep(0.05)


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.chdir(folder)
        started(folder)
        ran("srun", "/bin/true")
        telling.cold(BEGUN)
        telling.memory()
        telling.call("command", lambda: ran("srun", "/bin/true"), 30)
        telling.rate("commands", array, ARRAY, 1)
        for file in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
            os.kill(int((folder / file).read_text()), 15)


if __name__ == "__main__":
    main()
