"""Dialogue: plays by hand, verdicts worked out again from what is said, and policies that must not win."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from envs.check import HOSTILE_ANSWERS
from envs.demonstrate import run_policy_sync
from envs.domain import Domain
from envs.families.dialogue import GAMES, domains
from envs.families.dialogue.knowledge import Identity
from envs.families.dialogue.planning import Meeting
from envs.families.dialogue.protocols import Questions, Triage
from envs.families.dialogue.script import Script, Strict, normal
from envs.families.dialogue.service import Booking
from envs.types import Message, Task, Trajectory

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in domains()}


def value_of(play: Strict, actions: Sequence[str]) -> float:
    """What a play is worth after actions; it must be over after the last one, and not before."""
    for place, action in enumerate(actions):
        assert play.act(action).done == (place == len(actions) - 1) or play.value == 0.0
    return play.value


def gold_of(domain: Domain, task: Task) -> tuple[list[str], list[str], Trajectory]:
    """The gold's commands, what the user says before each, and the whole trajectory."""
    trajectory = run_policy_sync(domain, task, domain.gold)
    commands = [re.sub("</?answer>", "", turn.message.text) for turn in trajectory.turns]
    said = [message.text for message in (*task.prompt, *trajectory.messages) if message.role == "user"]
    return commands, said, trajectory


def score_of(domain: Domain, task: Task, commands: Sequence[str]) -> float | None:
    """The score of these commands, the last one said over and over."""

    def policy(task: Task, messages: tuple[Message, ...]) -> Message:
        done = sum(message.role == "assistant" for message in messages)
        return Message.of("assistant", f"<answer>{commands[min(done, len(commands) - 1)]}</answer>")

    return domain.score(task, run_policy_sync(domain, task, policy)).value


def system_of(task: Task) -> str:
    return task.prompt[0].text


# ---- plays by hand ---------------------------------------------------------------------------------------------------


def test_normal_forms() -> None:
    assert normal(" book  Day=Monday;  name=Li Berg. ") == "book day=monday; name=li berg"
    assert normal("BOOK name = Li Berg;day= Monday") == "book day=monday; name=li berg"
    assert normal("LIST a, b") != normal("LIST b, a") and normal("OFFER 12") != normal("OFFER 120")


def test_script_by_hand() -> None:
    facts = {"wanted": [["REFUSE 2"], ["LEND", "LEND 1"]], "replies": ["Next!"]}
    assert Script(facts).act("refuse 2").text == "Next!" and Script(facts).best() == "REFUSE 2"
    assert (
        value_of(Script(facts), ["refuse 2.", "LEND"]) == 1.0 and value_of(Script(facts), ["REFUSE 2", "LEND 1"]) == 1.0
    )
    assert value_of(Script(facts), ["LEND"]) == 0.0 and value_of(Script(facts), ["REFUSE 2", "REFUSE 2"]) == 0.0
    play = Script(facts)
    assert value_of(play, ["REFUSE 2", "LEND"]) == 1.0 and play.act("LEND").done and play.value == 0.0


BOOKING: dict[str, Any] = {
    "slots": ["name", "day", "people"],
    "given": ["name"],
    "final": {"name": "Li Berg", "day": "Friday", "people": "3"},
    "answers": {"day": {"text": "on Friday and for 3.", "adds": ["people"]}, "people": {"text": "for 3.", "adds": []}},
    "correction": ["name", "Li Berg", "Wait, the name: Li Berg."],
}


def test_booking_by_hand() -> None:
    book = "BOOK name=Li Berg; day=Friday; people=3"
    assert Booking(BOOKING).act("ASK day").text == "On Friday and for 3. Wait, the name: Li Berg."
    assert value_of(Booking(BOOKING), ["ASK day", "book people=3; day=friday; name=li berg"]) == 1.0
    assert value_of(Booking(BOOKING), ["ASK people", "ASK day", book]) == 1.0
    for wrong in (
        [book],  # before all is known
        ["ASK name"],  # was said
        ["ASK day", "ASK people"],  # was said on the side
        ["ASK day", "BOOK name=Li Berg; day=Friday; people=4"],
        ["ASK day", "BOOK name=Li Berg; day=Friday"],
        ["ASK day", f"{book}; x=1"],
    ):
        assert value_of(Booking(BOOKING), wrong) == 0.0, wrong


