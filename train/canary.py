"""The canary of a checkpoint: fixed requests, what the live engine sampled, and the trainer's log-probs of it.

In: a run whose engines serve the version that is being saved.  Out: the document that `train.weights.proof` reads.
Called by `train.loop.save`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from envs.types import Task
from rollouts.engine import Completion, SamplingParams, TurnRequest
from rollouts.episode import sampling_seed
from rollouts.mixture import Mixture
from rollouts.routes import decode
from train.collect import take_tasks
from train.policy.packing import Sample
from train.weights.proof import canary_document

if TYPE_CHECKING:
    from train.run import Run

_FIRST_GUESS_TOKENS = 6.0  # mean completion length that the number of requests is first planned with


def sample_canary(run: Run) -> dict[str, Any]:
    """At least `checkpoint.canary_tokens` sampled tokens of first turns over the run's mix, and their log-probs."""
    config = run.composed.config
    wanted = config.checkpoint.canary_tokens
    num_requests = int(wanted / _FIRST_GUESS_TOKENS)
    while True:
        tasks = canary_tasks(run, num_requests)
        requests, completions = run.pool.complete(tasks, functools.partial(canary_request, run, tasks))
        num_tokens = sum(len(completion.token_ids) for completion in completions)
        if num_tokens >= wanted:
            break
        num_requests = int(num_requests * wanted / max(num_tokens, 1) * 1.05) + 1
    samples = [
        canary_sample(task, request, completion)
        for (task, _), request, completion in zip(tasks, requests, completions, strict=True)
    ]
    return canary_document(requests, completions, run.trainers.logprobs(samples, config.algorithm.row_tokens))


def canary_tasks(run: Run, count: int) -> list[tuple[Task, str]]:
    """Training tasks in the proportions of the mix, from a mixture of their own: the run's is not moved."""
    live = run.mixtures[run.stage]
    tiers = {name: run.domains[name].tiers for name in live.weights}
    mixture = Mixture(live.weights, tiers, run.composed.config.mix.tiers, seed=run.composed.config.seed + 1)
    tickets = [mixture.next_ticket() for _ in range(count)]
    tasks = take_tasks(run.pool, mixture, tickets)
    return [(task, ticket.tier) for ticket, task in zip(tickets, tasks, strict=True)]


def canary_request(run: Run, tasks: list[tuple[Task, str]], number: int, prompt_ids: list[int]) -> TurnRequest:
    """The first turn of one of these tasks, at the run's temperature and the shortest budget of its tiers."""
    config = run.composed.config
    task, _ = tasks[number]
    return TurnRequest(
        episode=number,
        turn=0,
        prompt_ids=tuple(prompt_ids),
        sampling=SamplingParams(
            temperature=config.algorithm.temperature,
            max_tokens=min(config.tiers[name].turn_tokens for name in config.mix.tiers),
            seed=sampling_seed(config.seed, task.id, 0, 0),
            stop_ids=run.pool.settings.worker.stop_ids,
        ),
    )


def canary_sample(task: Task, request: TurnRequest, completion: Completion) -> Sample:
    """A first turn as the trainer sees it, with the routes that the engine gave, if any."""
    before, after = len(request.prompt_ids), len(completion.token_ids)
    return Sample(
        ids=[*request.prompt_ids, *completion.token_ids],
        loss_mask=[False] * before + [True] * after,
        behaviour_logprobs=[0.0] * before + completion.logprobs,
        versions=[-1] * before + completion.versions,
        advantages=[0.0] * (before + after),
        domain=task.domain,
        tier="",
        task_id=task.id,
        sample=0,
        truncated=False,
        routes=decode(completion.routes) if completion.routes else None,
        route_layers=completion.routes.layers if completion.routes else (),
    )
