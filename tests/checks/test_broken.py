"""Every check can fail: with the thing under test broken inside the ranks it is wrong, and says how."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from canishard.launch import Launcher, Rules, Where
from canishard.launch.outcome import Case, Status

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
# Case, world size, what is broken (see broken.py), and the deviation or, where it has no name, the label.
ROWS = [
    ("canary.all_reduce", 2, "all_reduce does nothing", "unchanged input"),
    ("collectives.all_reduce[op=avg]", 4, "all_reduce as sum", "sum instead of avg"),
    ("collectives.all_reduce[op=sum]", 2, "all_reduce as max", "max instead of sum"),
    ("collectives.all_reduce[op=bxor]", 2, "all_reduce as bor", "bor instead of bxor"),
    ("collectives.all_reduce[op=min]", 2, "all_reduce does nothing", "unchanged input"),
    ("collectives.all_reduce[op=product]", 2, "all_reduce broadcasts", "rank 0's value"),
    ("collectives.reduce[op=product]", 2, "reduce as sum", "sum instead of product"),
    ("collectives.reduce_scatter[op=max]", 2, "reduce_scatter as sum", "sum instead of max"),
    ("collectives.reduce_scatter_tensor[op=band]", 4, "reduce_scatter_tensor as sum", "sum instead of band"),
    ("collectives.reduce_scatter_tensor[op=sum]", 2, "own chunk", "unchanged input"),
    ("collectives.reduce_scatter_tensor[op=avg]", 4, "next chunk", "the next rank's chunk"),
    ("fsdp2.sharding", 2, "rows flipped", "rows held"),
    ("fsdp2.gradients[reduce=default]", 2, "reduce_scatter_tensor as sum", "summed instead of averaged"),
    ("fsdp2.gradients[reduce=default]", 4, "own chunk", "gradients"),
    ("fsdp2.gradients+force_sum", 2, "reduce_scatter_tensor as avg", "averaged twice"),
    ("fsdp2.train[optimizer=sgd]", 2, "reduce_scatter_tensor as sum", "gradients summed instead of averaged"),
    ("fsdp2.train[optimizer=sgd]", 2, "optimizer does nothing", "unchanged"),
    (
        "fsdp2.train[optimizer=adamw]",
        2,
        "reduce_scatter_tensor as sum",
        "gradients summed instead of averaged",
    ),
    (
        "fsdp2.train[optimizer=adamw]",
        4,
        "reduce_scatter_tensor as sum",
        "gradients summed instead of averaged",
    ),
    ("fsdp2.train[optimizer=sgd]+force_sum", 2, "reduce_scatter_tensor as avg", "parameters"),
    ("fsdp2.train[optimizer=adamw]+force_sum", 2, "reduce_scatter_tensor as avg", "parameters"),
    (
        "fsdp2.mixed_precision[param=bfloat16,reduce=float32]",
        2,
        "reduce_scatter_tensor as sum",
        "summed instead of averaged",
    ),
    ("fsdp2.mixed_precision[param=bfloat16,reduce=float32]", 2, "policy ignored", "computed in float32"),
    (
        "fsdp2.mixed_precision[param=bfloat16,reduce=float32]",
        2,
        "reduce dtype ignored",
        "reduced in bfloat16",
    ),
    ("fsdp2.hsdp_losses", 4, "reduce_scatter_tensor as sum", "gradients summed over the shards"),
    ("tp.mlp[style=colwise_rowwise]", 2, "functional all_reduce does nothing", "output"),
    ("tp.mlp[style=colwise_rowwise]", 2, "gradients times ranks", "summed over the ranks"),
    ("dtensor.distribute_tensor[to=shard0]", 4, "neighbour's rows", "neighbour's share"),
    ("dtensor.redistribute[from=shard0,to=replicate]", 2, "redistribute does nothing", "unchanged input"),
    (
        "dtensor.redistribute[from=partial,to=replicate]",
        2,
        "functional all_reduce does nothing",
        "not reduced",
    ),
    ("dtensor.redistribute[from=shard0,to=shard1]", 4, "redistribute does nothing", "unchanged input"),
    ("dtensor.full_tensor[from=shard0]", 2, "full_tensor is local", "unchanged input"),
    ("dtensor.full_tensor[from=partial]", 2, "functional all_reduce does nothing", "not reduced"),
    ("pp.gpipe", 2, "loss dropped", "losses"),
    ("pp.gpipe", 2, "gradients not scaled", "summed over the microbatches"),
    ("pp.gpipe[scale_grads=True]", 2, "gradients not scaled", "summed over the microbatches"),
    ("dcp.round_trip", 2, "load does nothing", "not loaded"),
    ("dcp.round_trip", 2, "loaded one bit off", "state"),
    ("dcp.resume", 2, "load does nothing", "not loaded"),
    ("dcp.resume[saved=4,loaded=2]", 4, "load does nothing", "not loaded"),
    ("dcp.resume[saved=4,loaded=2]", 4, "loaded one bit off", "state"),
    ("dcp.reshard_to_one", 2, "load does nothing", "not loaded"),
    ("dcp.to_torch_save", 2, "converted one bit off", "optimizer state"),
    ("dcp.full_state_dict", 2, "gathered everywhere", "gathered"),
    ("ddp.accumulation", 2, "ddp sums", "summed over the ranks"),
    ("ddp.accumulation", 2, "ddp never synchronises", "this rank's samples alone"),
]


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    folder = tmp_path_factory.mktemp("broken")
    shutil.copy(HERE / "broken.py", folder)
    rules = Rules()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
        with Launcher(Where(), rules) as found:
            yield found


@pytest.fixture(scope="module")
def cases(launcher: Launcher) -> dict[tuple[str, int], Case]:
    return {case.key: case for case in launcher.cases()}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}@{row[1]}: {row[2]}" for row in ROWS])
def test_a_check_sees_the_fault_and_names_it(
    launcher: Launcher, cases: dict[tuple[str, int], Case], row: tuple[str, int, str, str]
) -> None:
    case_id, world_size, fault, said = row
    case = cases[case_id, world_size]
    params = {**case.params, "fault": fault, "module": case.module, "function": case.function}
    broken = msgspec.structs.replace(case, module="broken", function="run", params=params)

    attempt = launcher._attempt(broken, "first", launcher.start_method)

    assert attempt.status is Status.WRONG, attempt
    labels = {
        str(mismatch["label"]).partition("[")[0] for rank in attempt.ranks for mismatch in rank.mismatches
    }
    assert said in {*attempt.deviation.split("; "), *labels}, attempt


def test_every_check_is_broken_here(cases: dict[tuple[str, int], Case]) -> None:
    functions = {(case.module, case.function) for case in cases.values()}

    assert functions == {(cases[row[0], row[1]].module, cases[row[0], row[1]].function) for row in ROWS}