def test_identity_by_hand() -> None:
    facts = {
        "order": ["pet", "city"],
        "attempts": 2,
        "name": "Li Berg",
        "truth": {"pet": "Rex", "city": "Oslo"},
        "answers": {"pet": ["Coco", "Rex"], "city": ["Oslo"]},
        "spoken": {"pet": ["Coco.", "Rex."], "city": ["Oslo."]},
    }
    assert value_of(Identity(facts), ["ASK pet", "ASK pet", "ASK city", "PASS Li Berg"]) == 1.0
    for wrong in (["ASK city"], ["ASK pet", "ASK city"], ["ASK pet", "LOCK"], ["ASK pet", "ASK pet", "PASS Li Berg"]):
        assert value_of(Identity(facts), wrong) == 0.0, wrong
    assert value_of(Identity({**facts, "attempts": 1}), ["ASK pet", "LOCK"]) == 1.0
    assert value_of(Identity({**facts, "attempts": 1}), ["ASK pet", "ASK pet"]) == 0.0


def test_triage_by_hand() -> None:
    rules = [
        {"sign": "heat", "limit": 50, "high": 2, "low": 1},
        {"sign": "oil", "limit": 5, "high": "watch", "low": "stop"},
        {"sign": "age", "limit": 9, "high": "ignore", "low": "repair"},
    ]
    facts = {
        "rules": rules,
        "values": {"heat": 50, "oil": 4, "age": 8},
        "spoken": {"heat": "50.", "oil": "4.", "age": "8."},
    }
    assert value_of(Triage({**facts, "told": []}), ["ASK heat", "ASK age", "LEVEL repair"]) == 1.0
    assert value_of(Triage({**facts, "told": ["age"]}), ["ASK heat", "LEVEL repair"]) == 1.0
    for wrong in (["ASK age"], ["LEVEL repair"], ["ASK heat", "ASK oil"], ["ASK heat", "ASK age", "LEVEL ignore"]):
        assert value_of(Triage({**facts, "told": []}), wrong) == 0.0, wrong
    assert value_of(Triage({**facts, "told": ["age"]}), ["ASK heat", "ASK age"]) == 0.0


def test_questions_by_hand() -> None:
    table = {"bat": [1, 1, 0], "crow": [1, 0, 0], "deer": [0, 1, 0], "wolf": [0, 0, 1]}
    facts = {
        "table": table,
        "asked": ["fur", "wings", "horns"],
        "budget": 2,
        "secret": "deer",
        "replies": ["No.", "Yes.", "No."],
    }
    assert value_of(Questions(facts), ["ASK fur", "ASK wings", "GUESS deer"]) == 1.0
    assert value_of(Questions(facts), ["ASK wings", "ASK fur", "GUESS deer"]) == 1.0
    # Horns leave three, for one question.  After fur, horns tell the last two apart as well.
    assert value_of(Questions(facts), ["ASK horns"]) == 0.0 and value_of(Questions(facts), ["GUESS deer"]) == 0.0
    assert value_of(Questions(facts), ["ASK fur", "ASK horns", "GUESS deer"]) == 1.0
    assert value_of(Questions(facts), ["ASK fur", "ASK fur"]) == 0.0


def test_meeting_by_hand() -> None:
    facts = {
        "names": ["Zoe", "Li"],
        "common": ["Monday 9", "Monday 14"],
        "spoken": {"Zoe": "All.", "Li": "9 or 14."},
        "backs": ["Li: No."],
    }
    assert value_of(Meeting(facts), ["ASK Li", "ASK Zoe", "PROPOSE Monday 9", "PROPOSE Monday 14"]) == 1.0
    gone = {**facts, "common": ["Monday 9"]}
    assert value_of(Meeting(gone), ["ASK Zoe", "ASK Li", "PROPOSE Monday 9", "NONE"]) == 1.0
    for wrong in (["PROPOSE Monday 9"], ["ASK Li", "ASK Li"], ["ASK Li", "ASK Zoe", "PROPOSE Monday 14"]):
        assert value_of(Meeting(facts), wrong) == 0.0, wrong


# ---- all domains -----------------------------------------------------------------------------------------------------


