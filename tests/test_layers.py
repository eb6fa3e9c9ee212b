"""Who may import whom: `train -> rollouts -> envs -> rewards`, and each heavy library behind its own few modules.

The import statements are read from the source, also those inside functions and under `TYPE_CHECKING`, so a broken rule
fails here in milliseconds and not when somebody tests a loss on a machine without Ray.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("rewards", "envs", "rollouts", "train")

# --- the rules ----------------------------------------------------------------------------------------------------

# Package -> which of our packages it may import (itself aside).
MAY_IMPORT: dict[str, set[str]] = {
    "rewards": set(),
    "envs": {"rewards"},
    "rollouts": {"envs", "rewards"},
    "train": {"rollouts", "envs", "rewards"},
}

# Library -> the only files and folders that may import it.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "ray": (
        "rollouts/pool.py",
        "rollouts/objects.py",
        "train/policy/workers.py",
        "train/launch.py",
        "train/cluster/node.py",
    ),
    "vllm": ("rollouts/vllm_engine.py", "rollouts/transfer.py", "rollouts/direct.py", "rollouts/routes.py"),
    "deepspeed": ("train/policy/",),
    "wandb": ("train/tracking.py",),
    "torch": ("rollouts/", "train/"),
    "transformers": ("rollouts/", "train/"),
    "hydra": ("train/",),
    "omegaconf": ("train/",),
}

# File -> what its maths must not know, though its package may.
PURE: dict[str, set[str]] = {
    "rollouts/mixture.py": {"torch", "ray", "vllm", "transformers"},
    "rollouts/completion.py": {"torch", "ray", "vllm", "transformers"},
    "rollouts/quotas.py": {"torch", "ray", "vllm", "transformers"},
    "rollouts/accounts.py": {"torch", "ray", "vllm", "transformers"},
    "rollouts/adaptive.py": {"torch", "ray", "vllm", "transformers"},
    "rollouts/weights.py": {"torch", "ray", "vllm", "transformers"},
    "train/policy/losses.py": {"torch.distributed", "transformers", "ray", "deepspeed"},
    "train/policy/packing.py": {"torch.distributed", "transformers", "ray", "deepspeed"},
    "train/policy/mxfp4.py": {"torch.distributed", "transformers", "ray", "deepspeed"},
}

MAX_LINES = 400
# Longer files that are tables of data, not code.
LONG_TABLES: set[str] = set()


# --- reading ------------------------------------------------------------------------------------------------------


def imported(source: str, file: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that `source` imports; `from a import b` gives `a.b`.

    `importlib.import_module("a")` and `__import__("a")` with a literal name count as well.
    """
    package = file.split("/")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def inside(name: str, module: str) -> bool:
    """Whether the dotted `name` is `module` or lies under it."""
    return name == module or name.startswith(module + ".")


def violations(source: str, file: str) -> list[str]:
    """Broken rules in one file, each as a sentence with its place."""
    package = file.split("/")[0]
    found = []
    for line, name in imported(source, file):
        top = name.split(".")[0]
        if top in ("tests", *PACKAGES) and top != package and top not in MAY_IMPORT[package]:
            found.append(f"{file}:{line}: {package}/ may not import {top}/ ({name})")
        if top in ONLY_IN and not file.startswith(ONLY_IN[top]):
            found.append(f"{file}:{line}: {top} belongs only in {', '.join(ONLY_IN[top])}")
        for module in PURE.get(file, ()):
            if inside(name, module):
                found.append(f"{file}:{line}: is pure and may not know {module}")
    return found


def sources() -> list[str]:
    """Our files, relative to the repository, with forward slashes."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


# --- the tests ----------------------------------------------------------------------------------------------------


def test_every_file_keeps_the_rules() -> None:
    found = [sentence for file in sources() for sentence in violations((ROOT / file).read_text(encoding="utf-8"), file)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source", "says"),
    [
        ("rewards/x.py", "from envs.types import Task", "rewards/ may not import envs/"),
        ("rewards/x.py", "import numpy\nimport torch.nn as nn", "x.py:2: torch belongs only in"),
        ("envs/x.py", "def f():\n    import ray", "x.py:2: ray belongs only in"),
        ("envs/families/x.py", "from ...train import loop", "envs/ may not import train/"),
        (
            "envs/x.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rollouts import pool",
            "rollouts/",
        ),
        ("rollouts/x.py", "import importlib\nimportlib.import_module('vllm.engine')", "vllm belongs only in"),
        ("rollouts/x.py", "__import__('deepspeed')", "deepspeed belongs only in"),
        ("train/loop.py", "from wandb import init", "wandb belongs only in train/tracking.py"),
        ("train/loop.py", "from deepspeed.utils import safe_get_full_fp32_param", "deepspeed belongs only in"),
        ("train/x.py", "from tests.fakes import FakeEngine", "train/ may not import tests/"),
        ("train/policy/losses.py", "from torch import distributed", "pure and may not know torch.distributed"),
        ("train/policy/packing.py", "import torch.distributed as dist", "pure and may not know torch.distributed"),
    ],
)
def test_a_broken_rule_is_caught(file: str, source: str, says: str) -> None:
    found = violations(source, file)
    assert len(found) == 1 and says in found[0], found


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("envs/x.py", "import raytracing, torchless\nfrom . import train\nfrom rewards import score"),
        ("envs/families/x.py", "from ..domain import Domain"),
        ("rollouts/vllm_engine.py", "import torch\ndef f():\n    from vllm import LLM"),
        ("train/policy/workers.py", "import ray, deepspeed, torch.distributed"),
        ("train/policy/losses.py", "import torch\nfrom torch.nn import functional"),
        ("train/tracking.py", "def f():\n    import wandb"),
    ],
)
def test_what_the_rules_allow_passes(file: str, source: str) -> None:
    assert violations(source, file) == []


def test_the_rules_name_files_inside_our_packages() -> None:
    named = [*PURE, *LONG_TABLES, *(place for places in ONLY_IN.values() for place in places)]
    assert [place for place in named if place.split("/")[0] not in PACKAGES] == []


def test_every_package_says_what_lives_there() -> None:
    folders = {Path(file).parent for file in sources()}
    silent = []
    for folder in sorted(folders):
        path = ROOT / folder / "__init__.py"
        if not path.exists() or not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))):
            silent.append(f"{folder}/__init__.py")
    assert not silent, f"a docstring of a few lines is missing in {', '.join(silent)}"


def test_every_module_says_where_it_stands() -> None:
    silent = [file for file in sources() if not ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8")))]
    assert not silent, f"a module docstring is missing in {', '.join(silent)}"


def test_no_file_is_too_long() -> None:
    lengths = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in sources()}
    long = {file: length for file, length in lengths.items() if length > MAX_LINES and file not in LONG_TABLES}
    assert not long, f"over {MAX_LINES} lines, split them: {long}"
