"""DeepSpeed with expert parallelism: every split of ranks and ZeRO stages trains the same model, to the bit where said.

Each case runs in processes of its own, one a rank (`policy_ranks.py`), and hands back what rank 0 saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.integration.policy_ranks import Case, launch, sequences
from tests.integration.tiny import continuation_logprobs, decoded, masters, transformers_model, write_folder
from train.policy import mxfp4
from train.weights import formats
from train.weights.publish import assemble

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

LEARNING_RATE = 1e-3
WORLDS = {
    "one rank": Case(world=1, expert_parallel=1),
    "two ranks": Case(world=2, expert_parallel=2),
    "stage 2": Case(world=2, expert_parallel=2, zero_stage=2),
    "stage 3": Case(world=2, expert_parallel=2, zero_stage=3),
    "checkpointing": Case(world=2, expert_parallel=2, activation_checkpointing=True),
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("policy") / "model", seed=1)


@pytest.fixture(scope="module")
def runs(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """What each case saw, all started at the first use."""
    root = tmp_path_factory.mktemp("ranks")
    with ThreadPoolExecutor(2) as executor:
        futures = {
            name: executor.submit(launch, case, "train", model_dir, root / name.replace(" ", "-"))
            for name, case in WORLDS.items()
        }
        yield {name: future.result() for name, future in futures.items()}
