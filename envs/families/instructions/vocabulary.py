"""Conditions on which words a text has, where, and how often; and tasks on given words.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

from envs.families.instructions import tables
from envs.families.instructions.lengths import SENTENCE_RULE
from envs.families.instructions.measure import counted, ends_well, letters, listed, real, sentences, tokens, words
from envs.families.instructions.writing import Writer, drawn_topics, question, settle, sizes
from envs.skills import SHORT_TIERS, Question, Skill, exactly
from envs.types import Task

COMMON = ("the", "our", "this", "that", "my", "his", "their", "your", "every", "some", "and", "by", "with", "across")


def ask_keyword_frequency(rng: random.Random, topics: int, count: int, most: int) -> Question:
    """Some words must come an exact number of times."""
    chosen = drawn_topics(rng, topics)
    times = [rng.randint(2, most) for _ in chosen]
    writer = Writer(rng, [word for word, number in zip(chosen, times, strict=True) for _ in range(number)])
    text = " ".join(writer.sentences([8] * (count + sum(times) // 2)))
    told = listed([f'"{word}" exactly {number} times' for word, number in zip(chosen, times, strict=True)])
    special = f"The text has the word {told}; other forms of a word, such as a plural, are other words."
    return question(rng, chosen, text, special, {"times": times})


def judge_keyword_frequency(answer: str, task: Task) -> float:
    facts, found = task.metadata, Counter(words(answer))
    right = all(found[word] == number for word, number in zip(facts["topics"], facts["times"], strict=True))
    return float(real(answer, facts) and right)


def ask_forbidden_words(rng: random.Random, topics: int, count: int, banned: int) -> Question:
    bans = rng.sample(COMMON, banned)
    chosen = drawn_topics(rng, topics)
    plan = sizes(rng, count)

    def make() -> str:
        return " ".join(Writer(rng, chosen, lambda word: word not in bans).sentences(plan))

    text = settle(make, lambda text: not set(bans) & set(words(text)))
    quoted = listed([f'"{word}"' for word in bans], "or")
    special = f"None of these words may occur, in capitals or not: {quoted}."
    return question(rng, chosen, text, special, {"bans": bans})


def judge_forbidden_words(answer: str, task: Task) -> float:
    return float(real(answer, task.metadata) and not set(task.metadata["bans"]) & set(words(answer)))


def ask_first_last(rng: random.Random, topics: int, count: int, pairs: int) -> Question:
    """Given sentences start with one given word and end with another."""
    chosen = drawn_topics(rng, topics)
    lasts = rng.sample([noun for noun in tables.NOUNS if noun not in chosen], pairs)
    writer = Writer(rng, chosen, lambda word: word not in lasts)
    places = sorted(rng.sample(range(count), pairs))
    frames: list[list[Any]] = []
    found = []
    for place in range(count):
        if place in places:
            frame: list[Any] = [place, writer.take("OPENERS"), lasts[len(frames)]]
            frames.append(frame)
            found.append(writer.sentence(rng.randint(8, 10), opening=frame[1], last=frame[2]))
        else:
            found.append(writer.sentence(rng.randint(6, 9)))
    told = " ".join(
        f'Sentence {place + 1} starts with the word "{first}" and ends with the word "{last}".'
        for place, first, last in frames
    )
    special = f"The text has exactly {count} sentences. {told} {SENTENCE_RULE}"
    return question(rng, chosen, " ".join(found), special, {"count": count, "frames": frames})


def judge_first_last(answer: str, task: Task) -> float:
    facts = task.metadata
    found = [words(sentence) for sentence in sentences(answer)]
    if not real(answer, facts) or not ends_well(answer) or len(found) != facts["count"]:
        return 0.0
    return float(
        all(found[place][0] == first.casefold() and found[place][-1] == last for place, first, last in facts["frames"])
    )


def ask_no_repeats(rng: random.Random, topics: int, count: int) -> Question:
    """No word at all may come twice."""
    chosen = drawn_topics(rng, topics)

    def make() -> str:
        return " ".join(Writer(rng, chosen).sentences(sizes(rng, count, 5, 8)))

    text = settle(make, lambda text: len(set(words(text))) == len(words(text)))
    low = len(words(text)) - 4
    special = f'The text has at least {low} words, and no word comes twice, not even one such as "the".'
    return question(rng, chosen, text, special, {"low": low})


def judge_no_repeats(answer: str, task: Task) -> float:
    found = words(answer)
    return float(real(answer, task.metadata) and len(found) >= task.metadata["low"] and len(found) == len(set(found)))


def ask_chained(rng: random.Random, topics: int, count: int) -> Question:
    """Each sentence starts with the last word of the sentence before."""
    number = rng.randint(count, count + 2)
    links = rng.sample([noun for noun in tables.NOUNS if len(noun) > 3], number)
    chosen = links[:topics]
    writer = Writer(rng, (), lambda word: word not in links)
    found = [writer.sentence(rng.randint(6, 8), last=links[0])]
    found += [
        writer.sentence(rng.randint(6, 8), subject=before, last=after) for before, after in itertools.pairwise(links)
    ]
    special = (
        f"The text has exactly {number} sentences, and each sentence after the first starts with the last word of the "
        f"sentence before it. No two sentences end with the same word. {SENTENCE_RULE}"
    )
    return question(rng, chosen, " ".join(found), special, {"number": number})


def judge_chained(answer: str, task: Task) -> float:
    found = [words(sentence) for sentence in sentences(answer)]
    if not real(answer, task.metadata) or not ends_well(answer) or len(found) != task.metadata["number"]:
        return 0.0
    linked = all(before[-1] == after[0] for before, after in itertools.pairwise(found))
    return float(linked and len({sentence[-1] for sentence in found}) == len(found))


def ask_alternating_lengths(rng: random.Random, topics: int, count: int) -> Question:
    """Words with an odd and with an even number of letters take turns."""
    odd = rng.randrange(2)
    chosen = drawn_topics(rng, topics)
    classes = "DETERMINERS ADJECTIVES NOUNS VERBS DETERMINERS ADJECTIVES NOUNS PREPOSITIONS DETERMINERS NOUNS".split()
    writer = Writer(rng, chosen)
    waiting, found = list(chosen), []
    for position in range(len(classes) * count):
        kind, parity = classes[position % len(classes)], (position + odd) % 2
        fitting = next((topic for topic in waiting if len(topic) % 2 == parity), None)
        if kind == "NOUNS" and fitting:
            waiting.remove(fitting)
            found.append(fitting)
        else:
            found.append(writer.take(kind, lambda word, parity=parity: len(word) % 2 == parity))  # type: ignore[misc]
    parts = [found[start : start + len(classes)] for start in range(0, len(found), len(classes))]
    text = " ".join(" ".join(part).capitalize() + "." for part in parts)
    first = "an odd" if odd else "an even"
    special = (
        f"The first word has {first} number of letters, and from there on words with an even and words with an odd "
        "number of letters take turns to the end of the text. (Marks on or around a word are not letters.)"
    )
    return question(rng, chosen, text, special, {"parity": odd})


def judge_alternating_lengths(answer: str, task: Task) -> float:
    parities = [len(letters(token)) % 2 for token in tokens(answer)]
    fits = all(parity == (place + task.metadata["parity"]) % 2 for place, parity in enumerate(parities))
    return float(real(answer, task.metadata) and fits)


def ask_palindromes(rng: random.Random, topics: int, listed_words: int, count: int) -> Question:
    """Of a list, use the palindromes and none of the words that only look like one."""
    good = rng.sample(tables.PALINDROMES, count)
    bad = rng.sample(tables.NEAR_PALINDROMES, listed_words - count)
    shown = rng.sample([*good, *bad], listed_words)
    chosen = drawn_topics(rng, topics, lambda noun: noun not in shown)
    writer = Writer(rng, chosen, lambda word: word not in shown)
    found = writer.sentences([8] * max(topics, 2))
    found += [writer.sentence(6)[:-1] + f", {palindrome}." for palindrome in good]
    special = (
        f"Some words of this list read the same from both ends: {', '.join(shown)}. The text has each of those exactly "
        "once, and none of the other words of the list."
    )
    return question(rng, chosen, " ".join(found), special, {"good": sorted(good), "bad": sorted(bad)})


def judge_palindromes(answer: str, task: Task) -> float:
    found, facts = Counter(words(answer)), task.metadata
    used = all(found[word] == 1 for word in facts["good"]) and not any(word in found for word in facts["bad"])
    return float(real(answer, facts) and used)


def ask_copy_span(rng: random.Random, count: int, low: int, high: int) -> Question:
    """Copy the words from one place to another, exactly as they stand, marks and all."""
    writer = Writer(rng)
    parts = [
        writer.sentence(rng.randint(6, 11), end=rng.choice([".", "!", "?", ";", " --", "..."])) for _ in range(count)
    ]
    odd = [part.replace(" and ", ", and ") if rng.random() < 0.7 else part.upper() for part in parts]
    text = " ".join(odd)
    found = text.split()
    length = rng.randint(low, high)
    start = rng.randrange(len(found) - length + 1)
    ways = (
        f"Copy the pieces from number {start + 1} to number {start + length} of the text below",
        f"Leave out the first {counted(start, 'piece')} of the text below and copy the {length} that follow",
    )
    question_text = (
        f"{rng.choice(ways)}, exactly as they stand, with single spaces between them, and write nothing else. Pieces "
        f"are parted by single spaces; marks belong to the piece they stand on, and marks alone are a piece.\n\n{text}"
    )
    return Question(text=question_text, answer=" ".join(found[start : start + length]))


def ask_sort_given(rng: random.Random, count: int, keys: tuple[str, ...]) -> Question:
    """Sort given words, and keep their spelling."""
    pool = rng.sample([*tables.NOUNS, *(word for word in tables.VERBS if word not in tables.NOUNS)], count)
    shown = [rng.choice([str.upper, str.capitalize, str.lower, str.lower])(word) for word in pool]
    key = rng.choice(keys)
    told = {
        "alphabet": "in alphabetical order",
        "backwards": "in reverse alphabetical order, from z to a",
        "length": "from the shortest to the longest, and those of the same length in alphabetical order",
        "ending": "in alphabetical order of the words read backwards, from the last letter to the first",
    }[key]
    order = {
        "alphabet": sorted(shown, key=str.lower),
        "backwards": sorted(shown, key=str.lower, reverse=True),
        "length": sorted(shown, key=lambda word: (len(word), word.lower())),
        "ending": sorted(shown, key=lambda word: word.lower()[::-1]),
    }[key]
    text = (
        f"Write these {count} words {told}. Case plays no part in the order, but every word keeps the case in which it "
        f"stands here. Write one word a line and nothing else.\n\n{' '.join(shown)}"
    )
    return Question(text=text, answer="\n".join(order))


def judge_sort_given(answer: str, task: Task) -> float:
    return float(
        answer.split() == task.reference.split() and len(answer.split("\n")) == len(task.reference.split("\n"))
    )


def _levels(
    easy: dict[str, object], medium: dict[str, object], hard: dict[str, object]
) -> dict[str, dict[str, object]]:
    return {"easy": easy, "medium": medium, "hard": hard}


SKILLS = [
    Skill(
        name="keyword_frequency",
        ask=ask_keyword_frequency,
        judge=judge_keyword_frequency,
        tagged=False,
        levels=_levels(
            {"topics": 1, "count": 1, "most": 3},
            {"topics": 2, "count": 2, "most": 4},
            {"topics": 4, "count": 4, "most": 5},
        ),
    ),
    Skill(
        name="forbidden_words",
        ask=ask_forbidden_words,
        judge=judge_forbidden_words,
        tagged=False,
        levels=_levels(
            {"topics": 2, "count": 2, "banned": 2},
            {"topics": 3, "count": 4, "banned": 5},
            {"topics": 4, "count": 7, "banned": 9},
        ),
    ),
    Skill(
        name="first_last_words",
        ask=ask_first_last,
        judge=judge_first_last,
        tagged=False,
        levels=_levels(
            {"topics": 1, "count": 2, "pairs": 1},
            {"topics": 2, "count": 4, "pairs": 2},
            {"topics": 3, "count": 7, "pairs": 5},
        ),
    ),
    Skill(
        name="no_repeats",
        ask=ask_no_repeats,
        judge=judge_no_repeats,
        tagged=False,
        levels=_levels({"topics": 2, "count": 2}, {"topics": 3, "count": 4}, {"topics": 4, "count": 6}),
    ),
    Skill(
        name="chained_sentences",
        ask=ask_chained,
        judge=judge_chained,
        tagged=False,
        levels=_levels({"topics": 2, "count": 2}, {"topics": 2, "count": 4}, {"topics": 4, "count": 7}),
    ),
    Skill(
        name="alternating_lengths",
        ask=ask_alternating_lengths,
        judge=judge_alternating_lengths,
        tagged=False,
        levels=_levels({"topics": 1, "count": 1}, {"topics": 2, "count": 2}, {"topics": 3, "count": 4}),
    ),
    Skill(
        name="palindromes",
        ask=ask_palindromes,
        judge=judge_palindromes,
        tagged=False,
        levels=_levels(
            {"topics": 1, "listed_words": 4, "count": 1},
            {"topics": 2, "listed_words": 8, "count": 3},
            {"topics": 3, "listed_words": 16, "count": 6},
        ),
    ),
    Skill(
        name="copy_span",
        ask=ask_copy_span,
        judge=exactly,
        tiers=SHORT_TIERS,
        levels=_levels(
            {"count": 2, "low": 3, "high": 5}, {"count": 5, "low": 8, "high": 12}, {"count": 11, "low": 20, "high": 30}
        ),
    ),
    Skill(
        name="sort_given_words",
        ask=ask_sort_given,
        judge=judge_sort_given,
        levels=_levels(
            {"count": 4, "keys": ("alphabet",)},
            {"count": 8, "keys": ("alphabet", "backwards", "length")},
            {"count": 18, "keys": ("backwards", "length", "ending")},
        ),
    ),
]
