"""Skills and games: levels, what counts as an answer or an action, and a verdict that is a replay."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from envs.check import check_domain
from envs.demonstrate import demonstrate_sync, run_policy_sync, score_text
from envs.domain import rng_for
from envs.sandbox import SandboxDown, SandboxTimeout
from envs.skills import INSTRUCTION, Question, Skill, exactly, same_words, skill_domains
from envs.talk import Game, Opening, Reply, action_of, game_domains
from envs.types import Message, Status, Task


def _ask(rng: random.Random, *, high: int) -> Question:
    a, b = rng.randint(0, high), rng.randint(0, high)
    return Question(f"{a} and {b}: their sum?", str(a + b), {"terms": [a, b]})


def _slow(answer: str, task: Task) -> float:
    raise SandboxTimeout("too slow")


def _down(answer: str, task: Task) -> float:
    raise SandboxDown("no sandbox")


LEVELS = {"easy": {"high": 9}, "medium": {"high": 99}, "hard": {"high": 999}}
SUM = Skill(name="sum", ask=_ask, levels=LEVELS)


def test_a_skill_is_three_domains_of_one_code() -> None:
    domains = skill_domains("mine", [SUM])
    assert [domain.name for domain in domains] == ["mine/sum-easy", "mine/sum", "mine/sum-hard"]
    assert len({(domain.generator_id, domain.verifier_id) for domain in domains}) == 1
    assert [domain.knobs["high"] for domain in domains] == [9, 99, 999]
    for domain in domains:
        assert check_domain(domain, 20).problems == []
    other = skill_domains("mine", [Skill(name="sum", ask=_ask, levels=LEVELS, judge=same_words)])[0]
    assert other.generator_id == domains[0].generator_id and other.verifier_id != domains[0].verifier_id


def test_the_answer_is_inside_the_last_tags_or_else_everything() -> None:
    domain = skill_domains("mine", [SUM])[1]
    task = domain.task(3)
    right = str(sum(task.metadata["terms"]))
    assert task.prompt[-1].text.endswith(INSTRUCTION)
    for text in (
        right,
        f" {right}\n",
        f"so <answer>{right}</answer>",
        f"<answer>1x</answer> no: <answer>{right}</answer>",
    ):
        assert score_text(domain, task, text).value == 1.0, text
    for text in ("", f"{right}.", f"it is {right}", f"<answer>{right}</answer><answer>x</answer>", f"{right} {right}"):
        assert score_text(domain, task, text).value == 0.0, text


def test_without_tags_the_whole_text_is_the_answer() -> None:
    domain = skill_domains("mine", [Skill(name="sum", ask=_ask, levels=LEVELS, tagged=False)])[0]
    task = domain.task(0)
    assert INSTRUCTION not in task.prompt[-1].text
    assert score_text(domain, task, task.reference).value == 1.0
    assert score_text(domain, task, f"<answer>{task.reference}</answer>").value == 0.0


def test_words_count_without_case_and_spacing() -> None:
    domain = skill_domains("mine", [SUM])[0]
    task = domain.task(0)
    words = Task(id=task.id, domain=task.domain, split=task.split, index=0, prompt=task.prompt, reference="New  York")
    assert same_words(" new york", words) == 1.0 and same_words("newyork", words) == 0.0
    assert exactly("New York", words) == 0.0


def test_a_judge_that_is_killed_costs_the_point_and_the_gold_is_never_blamed() -> None:
    slow = skill_domains("mine", [Skill(name="sum", ask=_ask, levels=LEVELS, judge=_slow)])[0]
    task = slow.task(0)
    assert score_text(slow, task, "no").value == 0.0
    assert score_text(slow, task, task.reference).reason == "no verdict on the gold answer: too slow"
    down = skill_domains("mine", [Skill(name="sum", ask=_ask, levels=LEVELS, judge=_down)])[0]
    assert score_text(down, task, "no").reason == "no sandbox"


class _Guess:
    """Guess a number: higher or lower; value 1 if found."""

    def __init__(self, facts: Mapping[str, Any]):
        self.secret, self.low, self.high, self.value = facts["secret"], 0, facts["high"], 0.0

    def act(self, text: str) -> Reply:
        if not text.isascii() or not text.isdecimal() or len(text) > 9:
            return Reply("a number, please")
        guess = int(text)
        if guess == self.secret:
            self.value = 1.0
            return Reply("found", done=True)
        if guess < self.secret:
            self.low = max(self.low, guess + 1)
        else:
            self.high = min(self.high, guess - 1)
        return Reply("higher" if guess < self.secret else "lower")

    def best(self) -> str:
        return str((self.low + self.high) // 2)


def _draw(rng: random.Random, *, high: int) -> Opening:
    return Opening(f"Guess a number from 0 to {high}.", {"secret": rng.randint(0, high), "high": high})


GUESS = Game(name="guess", draw=_draw, start=_Guess, levels={"easy": {"high": 7}, "medium": {"high": 63}}, turns=6)


def test_a_game_is_played_scored_by_replay_and_keeps_its_promises() -> None:
    easy, medium = game_domains("mine", [GUESS])
    assert (easy.name, medium.name) == ("mine/guess-easy", "mine/guess")
    assert easy.generator_id == medium.generator_id and easy.verifier_id == medium.verifier_id
    assert check_domain(medium, 30).problems == []
    task = next(task for task in map(medium.task, range(99)) if task.metadata["secret"] == 5)
    messages, score = demonstrate_sync(medium, task)
    said = [message.text for message in messages]
    assert said == ["<answer>31</answer>", "lower", "<answer>15</answer>", "lower", "<answer>7</answer>", "lower",
                    "<answer>3</answer>", "higher", "<answer>5</answer>"]  # fmt: skip
    assert score.value == 1.0


def test_an_episode_that_does_not_end_is_worth_nothing_unless_the_game_says_otherwise() -> None:
    easy, _ = game_domains("mine", [GUESS])
    trajectory = run_policy_sync(easy, easy.task(0), lambda task, messages: Message.of("assistant", "no idea"))
    assert trajectory.status is Status.MAX_TURNS and len(trajectory.turns) == 6
    assert easy.score(easy.task(0), trajectory).value == 0.0


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<answer>5</answer>", "5"),
        ("I think\nso: <answer> 5 </answer> done", "5"),
        ("first\n\n 7 \n", "7"),
        ("", ""),
        ("x" * 5_000, "x" * 2_000),
    ],
)
def test_an_action_is_inside_the_tags_or_the_last_line(text: str, action: str) -> None:
    assert action_of(Message.of("assistant", text)) == action


def test_a_margin_and_a_random_policy_belong_together() -> None:
    with pytest.raises(ValueError, match="belong together"):
        Game(name="guess", draw=_draw, start=_Guess, levels={"easy": {"high": 7}}, turns=6, margin=0.2)


def test_the_code_of_a_play_is_the_verifiers_identity() -> None:
    class Other(_Guess):
        def act(self, text: str) -> Reply:
            return Reply("", done=True)

    other = game_domains("mine", [Game(name="guess", draw=_draw, start=Other, levels={"easy": {"high": 7}}, turns=6)])[
        0
    ]
    mine = game_domains("mine", [GUESS])[0]
    assert other.generator_id == mine.generator_id and other.verifier_id != mine.verifier_id
    assert rng_for("mine/guess", 1).random() == rng_for("mine/guess", 1).random()
