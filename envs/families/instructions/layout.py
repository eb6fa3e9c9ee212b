"""Conditions on layout and format: lists, steps, headings, tables, JSON, two answers, a repeated request, options.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import json
import random
import re

from envs.families.instructions import tables
from envs.families.instructions.lengths import LINE_RULE, SENTENCE_RULE
from envs.families.instructions.measure import counted, ends_well, lines, listed, real, sentences, words
from envs.families.instructions.writing import Writer, drawn_topics, question, settle, sizes
from envs.skills import Question
from envs.types import Task

LEAST_WORDS = 3  # in a line of its own right


def ask_bullets(rng: random.Random, topics: int, count: int, slack: int) -> Question:
    """An introduction, bullets of a given size, a closing line."""
    number, low, sign = rng.randint(count, count + 2), rng.randint(4, 7), rng.choice("-*+")
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    bullets = [f"{sign} {writer.sentence(rng.randint(low, low + slack))}" for _ in range(number)]
    text = "\n".join([writer.sentence(6, end=":"), *bullets, writer.sentence(6)])
    each = f"exactly {low}" if not slack else f"from {low} to {low + slack}"
    special = (
        f"The text is one line of introduction, then exactly {number} bullet points, each on a line that starts with "
        f'"{sign} " and has {each} words, then one closing line. The introduction ends with a colon, and it and the '
        f"closing line have at least {LEAST_WORDS} words each. {LINE_RULE}"
    )
    facts = {"number": number, "low": low, "high": low + slack, "sign": sign}
    return question(rng, chosen, text, special, facts)


def judge_bullets(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    if not real(answer, facts) or len(found) != facts["number"] + 2:
        return 0.0
    head = f"{facts['sign']} "
    bullets = all(line.startswith(head) and facts["low"] <= len(words(line)) <= facts["high"] for line in found[1:-1])
    around = all(not line.startswith(head) and len(words(line)) >= LEAST_WORDS for line in (found[0], found[-1]))
    return float(bullets and around and found[0].endswith(":"))


def ask_numbered_list(rng: random.Random, topics: int, styles: tuple[str, ...]) -> Question:
    """Numbered lines, one for each topic in a given order."""
    chosen, style = drawn_topics(rng, topics), rng.choice(styles)
    order = rng.choice(["alphabetical order", "reverse alphabetical order"])
    arranged = sorted(chosen, reverse=order.startswith("reverse"))
    labels = _labels(style, topics)
    writer = Writer(rng, keep=lambda word: word not in chosen)
    found = [
        f"{label} {writer.sentence(rng.randint(5, 8), last=topic)}"
        for label, topic in zip(labels, arranged, strict=True)
    ]
    special = (
        f"The text is a list of exactly {topics} lines, one for each of the words {listed(chosen)}, in {order} of "
        f"these words; each line has its own word and none of the others. The lines start with "
        f'"{labels[0]} ", "{labels[1]} " and so on to "{labels[-1]} ". {LINE_RULE}'
    )
    return question(rng, chosen, "\n".join(found), special, {"labels": labels, "order": arranged})


def _labels(style: str, number: int) -> list[str]:
    """`_labels("a)", 3)` -> `["a)", "b)", "c)"]`."""
    plain = {
        "1.": [str(place + 1) for place in range(number)],
        "a)": list("abcdefghijklmnop"[:number]),
        "9.": [str(number - place) for place in range(number)],
        "10.": [str(10 * (place + 1)) for place in range(number)],
        "II.": "I II III IV V VI VII VIII IX X".split()[:number],
    }[style]
    return [label + style[-1] for label in plain]


def judge_numbered_list(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    if not real(answer, facts) or len(found) != len(facts["labels"]):
        return 0.0
    for line, label, topic in zip(found, facts["labels"], facts["order"], strict=True):
        has = [word for word in words(line) if word in facts["order"]]
        if not line.startswith(f"{label} ") or set(has) != {topic} or len(words(line)) <= LEAST_WORDS:
            return 0.0
    return 1.0


def ask_stairs(rng: random.Random, topics: int, count: int, shapes: tuple[str, ...]) -> Question:
    """Each line is indented further than the one before: stairs, or up and down again."""
    shape, width, number = rng.choice(shapes), rng.randint(1, 4), rng.randint(count, count + 3)
    depths = _depths(shape, number)
    chosen = drawn_topics(rng, topics)
    found = Writer(rng, chosen).sentences(sizes(rng, number, 5, 7))
    text = "\n".join(" " * (width * depth) + line for depth, line in zip(depths, found, strict=True))
    steps = counted(width, "space")
    told = {
        "down": f"The first line is not indented, and each other line by {steps} more than the one before it.",
        "up": f"The last line is not indented, and each other line by {steps} more than the one after it.",
        "turns": f"The first, third, fifth line and so on are not indented, and each other line is by {steps}.",
        "hill": f"The first line is not indented, and each other one by {steps} more than the one before it, up to "
        f"line {number // 2 + 1}; from there on, each line by {steps} less than the one before it.",
    }[shape]
    special = f"The text has exactly {number} lines of at least {LEAST_WORDS} words each. {told} {LINE_RULE}"
    return question(rng, chosen, text, special, {"indents": [width * depth for depth in depths]})


def _depths(shape: str, number: int) -> list[int]:
    """`_depths("hill", 4)` -> `[0, 1, 2, 1]`."""
    if shape == "turns":
        return [place % 2 for place in range(number)]
    if shape == "hill":
        top = number // 2
        return [place if place <= top else max(2 * top - place, 0) for place in range(number)]
    return list(range(number)) if shape == "down" else list(range(number - 1, -1, -1))


def judge_stairs(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    if facts["indents"][0] and found:  # the text is stripped before it is judged, so the first indent may be missing
        found[0] = " " * facts["indents"][0] + found[0].lstrip(" ")
    right = [len(line) - len(line.lstrip(" ")) for line in found] == facts["indents"]
    full = all(len(words(line)) >= LEAST_WORDS and not line.lstrip(" ")[:1].isspace() for line in found)
    return float(real(answer, facts) and right and full)


def ask_line_starts(rng: random.Random, topics: int, count: int, speakers: int) -> Question:
    """A conversation: the lines start with names in turns, and questions are answered."""
    names = rng.sample(tables.NAMES, speakers)
    number = speakers * rng.randint(count, count + 1)
    chosen = drawn_topics(rng, topics)
    writer = Writer(rng, chosen)
    text = "\n".join(
        f"{names[place % speakers]}: {writer.sentence(rng.randint(5, 8), end='.' if place % speakers else '?')}"
        for place in range(number)
    )
    special = (
        f"The text is a conversation of exactly {number} lines. The lines start with "
        f"{listed([f'{chr(34)}{name}: {chr(34)}' for name in names], 'then')}, and so on in turns. Every line of "
        f"{names[0]} ends with a question mark, and no other line does. Each line has at least {LEAST_WORDS} words "
        f"after the colon. {LINE_RULE}"
    )
    return question(rng, chosen, text, special, {"names": names, "number": number})


def judge_line_starts(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    if not real(answer, facts) or len(found) != facts["number"]:
        return 0.0
    for place, line in enumerate(found):
        name = facts["names"][place % len(facts["names"])]
        asks = place % len(facts["names"]) == 0
        if not line.startswith(f"{name}: ") or line.endswith("?") != asks or len(words(line)) <= LEAST_WORDS:
            return 0.0
    return 1.0


def ask_headings(rng: random.Random, topics: int, count: int, depth: int) -> Question:
    """An outline of given headings at given depths, with text below each."""
    chosen, number = drawn_topics(rng, topics), rng.randint(count, count + 2)
    depths = [1]
    while len(depths) < number:
        depths.append(rng.randint(1, min(depths[-1] + 1, depth)))
    free = Writer(rng, keep=lambda word: word not in chosen)
    names = [f"{free.take('ADJECTIVES').capitalize()} {free.noun()}s" for _ in range(number)]
    writer = Writer(rng, chosen)
    blocks = [
        f"{'#' * level} {name}\n{writer.sentence(rng.randint(5, 9))}" for level, name in zip(depths, names, strict=True)
    ]
    wanted = [f"{'#' * level} {name}" for level, name in zip(depths, names, strict=True)]
    order = ", ".join(f'"{name}" (depth {level})' for level, name in zip(depths, names, strict=True))
    special = (
        f"The text is Markdown with exactly these headings, in this order: {order}. A heading of depth 1 is a line "
        'that starts with "# ", one of depth 2 with "## ", and so on. Below each heading stands one line of text, not '
        f"more, with at least {LEAST_WORDS} words, and nothing stands before the first heading. {LINE_RULE}"
    )
    return question(rng, chosen, "\n\n".join(blocks), special, {"headings": wanted})


def judge_headings(answer: str, task: Task) -> float:
    facts, found = task.metadata, lines(answer)
    if not real(answer, facts) or found[0::2] != facts["headings"] or len(found) != 2 * len(facts["headings"]):
        return 0.0
    return float(all(not line.startswith("#") and len(words(line)) >= LEAST_WORDS for line in found[1::2]))


def ask_table(rng: random.Random, rows: int, columns: int, sort: bool) -> Question:
    """Facts in sentences, to be put into a Markdown table with given columns."""
    names = rng.sample(tables.NAMES, rows)
    pools = {
        "Job": "baker miner nurse sailor tailor judge farmer pilot dancer cook".split(),
        "Colour": "amber blue green grey orange purple red violet white yellow".split(),
        "Age": [str(age) for age in range(19, 80)],
        "Animal": "camel dog dolphin duck goat lion owl parrot rabbit turtle".split(),
    }
    asked = rng.sample(list(pools), columns)
    records = [[name, *(rng.choice(pools[column]) for column in asked)] for name in names]
    said = {
        "Job": "works as a {}",
        "Colour": "likes the colour {} best",
        "Age": "is {} years old",
        "Animal": "has the {} as a favourite animal",
    }
    facts = []
    for name, *cells in records:
        told = [said[column].format(cell) for column, cell in zip(asked, cells, strict=True)]
        rng.shuffle(told)
        facts.append(f"{name} {listed(told)}.".replace("a amber", "an amber"))
    header = ["Name", *rng.sample(asked, columns)]
    if sort:
        records.sort()
    body = [[name, *(cells[asked.index(column)] for column in header[1:])] for name, *cells in records]
    table = [header, ["---"] * len(header), *body]
    text = "\n".join(f"| {' | '.join(row)} |" for row in table)
    order = "in alphabetical order of the names" if sort else "in the order in which the people stand here"
    request = (
        f"{' '.join(facts)}\n\nPut this into a Markdown table with the columns {', '.join(header)}, in this order, and "
        f"a row for each person {order}. Cells have a single word or number as it stands above, in the same case. "
        'Every line starts and ends with "|", the line below the header has "---" in each cell, and nothing else is '
        "written."
    )
    return Question(text=request, answer=text)


def judge_table(answer: str, task: Task) -> float:
    """Spaces around cells and the number of dashes are free."""
    return float(_cells(answer) is not None and _cells(answer) == _cells(task.reference))


def _cells(text: str) -> list[list[str]] | None:
    """The cells of a Markdown table, None where a line is no row of one."""
    rows = []
    for place, line in enumerate(text.strip().split("\n")):
        line = line.strip()
        if len(line) < 2 or line[0] != "|" or line[-1] != "|":
            return None
        row = [cell.strip() for cell in line[1:-1].split("|")]
        rows.append([re.sub(r"\A:?-{3,}:?\Z", "---", cell) for cell in row] if place == 1 else row)
    return rows


def ask_two_responses(rng: random.Random, topics: int, count: int, share: int) -> Question:
    """Two different texts, parted by six asterisks, that share few words."""
    chosen = drawn_topics(rng, topics)
    plan = sizes(rng, max(count, topics))
    low = min(sum(plan) - 4, 12 * count)

    first = " ".join(Writer(rng, chosen).sentences(plan))
    used = set(words(first)) - set(chosen)
    second = " ".join(Writer(rng, chosen, lambda word: word.lower() not in used).sentences(plan))
    text = f"{first}\n******\n{second}"
    common = f"at most {share} different words" if share else "no words"
    special = (
        "Give two different texts, with a line of exactly six asterisks (******) between them and no other asterisks. "
        f"Each has all of {listed(chosen)} in it and at least {low} words, and besides these {common} of four letters "
        "or more stand in both texts."
    )
    return question(rng, chosen, text, special, {"share": share, "low": low})


def _shared(one: str, other: str, topics: list[str]) -> int:
    """How many longer words two texts share, besides the topics."""
    return sum(len(word) >= 4 and word not in topics for word in set(words(one)) & set(words(other)))


def judge_two_responses(answer: str, task: Task) -> float:
    facts, found = task.metadata, answer.split("******")
    if not real(answer, facts) or len(found) != 2 or answer.count("*") != 6 or "\n******\n" not in answer:
        return 0.0
    full = all(len(words(part)) >= facts["low"] and set(facts["topics"]) <= set(words(part)) for part in found)
    return float(full and _shared(found[0], found[1], facts["topics"]) <= facts["share"])


def ask_json_only(rng: random.Random, topics: int, count: int, tags: int) -> Question:
    """One JSON object with given keys, whose values agree with each other."""
    chosen = drawn_topics(rng, topics)
    keys = [rng.choice(group) for group in (("text", "story", "body"), ("tags", "labels"), ("words", "length"))]
    text = settle(
        lambda: " ".join(Writer(rng, chosen).sentences(sizes(rng, max(count, topics)))),
        lambda text: sum(len(word) > 4 for word in set(words(text))) >= tags,
    )
    used = sorted({word for word in words(text) if len(word) > 4})[:tags]
    values = dict(zip(keys, [text, used, len(words(text))], strict=True))
    answer = json.dumps(values)
    special = (
        f'The whole answer is one JSON object, without a code fence, with exactly these keys: "{keys[0]}" holds the '
        f'text, a string; "{keys[1]}" a list of exactly {tags} different words of the text in small letters, each of '
        f'at least five letters, in alphabetical order; "{keys[2]}" the number of words of the text, an integer. The '
        f'rules below are for the text in "{keys[0]}".'
    )
    return question(rng, chosen, answer, special, {"keys": keys, "tags": tags}, text)


def judge_json_only(answer: str, task: Task) -> float:
    facts = task.metadata
    try:
        values = json.loads(answer)
    except (ValueError, RecursionError):
        return 0.0
    if not isinstance(values, dict) or sorted(values) != sorted(facts["keys"]):
        return 0.0
    text, tags, number = (values[key] for key in facts["keys"])
    if not isinstance(text, str) or not isinstance(tags, list) or type(number) is not int:
        return 0.0
    if not all(isinstance(tag, str) and len(tag) > 4 and tag == tag.lower() for tag in tags):
        return 0.0
    ordered = tags == sorted(set(tags)) and len(tags) == facts["tags"] and set(tags) <= set(words(text))
    return float(real(text, facts) and ordered and number == len(words(text)))


def ask_repeat_request(rng: random.Random, topics: int, count: int, twist: tuple[str, ...]) -> Question:
    """The request comes again, word for word, before the text."""
    chosen, kind = drawn_topics(rng, topics), rng.choice(tables.PROJECTS)
    mode = rng.choice(twist)
    flavour = Writer(rng, keep=lambda word: word not in chosen)
    number = max(count, (topics + 1) // 2)
    reader = f"{flavour.take('DETERMINERS')} {flavour.take('ADJECTIVES')} {flavour.noun()}"
    manner = rng.choice(["please", "if you can", "will you"])
    wish = (
        f"Write exactly {counted(number, 'sentence')} about {listed(chosen)}, {manner}; it is a {kind} for {reader}!"
    ).replace("a entry", "an entry")
    shown = {"plain": wish, "upper": wish.upper(), "quoted": f'"{wish}"'}[mode]
    body = " ".join(Writer(rng, chosen).sentences(sizes(rng, number)))
    told = {"plain": "", "upper": ", but in capitals only", "quoted": ", in double quotation marks"}[mode]
    special = (
        f'Request: {wish}\n\nFirst repeat the line above after "Request: " word for word, with all its marks{told}, '
        "on a line of its own. Below it comes the text, which does not repeat it; the rules below are for the text "
        f"without the repeated line. {SENTENCE_RULE}"
    )
    return question(rng, chosen, f"{shown}\n\n{body}", special, {"shown": shown, "number": number}, body)


def judge_repeat_request(answer: str, task: Task) -> float:
    first, _, rest = answer.strip().partition("\n")
    once = task.metadata["shown"].casefold() not in rest.casefold()
    exact = len(sentences(rest)) == task.metadata["number"] and ends_well(rest)
    return float(first.rstrip() == task.metadata["shown"] and once and exact and real(rest, task.metadata))


def ask_options_only(rng: random.Random, people: int, asked: int) -> Question:
    """Several questions on stated facts, each answered by one of the given phrases and nothing else."""
    options = rng.choice(
        [
            ("My answer is yes.", "My answer is no.", "My answer is maybe."),
            ("That is right", "That is wrong", "Nobody can tell"),
            ("CONFIRMED", "DENIED", "OPEN"),
        ]
    )
    names = rng.sample(tables.NAMES, people)
    ages = rng.sample(range(20, 80), people)
    known = rng.sample(range(people), people - 1)
    facts = [f"{names[place]} is {ages[place]} years old." for place in known]
    hidden = next(place for place in range(people) if place not in known)
    facts.append(f"{names[hidden]} has not told anybody's age.")
    rng.shuffle(facts)
    asks, answers = [], []
    for _ in range(asked):
        one, other = rng.sample(range(people), 2) if rng.random() < 0.3 else rng.sample(known, 2)
        word = rng.choice(["older", "younger"])
        asks.append(f"Is {names[one]} {word} than {names[other]}?")
        if hidden in (one, other):
            answers.append(options[2])
        else:
            answers.append(options[0] if (ages[one] > ages[other]) == (word == "older") else options[1])
    text = (
        f"{' '.join(facts)}\n\nAnswer each question, one line for each and in this order, with exactly one of these "
        f'three phrases and nothing else: "{options[0]}" (for yes), "{options[1]}" (for no), "{options[2]}" (where the '
        f"facts do not tell). Write the phrases without quotation marks.\n\n" + "\n".join(asks)
    )
    return Question(text=text, answer="\n".join(answers))


def judge_options_only(answer: str, task: Task) -> float:
    return float([line.strip() for line in answer.strip().split("\n")] == task.reference.split("\n"))
