"""Texts of a given shape: plain sentences from word tables, which hit exact numbers of words.

In: a random stream, topic words, and what the text must be like.  Out: gold texts, and the `Question` around one.
Used by the skills of this family.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from envs.families.instructions import tables
from envs.families.instructions.measure import LEAST_DISTINCT, LONGEST_WORD, listed, real, words
from envs.skills import Question

TRIES = 400
NOUN = ""  # stands where a noun will
REQUESTS = (
    "Write a short {kind} in which the following have a part: {things}.",
    "Please write a {kind} for the village paper. It should mention {things}.",
    "I need a little {kind} that brings in {things}.",
    "Make up a {kind} with {things} in it.",
    "Compose a {kind} around these words: {things}.",
    "A friend collects odd texts. Write a {kind} for her that uses {things}.",
)
RULES = (
    "In any case, the answer has from {least} to {most} words. A word is what stands between spaces or line breaks and "
    "has a letter or digit in it; when words are compared, their case and the marks around them do not matter. "
    "The number of different words must be at least {distinct} percent of the number of words, at least half of the "
    "words must have three letters or more, none may "
    "have more than {longest}, and {topics} must occur in this spelling as {whole}. "
    "Your whole answer is taken as the text, so write nothing else."
)


class Writer:
    """Writes sentences; a word comes again only when its table is used up, and topics come first.

    `keep` says which words may be used at all.
    """

    def __init__(self, rng: random.Random, topics: Sequence[str] = (), keep: Callable[[str], bool] = bool):
        self._rng, self._keep = rng, keep
        self._topics = list(topics)
        self._all_topics = set(topics)
        self._pools: dict[str, list[str]] = {}

    def take(self, table: str, test: Callable[[str], bool] = bool) -> str:
        """A word of a table that passes the test, not the same twice before all were used."""
        for _ in range(2):
            pool = self._pools.get(table) or self._filled(table)
            for position in range(len(pool) - 1, -1, -1):
                if test(pool[position]):
                    return pool.pop(position)
            self._pools[table] = self._filled(table)
        raise ValueError(f"no word in {table} passes the test")

    def _filled(self, table: str) -> list[str]:
        pool = [word for word in getattr(tables, table) if self._keep(word) and word not in self._all_topics]
        self._rng.shuffle(pool)
        self._pools[table] = pool
        return pool

    def noun(self, test: Callable[[str], bool] = bool) -> str:
        """The next topic, or else another noun."""
        if self._topics and test(self._topics[0]):
            return self._topics.pop(0)
        return self.take("NOUNS", test)

    def clause(self, length: int, *, subject: str = "", opening: str = "", last: str = "") -> list[str]:
        """Words of one sentence, `length` in all; `last` is a noun that it must end with (5 words or more)."""
        start = [opening] if opening else []
        room = length - len(start)
        if room < (4 if subject else 5) and not last:
            return start + self._short(room, subject)
        phrases = [[subject] if subject else [self.take("DETERMINERS"), NOUN]]
        phrases += [[self.take("VERBS")], [self.take("DETERMINERS"), NOUN]]
        room -= sum(map(len, phrases))
        while room > max(sum(NOUN in phrase for phrase in phrases) + (not last), 2):
            if room >= 4 and self._keep("and") and self._rng.random() < 0.4:
                phrases += [["and"], [self.take("VERBS")], [self.take("DETERMINERS"), NOUN]]
                room -= 4
            else:
                phrases += [[self.take("PREPOSITIONS")], [self.take("DETERMINERS"), NOUN]]
                room -= 3
        nouns = [phrase for phrase in phrases if NOUN in phrase]
        for phrase in nouns:
            phrase[1] = last if last and phrase is nouns[-1] else self.noun()
        for phrase in self._rng.sample(nouns, min(room, len(nouns))):
            phrase.insert(1, self.take("ADJECTIVES"))
            room -= 1
        tail = [self.take("ADVERBS")] if room and not last else []
        if room > len(tail):  # an adverb before the verb
            phrases.insert(1, [self.take("ADVERBS") for _ in range(room - len(tail))])
        return [*start, *(word for phrase in phrases for word in phrase), *tail]

    def _short(self, room: int, subject: str) -> list[str]:
        """Up to four words: a noun, a noun with a verb, and so on."""
        if room == 1 and not subject:
            return [self.noun()]
        head = [subject] if subject else [self.take("DETERMINERS"), self.noun()]
        if len(head) < room:
            head.append(self.take("INTRANSITIVE"))
        while len(head) < room:
            head.append(self.take("ADVERBS"))
        return head

    def sentence(self, length: int, *, subject: str = "", opening: str = "", last: str = "", end: str = ".") -> str:
        """`writer.sentence(5)` -> `"My farmer painted the boat."`"""
        text = " ".join(self.clause(length, subject=subject, opening=opening, last=last))
        return text[0].upper() + text[1:] + end

    def sentences(self, sizes: Sequence[int], end: str = ".") -> list[str]:
        """Sentences of these numbers of words."""
        return [self.sentence(size, end=end) for size in sizes]


def drawn_topics(rng: random.Random, count: int, keep: Callable[[str], bool] = bool) -> list[str]:
    """Different nouns that a text is to be about."""
    return rng.sample([noun for noun in tables.NOUNS if keep(noun)], count)


def sizes(rng: random.Random, count: int, low: int = 6, high: int = 11) -> list[int]:
    """Numbers of words for `count` sentences."""
    return [rng.randint(low, high) for _ in range(count)]


def question(
    rng: random.Random,
    topics: Sequence[str],
    gold: str,
    special: str,
    facts: dict[str, Any],
    counted_text: str = "",
) -> Question:
    """The question whose gold is `gold`: a request, the special condition, and the rules that hold in any case.

    `counted_text` is what of the gold counts as text, where that is not all of it.
    """
    plain = counted_text or gold
    count = len(words(plain))
    least, most = max(math.floor(0.6 * count), 3), math.ceil(1.5 * count) + 5
    request = rng.choice(REQUESTS).format(kind=rng.choice(tables.PROJECTS), things=listed(topics))
    request = request.replace(" a entry", " an entry")
    rules = RULES.format(
        least=least,
        most=most,
        longest=LONGEST_WORD,
        distinct=LEAST_DISTINCT,
        topics=listed([f'"{topic}"' for topic in topics]),
        whole="a whole word" if len(topics) == 1 else "whole words",
    )
    everything = {"topics": list(topics), "least": least, "most": most, **facts}
    assert real(plain, everything), f"no real text: {gold!r}"
    return Question(text=f"{request}\n\n{special}\n\n{rules}", answer=gold, facts=everything)


def settle(make: Callable[[], str], good: Callable[[str], bool]) -> str:
    """The first text that is good, of those that `make` (which draws at random) writes."""
    for _ in range(TRIES):
        text = make()
        if good(text):
            return text
    raise AssertionError(f"no text in {TRIES} tries fits; the last one: {text!r}")
