"""Conditions as data: each is a kind with its values, which can be said in words and checked on a text.

In: `[kind, value, …]`.  Out: a sentence (`told`), a verdict (`holds`), and conditions that a given text fulfils
(`fitting`).  Used by the skills that compose conditions, look for conflicts between them, or for broken ones.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.instructions.measure import counted, ends_well, lines, sentences, tokens, words

Rule = list[Any]


def told(rule: Rule) -> str:
    """A condition in words: `told(["lower"])` -> `"There are no capital letters."`."""
    kind, *values = rule
    value: Any = values[0] if values else ""
    phrases = {
        "words_most": f"The text has at most {value} words.",
        "words_least": f"The text has at least {value} words.",
        "words_exactly": f"The text has exactly {value} words.",
        "sentences": f"The text has exactly {counted(value or 0, 'sentence')}.",
        "sentence_least": f"Every sentence has at least {value} words.",
        "sentence_most": f"No sentence has more than {value} words.",
        "lower": "There are no capital letters.",
        "upper": "There are no small letters.",
        "capital_word": f'"{str(value).upper()}" occurs as a word, all in capitals.',
        "no_letter": f'The letter "{value}" does not occur, neither as a capital nor as a small letter.',
        "has_word": f'The word "{value}" occurs, in capitals or not.',
        "no_word": f'The word "{value}" does not occur, in capitals or not.',
        "word_times": f'The word "{value}" occurs exactly {counted(values[-1] if values else 0, "time")}.',
        "no_comma": "There are no commas.",
        "commas": f"There are exactly {value} commas." if value != 1 else "There is exactly 1 comma.",
        "letter_times": f'The letter "{value}" occurs exactly {counted(values[-1] if values else 0, "time")}, '
        "capitals and small letters counted together.",
        "first_word": f'The first word is "{value}", in capitals or not.',
        "last_word": f'The last word is "{value}", in capitals or not.',
        "no_digit": "There are no digits.",
        "has_digit": f"The number {value} occurs, in digits, as a word of its own.",
        "ends_exclaiming": "Every sentence ends with an exclamation mark.",
        "no_exclaiming": "There are no exclamation marks.",
        "longest_word": f"No word has more than {value} characters, marks included.",
        "lines": f"The text has exactly {counted(value or 0, 'line')} (empty ones are not counted).",
        "quoted": "The text starts and ends with a double quotation mark.",
        "no_quotes": "There are no double quotation marks.",
        "title": "The first line is a title in double angular brackets, such as <<a title>>.",
        "postscript": 'The last line starts with "PS:", in capitals or not.',
    }
    return phrases[kind]


def holds(rule: Rule, text: str) -> bool:
    """Whether a text fulfils a condition: `holds(["no_comma"], "a b")` -> True."""
    kind, *values = rule
    value: Any = values[0] if values else None
    found, lowered = words(text), text.lower()
    match kind:
        case "words_most":
            return len(found) <= value
        case "words_least":
            return len(found) >= value
        case "words_exactly":
            return len(found) == value
        case "sentences":
            return len(sentences(text)) == value
        case "sentence_least":
            return all(len(words(sentence)) >= value for sentence in sentences(text))
        case "sentence_most":
            return all(len(words(sentence)) <= value for sentence in sentences(text))
        case "lower":
            return text == lowered
        case "upper":
            return text == text.upper()
        case "capital_word":
            return any(token.strip("\"'<>.,;:!?()[]") == value.upper() for token in tokens(text))
        case "no_letter":
            return value not in lowered
        case "has_word":
            return value in found
        case "no_word":
            return value not in found
        case "word_times":
            return found.count(value) == values[1]
        case "no_comma":
            return "," not in text
        case "commas":
            return text.count(",") == value
        case "letter_times":
            return lowered.count(value) == values[1]
        case "first_word":
            return found[:1] == [value]
        case "last_word":
            return found[-1:] == [value]
        case "no_digit":
            return not any(character.isdigit() for character in text)
        case "has_digit":
            return str(value) in found
        case "ends_exclaiming":
            return bool(sentences(text)) and ends_well(text) and not any(mark in text for mark in ".?")
        case "no_exclaiming":
            return "!" not in text
        case "longest_word":
            return all(len(token) <= value for token in tokens(text))
        case "lines":
            return len(lines(text)) == value
        case "quoted":
            return len(text) > 1 and text.strip()[:1] == text.strip()[-1:] == '"'
        case "no_quotes":
            return '"' not in text
        case "title":
            first = (lines(text) or [""])[0].strip().strip('"')
            return len(first) > 4 and first.startswith("<<") and first.endswith(">>")
        case "postscript":
            return (lines(text) or [""])[-1].lstrip(' "').lower().startswith("ps:")
    raise ValueError(f"no condition is of the kind {kind!r}")


def fitting(rng: random.Random, text: str, absent: list[str]) -> list[Rule]:
    """Conditions that a text fulfils, one of each kind that it does fulfil, in random order."""
    found, pieces = words(text), sentences(text)
    letter = rng.choice("bcdfghklmnprtuw")
    missing = [letter for letter in "bcdfghjklmnpqruvwxyz" if letter not in text.lower()]
    repeated = rng.choice(sorted({word for word in found if len(word) > 3}))
    lengths = [len(words(piece)) for piece in pieces] or [0]
    rules: list[Rule] = [
        ["words_most", len(found) + rng.randint(0, 4)],
        ["words_least", len(found) - rng.randint(0, 4)],
        ["sentences", len(pieces)],
        ["sentence_least", min(lengths) - rng.randint(0, 1)],
        ["sentence_most", max(lengths) + rng.randint(0, 1)],
        ["no_word", rng.choice(absent)],
        ["word_times", repeated, found.count(repeated)],
        *([["commas", text.count(",")]] if "," in text else []),
        ["letter_times", letter, text.lower().count(letter)],
        ["first_word", found[0]],
        ["last_word", found[-1]],
        ["longest_word", max(map(len, tokens(text))) + rng.randint(0, 1)],
        ["lines", len(lines(text))],
        *([["no_letter", rng.choice(missing)]] if missing else []),
        *([kind] for kind in ("lower", "upper", "no_comma", "no_digit", "ends_exclaiming", "no_exclaiming")),
        *([kind] for kind in ("quoted", "no_quotes", "title", "postscript")),
    ]
    true = [rule for rule in rules if holds(rule, text)]
    if ["title"] in true:  # where a title has no mark at its end, sentences are hard to tell
        true = [rule for rule in true if not rule[0].startswith("sentence")]
    rng.shuffle(true)
    return true
