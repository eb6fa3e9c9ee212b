"""Every toy domain: known values, a gold that wins, tasks that are the same everywhere, and no prize for nonsense."""

import dataclasses
import random
import time
from typing import Any

import pytest

from envs.check import HOSTILE_ANSWERS, check_domain, check_domains
from envs.demonstrate import demonstrate_sync, score_text
from envs.domain import Domain, Draft, Margin, rng_for
from envs.elsewhere import digest, digests_elsewhere
from envs.families import all_domains, load_family, logic, math, sequence, text, with_families
from envs.questions import exact_score
from envs.tools import parse_tool_call
from envs.types import Message, Status, Task, ToolCall, Trajectory
from rewards.score import Score, scored

TOY_FAMILIES = ("logic", "math", "sequence", "text", "tools")
TOY = {name: domain for name, domain in all_domains().items() if domain.family in TOY_FAMILIES}
each_toy_domain = pytest.mark.parametrize("domain", TOY.values(), ids=TOY.keys())


def test_there_are_at_least_fourteen_with_two_tool_domains() -> None:
    assert len(TOY) >= 14
    with_tools = [name for name, domain in TOY.items() if domain.tools]
    assert with_tools == ["tools/calculator", "tools/calculator-easy", "tools/store", "tools/store-easy"]
    assert len([name for name in TOY if name.endswith("-easy")]) == 12


@each_toy_domain
def test_gold_scores_the_maximum_on_fifty_tasks(domain: Domain) -> None:
    for index in range(50):
        messages, score = demonstrate_sync(domain, domain.task(index))
        assert score.value == 1.0, messages


@each_toy_domain
def test_prompts_and_answers_are_short_and_printable(domain: Domain) -> None:
    for index in range(200):
        task = domain.task(index)
        assert 3 <= len(task.prompt[0].text) <= 40 and task.prompt[0].text.isascii()
        assert 1 <= len(task.reference) <= 8


@each_toy_domain
def test_no_constant_answer_scores_over_a_half(domain: Domain) -> None:
    references = [domain.task(index).reference for index in range(400)]
    best = max(set(references), key=references.count)
    assert references.count(best) / len(references) <= (0.5 if domain.name.endswith("-easy") else 0.25)


@each_toy_domain
def test_a_prompt_is_on_one_side_of_the_split(domain: Domain) -> None:
    sides: dict[str, set[str]] = {}
    for index in range(2_000):
        task = domain.task(index)
        sides.setdefault(task.prompt[0].text, set()).add(task.split)
    assert all(len(side) == 1 for side in sides.values())
    if len(sides) > 400:  # of a small table the share is a matter of chance
        share = sum(side == {"held_out"} for side in sides.values()) / len(sides)
        assert 0.15 < share < 0.25


# The whole table of math/multiply has about 1,700 prompts; easy levels are small by design.
LARGE = [name for name in TOY if name != "math/multiply" and not name.endswith("-easy")]


@pytest.mark.parametrize("name", LARGE)
def test_there_are_a_thousand_distinct_held_out_prompts(name: str) -> None:
    found: set[str] = set()
    for index in range(60_000):
        task = TOY[name].task(index)
        if task.split == "held_out":
            found.add(task.prompt[0].text)
        if len(found) >= 1_000:
            return
    raise AssertionError(f"only {len(found)}")


@each_toy_domain
@pytest.mark.parametrize("label", HOSTILE_ANSWERS)
def test_hostile_answers_score_zero(domain: Domain, label: str) -> None:
    assert score_text(domain, domain.task(0), HOSTILE_ANSWERS[label]).value == 0.0


@each_toy_domain
def test_only_the_canonical_spelling_is_right(domain: Domain) -> None:
    task = next(task for task in map(domain.task, range(100)) if not task.metadata.get("target"))
    right = task.reference
    assert score_text(domain, task, f" {right}\n").value == 1.0
    for wrong in (f"0{right}", f"+{right}", f"{right}.0", f"{right} {right}", f"the answer is {right}", right + "\0"):
        assert score_text(domain, task, wrong).value == 0.0, wrong


def test_tasks_are_the_same_in_another_process_with_another_hash_seed() -> None:
    elsewhere = digests_elsewhere(dict.fromkeys(TOY, 20), {})
    assert elsewhere == {name: digest([domain.task(i) for i in range(20)]) for name, domain in TOY.items()}


def test_tasks_do_not_depend_on_the_global_random_state() -> None:
    before = [TOY["tools/store"].task(index) for index in range(5)]
    random.seed(0)
    state = random.getstate()
    assert [TOY["tools/store"].task(index) for index in (4, 3, 2, 1, 0)] == before[::-1]
    assert random.getstate() == state


