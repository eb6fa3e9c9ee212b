"""Several conditions at once: texts that fulfil all of them, sets that nothing can fulfil, texts that break some.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.

That exactly two conditions of a set exclude each other is proven by two witnesses: one text fulfils all but the first
of the two, another all but the second, and the two themselves are contradictory by their kinds.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.instructions import tables
from envs.families.instructions.measure import real, words
from envs.families.instructions.rules import Rule, fitting, holds, told
from envs.families.instructions.writing import TRIES, Writer, drawn_topics, question, sizes
from envs.skills import Question, Skill
from envs.types import Task

WORD = (
    "A word is what stands between spaces or line breaks and has a letter or digit in it; when words are compared, the "
    "marks around them do not matter."
)
SENTENCE = "A sentence ends with one or more of . ! ?"


def _numbered(rules: list[Rule], mark: str = ".") -> str:
    return "\n".join(f"{place + 1}{mark} {told(rule)}" for place, rule in enumerate(rules))


def _shaped(rng: random.Random, topics: list[str], count: int, features: dict[str, Any]) -> str:
    """A text with some features: `letter` to do without, `end`, `lower` or `upper`, `title`, `ps`, …"""
    letter = features.get("letter", "#")
    writer = Writer(rng, topics, lambda word: letter not in word.lower())
    end = features.get("end", ".")
    found = writer.sentences(sizes(rng, count), end=end)
    if features.get("title"):
        found = [f"<<{writer.sentence(5, end='')}>>\n{found[0]}", *found[1:]]
    text = features.get("joint", " ").join(found)
    if features.get("ps"):
        text = f"{text}\nPS: {writer.sentence(6, end=end)}"
    if features.get("comma"):
        text = text.replace(" ", ", ", 1)
    text = f'"{text}"' if features.get("quoted") else text
    return text.lower() if features.get("lower") else text.upper() if features.get("upper") else text


def _absent(text: str) -> list[str]:
    """Nouns that do not occur in a text."""
    found = set(words(text))
    return [noun for noun in tables.NOUNS if noun not in found]


def ask_composed(rng: random.Random, topics: int, count: int, low: int, high: int) -> Question:
    """From two to many conditions of different kinds, which one text fulfils."""
    case = rng.choice(["lower", "upper", "", ""])
    features: dict[str, Any] = {
        "letter": rng.choice("bcgkpfmdhwu"),
        "end": rng.choice(".!?"),
        "joint": rng.choice([" ", "\n"]),
        **{name: rng.random() < 0.35 for name in ("title", "ps", "quoted", "comma")},
        **({case: True} if case else {}),
    }
    letter = features["letter"]
    chosen = drawn_topics(rng, topics, lambda noun: letter not in noun)
    for _ in range(TRIES):
        text = _shaped(rng, chosen, count, features)
        if letter not in text.lower():
            break
    absent = _absent(text)
    rules = fitting(rng, text, absent)
    # What is special about this text comes first, or else the easy conditions would crowd it out.
    special = {
        "lower",
        "upper",
        "title",
        "postscript",
        "quoted",
        "letter_times",
        "ends_exclaiming",
        "no_letter",
        "lines",
    }
    rules.sort(key=lambda rule: rule[0] not in special)
    number = rng.randint(low, high)
    rules = rules[: max(number - 1, 1)] + rules[max(number - 1, 1) :][-1:] if number > 1 else rules[:1]
    rng.shuffle(rules)
    said = f"All of these conditions hold for the text as a whole:\n{_numbered(rules)}\n{SENTENCE}"
    return question(rng, chosen, text, said, {"rules": rules})


def judge_composed(answer: str, task: Task) -> float:
    return float(real(answer, task.metadata) and all(holds(rule, answer) for rule in task.metadata["rules"]))


# ---- conflicts -------------------------------------------------------------------------------------------------------


def _conflict(rng: random.Random, kinds: int) -> tuple[list[Rule], list[str], Rule]:
    """Two conditions that exclude each other, a witness for each, and a harmless variant of the second.

    The texts are the same but for what the two conditions need, so that many other conditions hold for both.
    """
    topic, other, digits = *drawn_topics(rng, 2, lambda noun: len(noun) > 4), str(rng.randint(12, 99))
    letter = rng.choice(topic)
    text = _shaped(rng, [topic], rng.randint(3, 5), {"end": "."})
    free = Writer(rng, keep=lambda word: letter not in word.lower() and word != topic)
    pure = " ".join(free.sentences(sizes(rng, 4)))
    more = f"{text} {Writer(rng, keep=lambda word: word != topic).sentence(9)}"
    size, first = len(words(text)), words(text)[0]
    flat = text.replace(topic, "thing").replace(topic.capitalize(), "Thing")
    loud, twice = text.replace(".", "!"), f"{text} {topic.capitalize()} {topic}."
    table: list[tuple[Rule, str, Rule, str, Rule]] = [
        (["words_most", size + 2], text, ["words_least", size + 5], more, ["words_least", size - 5]),
        (["words_exactly", size], text, ["words_least", size + 4], more, ["words_least", size - 4]),
        (["lower"], text.lower(), ["capital_word", topic], text.replace(topic, topic.upper()), ["has_word", topic]),
        (["lower"], text.lower(), ["upper"], text.upper(), ["has_word", topic]),
        (["no_comma"], text, ["commas", 1], text.replace(" ", ", ", 1), ["no_exclaiming"]),
        (["no_digit"], text, ["has_digit", digits], text[:-1] + f" {digits}.", ["has_word", topic]),
        (["ends_exclaiming"], loud, ["no_exclaiming"], text, ["no_comma"]),
        (["quoted"], f'"{text}"', ["no_quotes"], text, ["no_digit"]),
        (["no_word", topic], flat, ["word_times", topic, 1], text, ["no_word", other]),
        (["no_word", first], f"Look {text}", ["first_word", first], text, ["has_word", topic]),
        (["last_word", topic], text[:-1] + f" {topic}.", ["last_word", "home"], text[:-1] + " home.", ["no_digit"]),
        (["no_letter", letter], pure, ["has_word", topic], text, ["no_word", topic]),
        (["no_letter", letter], pure, ["letter_times", letter, 1], f"{pure} {letter}!", ["no_digit"]),
        (["longest_word", len(topic) - 1], _short(text, len(topic) - 1), ["has_word", topic], text, ["no_comma"]),
        (["word_times", topic, 2], twice, ["no_word", topic], flat, ["has_word", topic]),
        (["no_letter", letter], pure, ["capital_word", topic], text.replace(topic, topic.upper()), ["no_digit"]),
    ]
    rule, witness, against, counter, harmless = rng.choice(table[-kinds:])
    return [rule, against], [witness, counter], harmless


def _short(text: str, longest: int) -> str:
    """The text without its longer words; marks count."""
    kept = [word if len(word) <= longest else "it" for word in text.split()]
    return " ".join(kept).rstrip(".") + "."


def _conflicting(rng: random.Random, number: int, kinds: int, clash: bool) -> tuple[list[Rule], str]:
    """Conditions in random order, and the numbers of those two that exclude each other, or `none`."""
    for _ in range(TRIES):
        (rule, against), (witness, counter), harmless = _conflict(rng, kinds)
        if not (holds(rule, witness) and holds(against, counter)) or holds(against, witness) or holds(rule, counter):
            continue
        absent = _absent(f"{witness} {counter}")
        taken = {rule[0], against[0], harmless[0]}
        fillers = [one for one in fitting(rng, witness, absent) if holds(one, counter) and one[0] not in taken]
        if clash:
            rules = [rule, against, *fillers[: number - 2]]
        elif holds(harmless, witness):
            rules = [rule, harmless, *fillers[: number - 2]]
        else:
            continue
        if len(rules) == number:
            rng.shuffle(rules)
            pair = sorted([rules.index(rule) + 1, rules.index(against) + 1]) if clash else []
            return rules, " ".join(map(str, pair)) if clash else "none"
    raise AssertionError(f"no set of {number} conditions found")


def ask_conflicts(rng: random.Random, number: int, kinds: int) -> Question:
    """Which two of the conditions cannot hold together?"""
    rules, answer = _conflicting(rng, number, kinds, True)
    text = (
        f"An editor wants an English text, of whole sentences and at least ten words, that fulfils these "
        f"conditions:\n{_numbered(rules)}\n\n"
        f"{WORD} {SENTENCE} Exactly two of the conditions can never hold together; without either one of them, all the "
        "others could. Give the numbers of the two, the smaller one first, with one space between them, such as: 1 2"
    )
    return Question(text=text, answer=answer, facts={"rules": rules})


def judge_conflicts(answer: str, task: Task) -> float:
    return float(answer.split() == task.reference.split())


def ask_conflicts_or_none(rng: random.Random, sets: int, number: int, kinds: int) -> Question:
    """Several sets of conditions: each has a conflicting pair, or none."""
    blocks, answers = [], []
    for place in range(sets):
        rules, answer = _conflicting(rng, number, kinds, rng.random() < 0.55)
        blocks.append(f"Set {'ABCDEF'[place]}:\n{_numbered(rules, ')')}")
        answers.append(answer)
    joined = "\n\n".join(blocks)
    text = (
        f"Here are {sets} sets of conditions, each for a text of its own, in English, of whole sentences and at "
        "least ten words.\n\n"
        f"{joined}\n\n"
        f"{WORD} {SENTENCE} In some sets all conditions can hold for one text; in others exactly two "
        "conditions exclude each other. Give one line for each set, in this order: the two numbers with the smaller "
        "one "
        'first and one space between them, or "none". For example:\n2 3\nnone'
    )
    return Question(text=text, answer="\n".join(answers))


def judge_conflicts_or_none(answer: str, task: Task) -> float:
    given = [line.split() for line in answer.strip().split("\n")]
    return float(given == [line.split() for line in task.reference.split("\n")])


# ---- broken conditions -----------------------------------------------------------------------------------------------


def ask_violations(rng: random.Random, count: int, number: int) -> Question:
    """Which of the conditions does the text break?"""
    features = [
        {
            "end": rng.choice(".!"),
            "joint": rng.choice([" ", "\n"]),
            "letter": rng.choice("bcgkpfmdhwu"),
            **{name: rng.random() < 0.4 for name in ("ps", "quoted", "comma")},
            rng.choice(["lower", "upper", "plain"]): True,
        }
        for _ in range(3)
    ]
    text, *others = [_shaped(rng, drawn_topics(rng, 2), count, feature) for feature in features]
    kept = fitting(rng, text, _absent(text))
    broken = [rule for other in others for rule in fitting(rng, other, words(text)) if not holds(rule, text)]
    bad = broken[: rng.randint(1, min(number - 1, len(broken)))]
    rules = bad + [rule for rule in kept if rule[0] not in {one[0] for one in bad}][: number - len(bad)]
    rng.shuffle(rules)
    answer = ", ".join(str(place + 1) for place, rule in enumerate(rules) if not holds(rule, text))
    said = (
        f"A writer was given these conditions:\n{_numbered(rules)}\n\nThis is the text, between the lines of dashes:\n"
        f"-----\n{text}\n-----\n\n{WORD} {SENTENCE} Which conditions does the text break? Give their numbers in rising "
        "order, separated by a comma and a space."
    )
    return Question(text=said, answer=answer)


def judge_violations(answer: str, task: Task) -> float:
    given = [part.strip() for part in answer.split(",")]
    return float(given == task.reference.split(", "))


SKILLS = [
    Skill(
        name="composed",
        ask=ask_composed,
        judge=judge_composed,
        tagged=False,
        levels={
            "easy": {"topics": 1, "count": 2, "low": 2, "high": 2},
            "medium": {"topics": 2, "count": 3, "low": 3, "high": 4},
            "hard": {"topics": 3, "count": 5, "low": 5, "high": 6},
        },
    ),
    Skill(
        name="conflicts",
        ask=ask_conflicts,
        judge=judge_conflicts,
        levels={
            "easy": {"number": 4, "kinds": 16},
            "medium": {"number": 6, "kinds": 16},
            "hard": {"number": 10, "kinds": 8},
        },
    ),
    Skill(
        name="conflicts_or_none",
        ask=ask_conflicts_or_none,
        judge=judge_conflicts_or_none,
        levels={
            "easy": {"sets": 2, "number": 3, "kinds": 16},
            "medium": {"sets": 3, "number": 5, "kinds": 16},
            "hard": {"sets": 4, "number": 9, "kinds": 8},
        },
    ),
    Skill(
        name="violations",
        ask=ask_violations,
        judge=judge_violations,
        levels={
            "easy": {"count": 2, "number": 3},
            "medium": {"count": 4, "number": 6},
            "hard": {"count": 7, "number": 10},
        },
    ),
]
