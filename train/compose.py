"""From a command line to a checked `Config`, with the mix rules kept in the order in which they were written.

In: arguments of `python -m train` (and of the other commands that take a config).  Out: `Config`, the mix of each
stage, and the resolved tree for the run folder.  Raises ValueError with at most five lines that name key, value and
remedy.  Hydra and OmegaConf are known only here.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from envs import sandbox
from envs.domain import Domain
from envs.families import all_domains, with_families
from rollouts.mix import Mix, Rule, parse_mix_arguments, resolve, rules_of
from rollouts.weights import Split
from train.config import Config, NodesConfig, StageConfig, TierConfig

CONF = Path(__file__).resolve().parents[1] / "conf"
ConfigStore.instance().store(name="schema", node=Config)
# Below these any name may be added with a plus sign (whoever reads them knows which are right) ...
_FREE = (
    "mix.families",
    "mix.domains",
    "mix.tiers",
    "mix.levels",
    "families",
    "algorithm.options",
    "cluster.slurm.options",
    "cluster.slurm.srun",
)
# ... and below these the user's files name things, each with these fields.
_NAMED: dict[str, type] = {"stage": StageConfig, "tiers": TierConfig}


@dataclass(slots=True)
class Composed:
    """A config and what follows from it before anything is started.

    `mixes`: stage name -> its resolved mix.  `tree`: the resolved config as plain containers, for the run folder.
    """

    config: Config
    domains: dict[str, Domain]
    mixes: dict[str, Mix]
    tree: dict[str, Any]
    arguments: list[str] = field(default_factory=list)


def compose_run(arguments: Sequence[str]) -> Composed:
    """Compose, check and resolve everything that can be known without starting anything."""
    command_rules, rest = parse_mix_arguments(arguments)
    for argument in rest:
        if argument.startswith("=") or not ("=" in argument or argument.startswith("~")):
            raise ValueError(f"{argument!r} is not key=value; `python -m train --help` lists the keys")
        # Hydra takes any key with a plus sign; a key that nobody reads is an error here.
        if argument.startswith("+") and (unknown := _unknown_key(argument)):
            raise ValueError(unknown)
    # A family of one's own is always a new key: Hydra's sign for that may be left out.
    rest = [f"++{argument}" if argument.startswith("families.") else argument for argument in rest]
    composed = _composed(_compose(rest), command_rules, rest)
    composed.arguments = list(arguments)
    return composed


def _composed(node: DictConfig, command_rules: list[Rule], arguments: Sequence[str] = ()) -> Composed:
    config = _typed(node, arguments)
    domains = all_domains(with_families(config.families))
    mixes = {name: _mix(config, stage, name, domains, command_rules) for name, stage in stages(config)}
    resolved = OmegaConf.to_container(node, resolve=True)
    assert isinstance(resolved, dict)
    tree: dict[str, Any] = {str(key): value for key, value in resolved.items()}
    tree["mix_arguments"] = [rule.origin.removeprefix("command line: ") for rule in command_rules]
    return Composed(config=config, domains=domains, mixes=mixes, tree=tree)


def from_tree(tree: dict[str, Any]) -> Composed:
    """The config of an earlier run, from the resolved tree in its folder or checkpoint."""
    plain = {key: value for key, value in tree.items() if key != "mix_arguments"}
    node = OmegaConf.merge(OmegaConf.structured(Config), plain)
    assert isinstance(node, DictConfig)
    rules, _ = parse_mix_arguments(tree["mix_arguments"])
    return _composed(node, rules)


def stages(config: Config) -> list[tuple[str, StageConfig]]:
    """Stages by their `order`."""
    return sorted(config.stage.items(), key=lambda item: item[1].order)


def _mix(config: Config, stage: StageConfig, name: str, domains: dict[str, Domain], more: list[Rule]) -> Mix:
    """The mix of one stage: its own rules or else the run's, then those of the command line."""
    families = {domain.name: domain.family for domain in domains.values()}
    rules = rules_of(stage.families, stage.domains, f"stage.{name}")
    rules = rules or rules_of(config.mix.families, config.mix.domains, "conf/mix")
    groups = stage.samples_per_step if stage.kind == "sft" else config.algorithm.groups_per_step
    sizes = {domain.name: domain.num_distinct for domain in domains.values()}
    split = Split(config.mix.levels, config.mix.size_temperature, sizes, max(config.mix.size_largest, 1))
    rules = [*rules, *more]
    mix = resolve(families, rules, groups_per_step=groups, seed=config.seed, split=split)
    if absent := _not_installed([domains[name] for name in mix.weights], rules):
        rules += absent
        mix = resolve(families, rules, groups_per_step=groups, seed=config.seed, split=split)
    if config.mix.fit_tasks:
        too_much = _misfits(config, [domains[name] for name in mix.weights])
        rules += [Rule("domain", name, 0, f"mix.fit_tasks: {why}", removes=True) for name, why in too_much.items()]
        mix = resolve(families, rules, groups_per_step=groups, seed=config.seed, split=split)
    drawn = [domains[domain] for domain, weight in mix.weights.items() if weight]
    _check_installed(drawn)
    _check_sandbox(drawn)
    return mix


def _misfits(config: Config, domains: Sequence[Domain]) -> dict[str, str]:
    from train.fit import misfits  # it loads a tokenizer

    return misfits(config, [domain for domain in domains if not domain.not_installed])