def test_there_are_enough_games() -> None:
    assert len(GAMES) >= 16 and all(set(game.levels) == {"easy", "medium", "hard"} for game in GAMES)
    assert len({domain.generator_id for domain in DOMAINS.values()}) == len(GAMES)


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=list(DOMAINS))
def test_only_the_right_course_wins(domain: Domain) -> None:
    for index in range(6):
        task = domain.task(index)
        commands, said, trajectory = gold_of(domain, task)
        assert domain.score(task, trajectory).value == 1.0 and len(commands) <= domain.max_turns
        text = "".join([system_of(task), *said])
        assert text.isascii() and text.replace("\n", "").isprintable()
        assert len(system_of(task)) + len(said[0]) < 2500
        # Loose spelling of the same commands is right, other commands and other orders are not.
        assert score_of(domain, task, [f"  {command.lower()}. " for command in commands]) == 1.0
        for place, command in enumerate(commands):
            worse = [*commands[:place], f"{command} please", *commands[place + 1 :]]
            assert score_of(domain, task, worse) == 0.0
        assert score_of(domain, task, ["", *commands]) == 0.0
        if len(set(commands)) > 1:
            assert score_of(domain, task, commands[-1:]) == 0.0
            assert score_of(domain, task, commands[:1]) == 0.0
            assert commands[-1] == commands[-2] or score_of(domain, task, commands[:-1]) == 0.0


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_hostile_messages(game: Any) -> None:
    domain = DOMAINS[f"dialogue/{game.name}"]
    task = domain.task(0)
    best = game.start(task.metadata).best()
    for text in [
        *HOSTILE_ANSWERS.values(),
        "=;" * 900,
        "ASK",
        "BOOK =",
        "9" * 1900,
        "\ud800",
        f"{best} {best}",
        ";",
        "=",
    ]:
        play = game.start(task.metadata)
        assert play.act(text).done and play.value == 0.0
        assert play.act(best).done and play.value == 0.0


# ---- worked out again from what is said ------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["-easy", "", "-hard"])
def test_refusals_follow_from_the_text(level: str) -> None:
    domain, lent, total = DOMAINS[f"dialogue/refuse_by_rule{level}"], 0, 0
    for index in range(20):
        task = domain.task(index)
        commands, said, _ = gold_of(domain, task)
        rules = re.findall(r"^\d\. (.*)$", system_of(task), flags=re.MULTILINE)
        for command, text in zip(commands, said, strict=True):
            broken = [number + 1 for number, rule in enumerate(rules) if _breaks(rule, text)]
            assert command == (f"REFUSE {broken[0]}" if broken else "LEND"), (rules, text)
            lent, total = lent + (not broken), total + 1
    assert 0.3 < lent / total < 0.7


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    assert match, (pattern, text)
    return int(match[1])


def _breaks(rule: str, text: str) -> bool:
    limit = int((re.findall(r"\d+", rule) or ["0"])[0])
    if rule.startswith("Films"):
        return "a film" in text and _number(r"I am (\d+) years", text) < limit
    if rule.startswith("Nobody"):
        return _number(r"I have (\d+) things? on loan", text) + 1 > limit
    if rule.startswith("Nothing is lent"):
        return _number(r"I owe you (\d+) euro", text) > limit
    if rule.startswith("A loan"):
        return _number(r"for (\d+) week", text) > limit
    if rule.startswith("Nothing may"):
        return rule.removesuffix(".").split()[-1] in text
    if rule.startswith("Atlases"):
        return bool(re.search(r"\ban? (atlas|map)\b", text))
    if rule.startswith("Only"):
        return "no card of yours" in text
    assert rule.startswith("People who bring")
    return "sandwich" in text


def test_tutor_follows_from_the_numbers() -> None:
    for index in range(40):
        domain = DOMAINS["dialogue/tutor-hard"]
        task = domain.task(index)
        commands, said, _ = gold_of(domain, task)
        match = re.search(r"compute (\d+) \+ (\d+) \* (\d+)", system_of(task))
        assert match
        a, b, c = map(int, match.groups())
        kinds = re.findall(r"^\d\. (.*)$", system_of(task), flags=re.MULTILINE)
        seen: dict[int, int] = {}
        for command, text in zip(commands, said, strict=True):
            if any(part in text for part in ("tell me", "give up", "yes or no")) or "Only yes" in text:
                assert command == "DECLINE"
                continue
            value = int(re.findall(r"-?\d+", text)[-1])
            if value == a + b * c:
                assert command == "PRAISE"
                continue
            results = [_mistake(kind, a, b, c) for kind in kinds]
            fits = [number + 1 for number, result in enumerate(results) if value in result]
            if not fits:
                assert command == "HINT other"
                continue
            assert len(fits) == 1
            seen[fits[0]] = seen.get(fits[0], 0) + 1
            wanted = {1: f"HINT {fits[0]}a", 2: f"HINT {fits[0]}b"}
            assert command == wanted.get(seen[fits[0]], "EXAMPLE")


def _mistake(kind: str, a: int, b: int, c: int) -> list[int]:
    if "(first + second) * third" in kind:
        return [(a + b) * c]
    if "added all" in kind:
        return [a + b + c]
    if "multiplied all" in kind:
        return [a * b * c]
    if "subtracted" in kind:
        return [a - b * c]
    return [b * c] if "left the first" in kind else [a + b * c - 10, a + b * c + 10]


