"""One step's groups: draw tickets, roll out, drop what has no signal, refill, and turn rewards into advantages.

In: mixture, statistics, pool.  Out: a `StepBatch`: which trajectory gets which advantage and weight, rows planned for
every rank, and the step's accounting.  Called by `train.loop`; tokens stay in the object store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envs.domain import Domain, side_of
from envs.types import Task
from rewards import shares
from rewards.advantages import (
    estimators,
    group_advantages,
    group_std,
    has_signal,
    turn_advantages,
    turn_returns,
)
from rewards.normalise import DomainStatistics
from rewards.parts import PartStatistics
from rollouts.adaptive import AdaptiveWeights
from rollouts.engine import EngineFailure
from rollouts.mixture import Mixture, Outcome, Ticket, share_of
from rollouts.objects import GroupResult, Place
from rollouts.pool import RolloutPool
from rollouts.retired import RetiredTasks
from train.config import Config
from train.policy.packing import loss_token_weights, plan_rows
from train.policy.workers import Item
from train.steer import steer

RETIRED_ROUNDS = 4  # looks for tasks that are not retired; a domain with hardly any left repeats some


class EmptyBatch(Exception):
    """No group carried signal within the refill budget, for several steps in a row."""


@dataclass(slots=True)
class StepBatch:
    """What one step of the loop trains on, and what became of every group that was drawn for it.

    - `accepted`: groups with signal; `dropped`: (result, why) of the others.
    - `parts`: one an optimiser step; `part[rank]` are that rank's rows of items; an item's `group` counts `places`.
    - `shares`: domain -> share of the sum of |advantage| * weight, after `cut`.
    - `over`: domains above `algorithm.share_bound` times their share, with that ratio; `cut`: by what their weights
      were multiplied, if the bound acts.
    """

    accepted: list[GroupResult]
    dropped: list[tuple[GroupResult, Outcome]]
    parts: list[list[list[list[Item]]]]
    places: list[Place | None]
    shares: dict[str, float]
    over: dict[str, float]
    cut: dict[str, float]


class Collector:
    """Takes groups for steps; all state lies in the mixture and the statistics it was given."""

    def __init__(
        self,
        pool: RolloutPool,
        mixture: Mixture,
        statistics: DomainStatistics,
        domains: Mapping[str, Domain],
        config: Config,
        adaptive: AdaptiveWeights | None = None,
        parts: PartStatistics | None = None,
        retired: RetiredTasks | None = None,
    ):
        self._pool, self._mixture, self._statistics, self._adaptive = pool, mixture, statistics, adaptive
        self._part_statistics = parts or PartStatistics({})
        self._retired = retired or RetiredTasks()
        self._domains, self._config, self._algorithm = domains, config, config.algorithm

    def take(self, version: int) -> tuple[list[GroupResult], list[tuple[GroupResult, Outcome]]]:
        """Roll out one step's groups; what earlier steps owe (groups without signal) comes first among them.

        With `refill_rounds` a step goes on drawing what it lost itself, within that many further rounds; without, the
        loss is made up for in the next steps, which costs no waiting.  Raises EngineFailure where a token was sampled
        under another version than `version`.
        """
        wanted = self._algorithm.groups_per_step
        tickets = self._mixture.refill_tickets(int(wanted * self._config.mix.refill_share))
        tickets += [self._mixture.next_ticket() for _ in range(wanted - len(tickets))]
        accepted: list[GroupResult] = []
        dropped: list[tuple[GroupResult, Outcome]] = []
        self._roll_out(tickets, version, accepted, dropped)
        for _ in range(self._algorithm.refill_rounds):
            tickets = self._mixture.refill_tickets(wanted - len(accepted))
            if not tickets:
                break
            self._roll_out(tickets, version, accepted, dropped)
        if self._adaptive is not None:
            steer(self._adaptive, self._mixture, [*accepted, *(result for result, _ in dropped)], self._domains)
        return accepted, dropped

    def batch(
        self,
        accepted: list[GroupResult],
        dropped: list[tuple[GroupResult, Outcome]],
        row_tokens: int,
        num_ranks: int,
    ) -> StepBatch:
        """Advantages on the statistics of earlier steps, weights, rows.  Then the statistics take this step in."""
        assert accepted, "an empty step is the caller's to count"
        quota = share_of(dict(Counter(result.summary.domain for result in accepted)))
        parts = self._parts(accepted, quota)
        over, cut = self._bound_shares(parts, accepted, quota)
        parts = [_cut(items, accepted, cut) for items in parts] if cut else parts
        # Updating after use keeps the order of groups within a step without effect.
        self._statistics.update([(result.summary.domain, result.summary.values) for result in accepted])
        self._part_statistics.update(
            [(result.summary.domain, result.summary.parts) for result in accepted if self._in_parts(result)]
        )
        return StepBatch(
            accepted=accepted,
            dropped=dropped,
            parts=[plan_items(items, accepted, row_tokens, num_ranks) for items in parts],
            places=[result.place for result in accepted],
            shares=_parts_of_one(_sums(parts, accepted)),
            over=over,
            cut=cut,
        )

    def judge(self, results: Sequence[GroupResult]) -> tuple[list[GroupResult], list[tuple[GroupResult, Outcome]]]:
        """Split groups that were not drawn here (stored ones) into those with signal and the others."""
        accepted: list[GroupResult] = []
        dropped: list[tuple[GroupResult, Outcome]] = []
        for result in results:
            outcome = self._judge(result)
            if outcome is Outcome.ACCEPTED:
                accepted.append(result)
            else:
                dropped.append((result, outcome))
        return accepted, dropped

    def _roll_out(
        self,
        tickets: Sequence[Ticket],
        version: int,
        accepted: list[GroupResult],
        dropped: list[tuple[GroupResult, Outcome]],
    ) -> None:
        tasks = take_tasks(self._pool, self._mixture, tickets, self._retired)
        results = self._pool.run(
            [(ticket.number, task, ticket.tier) for ticket, task in zip(tickets, tasks, strict=True)],
            num_samples=self._algorithm.group_size,
            temperature=self._algorithm.temperature,
            seed=self._config.seed,
        )
        for ticket, task, result in zip(tickets, tasks, results, strict=True):
            check_versions(result, version)
            self._retired.observe(task, result.summary.values, self._domains[ticket.domain].score_range[1])
            outcome = self._judge(result)
            self._mixture.settle(ticket, outcome, _reason(result, outcome))
            if outcome is Outcome.ACCEPTED:
                accepted.append(result)
            else:
                dropped.append((result, outcome))

    def _judge(self, result: GroupResult) -> Outcome:
        values = result.summary.values
        if sum(value is not None for value in values) < 2:
            return Outcome.UNSCORED
        domain = result.summary.domain
        declared = self._domains[domain].score_range
        if self._in_parts(result):
            differs = self._part_statistics.has_signal(domain, result.summary.parts)
        elif self._by_turn(result):
            columns = turn_returns(values, result.summary.turn_rewards)
            differs = any(has_signal(returns, declared) for returns in columns)
        else:
            differs = has_signal(values, declared)
        return Outcome.ACCEPTED if differs else Outcome.FILTERED

    def _in_parts(self, result: GroupResult) -> bool:
        """Whether its domain's rewards are normalised part by part."""
        return self._algorithm.scale == "domain" and result.summary.domain in self._part_statistics

    def _by_turn(self, result: GroupResult) -> bool:
        """Whether its turns get advantages of their own; without rewards of turns they would all be alike."""
        return estimators[self._algorithm.estimator].per_turn and bool(result.summary.turn_rewards)

    def _parts(self, accepted: Sequence[GroupResult], quota: Mapping[str, float]) -> list[list[Item]]:
        """Whole groups dealt out to the updates of this batch; none is empty."""
        num_parts = min(self._algorithm.updates, len(accepted))
        numbers = [range(part, len(accepted), num_parts) for part in range(num_parts)]
        return [self._items(accepted, own, quota) for own in numbers]

    def _bound_shares(
        self, parts: Sequence[Sequence[Item]], accepted: Sequence[GroupResult], quota: Mapping[str, float]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Who is above its bound, and the factors against that (none unless the bound acts).

        What a domain is meant to have is its share of the accepted groups: a raised quota raises the bound.
        """
        bound, sums = self._algorithm.share_bound, _sums(parts, accepted)
        over = shares.over(sums, quota, bound)
        if not over or not self._algorithm.share_bound_acts:
            return over, {}
        return over, {name: factor for name, factor in shares.factors(sums, quota, bound).items() if factor < 1}

    def _scale(self, domain: str, values: Sequence[float | None]) -> float:
        """What a group's centred rewards are divided by."""
        if self._algorithm.scale == "domain":
            return self._statistics.scale(domain)
        return group_std(values) if self._algorithm.scale == "group" else 1.0

    def _advantages(self, result: GroupResult) -> list[float | tuple[float, ...] | None]:
        """One a trajectory, or one for each of its turns."""
        summary, clip, estimator = result.summary, self._algorithm.advantage_clip, self._algorithm.estimator
        if self._in_parts(result):
            return [*self._part_statistics.advantages(summary.domain, summary.parts, clip, estimator)]
        scale = self._scale(summary.domain, summary.values)
        if not self._by_turn(result):
            return [*group_advantages(summary.values, scale, clip, estimator)]
        rows = turn_advantages(summary.values, summary.turn_rewards, scale, clip, estimator)
        return [None if row is None else tuple(row) for row in rows]

    def _items(self, accepted: Sequence[GroupResult], numbers: Iterable[int], quota: Mapping[str, float]) -> list[Item]:
        """One item a trained segment of these groups, advantages per trajectory and weights per token."""
        found: list[tuple[int, int, int, float | tuple[float, ...]]] = []
        domains: list[str] = []
        counts: list[int] = []
        for reference in numbers:
            result = accepted[reference]
            summary = result.summary
            advantages = self._advantages(result)
            trained = [[size for size in segments if size[1]] for segments in summary.segments]
            for trajectory, (segments, advantage) in enumerate(zip(trained, advantages, strict=True)):
                for segment, (_, num_trained) in enumerate(segments):
                    if advantage is not None:
                        found.append((reference, trajectory, segment, advantage))
                        domains.append(summary.domain)
                        counts.append(num_trained)
        weights = loss_token_weights(domains, counts, self._algorithm.normalisation, quota)
        return [Item(number, *where, weight) for number, (where, weight) in enumerate(zip(found, weights, strict=True))]


def take_tasks(
    pool: RolloutPool, mixture: Mixture, tickets: Sequence[Ticket], retired: RetiredTasks | None = None
) -> list[Task]:
    """The training task of each ticket; workers make them, the mixture keeps each domain's place."""
    by_domain: dict[str, list[Ticket]] = defaultdict(list)
    for ticket in tickets:
        by_domain[ticket.domain].append(ticket)
    made = pool.make_tasks([(domain, "train", mixture.cursor(domain), len(own)) for domain, own in by_domain.items()])
    found: dict[int, Task] = {}
    for (domain, own), (tasks, _) in zip(by_domain.items(), made, strict=True):
        if retired is not None and retired.covers(domain):
            tasks = _without_retired(pool, tasks, retired)
        by_index = {task.index: task for task in tasks}
        for ticket in own:
            found[ticket.number] = by_index[mixture.take_index(ticket, by_index.__contains__)]
    for task in found.values():
        # Evaluation looks at the other side of the same hash (`train.evaluate.check_held_out`).
        assert task.split == "train" == side_of(task), f"{task.id} is held out, it may not be trained on"
    return [found[ticket.number] for ticket in tickets]


def _without_retired(pool: RolloutPool, tasks: Sequence[Task], retired: RetiredTasks) -> list[Task]:
    """As many tasks that are not retired, looked for further on, with a limit; then retired ones fill up the rest."""
    kept, spare = [], []
    seen = list(tasks)
    for _ in range(RETIRED_ROUNDS):
        kept += [task for task in seen if task not in retired]
        spare += [task for task in seen if task in retired]
        missing = len(tasks) - len(kept)
        if missing <= 0 or not seen:
            break
        ((seen, _),) = pool.make_tasks([(seen[-1].domain, "train", seen[-1].index + 1, len(tasks))])
    # The mixture takes indices in order, so what is before the last one kept is passed over for good.
    return sorted([*kept, *spare[::-1][: max(len(tasks) - len(kept), 0)]], key=lambda task: task.index)[: len(tasks)]


def check_versions(result: GroupResult, version: int) -> None:
    """Refuse tokens of another version than the trainer's (synchronous training)."""
    summary = result.summary
    if summary.oldest_version != version or summary.newest_version != version:
        raise EngineFailure(
            f"{summary.task_id} was sampled under versions {summary.oldest_version}..{summary.newest_version}, the "
            f"trainer is at {version}: nothing of this step was trained on"
        )


def plan_items(
    items: Sequence[Item], groups: Sequence[GroupResult], row_tokens: int, num_ranks: int
) -> list[list[list[Item]]]:
    """Rows of items for every rank, from the lengths in the summaries."""
    lengths = [_trained_segments(groups[item.group], item.trajectory)[item.segment][0] for item in items]
    return [[[items[number] for number in row] for row in rows] for rows in plan_rows(lengths, row_tokens, num_ranks)]


def _trained_segments(result: GroupResult, trajectory: int) -> list[tuple[int, int]]:
    return [size for size in result.summary.segments[trajectory] if size[1]]


def _cut(items: Iterable[Item], groups: Sequence[GroupResult], factors: Mapping[str, float]) -> list[Item]:
    return [replace(item, weight=item.weight * factors.get(_domain(item, groups), 1.0)) for item in items]


def _domain(item: Item, groups: Sequence[GroupResult]) -> str:
    return groups[item.group].summary.domain


def _sums(parts: Iterable[Iterable[Item]], groups: Sequence[GroupResult]) -> dict[str, float]:
    """Each domain's Σ |advantage| · weight over loss tokens."""
    sums: dict[str, float] = defaultdict(float)
    for item in (item for items in parts for item in items):
        sums[_domain(item, groups)] += _magnitude(item, groups[item.group]) * item.weight
    return dict(sums)


def _magnitude(item: Item, result: GroupResult) -> float:
    """Σ |advantage| over the trained tokens of an item's segment."""
    if not isinstance(item.advantage, tuple):
        return abs(item.advantage) * _trained_segments(result, item.trajectory)[item.segment][1]
    turns = result.summary.turn_tokens[item.trajectory]
    trained = [number for number, own in enumerate(turns) if sum(own)]
    number = trained[item.segment]
    first = sum(map(len, turns[:number]))
    return sum(
        abs(advantage) * tokens for advantage, tokens in zip(item.advantage[first:], turns[number], strict=False)
    )


def _parts_of_one(sums: Mapping[str, float]) -> dict[str, float]:
    total = sum(sums.values())
    return {domain: value / total for domain, value in sums.items()} if total else {}


def _reason(result: GroupResult, outcome: Outcome) -> str:
    """Why a group was lost, in a few words of which there are few."""
    values = [value for value in result.summary.values if value is not None]
    if outcome is Outcome.FILTERED:
        return f"all rewards {values[0]:.2g}"
    if outcome is Outcome.UNSCORED:
        return next((reason.partition(":")[0] for reason in result.summary.reasons if reason), "")
    return ""