@pytest.mark.parametrize(
    ("name", "prompt", "answer"),
    [
        ("math/add", "add 60+80", "140"),
        ("math/subtract", "sub 49-43", "6"),
        ("math/multiply", "mul 10*9", "90"),
        ("math/compare", "cmp 181 185", "<4"),
        ("math/digits", "digits 7281", "18"),
        ("text/reverse", "rev wmw", "wmw"),
        ("text/sort", "sort jfrqn", "fjnqr"),
        ("text/count", "count b in bsvbbbb", "5"),
        ("text/last", "last 1 of fnxcaw", "w"),
        ("text/upper", "upper mzkr", "MZKR"),
        ("text/dedupe", "dedupe dwggf", "dwgf"),
        ("logic/and_or", "eval T&!T F|T T&T", "FTT"),
        ("logic/parity", "parity 47 55 96 39", "ooeo"),
        ("sequence/next", "next 90 99 108 117", "126"),
        ("sequence/max", "max 41 44 99", "99"),
        ("sequence/min", "min 22 86 45 59", "22"),
        ("sequence/sum", "sum 4 6 9 5 8", "32"),
        ("tools/calculator", "use calc: 43+25", "68"),
        ("tools/store", "copy xis to rxi", "704"),
    ],
)
def test_the_first_task_is_what_it_was_when_this_version_was_made(name: str, prompt: str, answer: str) -> None:
    """A change here changes every task: then raise the generator's version."""
    task = TOY[name].task(0)
    assert (task.prompt[0].text, task.reference) == (prompt, answer)


def test_knobs_make_another_level() -> None:
    hard = math.make_add("math/add_hard", low=1_000, high=9_999)
    assert hard.knobs == {"low": 1_000, "high": 9_999}
    assert all(len(hard.task(index).reference) >= 4 for index in range(20))
    assert math.make_subtract(negative=True).task(3).reference.lstrip("-").isdigit()
    assert len(text.make_reverse(low=9, high=9).task(0).reference) == 9
    assert len(logic.make_parity(parts=7).task(0).reference) == 7
    assert len(sequence.make_max(low=2, most=2).task(0).prompt[0].text.split()) == 3


def test_answers_agree_with_an_independent_reading_of_the_prompt() -> None:
    for index in range(100):
        prompt = TOY["math/compare"].task(index)
        _, a, b = prompt.prompt[0].text.split()
        sign = "<" if int(a) < int(b) else ">" if int(a) > int(b) else "="
        assert prompt.reference == f"{sign}{abs(int(a) - int(b))}"
        task = TOY["logic/and_or"].task(index)
        value = {"T": True, "F": False, "!T": False, "!F": True}
        for expression, letter in zip(task.prompt[0].text.split()[1:], task.reference, strict=True):
            left, right = expression.replace("|", "&").split("&")
            both, either = value[left] and value[right], value[left] or value[right]
            assert (letter == "T") == (both if "&" in expression else either)


@pytest.mark.parametrize("status", [Status.TRUNCATED, Status.MAX_TURNS])
def test_a_cut_off_answer_scores_zero(status: Status) -> None:
    task = TOY["math/add"].task(0)
    assert exact_score(task, Trajectory(task, "low", 0, [[]], status)).value == 0.0


def test_a_failed_episode_is_unscored() -> None:
    for name in ("math/add", "tools/store", "tools/calculator"):
        task = TOY[name].task(0)
        score = TOY[name].score(task, Trajectory(task, "low", 0, [[]], Status.FAILED, error="no slot"))
        assert (score.value, score.reason) == (None, "no slot")


def test_reasoning_is_not_looked_at() -> None:
    domain = TOY["math/add"]
    assert domain.gold(domain.task(0), ()) == Message.of("assistant", "140")
    assert score_text(domain, domain.task(0), "").value == 0.0


def _score_that_raises_on_words(task: Task, trajectory: Trajectory) -> Score:
    int(trajectory.final_text)
    return exact_score(task, trajectory)


def test_check_finds_a_broken_domain() -> None:
    good = TOY["math/add"]
    assert check_domain(good, 20).is_good
    wrong_gold = dataclasses.replace(good, gold=lambda task, messages: Message.of("assistant", "x"))
    assert "scores 0.0, not 1.0" in check_domain(wrong_gold, 3).problems[0]
    raises = dataclasses.replace(good, score=_score_that_raises_on_words)
    assert any("raises ValueError" in problem for problem in check_domain(raises, 3).problems)
    moved = check_domain(good, 3, elsewhere="0" * 64)
    assert moved.problems == ["tasks differ in another process with PYTHONHASHSEED=4242"]


