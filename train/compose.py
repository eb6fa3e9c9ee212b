"""From a command line to a checked `Config`, with the mix rules kept in the order in which they were written.

In: arguments of `python -m train` (and of the other commands that take a config).  Out: `Config`, the mix of each
stage, and the resolved tree for the run folder.  Raises ValueError with at most five lines that name key, value and
remedy.  Hydra and OmegaConf are known only here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from envs.domain import Domain
from envs.families import all_domains, with_families
from rollouts.mix import Mix, Rule, parse_mix_arguments, resolve, rules_of
from train.config import Config, StageConfig

CONF = Path(__file__).resolve().parents[1] / "conf"
ConfigStore.instance().store(name="schema", node=Config)
_OPEN_KEYS = ("mix.families", "mix.domains", "families", "tiers", "mix.tiers", "stage")


@dataclass(slots=True)
class Composed:
    """A config and what follows from it before anything is started.

    `mixes`: stage name -> its resolved mix.  `tree`: the resolved config as plain containers, for the run folder.
    """

    config: Config
    domains: dict[str, Domain]
    mixes: dict[str, Mix]
    tree: dict[str, Any]


def compose_run(arguments: Sequence[str]) -> Composed:
    """Compose, check and resolve everything that can be known without starting anything."""
    command_rules, rest = parse_mix_arguments(arguments)
    for argument in rest:
        # Hydra takes any key with a plus sign; a key that nobody reads is an error here.
        if argument.startswith("+") and (unknown := _unknown_key(argument)):
            raise ValueError(unknown)
    node = _compose(rest)
    config = _typed(node)
    domains = all_domains(with_families(config.families))
    mixes = {name: _mix(config, stage, name, domains, command_rules) for name, stage in stages(config)}
    tree = OmegaConf.to_container(node, resolve=True)
    assert isinstance(tree, dict)
    tree = {str(key): value for key, value in tree.items()}
    tree["mix_arguments"] = [rule.origin.removeprefix("command line: ") for rule in command_rules]
    return Composed(config=config, domains=domains, mixes=mixes, tree=tree)


def stages(config: Config) -> list[tuple[str, StageConfig]]:
    """Stages by their `order`."""
    return sorted(config.stage.items(), key=lambda item: item[1].order)


def _mix(config: Config, stage: StageConfig, name: str, domains: dict[str, Domain], more: list[Rule]) -> Mix:
    """The mix of one stage: its own rules or else the run's, then those of the command line."""
    families = {domain.name: domain.family for domain in domains.values()}
    rules = rules_of(stage.families, stage.domains, f"stage.{name}")
    rules = rules or rules_of(config.mix.families, config.mix.domains, "conf/mix")
    groups = stage.samples_per_step if stage.kind == "sft" else config.algorithm.groups_per_step
    return resolve(families, [*rules, *more], groups_per_step=groups, seed=config.seed)


def _compose(arguments: list[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("config", overrides=arguments)
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(_explain(error, arguments)) from error


def _typed(node: DictConfig) -> Config:
    try:
        config = OmegaConf.to_object(node)
    except OmegaConfBaseException as error:
        raise ValueError(_explain(error, [])) from error
    assert isinstance(config, Config)
    return config


def _explain(error: Exception, arguments: Sequence[str]) -> str:
    """Hydra's text in at most three lines, and the nearest right key where one was misspelt."""
    for argument in arguments:
        unknown = _unknown_key(argument)
        if unknown:
            return unknown
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines += [line.strip() for line in str(error.__cause__ or "").splitlines() if line.strip()]
    return "\n".join(lines[:3])


def _unknown_key(argument: str) -> str:
    """What is wrong with the left side of an override, or nothing."""
    key, equals, _ = argument.lstrip("+~").partition("=")
    known = known_keys()
    if not equals or key in known or any(key.startswith(f"{open_key}.") for open_key in _OPEN_KEYS):
        return ""
    ends = {name.rsplit(".", 1)[-1]: name for name in known}
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    near = near or [ends[end] for end in difflib.get_close_matches(key.rsplit(".", 1)[-1], ends, n=1, cutoff=0.6)]
    hint = f"; did you mean {near[0]!r}?" if near else "; `python -m train --help` lists the keys"
    return f"no config key or group {key!r} (in {argument!r}){hint}"


def known_keys() -> list[str]:
    """Every key and config group that can stand left of `=`."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        node = compose("config", overrides=[])
    groups = [path.name for path in CONF.iterdir() if path.is_dir()]
    return [*groups, *_leaves(node, "")]


def _leaves(node: Any, prefix: str) -> Iterator[str]:
    for key in node:
        name = f"{prefix}{key}"
        yield name
        child = None if OmegaConf.is_missing(node, key) else node[key]
        if isinstance(child, DictConfig):
            yield from _leaves(child, f"{name}.")
