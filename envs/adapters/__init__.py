"""Worlds that somebody else made, as domains: data sets, tasksets of `verifiers`, servers of OpenEnv.

In: a YAML file that names its adapter and what that needs.  Out: a `Family`.  Called by `envs.families.with_families`
for `families.<name>=<file>.yaml`; docs/adapters.md says how to write the files and what runs where.  Nothing of the
other projects is imported in this process, except the library `datasets`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from envs.adapters import openenv, rows, tasksets
from envs.adapters.settings import Settings, read_settings
from envs.domain import Family

ADAPTERS: dict[str, Callable[[Settings], Family]] = {
    "datasets": rows.family,
    "openenv": openenv.family,
    "verifiers": tasksets.family,
}


def adapted_family(name: str, path: str) -> Family:
    """The family that the file describes; ValueError names file, key and remedy."""
    settings = read_settings(name, Path(path))
    return ADAPTERS[settings.choice("adapter", sorted(ADAPTERS))](settings)


def absolute(paths: Mapping[str, str]) -> dict[str, str]:
    """Paths of files made absolute, for processes that start in another folder; modules stay what they are."""
    return {
        name: str(Path(path).absolute()) if path.endswith((".yaml", ".yml")) else path for name, path in paths.items()
    }
