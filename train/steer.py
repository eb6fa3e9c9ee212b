"""What moves the weights of a run's mixtures between steps: one `AdaptiveWeights` a stage, from the config.

In: `mix.adaptive`, `mix.curriculum`, `mix.balance`.  Out: weights for `Mixture.set_weights`, when due.  Called by
`train.launch` (making) and `train.collect` (each step).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envs.domain import Domain
from rollouts.adaptive import AdaptiveWeights, Rules, Seen, seen
from rollouts.mixture import Mixture
from rollouts.objects import GroupResult
from rollouts.retired import RetiredTasks
from train.compose import Composed, stages
from train.config import MixConfig


def make_adaptive(composed: Composed) -> dict[str, AdaptiveWeights]:
    """Stage -> what moves its weights; empty with fixed weights.  Demonstrations teach nothing of success."""
    config = composed.config
    if not config.mix.is_moving:
        return {}
    families = {name: domain.family for name, domain in composed.domains.items()}
    return {
        name: AdaptiveWeights(composed.mixes[name].weights, rules_of(config.mix), families)
        for name, stage in stages(config)
        if stage.kind == "rl"
    }


def make_retired(composed: Composed) -> RetiredTasks:
    """What may not be asked again; raises ValueError where `mix.retire_after` could never do anything."""
    after = composed.config.mix.retire_after
    drawn = {name for mix in composed.mixes.values() for name in mix.weights}
    finite = sorted(name for name in drawn if composed.domains[name].num_distinct is not None)
    if after and not finite:
        raise ValueError(
            f"mix.retire_after={after}: none of the {len(drawn)} domains says how many tasks it has (num_distinct), so "
            "none could be retired; set it to 0"
        )
    return RetiredTasks(finite, after)


def rules_of(mix: MixConfig) -> Rules:
    """The config's options; those that are off keep defaults that do nothing."""
    adaptive, curriculum = mix.adaptive, mix.curriculum
    off = Rules()
    return Rules(
        update_every=mix.update_every,
        signal=adaptive.signal,
        bound=adaptive.bound or off.bound,
        rate=adaptive.rate or off.rate,
        reward_weight=adaptive.reward_weight,
        focus=curriculum.focus,
        up=curriculum.up,
        down=curriculum.down,
        groups=curriculum.groups,
        token_bound=mix.balance_bound if mix.balance == "tokens" else 0.0,
    )


def steer(
    adaptive: AdaptiveWeights, mixture: Mixture, results: Iterable[GroupResult], domains: Mapping[str, Domain]
) -> None:
    """Take in a step's groups, with signal or without; where an update is due, set the mixture's weights."""
    if adaptive.observe(list(_seen(results, domains))):
        mixture.set_weights(adaptive.weights())


def _seen(results: Iterable[GroupResult], domains: Mapping[str, Domain]) -> Iterable[Seen]:
    for result in results:
        summary = result.summary
        declared = domains[summary.domain].score_range
        group = seen(summary.domain, summary.values, declared, summary.num_sampled_tokens)
        if group is not None:
            yield group
