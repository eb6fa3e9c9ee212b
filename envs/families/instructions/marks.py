"""Conditions on punctuation and on what wraps a text: quotation marks, brackets, tags, titles, postscripts.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random
import re

from envs.families.instructions.lengths import SENTENCE_RULE
from envs.families.instructions.measure import counted, ends_well, lines, listed, real, sentences, tokens, words
from envs.families.instructions.writing import Writer, drawn_topics, question, sizes
from envs.skills import Question, Skill
from envs.types import Task

MARKS = {"question mark": "?", "exclamation mark": "!", "comma": ",", "semicolon": ";", "colon": ":", "dash": "--"}
PLACEHOLDERS = tuple(
    "name address city date time price phone email order size colour reason room title amount street".split()
)


def ask_no_commas(rng: random.Random, topics: int, count: int, also: tuple[str, ...]) -> Question:
    """Everything is to be listed in one sentence, without commas (and other marks)."""
    chosen = drawn_topics(rng, topics)
    bans = [",", *rng.sample(also, min(len(also), 2))]
    writer = Writer(rng, chosen)
    things = " and ".join(f"{writer.take('DETERMINERS')} {writer.noun()}" for _ in chosen)
    first = f"{writer.take('NAMES')} {writer.take('VERBS')} {things}."
    text = " ".join([first, *writer.sentences(sizes(rng, count))])
    special = (
        f"The first sentence has all of {listed(chosen)} in it, and the text has at least "
        f"{counted(count + 1, 'sentence')}. These characters occur nowhere in the text: {' '.join(bans)}\n"
        f"{SENTENCE_RULE}"
    )
    return question(rng, chosen, text, special, {"bans": bans, "count": count + 1})


def judge_no_commas(answer: str, task: Task) -> float:
    facts, found = task.metadata, sentences(answer)
    if not real(answer, facts) or not ends_well(answer) or len(found) < facts["count"]:
        return 0.0
    first = words(found[0])
    clean = not any(mark in answer for mark in facts["bans"])
    return float(clean and all(topic in first for topic in facts["topics"]))


def ask_punctuation_counts(rng: random.Random, topics: int, kinds: int, most: int) -> Question:
    """An exact number of each of some marks."""
    chosen = drawn_topics(rng, topics)
    asked = rng.sample(list(MARKS), kinds)
    times = [rng.randint(1, most) for _ in asked]
    writer = Writer(rng, chosen)
    found = []
    for name, number in zip(asked, times, strict=True):
        for _ in range(number):
            mark = MARKS[name]
            if mark in "?!":
                found.append(writer.sentence(5, end=mark))
            else:
                joint = f" {mark} " if mark == "--" else f"{mark} "
                found.append(writer.sentence(4, end=joint) + writer.sentence(4).lower())
    found += writer.sentences([5] * max(topics - len(found), 1))
    rng.shuffle(found)
    told = listed([f"{counted(n, name)} ({MARKS[name]})" for name, n in zip(asked, times, strict=True)])
    special = f"The text has exactly {told}. Of other marks it may have any number."
    facts = {"marks": [MARKS[name] for name in asked], "times": times}
    return question(rng, chosen, " ".join(found), special, facts)


def judge_punctuation_counts(answer: str, task: Task) -> float:
    facts = task.metadata
    exact = all(answer.count(mark) == number for mark, number in zip(facts["marks"], facts["times"], strict=True))
    return float(real(answer, facts) and exact)


def ask_quotation(rng: random.Random, topics: int, count: int, inner: int) -> Question:
    """The whole text in double quotation marks, and a given speech in single ones inside of it."""
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    said = [writer.sentence(rng.randint(3, 5), end=rng.choice(".!?")) for _ in range(inner)]
    found = writer.sentences(sizes(rng, count))
    for speech in said:
        found.append(f"{writer.take('NAMES')} said: '{speech}'")
    special = (
        'The whole text is wrapped in double quotation marks ("), and has none of them inside. '
        f"In it, {'this is' if inner == 1 else 'each of these lines is'} quoted word for word, in single quotation "
        "marks ('), and these occur nowhere else, not even as apostrophes:\n" + "\n".join(said)
    )
    return question(rng, chosen, '"' + " ".join(found) + '"', special, {"said": said})


def judge_quotation(answer: str, task: Task) -> float:
    facts, text = task.metadata, answer.strip()
    wrapped = len(text) > 2 and text[0] == text[-1] == '"' and text.count('"') == 2
    quoted = sorted(text.split("'")[1::2]) == sorted(facts["said"]) and text.count("'") == 2 * len(facts["said"])
    return float(real(answer, facts) and wrapped and quoted)


def ask_brackets(rng: random.Random, topics: int, count: int, number: int, deep: bool) -> Question:
    """Remarks in brackets of an exact number of words."""
    chosen, size = drawn_topics(rng, topics), rng.randint(3, 6)
    writer = Writer(rng, chosen)
    remarks = [f"({writer.sentence(size, end='').lower()})" for _ in range(number)]
    if deep:  # the last remark holds another one
        remarks[-1] = f"({writer.sentence(size, end='').lower()} [{writer.sentence(size, end='').lower()}])"
    found = writer.sentences(sizes(rng, max(count, number)))
    text = " ".join(
        f"{sentence[:-1]} {remarks[place]}." if place < number else sentence for place, sentence in enumerate(found)
    )
    special = (
        f"The text has exactly {counted(number, 'remark')} in round brackets ( ), each with exactly {size} words "
        f"between its brackets; no sentence has more than one of them. "
    )
    if deep:
        special += (
            "The last remark has besides, before its closing bracket, a remark on the remark in square brackets [ ], "
            f"again of exactly {size} words, which do not count as words of the outer one. There are no other brackets."
        )
    else:
        special += "There are no other brackets, and none within others."
    return question(rng, chosen, text, f"{special} {SENTENCE_RULE}", {"number": number, "size": size, "deep": deep})


def judge_brackets(answer: str, task: Task) -> float:
    facts = task.metadata
    if not real(answer, facts) or not ends_well(answer):
        return 0.0
    # In reading order, the brackets must be pairs; square ones stand at the end of the last round pair only.
    wanted = "()" * facts["number"]
    if facts["deep"]:
        wanted = wanted[:-1] + "[])"
    if "".join(re.findall(r"[()\[\]]", answer)) != wanted or any(piece.count("(") > 1 for piece in sentences(answer)):
        return 0.0
    insides = [piece.split(")")[0] for piece in answer.split("(")[1:]]
    outer = [inside.split("[")[0] for inside in insides]
    deep = [inside.split("[")[1].split("]") for inside in insides if "[" in inside]
    sized = all(len(words(inside)) == facts["size"] for inside in [*outer, *(pieces[0] for pieces in deep)])
    return float(sized and not any(pieces[1].strip() for pieces in deep))


def ask_title(rng: random.Random, topics: int, count: int, low: int, high: int) -> Question:
    """A title in double angular brackets on a line of its own."""
    size = rng.randint(low, high)
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    key = chosen[0]
    title = Writer(rng, keep=lambda word: word not in chosen).sentence(size, last=key, end="").title()
    text = " ".join(writer.sentences(sizes(rng, max(count, topics))))
    special = (
        f"The first line is a title in double angular brackets, such as <<a title>>, and nothing else. The title has "
        f'exactly {size} words, each with a capital letter, and its last word is "{key}" (with its capital). The text '
        "follows below, and has no angular brackets in it."
    )
    return question(rng, chosen, f"<<{title}>>\n\n{text}", special, {"size": size, "key": key})


def judge_title(answer: str, task: Task) -> float:
    facts, (first, _, rest) = task.metadata, answer.strip().partition("\n")
    title = first.strip()[2:-2]
    wrapped = first.strip() == f"<<{title}>>" and not re.search(r"[<>]", title + rest)
    found = tokens(title)
    named = len(found) == facts["size"] and all(word[0].isupper() for word in found) and bool(tokens(rest))
    return float(real(answer, facts) and wrapped and named and found[-1] == facts["key"].capitalize())


def ask_placeholders(rng: random.Random, topics: int, count: int, number: int) -> Question:
    """A form letter with given placeholders in square brackets."""
    chosen = drawn_topics(rng, topics)
    names = rng.sample(PLACEHOLDERS, number)
    writer = Writer(rng, chosen)
    found = writer.sentences(sizes(rng, count))
    found += [f"{writer.sentence(5, end='')} {writer.take('PREPOSITIONS')} [{name}]." for name in names]
    first = rng.choice(names)
    found[-number:] = sorted(found[-number:], key=lambda sentence: f"[{first}]" in sentence)
    special = (
        "It is a form, to be filled in later: the text has these placeholders in square brackets, each exactly once: "
        f"{' '.join(f'[{name}]' for name in names)}. The last sentence has [{first}] in it. There are no other square "
        f"brackets. {SENTENCE_RULE}"
    )
    return question(rng, chosen, " ".join(found), special, {"names": sorted(names), "last": first})


def judge_placeholders(answer: str, task: Task) -> float:
    facts = task.metadata
    found = re.findall(r"\[([a-z]{1,20})\]", answer)
    right = sorted(found) == facts["names"] and answer.count("[") == answer.count("]") == len(found)
    if not real(answer, facts) or not right or not ends_well(answer):
        return 0.0
    return float(f"[{facts['last']}]" in sentences(answer)[-1])


def ask_postscript(rng: random.Random, topics: int, count: int, scripts: int) -> Question:
    """Postscripts of an exact number of words."""
    chosen = drawn_topics(rng, topics + scripts)
    heads = ["P.S.", "P.P.S.", "P.P.P.S."][:scripts]
    plan = sizes(rng, scripts, 5, 9)
    body = " ".join(Writer(rng, chosen[:topics]).sentences(sizes(rng, count)))
    free = Writer(rng, keep=lambda word: word not in chosen)
    posts = [
        f"{head} {free.sentence(size, last=key)}" for head, size, key in zip(heads, plan, chosen[topics:], strict=True)
    ]
    told = " ".join(
        f'Line {place + 1} from the end starts with "{head}", goes on with exactly {size} words and has the word '
        f'"{key}".'
        for place, (head, size, key) in enumerate(zip(reversed(heads), reversed(plan), reversed(chosen), strict=False))
    )
    special = (
        f"The text ends with {counted(scripts, 'postscript')}, each on a line of its own below the rest. {told} Empty "
        'lines do not count, and "P.S." stands nowhere else.'
    )
    facts = {"heads": heads, "plan": plan, "keys": chosen[topics:]}
    return question(rng, chosen, "\n".join([body, *posts]), special, facts)


def judge_postscript(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    posts = found[-len(facts["heads"]) :]
    if not real(answer, facts) or len(found) <= len(posts) or answer.count("P.S.") != len(posts):
        return 0.0
    for post, head, size, key in zip(posts, facts["heads"], facts["plan"], facts["keys"], strict=True):
        rest = words(post.lstrip()[len(head) :])
        if not post.lstrip().startswith(f"{head} ") or len(rest) != size or key not in rest:
            return 0.0
    return 1.0


def ask_highlights(rng: random.Random, topics: int, count: int, number: int, size: int) -> Question:
    """Phrases between asterisks, one of each a topic."""
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    found = [writer.sentence(rng.randint(5, 6)).split() for _ in range(max(count, number))]
    for place in range(number):  # "my red hat" -> "*my red* hat" in each of the first sentences
        head, rest = found[place][:size], found[place][size:]
        found[place] = [f"*{' '.join(head)}*", *rest]
    rng.shuffle(found)
    special = (
        f"Exactly {counted(number, 'phrase')} {'is' if number == 1 else 'are'} highlighted by a single asterisk "
        f"directly before and one directly after, such as *this one*. Each has exactly {counted(size, 'word')}, no "
        f"sentence has more than one, and there are no other asterisks. {SENTENCE_RULE}"
    )
    text = " ".join(" ".join(sentence) for sentence in found)
    return question(rng, chosen, text, special, {"number": number, "size": size})


def judge_highlights(answer: str, task: Task) -> float:
    facts = task.metadata
    inside = answer.split("*")[1::2]
    if not real(answer, facts) or answer.count("*") != 2 * facts["number"] or not ends_well(answer):
        return 0.0
    apart = all(sentence.count("*") in (0, 2) for sentence in sentences(answer))
    return float(apart and all(len(words(piece)) == facts["size"] and piece == piece.strip() for piece in inside))


def ask_tagged_sentences(rng: random.Random, topics: int, count: int, marked: bool) -> Question:
    """Every sentence in a numbered tag of its own, on its own line."""
    chosen, number, name = drawn_topics(rng, topics), rng.randint(count, count + 3), rng.choice(["s", "line", "part"])
    found = Writer(rng, chosen).sentences(sizes(rng, number))
    numbers = list(range(number, 0, -1)) if marked else list(range(1, number + 1))
    text = "\n".join(
        f"<{name}{place}>{sentence}</{name}{place}>" for place, sentence in zip(numbers, found, strict=True)
    )
    way = f"from {number} down to 1" if marked else f"from 1 to {number}"
    special = (
        f"The text has exactly {number} sentences, each on a line of its own within a pair of numbered tags, such as "
        f"<{name}1>A sentence.</{name}1>. The numbers run {way}. Nothing stands outside the tags. {SENTENCE_RULE} "
        "(The tags stand around that end; when words are counted, tags are left out.)"
    )
    return question(rng, chosen, text, special, {"name": name, "numbers": numbers}, " ".join(found))


def judge_tagged_sentences(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    if len(found) != len(facts["numbers"]):
        return 0.0
    bodies = []
    for line, number in zip(found, facts["numbers"], strict=True):
        head, tail = f"<{facts['name']}{number}>", f"</{facts['name']}{number}>"
        body = line.strip()[len(head) : -len(tail)]
        if line.strip() != f"{head}{body}{tail}" or len(sentences(body)) != 1 or not ends_well(body) or "<" in body:
            return 0.0
        bodies.append(body)
    return float(real(" ".join(bodies), facts))


def _skill(name: str, ask: object, judge: object, *levels: dict[str, object]) -> Skill:
    named = dict(zip(("easy", "medium", "hard"), levels, strict=True))
    return Skill(name=name, ask=ask, judge=judge, levels=named, tagged=False)  # type: ignore[arg-type]


SKILLS = [
    _skill(
        "no_commas",
        ask_no_commas,
        judge_no_commas,
        {"topics": 3, "count": 0, "also": ()},
        {"topics": 4, "count": 2, "also": (";", "-", ":")},
        {"topics": 6, "count": 5, "also": (";", "-", ":", "!", "?")},
    ),
    _skill(
        "punctuation_counts",
        ask_punctuation_counts,
        judge_punctuation_counts,
        {"topics": 1, "kinds": 1, "most": 3},
        {"topics": 2, "kinds": 3, "most": 3},
        {"topics": 4, "kinds": 5, "most": 4},
    ),
    _skill(
        "quotation",
        ask_quotation,
        judge_quotation,
        {"topics": 1, "count": 1, "inner": 1},
        {"topics": 2, "count": 2, "inner": 2},
        {"topics": 3, "count": 4, "inner": 4},
    ),
    _skill(
        "brackets",
        ask_brackets,
        judge_brackets,
        {"topics": 1, "count": 2, "number": 1, "deep": False},
        {"topics": 2, "count": 3, "number": 2, "deep": False},
        {"topics": 3, "count": 5, "number": 4, "deep": True},
    ),
    _skill(
        "title",
        ask_title,
        judge_title,
        {"topics": 1, "count": 1, "low": 5, "high": 5},
        {"topics": 2, "count": 2, "low": 5, "high": 8},
        {"topics": 4, "count": 4, "low": 8, "high": 12},
    ),
    _skill(
        "placeholders",
        ask_placeholders,
        judge_placeholders,
        {"topics": 1, "count": 1, "number": 2},
        {"topics": 2, "count": 2, "number": 4},
        {"topics": 3, "count": 3, "number": 8},
    ),
    _skill(
        "postscript",
        ask_postscript,
        judge_postscript,
        {"topics": 1, "count": 1, "scripts": 1},
        {"topics": 2, "count": 2, "scripts": 2},
        {"topics": 3, "count": 4, "scripts": 3},
    ),
    _skill(
        "highlights",
        ask_highlights,
        judge_highlights,
        {"topics": 1, "count": 2, "number": 1, "size": 2},
        {"topics": 2, "count": 4, "number": 3, "size": 2},
        {"topics": 4, "count": 8, "number": 6, "size": 3},
    ),
    _skill(
        "tagged_sentences",
        ask_tagged_sentences,
        judge_tagged_sentences,
        {"topics": 1, "count": 2, "marked": False},
        {"topics": 2, "count": 4, "marked": True},
        {"topics": 4, "count": 8, "marked": True},
    ),
]
