"""The judges of `extraction` by hand, what parts of an answer are worth, and golds worked out once more."""

from __future__ import annotations

import datetime
import json
import re
import time
from typing import Any

import pytest

from envs.check import HOSTILE_ANSWERS
from envs.demonstrate import score_text
from envs.domain import Domain
from envs.families.extraction import FAMILY, SKILLS
from envs.families.extraction.judging import judge_set, judge_value
from envs.families.extraction.words import after, before, months_later
from envs.types import Task

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in FAMILY.domains()}
BY_NAME = {skill.name: skill for skill in SKILLS}
HOSTILE = [
    *HOSTILE_ANSWERS.values(),
    "[" * 10_000,
    "[" * 4_000 + "]" * 4_000,
    '{"a":' * 2_000,
    "9" * 11_000,
    "[1e999]",
    "[" + "1" * 40 + "]",
    "[" + "1e300," * 1_500 + "1]",
    "[" + "[[]]," * 2_000 + "[]]",
    "NaN",
    '{"a": 1, "a": 1}',
    '["\\ud800"]',
    "\ud800",
    "a\0b",
    '["\\u0000"]',
    "<!DOCTYPE a [<!ENTITY b 'c'>]>",
]


def task_of(value: Any, partial: bool) -> Task:
    facts = {"value": value, "partial": partial}
    return Task(id="x", domain="x", split="train", index=0, prompt=(), reference="", metadata=facts)


def worth(domain: Domain, task: Task, answer: str) -> float:
    value = score_text(domain, task, answer).value
    assert value is not None and 0.0 <= value <= 1.0
    return value


def test_there_are_enough_skills_of_their_own() -> None:
    assert len(SKILLS) >= 20 and len(BY_NAME) == len(SKILLS)
    assert len({(domain.generator_id, domain.verifier_id) for domain in DOMAINS.values()}) == len(SKILLS)


def test_sets_by_hand() -> None:
    wanted = [["Ada", "lamp"], ["Bo", 3], ["Cy", None], ["Di", True]]
    exact = task_of(wanted, False)
    for right in ('[["Bo", 3.0], ["Ada", "lamp"], ["Di", true], ["Cy", null]]', json.dumps(wanted)):
        assert judge_set(right, exact) == judge_set(right, task_of(wanted, True)) == 1.0
    for wrong in (
        '[["Ada", "lamp"], ["Bo", 3], ["Cy", null]]',
        '[["Ada", "lamp"], ["Bo", 3], ["Cy", null], ["Di", 1]]',
        '[["Ada", "lamp"], ["Bo", "3"], ["Cy", null], ["Di", true]]',
        '[["Ada", "lamp"], ["Ada", "lamp"], ["Bo", 3], ["Cy", null], ["Di", true]]',
        '[["lamp", "Ada"], ["Bo", 3], ["Cy", null], ["Di", true]]',
        '{"a": 1}',
        "[]",
    ):
        assert judge_set(wrong, exact) == 0.0


def test_parts_by_hand() -> None:
    wanted = [1, 2, 3, 4]
    task = task_of(wanted, True)

    def part_of(*items: int) -> float:
        return judge_set(json.dumps(items), task)

    assert part_of(4, 3, 2, 1) == 1.0
    assert part_of(1, 2, 3) == pytest.approx(0.8 * (12 / 7 - 1))  # F = 6/7
    assert part_of(1, 2, 3, 4, 5) == pytest.approx(0.8 * (16 / 9 - 1))  # F = 8/9
    assert part_of(1) == part_of() == part_of(5, 6) == 0.0
    assert part_of(*range(1, 13)) == 0.0  # everything listed: F = 1/2
    assert part_of(1, 1, 1, 1) == 0.0
    record = task_of({"a": "x", "b": 2, "c": None, "d": [1, 2]}, True)
    assert judge_value('{"d": [1, 2], "a": "x", "b": 2, "c": null}', record) == 1.0
    # A missing null is a fault, which costs the full mark and no more.
    assert judge_value('{"a": "x", "b": 2, "d": [1, 2]}', record) == pytest.approx(0.8)
    assert judge_value('{"a": "x", "b": 2, "c": 5, "d": [1, 2]}', record) == pytest.approx(0.8 * (16 / 9 - 1))
    assert judge_value('{"a": null, "b": null, "c": null, "d": null}', record) == 0.0
    assert judge_value('["x", 2]', record) == judge_value('"x"', record) == 0.0
    assert judge_value('{"a": "x", "b": 2, "c": 5, "d": [1, 2]}', task_of(record.metadata["value"], False)) == 0.0


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_judges_never_raise_nor_hang(name: str) -> None:
    start = time.perf_counter()
    for level in ("-easy", "-hard"):
        task, judge = DOMAINS[f"extraction/{name}{level}"].task(0), BY_NAME[name].judge
        assert [judge(answer, task) for answer in HOSTILE] == [0.0] * len(HOSTILE)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=list(DOMAINS))
def test_gold_wins_and_shortcuts_do_not(domain: Domain) -> None:
    for index in range(8):
        task = domain.task(index)
        shown = task.prompt[0].text
        assert score_text(domain, task, domain.gold(task, ()).text).value == 1.0, task.id
        assert shown.isascii() and shown.replace("\n", "").isprintable()
        assert not domain.name.endswith("-easy") or (len(shown) <= 900 and len(task.reference) <= 110)
        value = task.metadata["value"]
        bad: list[Any] = [
            [],
            {},
            None,
            "",
            [[]],
            [value],
            [*value, "x"] if isinstance(value, list) else {**value, "x": 1},
        ]
        bad += [dict.fromkeys(value)] if isinstance(value, dict) else [value[:-1]]
        for answer in bad:
            assert worth(domain, task, json.dumps(answer)) < 1.0, (task.id, answer)
        others = [domain.task(index + shift).reference for shift in (1, 2, 3)]
        assert all(worth(domain, task, other) < 1.0 for other in others if other != task.reference)
        assert score_text(domain, task, shown).value == 0.0


