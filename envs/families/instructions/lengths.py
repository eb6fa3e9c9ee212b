"""Conditions on how many words, sentences, paragraphs and lines a text has, and how long they are.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

from envs.families.instructions.measure import (
    counted,
    ends_well,
    letters,
    lines,
    paragraphs,
    real,
    sentences,
    tokens,
    words,
)
from envs.families.instructions.writing import Writer, drawn_topics, question, settle, sizes
from envs.skills import Question, Skill
from envs.types import Task

SENTENCE_RULE = "A sentence ends with one or more of . ! ? and the text ends with the end of a sentence."
LINE_RULE = "Empty lines do not count as lines."


def ask_word_count(rng: random.Random, topics: int, count: int, slack: int) -> Question:
    chosen = drawn_topics(rng, topics)
    text = " ".join(Writer(rng, chosen).sentences(sizes(rng, count)))
    length = len(words(text))
    low = length - rng.randint(0, slack)
    high = low + slack
    special = f"The text has exactly {length} words." if not slack else f"The text has from {low} to {high} words."
    return question(rng, chosen, text, special, {"low": low, "high": high})


def judge_word_count(answer: str, task: Task) -> float:
    facts = task.metadata
    return float(real(answer, facts) and facts["low"] <= len(words(answer)) <= facts["high"])


def ask_sentence_count(rng: random.Random, topics: int, count: int, slack: int) -> Question:
    chosen = drawn_topics(rng, topics)
    number, low = rng.randint(count, count + 3), rng.randint(5, 8)
    text = " ".join(Writer(rng, chosen).sentences([rng.randint(low, low + slack) for _ in range(number)]))
    each = f"exactly {low}" if not slack else f"from {low} to {low + slack}"
    special = f"The text has exactly {number} sentences, and each of them has {each} words. {SENTENCE_RULE}"
    return question(rng, chosen, text, special, {"number": number, "low": low, "high": low + slack})


def judge_sentence_count(answer: str, task: Task) -> float:
    facts, found = task.metadata, sentences(answer)
    if not real(answer, facts) or not ends_well(answer) or len(found) != facts["number"]:
        return 0.0
    return float(all(facts["low"] <= len(words(sentence)) <= facts["high"] for sentence in found))


def ask_paragraphs(rng: random.Random, topics: int, count: int, firsts: int) -> Question:
    """Paragraphs, some of which must start with a given word."""
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    number = rng.randint(count, count + 2)
    places = sorted(rng.sample(range(number), min(firsts, number)))
    blocks: list[str] = []
    starts: list[list[Any]] = []
    for place in range(number):
        opening = writer.take("OPENERS") if place in places else ""
        first = writer.sentence(rng.randint(6, 9), opening=opening)
        blocks.append(" ".join([first, *writer.sentences(sizes(rng, rng.randint(0, 1)))]))
        if opening:
            starts.append([place, opening])
    told = " ".join(f'Paragraph {place + 1} starts with the word "{word}".' for place, word in starts)
    special = f"The text has exactly {number} paragraphs with an empty line between one and the next. {told}"
    return question(rng, chosen, "\n\n".join(blocks), special, {"number": number, "starts": starts})


def judge_paragraphs(answer: str, task: Task) -> float:
    facts, blocks = task.metadata, paragraphs(answer)
    if not real(answer, facts) or len(blocks) != facts["number"] or not all(map(tokens, blocks)):
        return 0.0
    return float(all(words(blocks[place])[0] == word.casefold() for place, word in facts["starts"]))


def ask_word_lengths(rng: random.Random, topics: int, count: int, shortest: int, longest: int) -> Question:
    """All words must be short, or none may be: `shortest` to `longest` letters."""

    def fits(word: str) -> bool:
        return shortest <= len(word) <= longest

    chosen = drawn_topics(rng, topics, fits)
    text = " ".join(Writer(rng, chosen, fits).sentences(sizes(rng, count)))
    special = (
        f"Every word has from {shortest} to {longest} letters. (Marks on or around a word are not counted as letters.)"
    )
    return question(rng, chosen, text, special, {"shortest": shortest, "longest": longest})


def judge_word_lengths(answer: str, task: Task) -> float:
    facts = task.metadata
    fits = all(facts["shortest"] <= len(letters(token)) <= facts["longest"] for token in tokens(answer))
    return float(real(answer, facts) and fits)


def ask_growing(rng: random.Random, topics: int, count: int, steps: tuple[int, ...]) -> Question:
    """Each sentence is by so many words longer (or shorter) than the one before."""
    chosen, step, number = drawn_topics(rng, topics), rng.choice(steps), rng.randint(count, count + 2)
    lowest = rng.randint(4, 6)
    lengths = [lowest + abs(step) * place for place in range(number)][:: 1 if step > 0 else -1]
    text = " ".join(Writer(rng, chosen).sentences(lengths))
    special = (
        f"The text has exactly {number} sentences. Each sentence after the first has exactly "
        f"{counted(abs(step), 'word')} {'more' if step > 0 else 'fewer'} than the one before it. {SENTENCE_RULE}"
    )
    return question(rng, chosen, text, special, {"number": number, "step": step})


def judge_growing(answer: str, task: Task) -> float:
    facts = task.metadata
    found = [len(words(sentence)) for sentence in sentences(answer)]
    if not real(answer, facts) or not ends_well(answer) or len(found) != facts["number"]:
        return 0.0
    return float(all(after - before == facts["step"] for before, after in itertools.pairwise(found)))


def fibonacci(first: int, second: int, count: int) -> list[int]:
    """`fibonacci(1, 2, 5)` -> `[1, 2, 3, 5, 8]`."""
    found = [first, second]
    while len(found) < count:
        found.append(found[-1] + found[-2])
    return found[:count]


def ask_fibonacci_lines(rng: random.Random, topics: int, count: int, starts: tuple[tuple[int, int], ...]) -> Question:
    first, second = rng.choice(starts)
    lengths = fibonacci(first, second, count)
    chosen = drawn_topics(rng, topics)
    text = "\n".join(Writer(rng, chosen).sentences(lengths, end=""))
    special = (
        f"It is a poem of exactly {count} lines. The first line has exactly {counted(first, 'word')} and the second "
        f"exactly {counted(second, 'word')}; from the third line on, each line has as many words as the two lines "
        f"before it have together. {LINE_RULE}"
    )
    return question(rng, chosen, text, special, {"first": first, "second": second, "count": count})


def judge_fibonacci_lines(answer: str, task: Task) -> float:
    facts = task.metadata
    found = [len(words(line)) for line in lines(answer)]
    return float(real(answer, facts) and found == fibonacci(facts["first"], facts["second"], facts["count"]))


def ask_line_lengths(rng: random.Random, topics: int, count: int, slack: int) -> Question:
    """Lines with a given number of characters."""
    chosen, number = drawn_topics(rng, topics), rng.randint(count, count + 2)
    low = rng.randint(30, 40)
    high = low + slack
    writer = Writer(rng, keep=lambda word: word not in chosen)
    lasts = [*chosen, *[""] * (number - topics)]
    found = [
        settle(
            lambda last=last: writer.sentence(rng.randint(5, 8), last=last),  # type: ignore[misc]
            lambda line: low <= len(line) <= high,
        )
        for last in lasts
    ]
    each = f"exactly {low}" if not slack else f"from {low} to {high}"
    special = (
        f"The text has exactly {number} lines, and each of them has {each} characters, where letters, spaces and all "
        f"marks count, but not the line break. {LINE_RULE} No line begins or ends with a space, and no two spaces "
        "stand next to each other."
    )
    return question(rng, chosen, "\n".join(found), special, {"number": number, "low": low, "high": high})


def judge_line_lengths(answer: str, task: Task) -> float:
    facts = task.metadata
    found = [line for line in answer.split("\n") if line.strip()]
    if not real(answer, facts) or len(found) != facts["number"]:
        return 0.0
    return float(all(facts["low"] <= len(line) <= facts["high"] and line == " ".join(line.split()) for line in found))


def ask_longest_sentence(rng: random.Random, topics: int, count: int, gap: int) -> Question:
    """One sentence of a given place is the longest by far, the last one the shortest."""
    chosen, number = drawn_topics(rng, topics), rng.randint(count, count + 2)
    place = rng.randrange(number - 1)
    lengths = [7 + rng.randint(0, 2) for _ in range(number)]
    lengths[place], lengths[-1] = 9 + gap, 4
    text = " ".join(Writer(rng, chosen).sentences(lengths))
    special = (
        f"The text has exactly {number} sentences. Sentence {place + 1} has at least {gap} words more than every other "
        f"one, and the last sentence has fewer words than every other one. {SENTENCE_RULE}"
    )
    return question(rng, chosen, text, special, {"number": number, "place": place, "gap": gap})


def judge_longest_sentence(answer: str, task: Task) -> float:
    facts = task.metadata
    found = [len(words(sentence)) for sentence in sentences(answer)]
    if not real(answer, facts) or not ends_well(answer) or len(found) != facts["number"]:
        return 0.0
    longest, others = found[facts["place"]], found[: facts["place"]] + found[facts["place"] + 1 :]
    return float(longest >= max(others) + facts["gap"] and min(found[:-1]) > found[-1])


SKILLS = [
    Skill(
        name="word_count",
        ask=ask_word_count,
        judge=judge_word_count,
        tagged=False,
        levels={
            "easy": {"topics": 2, "count": 3, "slack": 10},
            "medium": {"topics": 2, "count": 5, "slack": 2},
            "hard": {"topics": 4, "count": 9, "slack": 0},
        },
    ),
    Skill(
        name="sentence_count",
        ask=ask_sentence_count,
        judge=judge_sentence_count,
        tagged=False,
        levels={
            "easy": {"topics": 2, "count": 2, "slack": 5},
            "medium": {"topics": 3, "count": 4, "slack": 1},
            "hard": {"topics": 4, "count": 7, "slack": 0},
        },
    ),
    Skill(
        name="paragraphs",
        ask=ask_paragraphs,
        judge=judge_paragraphs,
        tagged=False,
        levels={
            "easy": {"topics": 2, "count": 2, "firsts": 1},
            "medium": {"topics": 3, "count": 3, "firsts": 2},
            "hard": {"topics": 4, "count": 5, "firsts": 4},
        },
    ),
    Skill(
        name="word_lengths",
        ask=ask_word_lengths,
        judge=judge_word_lengths,
        tagged=False,
        levels={
            "easy": {"topics": 2, "count": 2, "shortest": 2, "longest": 7},
            "medium": {"topics": 2, "count": 3, "shortest": 3, "longest": 6},
            "hard": {"topics": 3, "count": 5, "shortest": 4, "longest": 6},
        },
    ),
    Skill(
        name="growing_sentences",
        ask=ask_growing,
        judge=judge_growing,
        tagged=False,
        levels={
            "easy": {"topics": 2, "count": 2, "steps": (1, 2)},
            "medium": {"topics": 2, "count": 3, "steps": (1, 2, -1, -2)},
            "hard": {"topics": 4, "count": 5, "steps": (2, 3, -2, -3)},
        },
    ),
    Skill(
        name="fibonacci_lines",
        ask=ask_fibonacci_lines,
        judge=judge_fibonacci_lines,
        tagged=False,
        levels={
            "easy": {"topics": 1, "count": 4, "starts": ((2, 2), (2, 3), (1, 3))},
            "medium": {"topics": 2, "count": 5, "starts": ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))},
            "hard": {"topics": 3, "count": 7, "starts": ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))},
        },
    ),
    Skill(
        name="line_lengths",
        ask=ask_line_lengths,
        judge=judge_line_lengths,
        tagged=False,
        levels={
            "easy": {"topics": 1, "count": 2, "slack": 15},
            "medium": {"topics": 2, "count": 3, "slack": 5},
            "hard": {"topics": 3, "count": 4, "slack": 0},
        },
    ),
    Skill(
        name="longest_sentence",
        ask=ask_longest_sentence,
        judge=judge_longest_sentence,
        tagged=False,
        levels={
            "easy": {"topics": 2, "count": 3, "gap": 2},
            "medium": {"topics": 3, "count": 4, "gap": 4},
            "hard": {"topics": 4, "count": 6, "gap": 7},
        },
    ),
]