def test_meetings_are_the_earliest_that_suit_all() -> None:
    for index in range(20):
        domain = DOMAINS["dialogue/meeting"]
        task = domain.task(index)
        commands, said, _ = gold_of(domain, task)
        match = re.search(r"to the latest, are: (.*?)\. Ask", system_of(task))
        assert match
        left = match[1].split(", ")
        for command, text in zip(commands, said[1:], strict=False):
            if command.startswith("ASK"):
                named = re.findall(r"[A-Z][a-z]+day \d+", text)
                negative = bool(re.search(r"\b(except|not|but)\b", text))
                left = [slot for slot in left if (slot in named) != negative]
        proposals = [command for command in commands if not command.startswith("ASK")]
        expected = [f"PROPOSE {slot}" for slot in left] + ["NONE"]
        assert proposals == expected[: len(proposals)]


def test_orders_add_up() -> None:
    domain = DOMAINS["dialogue/read_back-hard"]
    for index in range(20):
        task = domain.task(index)
        commands, _, _ = gold_of(domain, task)
        match = re.search(r"with its prices is: (.*?)\. ", system_of(task))
        assert match
        prices = dict(pair.split() for pair in match[1].split(", "))
        for command in commands:
            if command.startswith("SUMMARY"):
                fields = dict(field.split("=") for field in command.removeprefix("SUMMARY ").split("; "))
                total = int(fields.pop("total"))
                assert total == sum(int(prices[dish]) * int(count) for dish, count in fields.items())


def test_haggling_keeps_to_the_mandate() -> None:
    ends = set()
    for level in ("-easy", "", "-hard"):
        domain = DOMAINS[f"dialogue/haggle{level}"]
        for index in range(25):
            task = domain.task(index)
            commands, _, _ = gold_of(domain, task)
            limit = _number(r"at most (\d+) in all", system_of(task))
            first, step = (
                _number(r"first offer is (\d+)", system_of(task)),
                _number(r"is (\d+) higher", system_of(task)),
            )
            offers = [int(command.split()[1]) for command in commands if command.startswith("OFFER")]
            assert offers == [min(first + step * place, limit) for place in range(len(offers))] and first > 0
            ends.add(commands[-1].split()[0])
            if commands[-1].startswith("ACCEPT"):
                assert (offers[-1] if offers else 0) <= int(commands[-1].split()[1]) <= limit
            else:
                assert len(offers) == _number(r"make (\d+) offers", system_of(task))
    assert ends == {"ACCEPT", "WALK"}


def test_lists_change_by_one_step() -> None:
    domain = DOMAINS["dialogue/shared_list"]
    for index in range(20):
        task = domain.task(index)
        commands, said, _ = gold_of(domain, task)
        match = re.search(r"At first it is: (.*?)\. After", system_of(task))
        assert match
        items = match[1].split(", ")
        for command, text in zip(commands, said, strict=True):
            after = command.removeprefix("LIST ").split(", ")
            gone, new = set(items) - set(after), set(after) - set(items)
            lowered = text.lower()
            if not re.search("undo|take back", lowered):
                assert all(item in lowered for item in gone | new) and len(gone) <= 1 and len(new) <= 1
                if "top" in lowered or "come first" in lowered:
                    assert after[0] in lowered and sorted(after) == sorted(items)
                if "last" in lowered or "at the end" in lowered:
                    assert after == [*items, *new]
            items = after


def test_best_questions_are_few() -> None:
    """The budget is never below what information theory asks for, and the gold never needs more."""
    for level, animals in (("-easy", 4), ("", 8), ("-hard", 14)):
        domain = DOMAINS[f"dialogue/twenty_questions{level}"]
        for index in range(10):
            task = domain.task(index)
            commands, _, _ = gold_of(domain, task)
            budget = task.metadata["budget"]
            assert (animals - 1).bit_length() <= budget < animals and len(commands) <= budget + 1
            assert commands[-1] == f"GUESS {task.reference}"


def _needed(rows: list[tuple[int, ...]]) -> int:
    """Questions in the worst case, by trying all of them; slow, and sure."""
    if len(rows) < 2:
        return 0
    parts = [
        ([row for row in rows if row[place]], [row for row in rows if not row[place]]) for place in range(len(rows[0]))
    ]
    return min(1 + max(_needed(yes), _needed(no)) for yes, no in parts if yes and no)


def test_budgets_are_exact_and_enough_for_every_secret() -> None:
    for index in range(8):
        task = DOMAINS["dialogue/twenty_questions"].task(index)
        facts = task.metadata
        assert facts["budget"] == _needed([tuple(row) for row in facts["table"].values()])
        for secret in facts["table"]:
            play, count = Questions({**facts, "secret": secret}), 0
            while not play.act(play.best()).done:
                count += 1
            assert play.value == 1.0 and count <= facts["budget"]
