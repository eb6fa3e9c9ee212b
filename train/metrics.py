"""The numbers of a step, from sums to what people read.  Pure; called by `train.loop`.

Ratios are made here, once, from sums over the whole batch: a domain that is absent logs nothing, and no mean is taken
over an empty set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from rollouts.mixture import Mixture, Outcome
from rollouts.objects import GroupResult
from rollouts.pool import PublishReport
from train.collect import StepBatch

ACCEPTED = Outcome.ACCEPTED
# Tokens that a loss clipped, cut or left out; each loss has its own, logged as shares of the loss tokens.
TOKEN_COUNTS = (
    *("masked_high", "masked_low", "band_masked", "vetoed_tokens"),
    *("clipped_high", "clipped_low", "popped", "mismatch_truncated"),
)


def supervised(totals: dict[str, float]) -> dict[str, float]:
    """Metrics of a supervised step."""
    return {
        "loss": totals["loss"],
        "nll": totals["nll_sum"] / max(totals["tokens"], 1),
        "gradient_norm": totals["gradient_norm"],
        "tokens": totals["tokens"],
    }


def quantisation(totals: dict[str, float]) -> dict[str, dict[str, float]]:
    """Series by layer of what MXFP4 does to the weights, at the steps at which the trainer counted.

    `quant_flipped`, `quant_clipped` and `quant_zeroed` are shares of the weights; `quant_scale_drift` is the mean
    distance of the scales from those of the first count, in powers of two.
    """
    layers = [name.removeprefix("quant/weights/") for name in totals if name.startswith("quant/weights/")]
    if not layers:
        return {}
    of = {"flipped": "weights", "clipped": "weights", "zeroed": "weights", "scale_drift": "blocks"}
    return {
        f"quant_{count}": {
            layer: totals[f"quant/{count}/{layer}"] / totals[f"quant/{whole}/{layer}"] for layer in layers
        }
        for count, whole in of.items()
    }


def routes(totals: dict[str, float]) -> dict[str, float]:
    """How the trainer's experts compare with the engine's, as shares of (sampled token, layer), and their load.

    `routes/differ`: used others than the engine did (0 in replay).  `routes/own_differ`: would have chosen others.
    """
    found = {
        f"routes/{name}": max(value for key, value in totals.items() if key.startswith(f"routes/{name}/layer/"))
        for name in ("max_violation", "dead")
    }
    if totals["routes_given"]:
        found["routes/differ"] = totals["routes_differ"] / totals["routes_given"]
        found["routes/own_differ"] = totals["routes_own_differ"] / totals["routes_given"]
    if "balance_loss" in totals:
        found["loss/balance"] = totals["balance_loss"]
    return found


def expert_load(totals: dict[str, float], domains: Sequence[str]) -> dict[str, dict[str, float]]:
    """Series of the experts' load by layer, and by domain (`domains` by their index in the trainer)."""
    series: dict[str, dict[str, float]] = {}
    for key, value in totals.items():
        if key.startswith("routes/"):
            _, what, kind, index = key.split("/")
            name = domains[int(index)] if kind == "domain" else index
            series.setdefault(f"expert_{what}_by_{kind}", {})[name] = value
    return series


def publish(report: PublishReport) -> dict[str, float]:
    """What went to each engine: MiB, as a share of the whole version, and chunks that were wanted in full."""
    return {
        "publish/mebibytes": report.num_bytes / 2**20,
        "publish/share_of_full": report.num_bytes / max(report.full_bytes, 1),
        "publish/refreshed_chunks": float(report.refreshed),
    }


def rollout(accepted: Sequence[GroupResult], dropped: Sequence[tuple[GroupResult, Outcome]]) -> dict[str, float]:
    """Metrics of a step's rollouts: rewards, what became of the groups, how trajectories ended."""
    results = [*accepted, *(result for result, _ in dropped)]
    rewards = [value for result in results for value in result.summary.values if value is not None]
    outcomes = Counter(outcome for _, outcome in dropped)
    statuses = Counter(status for result in results for status in result.summary.statuses)
    num_trajectories = max(sum(statuses.values()), 1)
    numbers = {
        "groups/accepted": float(len(accepted)),
        **{f"groups/{outcome.value}": float(outcomes[outcome]) for outcome in Outcome if outcome is not ACCEPTED},
        "rollout/truncated": statuses["truncated"] / num_trajectories,
        "rollout/max_turns": statuses["max_turns"] / num_trajectories,
        "rollout/failed": statuses["failed"] / num_trajectories,
    }
    return numbers | ({"reward/mean": sum(rewards) / len(rewards)} if rewards else {})


def reinforcement(
    batch: StepBatch, totals: dict[str, float], mixture: Mixture, mismatch_rolling: float, domains: Sequence[str]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Metrics of a policy-gradient step, and series by domain."""
    tokens = max(totals["tokens"], 1)
    numbers = rollout(batch.accepted, batch.dropped) | {
        "loss": totals["loss"],
        "gradient_norm": totals["gradient_norm"],
        "entropy": totals["entropy_sum"] / tokens,
        "tokens": totals["tokens"],
        **{f"loss/{name}": totals[name] / tokens for name in TOKEN_COUNTS if name in totals},
        "fidelity/mismatch": totals["mismatch_abs_sum"] / max(totals["mismatch_count"], 1),
        "fidelity/mismatch_rolling": mismatch_rolling,
        "fidelity/mismatch_max": totals["mismatch_max"],
        "fidelity/k3": totals.get("k3_sum", 0.0) / tokens,
        "groups/starved_domains": float(len(mixture.starved())),
        "shares/largest": max(batch.shares.values(), default=0.0),
        **routes(totals),
        "shares/over_bound": float(len(batch.over)),
        "shares/cut": float(len(batch.cut)),
    }
    rewards, lengths = _by_domain(batch)
    series = {
        "reward": {domain: sum(values) / len(values) for domain, values in rewards.items() if values},
        "length": {domain: sum(values) / len(values) for domain, values in lengths.items() if values},
        "mix_share": {domain: float(share) for domain, share in mixture.weights.items()} if mixture.has_moved else {},
        "gradient_share": batch.shares,
        **quantisation(totals),
        **expert_load(totals, domains),
        "share_over_bound": batch.over,
        "share_cut": batch.cut,
        "starved": {domain: mixture.starving(domain) for domain in mixture.starved()},
    }
    return numbers, series


def _by_domain(batch: StepBatch) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Rewards and trained tokens of trajectories by domain."""
    rewards: dict[str, list[float]] = defaultdict(list)
    lengths: dict[str, list[float]] = defaultdict(list)
    for result in [*batch.accepted, *(result for result, _ in batch.dropped)]:
        summary = result.summary
        rewards[summary.domain] += [value for value in summary.values if value is not None]
        lengths[summary.domain] += [float(sum(size[1] for size in segments)) for segments in summary.segments]
    return rewards, lengths
