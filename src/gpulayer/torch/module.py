"""`Module` and `DataModule`: what to train, and on what. The names are those of Lightning."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from gpulayer.torch.errors import CheckpointError, TrainingError
from gpulayer.torch.hooks import with_hooks

if TYPE_CHECKING:
    from gpulayer.torch.trainer import Trainer


class Settings(dict[str, Any]):
    """Hyperparameters; `hparams.lr` is `hparams["lr"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no hyperparameter {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Hyperparameters:
    """What `save_hyperparameters` keeps, for modules and data modules."""

    _hparams: Settings

    @property
    def hparams(self) -> Settings:
        if "_hparams" not in self.__dict__:
            self.__dict__["_hparams"] = Settings()
        found: Settings = self.__dict__["_hparams"]
        return found

    def save_hyperparameters(
        self, *names: Any, ignore: str | list[str] | tuple[str, ...] = (), logger: bool = True
    ) -> None:
        """Keep the arguments of the `__init__` that calls this (or those named, or a dict)."""
        if names and isinstance(names[0], Mapping):
            self.hparams.update(names[0])
            return
        frame = inspect.currentframe()
        caller = frame.f_back if frame else None
        if caller is None:
            return
        code, values = caller.f_code, caller.f_locals
        count = code.co_argcount + code.co_kwonlyargcount
        given = {n: values[n] for n in code.co_varnames[1:count] if n in values}
        if code.co_flags & inspect.CO_VARKEYWORDS:
            extra = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
            given.update(values.get(extra, {}))
        left_out = {ignore} if isinstance(ignore, str) else set(ignore)
        for name, value in given.items():
            if name not in left_out and (not names or name in names):
                self.hparams[name] = value


class Module(Hyperparameters, torch.nn.Module):
    """A `torch.nn.Module` that knows a step of its own training.

    Override `training_step(batch, batch_idx)`, which returns the loss (a tensor, or a dict with
    `loss`), and `configure_optimizers()`. All else is optional.
    """

    automatic_optimization = True
    strict_loading = True
    example_input_array: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._trainer: Trainer | None = None

    # Steps -------------------------------------------------------------------------------------
    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("training_step")

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("validation_step")

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("test_step")

    def predict_step(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        return self(batch)

    def configure_optimizers(self) -> Any:
        raise NotImplementedError("configure_optimizers")

    def configure_model(self) -> None:
        """Make large parts here: it is called once the device is known."""

    def configure_callbacks(self) -> Any:
        return []

    def prepare_data(self) -> None:
        """Download or convert, in the first process alone."""

    # What a run tells --------------------------------------------------------------------------
    @property
    def trainer(self) -> Trainer:
        if self._trainer is None:
            raise TrainingError(
                "this module is in no run", remedy="Trainer(...).fit(module) gives it one"
            )
        return self._trainer

    @property
    def current_epoch(self) -> int:
        return self._trainer.current_epoch if self._trainer else 0

    @property
    def global_step(self) -> int:
        return self._trainer.global_step if self._trainer else 0

    @property
    def global_rank(self) -> int:
        return self._trainer.global_rank if self._trainer else 0

    @property
    def local_rank(self) -> int:
        return self._trainer.local_rank if self._trainer else 0

    @property
    def logger(self) -> Any:
        return self._trainer.logger if self._trainer else None

    @property
    def loggers(self) -> list[Any]:
        return self._trainer.loggers if self._trainer else []

    @property
    def device(self) -> torch.device:
        for tensor in (*self.parameters(), *self.buffers()):
            return tensor.device
        return self._trainer.device if self._trainer else torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        for parameter in self.parameters():
            return parameter.dtype
        return torch.get_default_dtype()

    def log(
        self, name: str, value: Any, prog_bar: bool = False, logger: bool = True,
        on_step: bool | None = None, on_epoch: bool | None = None, reduce_fx: Any = "mean",
        enable_graph: bool = False, sync_dist: bool = False, sync_dist_group: Any = None,
        add_dataloader_idx: bool = True, batch_size: int | None = None,
        metric_attribute: str | None = None, rank_zero_only: bool = False,
    ) -> None:  # fmt: skip
        """Note a number. In training the latest is told every `log_every_n_steps`; with
        `on_epoch=True`, and in validation, the mean of the epoch over all processes is.

        The value is not read here, so this costs no wait for the device.
        """
        trainer = self._trainer
        if trainer is not None:
            trainer.ledger.log(
                name, value, prog_bar, logger, on_step, on_epoch, reduce_fx, sync_dist, batch_size
            )

    def log_dict(self, dictionary: Mapping[str, Any], **options: Any) -> None:
        """`log` for each of them."""
        for name, value in dictionary.items():
            self.log(name, value, **options)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print in the first process alone."""
        if self.global_rank == 0:
            print(*args, **kwargs)  # noqa: T201  it is what the method is for

    def all_gather(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """The tensor of every process, stacked along a new first dimension."""
        if self._trainer is None or self._trainer.world_size == 1:
            return data
        found = [torch.empty_like(data) for _ in range(self._trainer.world_size)]
        torch.distributed.all_gather(found, data.contiguous())
        return torch.stack(found)

    # Optimisation by hand ----------------------------------------------------------------------
    def optimizers(self, use_pl_optimizer: bool = True) -> Any:
        """The optimiser, or the list of them."""
        found = self.trainer.optimizers
        return found[0] if len(found) == 1 else found

    def lr_schedulers(self) -> Any:
        """The scheduler, the list of them, or None."""
        found = self.trainer.lr_schedulers
        return (found[0] if len(found) == 1 else found) if found else None

    def manual_backward(self, loss: Any, *args: Any, **kwargs: Any) -> None:
        """`loss.backward()`, scaled where the precision needs it."""
        self.trainer.scaled(loss).backward(*args, **kwargs)

    def toggle_optimizer(self, optimizer: Any) -> None:
        """Let only this optimiser's parameters have gradients, until `untoggle_optimizer`."""
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        before = {}
        for other in self.trainer.optimizers:
            for parameter in (p for group in other.param_groups for p in group["params"]):
                before[parameter] = parameter.requires_grad
                parameter.requires_grad_(parameter.requires_grad and id(parameter) in mine)
        self.__dict__["_toggled"] = before

    def untoggle_optimizer(self, optimizer: Any) -> None:
        for parameter, required in self.__dict__.pop("_toggled", {}).items():
            parameter.requires_grad_(required)

    def clip_gradients(
        self, optimizer: Any, gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:  # fmt: skip
        """Clip the gradients of an optimiser's parameters; nothing is read from the device."""
        if not gradient_clip_val:
            return
        held = [p for group in optimizer.param_groups for p in group["params"]]
        if gradient_clip_algorithm == "value":
            torch.nn.utils.clip_grad_value_(held, gradient_clip_val)
        else:
            torch.nn.utils.clip_grad_norm_(held, gradient_clip_val)

    # Points at which a module may do it its own way -------------------------------------------
    def backward(self, loss: Any, *args: Any, **kwargs: Any) -> None:
        loss.backward(*args, **kwargs)

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:  # fmt: skip
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        optimizer.zero_grad()

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        if metric is None:
            scheduler.step()
        else:
            scheduler.step(metric)

    # Weights -----------------------------------------------------------------------------------
    def freeze(self) -> None:
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        self.eval()

    def unfreeze(self) -> None:
        for parameter in self.parameters():
            parameter.requires_grad_(True)
        self.train()

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: str | os.PathLike[str], map_location: Any = None,
        strict: bool | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """The module that a checkpoint holds, made with its kept hyperparameters and `kwargs`."""
        from gpulayer.torch.files import load

        saved = load(checkpoint_path, map_location)
        if "state_dict" not in saved:
            raise CheckpointError(f"{os.fspath(checkpoint_path)} holds no module")
        known = inspect.signature(cls.__init__).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in known.values())
        kept = saved.get("hyper_parameters", {})
        given = {n: v for n, v in kept.items() if takes_all or n in known} | kwargs
        model = cls(**given)
        model.hparams.update(kept | kwargs)
        for listener in (model.on_load_checkpoint,):
            listener(saved)
        model.load_state_dict(
            saved["state_dict"], strict=model.strict_loading if strict is None else strict
        )
        return model

    def __getstate__(self) -> dict[str, Any]:
        kept = {n: v for n, v in self.__dict__.items() if n != "_compiled_call_impl"}
        return kept | {"_trainer": None}  # a copy is in no run, and not compiled


class DataModule(Hyperparameters):
    """Where batches come from: override the `..._dataloader` methods that you need."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None

    def prepare_data(self) -> None:
        """Download or convert, in the first process alone."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


with_hooks(Module)
with_hooks(DataModule)
