"""A run that was killed and resumed ends with the same bits as one that was not."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import gpulayer.torch as glt  # noqa: E402
from gpulayer.torch import files  # noqa: E402
from tests.torch.small import Net, end_of, in_a_child, quiet, train_once  # noqa: E402


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_killed_at_any_batch_and_resumed_is_as_if_nothing_happened(
    folder: Path, window: int, workers: int
) -> None:
    """Dropout, batch norm, noise drawn by the data set (here or in workers), accumulation, an
    average, schedules, validation within epochs, a sanity check: weights, optimiser and every
    logged value are equal to the bit, whatever the resumed process was seeded with."""
    options = {"workers": workers, "accumulate_grad_batches": window}
    whole = folder / "whole"
    assert in_a_child(lambda: train_once(whole, **options)) == 0
    for batch in (4, 13, 14, 39) if not workers else (26,):
        cut = folder / f"cut-{batch}"
        killed = in_a_child(lambda at=batch, to=cut: train_once(to, killed_after=at, **options))
        assert killed == -signal.SIGKILL
        assert in_a_child(lambda to=cut: train_once(to, seed=99, **options)) == 0
        assert end_of(cut) == end_of(whole), f"killed at batch {batch}"


def test_a_run_that_reached_its_steps_goes_on_to_twice_as_many(folder: Path) -> None:
    train_once(folder / "long", max_epochs=-1, max_steps=20)
    train_once(folder / "short", max_epochs=-1, max_steps=10)
    train_once(folder / "short", max_epochs=-1, max_steps=20, seed=5)
    (long, _), (short, _) = end_of(folder / "long"), end_of(folder / "short")
    assert short["weights"] == long["weights"]
    assert short["optimizer"] == long["optimizer"]


def test_last_is_the_newest_of_the_folder_that_was_named(folder: Path) -> None:
    def train(most: int) -> int:
        keeps = glt.ModelCheckpoint(folder / "mine", every_n_train_steps=2)
        trainer = quiet(max_steps=most, callbacks=[keeps], enable_checkpointing=None)
        batches = [(torch.randn(4, 8), torch.ones(4).long())] * 9
        trainer.fit(Net(), batches, ckpt_path="last")
        return int(trainer.global_step)

    assert train(4) == 4
    assert train(2) == 4  # it has them already


def test_it_starts_with_other_bits_where_it_does_not_resume(folder: Path) -> None:
    """The test above could not tell a difference otherwise."""
    train_once(folder / "a", seed=1)
    train_once(folder / "b", seed=99)
    assert end_of(folder / "a") != end_of(folder / "b")


def test_a_cut_checkpoint_is_refused_by_name_and_passed_over_by_last(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_once(folder, max_epochs=1)
    kept = sorted((folder / "checkpoints").glob("*.ckpt"), key=os.path.getmtime)
    newest, before, oldest = kept[-1], kept[-2], kept[-3]
    newest.write_bytes(newest.read_bytes()[:-500])
    spoiled = bytearray(before.read_bytes())
    spoiled[len(spoiled) // 2] ^= 1
    before.write_bytes(spoiled)
    trainer = quiet(max_epochs=2)
    with pytest.raises(glt.CheckpointError, match="is cut") as refused:
        trainer.fit(Net(), [torch.zeros(1)], ckpt_path=newest)
    assert "help: name another file, or ckpt_path='last'" in str(refused.value)
    with pytest.raises(glt.CheckpointError, match="is damaged"):
        trainer.fit(Net(), [torch.zeros(1)], ckpt_path=before)
    capsys.readouterr()
    train_once(folder, max_epochs=2)
    told = capsys.readouterr().err
    assert f"{newest} is cut" in told
    assert f"{before} is damaged" in told
    assert f"goes on from {oldest}" in told


def test_a_file_is_replaced_whole_or_not_at_all(folder: Path) -> None:
    """Killed at any moment of a save, the file is the old one or the new one."""
    path = folder / "last.ckpt"
    files.write({"n": 0, "x": torch.zeros(100_000)}, path, 1, 0)

    def saves() -> None:
        for n in range(1, 1000):
            files.write({"n": n, "x": torch.full((100_000,), float(n))}, path, n, n)
            os.write(ready, b".")

    heard, ready = os.pipe()
    child = os.fork()
    if child == 0:
        saves()
        os._exit(0)
    os.read(heard, 3)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    state = files.load(path, ours=True)
    assert state["n"] >= 1
    assert torch.equal(state["x"], torch.full((100_000,), float(state["n"])))
    assert torch.load(path, weights_only=True)["n"] == state["n"]


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_step(folder: Path) -> None:
    (folder / "file").write_text("")
    steps: list[int] = []

    class Counting(Net):
        def training_step(self, batch: object, batch_idx: int) -> None:
            steps.append(batch_idx)

    keeps = glt.ModelCheckpoint(folder / "file" / "inside")
    trainer = quiet(callbacks=[keeps], enable_checkpointing=None)
    with pytest.raises(glt.CheckpointError, match="no checkpoint can be kept in"):
        trainer.fit(Counting(), [torch.zeros(1)])
    assert not steps


def test_a_checkpoint_of_weights_alone_is_not_gone_on_from(folder: Path) -> None:
    trainer, trained = quiet(max_epochs=1), Net()
    trainer.fit(trained, [(torch.randn(4, 8), torch.ones(4).long())])
    trainer.save_checkpoint(folder / "w.ckpt", weights_only=True)
    with pytest.raises(glt.CheckpointError, match="holds weights, and no state of a run"):
        trainer.fit(Net(), [torch.zeros(1)], ckpt_path=folder / "w.ckpt")
    model = Net.load_from_checkpoint(folder / "w.ckpt", lr=0.5)
    assert model.hparams.lr == 0.5
    for name, value in trained.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)


def test_what_only_code_could_read_back_is_refused_when_it_is_saved(folder: Path) -> None:
    class Odd(Net):
        def on_save_checkpoint(self, checkpoint: dict[str, object]) -> None:
            checkpoint["mine"] = {"parts": [1, object()]}

    trainer = quiet(max_epochs=1, enable_checkpointing=True)
    with pytest.raises(glt.CheckpointError, match=r"checkpoint\['mine'\]\['parts'\]\[1\] is a obj"):
        trainer.fit(Odd(), [(torch.randn(4, 8), torch.ones(4).long())])


def test_in_a_job_that_keeps_a_folder_each_fit_goes_on_by_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two fits of one program, killed in the second: the first is not done again."""
    monkeypatch.setenv("GPULAYER_CHECKPOINT_DIR", str(folder / "kept"))
    batches = [(torch.randn(4, 8), torch.ones(4).long()) for _ in range(5)]

    def program(killed: int) -> None:
        from gpulayer.torch import resuming

        resuming._fits = iter((1, 2))
        for which, at in (("first", 0), ("second", killed)):
            with open(folder / which, "a") as told:
                glt.seed_everything(1)
                callback = glt.ModelCheckpoint(every_n_train_steps=1, save_top_k=2)
                trainer = quiet(max_epochs=2, callbacks=[callback], enable_checkpointing=None)
                trainer.fit(Net(killed_after=at), batches)
                told.write(f"{trainer.global_step} steps\n")

    assert in_a_child(lambda: program(7)) == -signal.SIGKILL
    assert sorted(p.name for p in (folder / "kept").iterdir()) == ["fit-1", "fit-2"]
    output = folder / "said"

    def again() -> None:
        sys.stderr = open(output, "w")  # noqa: SIM115  the child ends with it
        program(0)

    assert in_a_child(again) == 0
    said = output.read_text().splitlines()
    assert "epoch 2, batch 0, step 10" in said[0]
    assert "epoch 1, batch 1, step 6" in said[1]


def test_a_termination_saves_at_the_next_safe_point_and_leaves_with_143(folder: Path) -> None:
    class Terminated(Net):
        def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
            if self.global_step == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    batches = [(torch.randn(4, 8), torch.ones(4).long()) for _ in range(9)]

    def work() -> None:
        trainer = quiet(max_epochs=1, enable_checkpointing=None, default_root_dir=folder)
        trainer.fit(Terminated(), batches)

    assert in_a_child(work) == 143
    found = files.newest(folder / "checkpoints", lambda text: None)
    assert found is not None
    assert files.load(found)["global_step"] == 4