def _higher_card(task: Task, messages: tuple[Message, ...]) -> Message:
    return Message.of("assistant", max(task.reference))


def _any_card(task: Task, messages: tuple[Message, ...]) -> Message:
    return Message.of("assistant", rng_for("card", task.index).choice(task.reference))


def _card_score(task: Task, trajectory: Trajectory) -> Score:
    """Won where the card played is above the opponent's, which nobody sees."""
    opponent = rng_for("opponent", task.index).choice("123456789")
    return scored(float(trajectory.final_text in task.reference and trajectory.final_text > opponent))


def _card_draft(index: int) -> Draft:
    cards = rng_for("cards", index).sample("123456789", 3)
    return Draft(prompt=(Message.of("user", f"#{index} play one of {' '.join(cards)}"),), reference=cards)


def _card_game(points: float) -> Domain:
    return dataclasses.replace(
        TOY["math/add"],
        generate=_card_draft,
        score=_card_score,
        gold=_higher_card,
        margin=Margin(random=_any_card, points=points),
    )


def test_a_game_without_a_sure_win_needs_a_reference_policy_that_beats_a_random_one() -> None:
    check = check_domain(_card_game(0.2), 60)
    assert check.is_good and 0 < check.random_score < check.gold_score - 0.2 < 0.8
    problem = check_domain(_card_game(0.5), 60).problems
    assert len(problem) == 1 and "less than 0.5 apart" in problem[0]
    with pytest.raises(ValueError, match="above zero"):
        Margin(random=_any_card, points=0.0)


def test_a_slow_domain_is_checked_on_fewer_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(index: int) -> Draft:
        time.sleep(0.02)
        return TOY["math/add"].generate(index)

    slow_domain = dataclasses.replace(TOY["math/add"], generate=slow)
    monkeypatch.setattr("envs.check.SECONDS_A_DOMAIN", 0.4)
    check = check_domain(slow_domain, 1_000)
    assert check.is_good and 3 <= check.num_tasks < 10 and check.num_asked == 1_000


def test_a_demonstration_must_be_read_back_as_it_was_written() -> None:
    calculator = TOY["tools/calculator"]

    def with_call(call: ToolCall) -> str:
        def gold(task: Task, messages: tuple[Message, ...]) -> Message:
            return calculator.gold(task, messages) if messages else Message.of("assistant", "", tool_calls=(call,))

        return "\n".join(check_domain(dataclasses.replace(calculator, gold=gold), 1).problems)

    assert check_domain(calculator, 1).problems == []
    assert "none of the domain's tools" in with_call(parse_tool_call('{"name":"cal","arguments":{}}'))
    assert "wrong arguments" in with_call(parse_tool_call('{"name":"calc","arguments":{}}'))
    changed = ToolCall(name="calc", arguments={"e": "1"}, raw='{"name":"calc","arguments":{"e":"2"}}')
    assert "read back otherwise" in with_call(changed)


def test_a_domain_checked_alone_meets_the_golds_of_others() -> None:
    credulous = dataclasses.replace(
        TOY["text/count"], name="text/any", score=lambda task, trajectory: scored(float(trajectory.final_text != ""))
    )
    problems = check_domains({"text/any": credulous}, 1)[0].problems
    assert any(problem.startswith("gold of math/add as the answer") for problem in problems)


def test_load_family_names_what_is_wrong() -> None:
    assert load_family("envs.families.math:FAMILY") is math.FAMILY
    for path, words in [
        ("envs.families.math", "package.module:FAMILY"),
        ("no_such_module_x:FAMILY", "no module 'no_such_module_x'"),
        ("envs.families.math:NOPE", "has no 'NOPE'"),
        ("envs.families.math:make_add", "is a function, not an envs.domain.Family"),
    ]:
        with pytest.raises(ValueError, match=words):
            load_family(path)
    with pytest.raises(ValueError, match="'math' is taken"):
        with_families({"math": "envs.families.math:FAMILY"})
    with pytest.raises(ValueError, match="another name, 'mine'"):
        all_domains(with_families({"mine": "envs.families.math:FAMILY"}))


def test_a_domain_states_its_source_licence_turns_and_range() -> None:
    for field, value, words in [
        ("licence", "", "may not be empty"),
        ("verifier_id", "", "may not be empty"),
        ("max_turns", 0, "at least one turn"),
        ("tiers", (), "one tier"),
        ("score_range", (1.0, 1.0), "is empty"),
        ("name", "text/add", "with family 'math'"),
    ]:
        change: dict[str, Any] = {str(field): value}
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(TOY["math/add"], **change)
