"""Domains beyond a policy's vocabulary, context or budgets are left out of the mix, each with its reason."""

import pytest

from envs.domain import Domain, Draft
from envs.questions import exact_score, reference_gold
from envs.types import Message
from rollouts.chat import ChatRenderer
from train.compose import compose_run
from train.fit import Budget, misfit
from train.policy.tiny import build_tokenizer

TOKENIZER = build_tokenizer()
RENDERER = ChatRenderer(TOKENIZER, (TOKENIZER.eos_token_id,))


def _domain(question: str, answer: str) -> Domain:
    return Domain(
        name="mine/one",
        family="mine",
        generate=lambda index: Draft(prompt=(Message.of("user", question),), reference=answer),
        score=exact_score,
        gold=reference_gold,
        generator_id="g",
        verifier_id="v",
        source="here",
        licence="Apache-2.0",
    )


# The prompt of the toy's template has bos, tier, user, 8 characters, end and the header of the assistant: 13 tokens.
@pytest.mark.parametrize(
    ("question", "answer", "budget", "reason"),
    [
        ("12345678", "abc", Budget(turn=4, trajectory=4, context=17), ""),
        ("12345678", "abc", Budget(turn=3, trajectory=9, context=99), "gold answer takes 4 tokens, a turn may have 3"),
        ("12345678", "abc", Budget(turn=4, trajectory=3, context=99), "turns take 4 tokens, a trajectory may have 3"),
        ("12345678", "abc", Budget(turn=9, trajectory=9, context=16), "episode has 17 tokens, the context 16"),
        ("12345678", "abc", Budget(turn=9, trajectory=9, context=13), "prompt has 13 tokens, the context 13"),
        ("3 × 4", "12", Budget(turn=99, trajectory=99, context=99), "characters without a token: '×'"),
        ("angle", "30°", Budget(turn=99, trajectory=99, context=99), "episode has characters without a token: '°'"),
    ],
)
def test_the_first_thing_that_does_not_fit_is_named(question: str, answer: str, budget: Budget, reason: str) -> None:
    domain = _domain(question, answer)
    found = misfit(domain, domain.task(0), RENDERER, {"low": budget})
    assert found.endswith(reason) and bool(found) == bool(reason)


def test_the_tightest_tier_decides() -> None:
    domain = _domain("12345678", "abc")
    wide, tight = Budget(turn=9, trajectory=9, context=99), Budget(turn=3, trajectory=9, context=99)
    assert misfit(domain, domain.task(0), RENDERER, {"high": wide, "low": tight}).endswith("a turn may have 3")


def test_a_mix_without_what_does_not_fit_says_why() -> None:
    asked = ["experiment=toy", "mix.domains.reasoning_gym/chain_sum=1", "mix.domains.reasoning_gym/rubiks_cube=1"]
    before = compose_run(asked).mixes["rl"]
    after = compose_run([*asked, "mix.fit_tasks=1"]).mixes["rl"]
    assert set(before.weights) - set(after.weights) == {"reasoning_gym/rubiks_cube"}
    assert sum(after.weights.values()) == 1
    row = next(row for row in after.rows if row.domain == "reasoning_gym/rubiks_cube")
    assert row.weight == 0 and row.origin.startswith("removed by mix.fit_tasks: task 0: the gold answer takes ")