def _not_installed(drawn: Sequence[Domain], rules: Sequence[Rule]) -> list[Rule]:
    """Rules that take out what families and globs brought in and this machine has not installed; names stay."""
    named = {rule.pattern for rule in rules}
    missing = {domain.name: domain.not_installed for domain in drawn if domain.name not in named}
    return [Rule("domain", name, 0, f"this machine: {why}", removes=True) for name, why in missing.items() if why]


def _check_installed(drawn: Sequence[Domain]) -> None:
    """Domains of an optional extra that a rule names are refused where it is not installed."""
    missing = [domain for domain in drawn if domain.not_installed]
    if missing:
        raise ValueError(
            f"mix.domains.{missing[0].name}: {len(missing)} of the mix's domains are not installed: "
            f"{missing[0].not_installed}\nor leave them out: "
            + " ".join(f"'~mix.domains.{domain.name}'" for domain in missing[:20])
        )


def _check_sandbox(drawn: Sequence[Domain]) -> None:
    """Domains that need a sandbox are refused where none works, never run without."""
    needy = [domain.name for domain in drawn if domain.needs_sandbox]
    if needy and sandbox.available():
        raise ValueError(
            f"mix.domains.{needy[0]}: {len(needy)} of the mix's domains need a sandbox, and none works here\n"
            f"{sandbox.available()}\nor leave them out: " + " ".join(f"'~mix.domains.{name}'" for name in needy[:20])
        )


def _compose(arguments: list[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("config", overrides=arguments)
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(_explain(error, arguments)) from error


def _typed(node: DictConfig, arguments: Sequence[str]) -> Config:
    try:
        config = OmegaConf.to_object(node)
    except OmegaConfBaseException as error:
        raise ValueError(_explain(error, arguments)) from error
    assert isinstance(config, Config)
    return config


def _explain(error: Exception, arguments: Sequence[str]) -> str:
    """What is wrong with which argument; Hydra's own text, in at most three lines, where that is not known."""
    for argument in arguments:
        if found := _unknown_key(argument) or _unknown_choice(argument):
            return found
    text = f"{error}\n{error.__cause__ or ''}"
    lines = [line.strip() for line in text.splitlines() if line.strip() and "To append" not in line][:3]
    named = max((argument for argument in arguments if _key(argument) in text), key=lambda a: len(_key(a)), default="")
    said = "\n".join(lines)
    return said if named in said else f"{named}: {said}"


def _key(argument: str) -> str:
    return argument.lstrip("+~").partition("=")[0]


def _unknown_choice(argument: str) -> str:
    """What is wrong with a `group=choice`, or nothing."""
    group, _, choice = argument.lstrip("+~").partition("=")
    choices = choices_of(group) if group in _groups() else []
    if not choices or choice in (*choices, "null") or choice.startswith("["):
        return ""
    near = difflib.get_close_matches(choice, choices, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{argument}: conf/{group} has no {choice!r}; {hint}there are {', '.join(choices)}"


def _unknown_key(argument: str) -> str:
    """What is wrong with the left side of an override, or nothing."""
    key, equals, _ = argument.lstrip("+~").partition("=")
    known = known_keys()
    if not equals or key in known:
        return ""
    parent, _, child = key.rpartition(".")
    if parent in _FREE and argument.startswith("+"):
        return ""
    if parent in _NAMED:
        return f"{argument}: a new entry of {parent!r} needs a file, for instance conf/experiment/<yours>.yaml"
    top, _, _ = parent.partition(".")
    if top in _NAMED and parent.count(".") == 1 and child in _names(_NAMED[top]):
        names = sorted({name.split(".")[1] for name in known if name.startswith(f"{top}.")})
        return (
            "" if argument.startswith("+") else f"{argument}: no {parent!r} here; those of conf/ are {', '.join(names)}"
        )
    if re.fullmatch(rf"cluster\.nodes\.\w+\.(({'|'.join(_names(NodesConfig))})|options\.[\w-]+)", key):
        return ""
    near = _nearest(key, known)
    hint = f"; did you mean {near!r}?" if near else "; `python -m train --help` lists the keys"
    if parent in _FREE:
        hint += f" (+{argument} adds it)"
    return f"no config key or group {key!r} (in {argument!r}){hint}"


def _names(config: type) -> set[str]:
    return {item.name for item in fields(config)}


def _nearest(key: str, known: Sequence[str]) -> str:
    """The known key that was probably meant: spelt alike, or else the most alike of those whose last part is."""
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    ends = difflib.get_close_matches(
        key.rsplit(".", 1)[-1], {name.rsplit(".", 1)[-1] for name in known}, n=1, cutoff=0.6
    )
    close = close or difflib.get_close_matches(
        key, [name for name in known if ends and name.rsplit(".", 1)[-1] == ends[0]], n=1, cutoff=0.0
    )
    return close[0] if close else ""


def choices_of(group: str) -> list[str]:
    """What can stand right of `group=`; a file `_name.yaml` is a part of others."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml") if not path.stem.startswith("_"))


def _groups() -> list[str]:
    return sorted(path.name for path in CONF.iterdir() if path.is_dir())


@functools.cache
def known_keys() -> tuple[str, ...]:
    """Every key and config group that can stand left of `=`."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        node = compose("config", overrides=[])
    return (*_groups(), *_leaves(node, ""))


def _leaves(node: Any, prefix: str) -> Iterator[str]:
    for key in node:
        name = f"{prefix}{key}"
        yield name
        child = None if OmegaConf.is_missing(node, key) else node[key]
        if isinstance(child, DictConfig):
            yield from _leaves(child, f"{name}.")
