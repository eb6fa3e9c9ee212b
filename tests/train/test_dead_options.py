"""Every leaf of the config is read by something other than its own checks.

The sources are read as syntax: an attribute counts as a read of `trainer.ranks` only where what it is taken from is
known to be a `TrainerConfig`, by annotation, by assignment or by the path that leads to it.
"""

from __future__ import annotations

import ast
import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from train import config as config_module

ROOT = Path(__file__).resolve().parents[2]
CLASSES = {
    name: found
    for name, found in vars(config_module).items()
    if dataclasses.is_dataclass(found) and isinstance(found, type) and name.endswith("Config")
}
FIELDS = {name: typing.get_type_hints(found) for name, found in CLASSES.items()}
# What a loop over a mapping of configs calls its items.
LOOP_NAMES = {"stage": "StageConfig", "item": "StageConfig", "tier": "TierConfig", "group": "NodesConfig"}


def class_of(hint: object) -> str | None:
    """The config class behind an annotation: itself, or the values of a dict of it."""
    for candidate in (hint, *typing.get_args(hint)):
        if getattr(candidate, "__name__", "") in CLASSES:
            return str(candidate.__name__)
    return None


LEAVES = sorted(
    (name, leaf) for name, hints in FIELDS.items() for leaf, hint in hints.items() if class_of(hint) is None
)


class Reads(ast.NodeVisitor):
    """Which leaves the functions of one module read."""

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._known: dict[str, str] = dict(LOOP_NAMES)
        self._attributes: dict[str, str] = {"config": "Config"}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self._known = self._known, dict(self._known)
        for argument in (*node.args.args, *node.args.kwonlyargs):
            if isinstance(argument.annotation, ast.Name) and argument.annotation.id in CLASSES:
                self._known[argument.arg] = argument.annotation.id
        self.generic_visit(node)
        self._known = outer

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        pairs = [(target, node.value) for target in node.targets]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=True))
        for target, value in pairs:
            found = self.owner(value)
            if isinstance(target, ast.Name) and found:
                self._known[target.id] = found
            elif isinstance(target, ast.Attribute) and found:
                self._attributes[target.attr] = found

    def visit_Attribute(self, node: ast.Attribute) -> None:
        owner = self.owner(node.value)
        if owner and node.attr in FIELDS[owner]:
            self.found.add((owner, node.attr))
        self.generic_visit(node)

    def owner(self, node: ast.expr) -> str | None:
        """The config class that an expression gives."""
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Subscript):
            return self.owner(node.value)
        if isinstance(node, ast.Attribute):
            owner = self.owner(node.value)
            if owner:
                return class_of(FIELDS[owner].get(node.attr))
            return self._attributes.get(node.attr)
        return None


def sources() -> Iterator[Path]:
    for package in ("train", "rollouts"):
        yield from (path for path in (ROOT / package).rglob("*.py") if path != Path(config_module.__file__))


@pytest.fixture(scope="module")
def read() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for path in sources():
        reads = Reads()
        reads.visit(ast.parse(path.read_text()))
        found |= reads.found
    return found


@pytest.mark.parametrize("leaf", LEAVES, ids=".".join)
def test_something_reads_it(leaf: tuple[str, str], read: set[tuple[str, str]]) -> None:
    assert leaf in read, f"{leaf[0]}.{leaf[1]} is in the config, and nothing outside train/config.py reads it"


def test_every_class_hangs_in_the_tree() -> None:
    seen, waiting = set(), ["Config"]
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting += [found for hint in FIELDS[name].values() if (found := class_of(hint)) and found not in seen]
    assert seen == CLASSES.keys()
    assert len(LEAVES) > 60


def test_a_leaf_that_nobody_reads_would_be_found() -> None:
    reads = Reads()
    reads.visit(
        ast.parse("def f(config: Config, other):\n    use(config.steps, other.seed, config.cluster.trainer.ranks)")
    )
    assert reads.found == {
        ("Config", "steps"),
        ("Config", "cluster"),
        ("ClusterConfig", "trainer"),
        ("TrainerConfig", "ranks"),
    }
