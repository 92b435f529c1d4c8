"""`Trainer(on=..., gpus=..., nodes=...)`: `fit` runs as a job, and comes home.

The job runs the same script. What comes before `fit` happens in both, so the job builds module and
data for itself; there the trainer sees that it is the job, trains in place and leaves what it came
to. Here `fit` copies the job's output, waits, and goes on with its weights and values. The one
file of the trainer that knows the rest of GPUlayer, which it imports once a `fit` is sent.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from gpulayer.torch import files
from gpulayer.torch.errors import ConfigurationError

if TYPE_CHECKING:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.job import Job
    from gpulayer.torch.module import Module
    from gpulayer.torch.options import Options
    from gpulayer.torch.trainer import Trainer

MARK = "GLT_SENT"
"""Set in the job that a `fit` runs as."""
LEFT = "fit.ckpt"
"""What it leaves in its output folder."""
KEPT = "checkpoints:1m"
"""The folder that is kept of a job elsewhere, and how often."""
RETRIES = 2
"""How often a machine elsewhere may be lost: the next attempt goes on from what was kept."""

_was_sent = False


def is_away(options: Options) -> bool:
    """Whether `fit` is to be sent. Inside a job it never is."""
    return _is_asked(options) and not os.environ.get("GPULAYER_JOB_ID")


def is_sent(options: Options) -> bool:
    """Whether this process is the job of a `fit` that was sent."""
    return _is_asked(options) and os.environ.get(MARK) == "1"


def leave(trainer: Trainer) -> None:
    """In the job, once it has trained: what whoever sent it waits for."""
    trainer.save_checkpoint(os.path.join(os.environ["GPULAYER_OUTPUT_DIR"], LEFT))


def fit(trainer: Trainer, options: Options, model: Module) -> Job:
    """Have a job train it, then give `model` its weights and `trainer` its values. Raises
    ConfigurationError before anything is sent, and what the SDK raises for a job that failed."""
    global _was_sent
    words = _program()
    files.plain(dict(model.hparams), "hparams")  # the job would find that out at its end
    if _was_sent:
        raise ConfigurationError(
            "this program has sent a fit already",
            "the job runs the same script from its beginning, and trains at the first fit",
            "a script for each, or leave on=, gpus= and nodes= out of the second Trainer",
        )
    from gpulayer.sdk.connect import current

    client = current(options.on)
    job = _submitted(client, options, words)
    _was_sent = True
    trainer.say(f"fit runs as {job.id}")
    client.follow(job)
    job.result()
    home = trainer.root / "checkpoints" / f"{job.id}.ckpt"
    home.parent.mkdir(parents=True, exist_ok=True)
    job.fetch(LEFT, home)
    _take_home(trainer, model, files.load(home, ours=True))
    trainer.say(f"{job.id} has trained: {home}")
    return job


def _take_home(trainer: Trainer, model: Module, saved: dict[str, Any]) -> None:
    trainer.model = model
    model._trainer = trainer
    model.configure_model()
    model.load_state_dict(saved["state_dict"], strict=model.strict_loading)
    trainer.at.load_state_dict(saved["gpulayer"]["progress"])
    trainer.set_metrics(saved["gpulayer"]["metrics"])
    trainer.logged_metrics.update(trainer.callback_metrics)


def _submitted(client: Client, options: Options, words: list[str]) -> Job:
    from gpulayer.contracts.durations import parse_gpus

    asked: dict[str, Any] = {"gpus": options.gpus, "on": options.on, "env": {MARK: "1"}}
    asked["on_unschedulable"] = "fail"
    gpus = parse_gpus(str(options.gpus)).count if options.gpus else 1
    devices = options.devices if isinstance(options.devices, int) and options.devices > 1 else gpus
    script = words[0]
    if client.is_far and (script.startswith(os.pardir) or os.path.isabs(script)):
        raise ConfigurationError(
            f"{script} is not in the folder that would be sent, {os.getcwd()}",
            "a job elsewhere runs in a copy of the folder in which this program was started",
            "start it in the folder of the script, or one above",
        )
    if client.is_far:
        asked |= {"checkpoint": KEPT, "retries": RETRIES}
    if (options.nodes or 1) > 1 or devices > 1:
        if script == "-m":
            raise ConfigurationError(
                "several processes start a script, not a module",
                remedy=f"python {words[1].replace('.', '/')}.py in the place of python -m",
            )
        return client.launch(
            script, nodes=options.nodes, procs_per_node=devices, args=words[1:], **asked
        )
    return client.submit(["python", *words], **asked)


def _is_asked(options: Options) -> bool:
    return any(each is not None for each in (options.on, options.gpus, options.nodes))


def _program() -> list[str]:
    """The words behind `python` that would start this program again."""
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise ConfigurationError(
            "Trainer(on=...) starts the processes of its job, and this is one of several",
            remedy="start it with python, or leave on=, gpus= and nodes= out",
        )
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or not os.path.isfile(file) or hasattr(main, "get_ipython"):
        raise ConfigurationError(
            "Trainer(on=...) sends the script that calls it, and this program has none",
            "a notebook, python -c or a prompt has no file that another machine could run",
            "put it into a file and run that: python train.py",
        )
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return ["-m", spec.name.removesuffix(".__main__"), *sys.argv[1:]]
    return [os.path.relpath(file), *sys.argv[1:]]
