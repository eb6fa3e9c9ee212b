"""Settings in TOML and INI, written and read.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.structured.patches import judge_value
from envs.families.structured.reading import Refused, read_ini, read_toml, same
from envs.families.structured.worlds import COLOURS, NAMES, TOWNS, WORDS, asked_json, show
from envs.skills import Question, Skill
from envs.types import Task


def _settings(rng: random.Random, sections: int, keys: int, deep: bool) -> dict[str, Any]:
    """Sections of settings, with an inner section or an array of tables where `deep`."""
    found: dict[str, Any] = {}
    for name in rng.sample("server client cache log mail queue store web".split(), sections):
        section: dict[str, Any] = {}
        for key in rng.sample("host port path size name mode level retry".split(), keys):
            section[key] = rng.choice(
                [rng.randint(1, 999), rng.choice(WORDS), rng.choice([True, False]), rng.randint(1, 99) / 4 + 0.5]
            )
        if deep and rng.random() < 0.6:
            inner = {"kind": rng.choice(COLOURS), "n": rng.randint(1, 9)}
            more = {"kind": rng.choice(COLOURS), "n": rng.randint(10, 99)}
            section[rng.choice(["limits", "parts"])] = rng.choice([inner, [inner, more]])
        if deep and rng.random() < 0.5:
            section["tags"] = rng.sample(WORDS, 2)
        found[name] = section
    return found


def _toml(value: dict[str, Any], prefix: str = "") -> list[str]:
    plain = {key: one for key, one in value.items() if not _is_table(one)}
    found = [f"{key} = {show(one)}" for key, one in plain.items()]
    for key, one in value.items():
        if isinstance(one, dict):
            found += [f"[{prefix}{key}]", *_toml(one, f"{prefix}{key}.")]
        elif _is_table(one):
            for row in one:
                found += [f"[[{prefix}{key}]]", *_toml(row, f"{prefix}{key}.")]
    return found


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def ask_write_toml(rng: random.Random, sections: int, keys: int, deep: bool) -> Question:
    """JSON as TOML."""
    value = _settings(rng, sections, keys, deep)
    text = (
        f"JSON:\n{show(value)}\n\nWrite it as TOML (version 1.0) with the same types. Each object stands under a "
        "header in square brackets, not as an inline table."
    )
    return Question(text=text, answer="\n".join(_toml(value)), facts={"value": value})


def judge_write_toml(answer: str, task: Task) -> float:
    """The same value, types included, without curly brackets."""
    try:
        return float("{" not in answer and same(read_toml(answer), task.metadata["value"], strict=True))
    except Refused:
        return 0.0


def ask_toml_to_json(rng: random.Random, sections: int, keys: int, deep: bool) -> Question:
    """TOML, with dotted keys, underscores in numbers and comments, as JSON."""
    value = _settings(rng, sections, keys, deep)
    lines = _toml(value)
    if deep:
        first = next(iter(value))
        big, base = rng.randint(1000, 9999), rng.randint(17, 250)
        value[first] = {"max": big, "mask": base, **value[first]}
        value = {"main": {"who": {"name": rng.choice(NAMES), "town": rng.choice(TOWNS)}}, **value}
        who = value["main"]["who"]
        at = lines.index(f"[{first}]") + 1
        lines[at:at] = [f"max = {big:_}  # {rng.choice(WORDS)} = 1", f"mask = {base:#x}"]
        lines = [f'main.who.name = "{who["name"]}"', f"main.who.town = '{who['town']}'", *lines]
    text = "TOML:\n" + "\n".join(lines) + "\n\nWrite the same value as JSON."
    return asked_json(text, value)


def ask_write_ini(rng: random.Random, sections: int, keys: int) -> Question:
    """Settings in words as an INI file."""
    value: dict[str, dict[str, str]] = {}
    told = []
    for name in rng.sample("server client cache log mail queue store web".split(), sections):
        section = value[name] = {}
        for key in rng.sample("host port path size name mode level retry".split(), keys):
            kind = rng.randrange(3)
            minutes, word = rng.randint(2, 30), rng.choice(WORDS)
            section[key], said = (
                (str(minutes * 60), f"{minutes} minutes, in seconds")
                if kind == 0
                else (word, word)
                if kind == 1
                else (("on", "switched on") if minutes % 2 else ("off", "switched off"))
            )
            told.append(f"In {name}, {key} is {said}.")
    rng.shuffle(told)
    text = (
        "\n".join(told) + "\n\nWrite these settings as an INI file: a line [section] for each section, below it its "
        "lines key = value. Values are bare words or digits; a switch is on or off. The order does not matter."
    )
    answer = "\n".join(
        line for name, section in value.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in section.items()))
    )
    return Question(text=text, answer=answer, facts={"value": value})


def judge_write_ini(answer: str, task: Task) -> float:
    try:
        return float(read_ini(answer) == task.metadata["value"])
    except Refused:
        return 0.0


def _levels(easy: dict[str, Any], medium: dict[str, Any], hard: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"easy": easy, "medium": medium, "hard": hard}


_SETTINGS = _levels(
    {"sections": 1, "keys": 2, "deep": False},
    {"sections": 2, "keys": 3, "deep": True},
    {"sections": 5, "keys": 5, "deep": True},
)
SKILLS = [
    Skill(name="write_toml", ask=ask_write_toml, judge=judge_write_toml, levels=_SETTINGS),
    Skill(name="toml_to_json", ask=ask_toml_to_json, judge=judge_value, levels=_SETTINGS),
    Skill(
        name="write_ini",
        ask=ask_write_ini,
        judge=judge_write_ini,
        levels=_levels({"sections": 1, "keys": 2}, {"sections": 2, "keys": 3}, {"sections": 4, "keys": 5}),
    ),
]
