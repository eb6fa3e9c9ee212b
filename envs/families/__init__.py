"""The families of domains.  `FAMILIES` is the one visible table; a new family is a module and a line here.

In: nothing, or a user's own family: `pkg.module:FAMILY`, or a file for an adapter.  Out: domains by name.
Called by `python -m envs`, `rollouts.worker` and `train.evaluate`.  Listing domains imports no domain library.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from envs.domain import Domain, Family
from envs.families import (
    arena,
    code,
    dialogue,
    extraction,
    games,
    instructions,
    logic,
    math,
    mathematics,
    puzzles,
    reasoning_gym,
    sequence,
    sql,
    structured,
    text,
    tools_toy,
)

FAMILIES: dict[str, Family] = {
    "arena": arena.FAMILY,
    "code": code.FAMILY,
    "dialogue": dialogue.FAMILY,
    "extraction": extraction.FAMILY,
    "games": games.FAMILY,
    "instructions": instructions.FAMILY,
    "logic": logic.FAMILY,
    "math": math.FAMILY,
    "mathematics": mathematics.FAMILY,
    "puzzles": puzzles.FAMILY,
    "reasoning_gym": reasoning_gym.FAMILY,
    "sequence": sequence.FAMILY,
    "sql": sql.FAMILY,
    "structured": structured.FAMILY,
    "text": text.FAMILY,
    "tools": tools_toy.FAMILY,
}


def all_domains(families: Mapping[str, Family] = FAMILIES) -> dict[str, Domain]:
    """Every domain by name, sorted.  ValueError where a family breaks the naming rules."""
    found: dict[str, Domain] = {}
    for key, family in families.items():
        if key != family.name:
            raise ValueError(f"family {family.name!r} stands in the table under another name, {key!r}")
        for domain in family.domains():
            if domain.family != family.name:
                raise ValueError(f"family {family.name!r} offers {domain.name!r} of family {domain.family!r}")
            if domain.name in found:
                raise ValueError(f"two domains are named {domain.name!r}")
            found[domain.name] = domain
    return dict(sorted(found.items()))


def load_family(path: str) -> Family:
    """A user's own family from `pkg.module:FAMILY`; ValueError says which part of the path is wrong."""
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise ValueError(f"family {path!r} must be written as 'package.module:FAMILY', or be a .yaml file")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        raise ValueError(f"family {path!r}: there is no module {problem.name!r}") from problem
    if not hasattr(module, attribute):
        raise ValueError(f"family {path!r}: module {module_name!r} has no {attribute!r}")
    family = getattr(module, attribute)
    if not isinstance(family, Family):
        raise ValueError(f"family {path!r} is a {type(family).__name__}, not an envs.domain.Family")
    return family


def with_families(paths: Mapping[str, str], families: Mapping[str, Family] = FAMILIES) -> dict[str, Family]:
    """The table plus the user's own, as in the run's config.

    Example: ``{"mine": "pkg.my_family:FAMILY", "questions": "questions.yaml"}``; a YAML file is a world that somebody
    else made, described for `envs.adapters`.
    """
    table = dict(families)
    for name, path in paths.items():
        if name in table:
            raise ValueError(f"family {name!r} is taken, choose another name for {path!r}")
        table[name] = _adapted(name, path) if path.endswith((".yaml", ".yml")) else load_family(path)
    return table


def _adapted(name: str, path: str) -> Family:
    from envs.adapters import adapted_family  # only who uses one pays for it

    return adapted_family(name, path)