def test_days() -> None:
    friday = datetime.date(2024, 5, 3)
    assert after(friday, 1) == datetime.date(2024, 5, 7)  # the Tuesday after 3 May 2024
    assert after(friday, 4) == datetime.date(2024, 5, 10) and before(friday, 4) == datetime.date(2024, 4, 26)
    assert before(friday, 3) == datetime.date(2024, 5, 2)
    assert months_later(datetime.date(2023, 11, 28), 3) == datetime.date(2024, 2, 28)


def test_dates_again_from_the_text() -> None:
    """Phrases that are easily worked out another way: by trying the days one after the other."""
    months = "January February March April May June July August September October November December".split()
    names = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
    day = datetime.timedelta(days=1)
    seen = 0
    for index in range(60):
        task = DOMAINS["extraction/dates-hard"].task(index)
        lines = task.prompt[0].text.split("\n\n")[0].split("\n")
        for line, iso in zip(lines, json.loads(task.reference), strict=True):
            found = datetime.date.fromisoformat(iso)
            if match := re.search(r"the (\w+day) (after|before) (\d+) (\w+) (\d{4})", line):
                given = datetime.date(int(match[5]), months.index(match[4]) + 1, int(match[3]))
                step = day if match[2] == "after" else -day
                given += step
                while names[given.weekday()] != match[1]:
                    given += step
            elif match := re.search(r"the last (\w+day) of (\w+) (\d{4})", line):
                number = months.index(match[2]) + 1
                given = max(
                    one
                    for one in (datetime.date(int(match[3]), number, 1) + shift * day for shift in range(31))
                    if one.month == number and names[one.weekday()] == match[1]
                )
            else:
                continue
            seen += 1
            assert found == given, line
    assert seen > 40


def test_roles_and_statements_again_from_the_text() -> None:
    for index in range(40):
        task = DOMAINS["extraction/roles-easy"].task(index)
        text, (who, _, whom) = task.prompt[0].text.split("\n\n")[0], json.loads(task.reference)
        passive = re.search(rf"{whom}(?: who)? was \w+(?: home)? by {who}|After being|, \w+(?: home)? by {who}", text)
        assert passive or text.index(who) < text.index(whom) or "It was" in text or "The one who" in text, text
        task = DOMAINS["extraction/asserted"].task(index)
        for name, good in json.loads(task.reference):
            sentence = next(one for one in re.split(r"(?<=\.) ", task.prompt[0].text) if f"a {good}" in one)
            assert name in sentence
            for word in ("never", "If ", "false", "dreamt", "Had ", "nearly", "denies", "would"):
                assert word not in sentence, sentence


def test_stocks_and_sums_again_from_the_text() -> None:
    for index in range(40):
        task = DOMAINS["extraction/wrong_lines-hard"].task(index)
        value = json.loads(task.reference)
        rows = re.findall(r"^(\d+)\. (\d+) \w+ at (\d+) each: (-?\d+)$", task.prompt[0].text, flags=re.MULTILINE)
        right = [(int(number), int(count) * int(price), int(shown)) for number, count, price, shown in rows]
        assert value["total"] == sum(amount for _, amount, _ in right) and len(rows) == 10
        assert value["wrong"] == [[number, amount] for number, amount, shown in right if amount != shown]
        task = DOMAINS["extraction/stock-easy"].task(index)
        text, ((good, left),) = task.prompt[0].text, json.loads(task.reference).items()
        first = int(re.search(rf"At first there are (\d+) {good}s", text)[1])  # type: ignore[index]
        taken = sum(map(int, re.findall(rf"takes (\d+) {good}s", text)))
        given = sum(map(int, re.findall(rf"(\d+) {good}s are delivered", text)))
        assert left == first - taken + given


def test_contracts_and_jobs_again_from_the_text() -> None:
    """The last day of a term is the day before the first day of the month that follows it."""
    for index in range(40):
        task = DOMAINS["extraction/contract-hard"].task(index)
        text, value = task.prompt[0].text, json.loads(task.reference)
        months = sum(map(int, re.findall(r"(?:term of|extended by) (\d+) months", text)))
        assert value["total_fee"] == value["monthly_fee"] * months
        end = datetime.date.fromisoformat(value["end"]) + datetime.timedelta(days=1)
        start = re.search(r"from 1 (\w+) (\d{4}) on", text)
        assert start and end.day == 1
        first = datetime.datetime.strptime(f"{start[1]} {start[2]}", "%B %Y")
        assert (end.year - first.year) * 12 + end.month - first.month == months
        task = DOMAINS["extraction/jobs"].task(index)
        for firm, begin, last in json.loads(task.reference):
            sentence = next(one for one in task.prompt[0].text.split(". ") if firm in one)
            length = re.search(r"(\d+) (year|month)", sentence)
            if length and "From" not in sentence:
                (y1, m1), (y2, m2) = ((int(one[:4]), int(one[5:])) for one in (begin, last))
                assert (y2 - y1) * 12 + m2 - m1 + 1 == int(length[1]) * (12 if length[2] == "year" else 1)
