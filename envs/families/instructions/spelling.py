"""Conditions on letters: which ones occur, how often, and what words and sentences begin and end with.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import itertools
import random
import string

from envs.families.instructions import tables
from envs.families.instructions.lengths import LINE_RULE, SENTENCE_RULE
from envs.families.instructions.measure import (
    counted,
    ends_well,
    letters,
    lines,
    listed,
    real,
    sentences,
    tokens,
    words,
)
from envs.families.instructions.writing import Writer, drawn_topics, question, settle, sizes
from envs.skills import Question, Skill
from envs.types import Task

# How hard a letter is to do without.
RARE, USUAL, VITAL = "bcpgkvfw", "hlmdiu", "aetnors"
ALLITERATIVE = "bcfglmpsw"  # enough words of each kind begin with these


def ask_lipogram(rng: random.Random, topics: int, count: int, banned: tuple[str, ...]) -> Question:
    """One or more letters may not occur at all."""
    bans = [rng.choice(group) for group in banned]
    bans = list(dict.fromkeys(bans))

    def free(word: str) -> bool:
        return not any(letter in word for letter in bans)

    chosen = drawn_topics(rng, topics, free)
    text = " ".join(Writer(rng, chosen, free).sentences(sizes(rng, count)))
    quoted = listed([f'"{letter}"' for letter in bans], "or")
    special = f"The letter {quoted} occurs nowhere in the text, neither as a capital nor as a small letter."
    return question(rng, chosen, text, special, {"bans": bans})


def judge_lipogram(answer: str, task: Task) -> float:
    lowered = answer.lower()
    return float(real(answer, task.metadata) and not any(letter in lowered for letter in task.metadata["bans"]))


def ask_letter_frequency(rng: random.Random, topics: int, count: int, pool: str, number: int) -> Question:
    """Some letters occur an exact number of times each."""
    chosen = drawn_topics(rng, topics)
    text = " ".join(Writer(rng, chosen).sentences(sizes(rng, count)))
    asked = sorted(rng.sample(pool, number))
    times = [text.lower().count(letter) for letter in asked]
    told = listed([f'"{letter}" exactly {counted(times, "time")}' for letter, times in zip(asked, times, strict=True)])
    special = f"The whole text has the letter {told}, capitals and small letters counted together."
    return question(rng, chosen, text, special, {"letters": asked, "times": times})


def judge_letter_frequency(answer: str, task: Task) -> float:
    facts, lowered = task.metadata, answer.lower()
    exact = all(lowered.count(letter) == times for letter, times in zip(facts["letters"], facts["times"], strict=True))
    return float(real(answer, facts) and exact)


def ask_alliteration(rng: random.Random, topics: int, count: int) -> Question:
    """Every word starts with one letter."""
    letter = rng.choice(ALLITERATIVE)

    def fits(word: str) -> bool:
        return word.startswith(letter)

    chosen = drawn_topics(rng, topics, fits)
    writer = Writer(rng, chosen, fits)
    phrase = ("ADJECTIVES", "NOUNS", "VERBS", "ADJECTIVES", "NOUNS")
    found = []
    for _ in range(count):
        made = [writer.noun() if kind == "NOUNS" else writer.take(kind) for kind in phrase]
        found.append(" ".join(made).capitalize() + ".")
    special = (
        f'Every word starts with the letter "{letter}", without a single exception: articles and other little words '
        f"are left out where they start with another letter. The text has at least {counted(count, 'sentence')}. "
        f"{SENTENCE_RULE}"
    )
    return question(rng, chosen, " ".join(found), special, {"letter": letter, "count": count})


def judge_alliteration(answer: str, task: Task) -> float:
    facts = task.metadata
    if not real(answer, facts) or not ends_well(answer) or len(sentences(answer)) < facts["count"]:
        return 0.0
    return float(all(word.startswith(facts["letter"]) for word in words(answer)))


def ask_acrostic(rng: random.Random, topics: int, low: int, high: int, ends: tuple[str, ...]) -> Question:
    """The first letters of the lines, or the last ones, spell a word."""
    secret = rng.choice([word for word in tables.ACROSTICS if low <= len(word) <= high])
    end = rng.choice(ends)
    if end == "last":
        secret = rng.choice([word for word in tables.ACROSTICS if min(low, 4) <= len(word) <= high and _endable(word)])
    chosen = drawn_topics(rng, topics, lambda noun: noun != secret and (end == "first" or noun[-1] not in secret))

    def make() -> str:
        writer, found = Writer(rng, chosen), []
        for place, letter in enumerate(secret):
            if end == "first":
                subject = next(name for name in tables.NAMES if name[0].lower() == letter)
                found.append(writer.sentence(rng.randint(4, 7), subject=subject, end=""))
            else:
                plain = writer.sentence(rng.randint(5, 7), end="") if place < (topics + 1) // 2 else ""
                last = writer.take("NOUNS", lambda noun, letter=letter: noun.endswith(letter))  # type: ignore[misc]
                opening = plain.lower() + " and" if plain else ""
                made = writer.sentence(rng.randint(5, 7), last=last, end="")
                found.append(f"{opening.capitalize()} {made[0].lower()}{made[1:]}" if opening else made)
        return "\n".join(found)

    text = settle(make, lambda text: all(topic in words(text) for topic in chosen))
    special = (
        f"The text has exactly {len(secret)} lines, and the {end} letters of the lines, read from top to bottom, spell "
        f'"{secret}" (as capitals or small letters; marks are not letters). Each line has at least three words. '
        f"{LINE_RULE}"
    )
    return question(rng, chosen, text, special, {"secret": secret, "end": end})


def _endable(word: str) -> bool:
    """There are nouns that end with its letters."""
    return all(sum(noun.endswith(letter) for noun in tables.NOUNS) >= word.count(letter) for letter in set(word))


def judge_acrostic(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    spelled = "".join(letters(line)[:1] if facts["end"] == "first" else letters(line)[-1:] for line in found)
    right = spelled.lower() == facts["secret"] and all(len(words(line)) >= 3 for line in found)
    return float(real(answer, facts) and right and len(found) == len(facts["secret"]))


def ask_alphabet_walk(rng: random.Random, topics: int, count: int, steps: tuple[int, ...]) -> Question:
    """The sentences start with letters that follow each other in the alphabet."""
    number, step = rng.randint(count, count + 2), rng.choice(steps)
    span = abs(step) * (number - 1)
    start = rng.randrange(26 - span) if step > 0 else rng.randrange(span, 26)
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    found = [writer.sentence(rng.randint(5, 8), subject=tables.NAMES[start + step * place]) for place in range(number)]
    walk = {1: "the next letter of the alphabet", -1: "the letter of the alphabet before that"}
    way = walk.get(step, f"the letter {abs(step)} places further {'on' if step > 0 else 'back'} in the alphabet")
    special = (
        f'The text has exactly {number} sentences. The first starts with the letter "{string.ascii_uppercase[start]}", '
        f"and each following sentence starts with {way}, seen from the sentence before it. {SENTENCE_RULE}"
    )
    initials = "".join(string.ascii_lowercase[start + step * place] for place in range(number))
    return question(rng, chosen, " ".join(found), special, {"initials": initials})


def judge_alphabet_walk(answer: str, task: Task) -> float:
    initials = "".join(letters(sentence)[:1] for sentence in sentences(answer)).lower()
    return float(real(answer, task.metadata) and ends_well(answer) and initials == task.metadata["initials"])


def ask_letter_case(rng: random.Random, topics: int, count: int, modes: tuple[str, ...]) -> Question:
    """All small letters, all capitals, each word with a capital, or sentences that take turns."""
    mode = rng.choice(modes)
    chosen = drawn_topics(rng, topics)
    found = Writer(rng, chosen).sentences(sizes(rng, count))
    text = " ".join(_in_case(sentence, mode, place) for place, sentence in enumerate(found))
    special = {
        "lower": "The text has no capital letter at all, not even at the start of a sentence.",
        "upper": "The text has no small letter at all.",
        "title": "Every word starts with a capital letter and goes on in small letters.",
        "turns": "The first sentence has no small letter, the second no capital letter, and so on in turns. "
        + SENTENCE_RULE,
        "last": "Every word ends with a capital letter, and all its other letters are small ones.",
    }[mode]
    special += f" The text has at least {counted(count, 'sentence')}."
    return question(rng, chosen, text, special, {"mode": mode, "count": count})


def _in_case(sentence: str, mode: str, place: int) -> str:
    """One sentence as a mode wants it."""
    if mode == "title":
        return " ".join(word.capitalize() for word in sentence.split())
    if mode == "last":
        return " ".join(_last_big(word) for word in sentence.lower().split())
    big = mode == "upper" or (mode == "turns" and place % 2 == 0)
    return sentence.upper() if big else sentence.lower()


def _last_big(word: str) -> str:
    """`_last_big("hat.")` -> `"haT."`."""
    end = max((place for place, character in enumerate(word) if character.isalpha()), default=-1)
    return word[:end] + word[end : end + 1].upper() + word[end + 1 :] if end >= 0 else word


def judge_letter_case(answer: str, task: Task) -> float:
    facts, found = task.metadata, sentences(answer)
    if not real(answer, facts) or len(found) < facts["count"]:
        return 0.0
    if facts["mode"] in ("title", "last"):
        return float(all(token == _in_case(token, facts["mode"], 0) for token in tokens(answer)))
    if facts["mode"] == "turns":
        turns = all(sentence == _in_case(sentence, "turns", place) for place, sentence in enumerate(found))
        return float(turns and ends_well(answer))
    return float(answer == _in_case(answer, facts["mode"], 0))


def ask_capital_words(rng: random.Random, topics: int, count: int, low: int, high: int) -> Question:
    """An exact number of words in capitals, no two of them neighbours."""
    chosen, number = drawn_topics(rng, topics), rng.randint(low, high)
    found = " ".join(Writer(rng, chosen).sentences(sizes(rng, count))).split()
    places = settle(
        lambda: " ".join(map(str, sorted(rng.sample(range(len(found)), number)))),
        lambda text: all(int(b) - int(a) > 1 for a, b in zip(text.split(), text.split()[1:], strict=False)),
    )
    for place in map(int, places.split()):
        found[place] = found[place].upper()
    special = (
        f"Exactly {counted(number, 'word')} of at least two letters {'is' if number == 1 else 'are'} written all in "
        "capitals, and no two such words stand next to each other. In all other words at most the first letter is a "
        "capital."
    )
    return question(rng, chosen, " ".join(found), special, {"number": number})


def judge_capital_words(answer: str, task: Task) -> float:
    found = [letters(token) for token in tokens(answer)]
    big = [len(word) > 1 and word == word.upper() for word in found]
    others = all(word[1:] == word[1:].lower() for word, is_big in zip(found, big, strict=True) if not is_big)
    apart = not any(one and other for one, other in itertools.pairwise(big))
    return float(real(answer, task.metadata) and sum(big) == task.metadata["number"] and others and apart)


def ask_vowel_starts(rng: random.Random, topics: int, count: int, each: bool) -> Question:
    """A number of words start with a vowel: in the whole text, or in every sentence."""
    chosen = drawn_topics(rng, topics, lambda noun: noun[0] not in "aeiou")
    number = rng.randint(1, 3)
    writer = Writer(rng, chosen, lambda word: word[0] not in "aeiou")
    writer_free = Writer(rng, [], lambda word: word not in chosen)
    found = []
    for size in sizes(rng, max(count, topics)):
        clause = writer.clause(min(size, 7))
        clause = [word if word != "and" else "then" for word in clause]
        spare = sum(word[0] in "aeiou" for word in clause)
        vowels = [writer_free.take("ADVERBS", lambda word: word[0] in "aeiou") for _ in range(number - spare)]
        found.append(f"{' '.join(clause).capitalize()}{''.join(f', {word}' for word in vowels)}.")
    text = " ".join(found)
    total = sum(word[0] in "aeiou" for word in words(text))
    where = f"In each sentence, exactly {counted(number, 'word')}" if each else f"Exactly {counted(total, 'word')}"
    special = (
        f"{where} {'starts' if (number if each else total) == 1 else 'start'} with one of the letters a, e, i, o, u. "
        f"The text has at least {counted(count, 'sentence')}. {SENTENCE_RULE}"
    )
    return question(rng, chosen, text, special, {"number": number if each else total, "each": each, "count": count})


def judge_vowel_starts(answer: str, task: Task) -> float:
    facts, found = task.metadata, sentences(answer)
    if not real(answer, facts) or len(found) < facts["count"] or not ends_well(answer):
        return 0.0
    numbers = [sum(word[0] in "aeiou" for word in words(sentence)) for sentence in found]
    return float(
        all(number == facts["number"] for number in numbers) if facts["each"] else sum(numbers) == facts["number"]
    )


def ask_ending_letters(rng: random.Random, topics: int, count: int, kinds: int) -> Question:
    """The last words of the sentences end with given letters, in turns."""
    pool = [letter for letter in string.ascii_lowercase if sum(noun.endswith(letter) for noun in tables.NOUNS) >= 6]
    asked = rng.sample(pool, kinds)
    number = rng.randint(count, count + 2)
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    found = []
    for place in range(number):
        letter = asked[place % kinds]
        last = writer.take("NOUNS", lambda noun, letter=letter: noun.endswith(letter))  # type: ignore[misc]
        found.append(writer.sentence(rng.randint(5, 8), last=last))
    if kinds == 1:
        told = f'Every sentence ends with a word whose last letter is "{asked[0]}".'
    else:
        order = listed([f'"{letter}"' for letter in asked], "then")
        told = f"The last letters of the sentences are, in turns and beginning anew after the last: {order}."
    special = f"The text has exactly {number} sentences, no two with the same last word. {told} {SENTENCE_RULE}"
    return question(rng, chosen, " ".join(found), special, {"number": number, "letters": asked})


def judge_ending_letters(answer: str, task: Task) -> float:
    facts = task.metadata
    lasts = [words(sentence)[-1] for sentence in sentences(answer)]
    if not real(answer, facts) or not ends_well(answer) or len(lasts) != facts["number"]:
        return 0.0
    asked = facts["letters"]
    right = all(last.endswith(asked[place % len(asked)]) for place, last in enumerate(lasts))
    return float(right and len(set(lasts)) == len(lasts))


def _skill(name: str, ask: object, judge: object, *levels: dict[str, object]) -> Skill:
    named = dict(zip(("easy", "medium", "hard"), levels, strict=True))
    return Skill(name=name, ask=ask, judge=judge, levels=named, tagged=False)  # type: ignore[arg-type]


SKILLS = [
    _skill(
        "lipogram",
        ask_lipogram,
        judge_lipogram,
        {"topics": 2, "count": 2, "banned": (RARE,)},
        {"topics": 2, "count": 4, "banned": (VITAL + USUAL,)},
        {"topics": 2, "count": 6, "banned": (VITAL, USUAL)},
    ),
    _skill(
        "letter_frequency",
        ask_letter_frequency,
        judge_letter_frequency,
        {"topics": 1, "count": 1, "pool": "bgkpvfwm", "number": 1},
        {"topics": 2, "count": 3, "pool": "bgkpvfwmcdul", "number": 2},
        {"topics": 3, "count": 5, "pool": "abcdefghiklmnoprstuvw", "number": 4},
    ),
    _skill(
        "alliteration",
        ask_alliteration,
        judge_alliteration,
        {"topics": 1, "count": 1},
        {"topics": 2, "count": 2},
        {"topics": 3, "count": 4},
    ),
    _skill(
        "acrostic",
        ask_acrostic,
        judge_acrostic,
        {"topics": 1, "low": 3, "high": 3, "ends": ("first",)},
        {"topics": 2, "low": 4, "high": 5, "ends": ("first", "last")},
        {"topics": 3, "low": 6, "high": 7, "ends": ("first", "last")},
    ),
    _skill(
        "alphabet_walk",
        ask_alphabet_walk,
        judge_alphabet_walk,
        {"topics": 1, "count": 2, "steps": (1,)},
        {"topics": 2, "count": 4, "steps": (1, -1)},
        {"topics": 3, "count": 6, "steps": (2, 3, -2, -3)},
    ),
    _skill(
        "letter_case",
        ask_letter_case,
        judge_letter_case,
        {"topics": 2, "count": 2, "modes": ("lower", "upper")},
        {"topics": 2, "count": 3, "modes": ("lower", "upper", "title", "turns")},
        {"topics": 3, "count": 6, "modes": ("title", "turns", "last")},
    ),
    _skill(
        "capital_words",
        ask_capital_words,
        judge_capital_words,
        {"topics": 1, "count": 2, "low": 1, "high": 2},
        {"topics": 2, "count": 4, "low": 3, "high": 5},
        {"topics": 3, "count": 8, "low": 7, "high": 11},
    ),
    _skill(
        "vowel_starts",
        ask_vowel_starts,
        judge_vowel_starts,
        {"topics": 1, "count": 2, "each": False},
        {"topics": 2, "count": 4, "each": False},
        {"topics": 3, "count": 6, "each": True},
    ),
    _skill(
        "ending_letters",
        ask_ending_letters,
        judge_ending_letters,
        {"topics": 1, "count": 2, "kinds": 1},
        {"topics": 2, "count": 3, "kinds": 2},
        {"topics": 3, "count": 6, "kinds": 3},
    ),
]
