"""Instructions: what each judge takes and refuses, golds by another way of counting, and texts that only look right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from envs.check import HOSTILE_ANSWERS
from envs.demonstrate import score_text
from envs.domain import Domain
from envs.families.instructions import SKILLS, domains
from envs.families.instructions.measure import LONGEST_WORD, ends_well, paragraphs, real, sentences, tokens, words
from envs.families.instructions.rules import fitting, holds, told
from envs.families.instructions.writing import Writer
from envs.skills import rng_for
from envs.types import Task

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in domains()}
BY_NAME = {skill.name: skill for skill in SKILLS}
BASE: dict[str, Any] = {"topics": ["lamp"], "least": 3, "most": 60}

# skill -> (facts besides BASE, or a reference; right answers; wrong answers)
KNOWN: dict[str, tuple[Mapping[str, Any] | str, list[str], list[str]]] = {
    "word_count": (
        {"low": 5, "high": 6},
        ["A lamp lit the room.", 'Once "a lamp" lit\nthe room -'],
        ["A lamp lit it.", "The old lamp lit the big room.", "A ball lit the room."],
    ),
    "sentence_count": (
        {"number": 2, "low": 3, "high": 4},
        ["My lamp fell. Who broke it now?", "My lamp fell!! It broke down..."],
        ["My lamp fell. It", "My lamp fell.", "My lamp fell. It broke again. It was new.", "My lamp fell. It broke"],
    ),
    "paragraphs": (
        {"number": 2, "starts": [[1, "Later"]]},
        ["My lamp fell.\n\nLater it broke.", "My lamp fell.\n \n\nLATER, it broke."],
        ["My lamp fell.\nLater it broke.", "Later it broke.\n\nMy lamp fell.", "My lamp fell.\n\nLater it\n\nbroke."],
    ),
    "word_lengths": (
        {"shortest": 3, "longest": 4},
        ["The lamp lit our room.", 'That lamp? Gone, "gone"!'],
        ["My lamp lit our room.", "The lamp lit our house."],
    ),
    "growing_sentences": (
        {"number": 3, "step": 1},
        ["Look here. The lamp fell. Now it is broken!"],
        [
            "Look here. The lamp fell. It broke.",
            "Look here. The lamp fell. It is broken now again.",
            "Look. A lamp fell. ",
        ],
    ),
    "fibonacci_lines": (
        {"first": 1, "second": 2, "count": 4},
        ["Lamp\nof gold\nin the night\nyou shine for us all"],
        ["Lamp\nof gold\nin the night\nyou shine for us", "Lamp\nof gold\nin the night", "Lamp of gold"],
    ),
    "line_lengths": (
        {"number": 2, "low": 10, "high": 11},
        ["The lamp is\nstill burnt", "The lamp is\n\nstill burnt"],
        ["The lamp is\nstill  burn", "The lamp is\nstill", "The lamp is", "The lamp is \nstill burnt"],
    ),
    "longest_sentence": (
        {"number": 3, "place": 0, "gap": 2},
        ["My lamp fell on the floor. It broke there. Oh no."],
        ["My lamp fell on the floor. It broke there now. Oh no it did.", "Oh no. My lamp fell on the floor. It broke."],
    ),
    "keyword_frequency": (
        {"times": [2]},
        ["One lamp hit another Lamp.", "Lamp, oh my (lamp) is here."],
        ["A lamp is here now.", "The lamp and lamps lamped.", "A lamp, lamp, lamp of gold."],
    ),
    "forbidden_words": (
        {"bans": ["the", "and"]},
        ["A lamp then hung there.", "Sandy lamps: one lamp fell."],
        ["The lamp hung there.", "A lamp hung (and) fell."],
    ),
    "first_last_words": (
        {"count": 2, "frames": [[0, "Once", "hat"]]},
        ["Once a lamp hit my hat. It fell.", 'ONCE, a lamp hit my "Hat"! It fell.'],
        ["Once a lamp hit my hats. It fell.", "A lamp once hit my hat. It fell.", "Once a lamp hit my hat."],
    ),
    "no_repeats": (
        {"low": 5},
        ["The old lamp lit our room."],
        ["The old lamp lit the room.", "The old lamp lit."],
    ),
    "chained_sentences": (
        {"number": 2},
        ["I saw a lamp. Lamp oil is dear."],
        ["I saw a lamp. Oil is dear.", "I saw a lamp.", "I saw a lamp. Lamp saw one lamp."],
    ),
    "alternating_lengths": (
        {"parity": 1},
        ["Our lamp has been out.", "The lamp hit."],
        ["My lamp has been out.", "Our lamp was not on."],
    ),
    "palindromes": (
        {"good": ["civic", "noon"], "bad": ["radio"]},
        ["At noon a civic lamp fell."],
        ["At noon a civic radio lamp fell.", "At noon a lamp fell.", "At noon, noon a civic lamp fell."],
    ),
    "copy_span": (
        "Red, red --  rose!".replace("  ", " "),
        ["Red, red -- rose!"],
        ["Red, red - rose!", "red, red -- rose!"],
    ),
    "sort_given_words": (
        "apple\nBat\nCOW",
        ["apple\nBat\nCOW"],
        ["apple\nbat\nCOW", "apple Bat COW", "Bat\napple\nCOW"],
    ),
    "lipogram": ({"bans": ["e"]}, ["A lamp lit my room."], ["A lamp lit the room.", "A lamp lit EVERY room."]),
    "letter_frequency": (
        {"letters": ["l", "z"], "times": [3, 0]},
        ["All lamp posts stood."],
        ["All lamp posts fell.", "A lamp fell there all.", "Lazy all lamp posts stood."],
    ),
    "alliteration": (
        {"letter": "l", "count": 1},
        ["Lovely lamp lit London."],
        ["Lovely lamp lit our London.", "Lovely lamp lit London", "A lovely lamp lit London."],
    ),
    "acrostic": (
        {"secret": "hi", "end": "first"},
        ["Here was one lamp\nIt was old", '"Here was my lamp\n\nin our house'],
        ["Here was one lamp\nNow it was", "Here was one lamp\nIt was", "Here is a lamp\nIt is old\nAnd red too"],
    ),
    "alphabet_walk": (
        {"initials": "ab"},
        ["A lamp fell. Bread burnt!"],
        ["A lamp fell. Cakes burnt.", "A lamp fell.", "Bread burnt. A lamp fell."],
    ),
    "letter_case": (
        {"mode": "turns", "count": 2},
        ["MY LAMP FELL. it broke."],
        ["my lamp fell. IT BROKE.", "MY LAMP FELL. It broke.", "MY LAMP FELL DOWN."],
    ),
    "capital_words": (
        {"number": 2},
        ["MY lamp FELL on a wall.", '"THAT lamp; they SAW" it.'],
        ["MY LAMP fell on a wall.", "MY lamp fell on a wall.", "MY lamp FeLl on A WALL.", "THAT lamp FELL. THEN gone."],
    ),
    "vowel_starts": (
        {"number": 2, "each": False, "count": 1},
        ["An old lamp fell."],
        ["An old lamp fell up.", "The lamp fell.", "An old lamp fell"],
    ),
    "ending_letters": (
        {"number": 2, "letters": ["p", "l"]},
        ["I saw a lamp. It fell."],
        ["It fell. I saw a lamp.", "I saw a lamp. It broke.", "I saw a lamp."],
    ),
    "no_commas": (
        {"bans": [",", ";"], "count": 2},
        ["I saw a lamp. It fell: boom."],
        ["I saw a lamp. It, too, fell.", "It fell. I saw a lamp.", "I saw a lamp; it fell. Boom."],
    ),
    "punctuation_counts": (
        {"marks": ["?", "--"], "times": [1, 1]},
        ["That lamp -- does it work?"],
        ["That lamp, does it work?", "That lamp -- does it work??", "That lamp -- does -- it work?"],
    ),
    "quotation": (
        {"said": ["Go home!"]},
        ["\"The lamp said: 'Go home!'\""],
        ["The lamp said: 'Go home!'", "\"The lamp said: 'Go home'\"", '"The "lamp" said: \'Go home!\'"'],
    ),
    "brackets": (
        {"number": 1, "size": 3, "deep": True},
        ["My lamp (my old one [my very dear]) fell."],
        ["My lamp (my old one) fell.", "My lamp (my one [my very dear]) fell.", "My lamp (my old one [dear]) fell."],
    ),
    "title": (
        {"size": 2, "key": "lamp"},
        ["<<The Lamp>>\nIt fell down."],
        [
            "<The Lamp>\nIt fell down.",
            "<<The lamp>>\nIt fell down.",
            "<<The Lamp>>\nIt <fell> down.",
            "It fell\n<<The Lamp>>",
        ],
    ),
    "placeholders": (
        {"names": ["city", "date"], "last": "date"},
        ["My lamp in [city] fell. It was on [date]."],
        [
            "My lamp fell. It was on [date].",
            "It was on [date]. My lamp in [city] fell.",
            "In [city] [x] my lamp fell on [date].",
        ],
    ),
    "postscript": (
        {"heads": ["P.S."], "plan": [3], "keys": ["hat"]},
        ["My lamp fell.\nP.S. My hat too.", "My lamp fell.\n\nP.S. My hat, too!\n"],
        ["My lamp fell. P.S. My hat too.", "My lamp fell.\nP.S. My hat fell too.", "My lamp fell.\nP.S. My dog too."],
    ),
    "highlights": (
        {"number": 1, "size": 2},
        ["My *old lamp* fell down.", "*My lamp* fell."],
        ["My **old lamp** fell.", "My *lamp* fell down.", "My * old lamp* fell.", "*The lamp* fell *down now*."],
    ),
    "tagged_sentences": (
        {"name": "s", "numbers": [2, 1]},
        ["<s2>My lamp fell.</s2>\n<s1>It broke!</s1>"],
        [
            "<s1>My lamp fell.</s1>\n<s2>It broke!</s2>",
            "<s2>My lamp fell. It</s2>\n<s1>It broke!</s1>",
            "My lamp fell.",
        ],
    ),
    "bullets": (
        {"number": 2, "low": 2, "high": 3, "sign": "-"},
        ["This is it:\n- my lamp\n- my old hat\nThat is all."],
        [
            "This is it:\n- my lamp\nThat is all.",
            "This is it:\n* my lamp\n* my old hat\nThat is all.",
            "This is it.\n- my lamp\n- my old hat\nThat is all.",
            "This is it:\n- my lamp\n- hats\nThat is all.",
        ],
    ),
    "numbered_list": (
        {"labels": ["2.", "1."], "order": ["hat", "lamp"]},
        ["2. A hat for me\n1. A lamp for you"],
        [
            "1. A hat for me\n2. A lamp for you",
            "2. A lamp for me\n1. A hat for you",
            "2. Hat\n1. Lamp",
            "2. A hat and lamp here\n1. A lamp for you",
        ],
    ),
    "stairs": (
        {"indents": [0, 2, 4]},
        ["The old lamp\n  fell on me\n    and then broke"],
        [
            "The old lamp\n fell on me\n  and then broke",
            "The old lamp\n  fell on me",
            "The old lamp\n  fell on me\n\t  and then broke",
        ],
    ),
    "line_starts": (
        {"names": ["Anna", "Zoe"], "number": 2},
        ["Anna: Where is my lamp?\nZoe: It fell down."],
        [
            "Anna: Where is my lamp?\nZoe: It fell, right here?",
            "Zoe: My lamp is it?\nAnna: It fell down.",
            "Anna: Where is my lamp?\nZoe: Here.",
        ],
    ),
    "headings": (
        {"headings": ["# Old hats", "## Red lamps"]},
        ["# Old hats\nThey are lost.\n\n## Red lamps\nMy lamp fell."],
        [
            "# Old hats\nThey are lost.\n# Red lamps\nMy lamp fell.",
            "## Red lamps\nMy lamp fell.\n# Old hats\nAll are lost.",
            "# Old hats\n## Red lamps\nMy lamp fell.",
        ],
    ),
    "table": (
        "| Name | Age |\n| --- | --- |\n| Zoe | 3 |",
        ["|Name|Age|\n|---|:---:|\n|Zoe|3|"],
        [
            "| Name | Age |\n| Zoe | 3 |",
            "| Age | Name |\n| --- | --- |\n| 3 | Zoe |",
            "Name Age\nZoe 3",
            "| Name | Age |\n| --- | --- |\n| Zoe | 4 |",
        ],
    ),
    "two_responses": (
        {"share": 0, "low": 3},
        ["My lamp fell down.\n******\nThis lamp broke."],
        [
            "My lamp fell down.\n******\nThis lamp fell down.",
            "My lamp fell down.\n*****\nThis lamp broke.",
            "My lamp fell down.\n******\nIt broke again.",
        ],
    ),
    "json_only": (
        {"keys": ["text", "tags", "words"], "tags": 1},
        ['{"words": 4, "text": "My lamp broke again.", "tags": ["again"]}'],
        [
            '{"words": 5, "text": "My lamp broke again.", "tags": ["again"]}',
            '{"words": 4, "text": "My lamp broke again.", "tags": ["lamp"]}',
            '{"words": 4, "text": "My lamp broke again.", "tags": ["other"]}',
            '{"words": true, "text": "My lamp broke again.", "tags": ["again"]}',
            '```json\n{"words": 4, "text": "My lamp broke again.", "tags": ["again"]}\n```',
        ],
    ),
    "repeat_request": (
        {"shown": "Write, please!", "number": 1},
        ["Write, please!\n\nMy lamp fell."],
        [
            "Write, please\nMy lamp fell.",
            "My lamp fell.",
            "Write, please!\nWrite, please! My lamp fell.",
            "Write, please!\nMy lamp. It fell.",
        ],
    ),
    "options_only": (
        "OPEN\nDENIED",
        ["OPEN\nDENIED", " OPEN \n DENIED"],
        ["OPEN", "OPEN\nDENIED\nOPEN", "open\ndenied", "OPEN DENIED"],
    ),
    "composed": (
        {"rules": [["lower"], ["no_comma"], ["words_most", 4]]},
        ["my lamp fell down."],
        ["My lamp fell down.", "my lamp, it fell.", "my lamp fell down here."],
    ),
    "conflicts": ("1 4", ["1 4", "1  4"], ["4 1", "1", "1 4 5", "14"]),
    "conflicts_or_none": ("1 2\nnone", ["1 2\nnone"], ["none\n1 2", "1 2", "1 2 none"]),
    "violations": ("1, 3", ["1, 3", "1,3"], ["3, 1", "1", "1, 2, 3", "1 3"]),
}


def task_of(facts: Mapping[str, Any] | str) -> Task:
    reference, metadata = (facts, {}) if isinstance(facts, str) else ("x" * 200, {**BASE, **facts})
    return Task(id="x", domain="x", split="train", index=0, prompt=(), reference=reference, metadata=metadata)


def test_every_skill_has_known_answers() -> None:
    assert KNOWN.keys() == BY_NAME.keys() and len(SKILLS) >= 45


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_judge_on_known_answers(name: str) -> None:
    facts, right, wrong = KNOWN[name]
    task, judge = task_of(facts), BY_NAME[name].judge
    assert [judge(answer, task) for answer in right] == [1.0] * len(right)
    assert {answer: judge(answer, task) for answer in wrong} == dict.fromkeys(wrong, 0.0)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_judges_never_raise(name: str) -> None:
    hostile = [
        *HOSTILE_ANSWERS.values(),
        "9" * 10**5,
        "[" * 50_000,
        '{"a":' * 20_000,
        "\ud800 lamp \udfff",
        "lamp. " * 5_000,
        "(" * 5_000 + ")" * 5_000,
        "*******\n******\n" * 50,
        "lamp\n\n" * 3_000,
        ". . . !",
        "|\n|\n|",
        "<<>>\n",
        "''\"\"",
        " -" * 20_000 + "lamp",
    ]
    judge = BY_NAME[name].judge
    assert [judge(answer, task_of(KNOWN[name][0])) for answer in hostile] == [0.0] * len(hostile)


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=list(DOMAINS))
def test_gold_wins_and_nonsense_does_not(domain: Domain) -> None:
    skill = BY_NAME[domain.name.split("/")[1].removesuffix("-easy").removesuffix("-hard")]
    for index in range(8):
        task = domain.task(index)
        gold = domain.gold(task, ()).text
        assert score_text(domain, task, gold).value == 1.0, task.id
        shown = task.prompt[0].text
        assert shown.isascii() and shown.replace("\n", "").isprintable()
        assert len(shown) < 2500 or domain.name.endswith("-hard")
        bad = [
            "",
            "yes",
            shown,
            f"{task.reference}\n{task.reference}",
            " ".join(task.metadata.get("topics", ["a"]) * 12),
        ]
        if not skill.tagged:  # the right shape, but about other things
            topics = task.metadata["topics"]
            bad.append(re.sub("|".join(map(re.escape, topics)), "thing", gold, flags=re.IGNORECASE))
            bad += [f"Here is the text:\n{gold}"] if skill.name == "json_only" else []
        assert [score_text(domain, task, answer).value for answer in bad] == [0.0] * len(bad), task.id


def test_counting() -> None:
    assert tokens('- Hi, "you"!') == ["Hi,", '"you"!'] and words("(Don't) -- STOP...") == ["don't", "stop"]
    assert sentences("One here. Two?! Rest") == ["One here", "Two"] and not ends_well("One here. Rest")
    assert ends_well('He said "no."') and not ends_well("") and paragraphs("a\n\n \nb\nc") == ["a", "b\nc"]
    facts = {"topics": ["lamp"], "least": 3, "most": 6}
    assert real("My lamp fell.", facts) and real("THE LAMP; it fell", facts)
    for text in (
        "My lamps fell.",
        "lamp lamp lamp",
        "My lamp",
        "a b c lamp d e",
        f"my lamp {'x' * (LONGEST_WORD + 1)}",
    ):
        assert not real(text, facts), text


def test_sentences_have_the_length_asked_for() -> None:
    writer = Writer(rng_for("x", 0))
    for length in range(1, 25):
        assert len(writer.sentence(length).split()) == length
        assert length < 2 or len(writer.sentence(length, subject="Zoe").split()) == length
        if length > 4:
            sentence = writer.sentence(length, last="hat", opening="Once" if length > 6 else "")
            assert len(sentence.split()) == length and sentence.endswith(" hat.")


RULES = {  # a rule -> a text that fulfils it, and one that does not
    ("words_most", 3): ("A red hat", "A very red hat"),
    ("words_least", 4): ("A very red hat", "A red hat"),
    ("words_exactly", 3): ("A red hat -", "A hat"),
    ("sentences", 2): ("Go. Stop!", "Go on."),
    ("sentence_least", 2): ("Go on. Go off.", "Go on. Go."),
    ("sentence_most", 2): ("Go on. Go.", "Go on then."),
    ("lower",): ("go on 1!", "Go on"),
    ("upper",): ("GO ON 1!", "Go on"),
    ("capital_word", "hat"): ('My "HAT".', "My Hat, MY HATS"),
    ("no_letter", "e"): ("A hat", "Every hat"),
    ("has_word", "hat"): ("My Hat!", "My hats"),
    ("no_word", "hat"): ("My hats", "My (hat)"),
    ("word_times", "hat", 2): ("Hat, hat", "Hat"),
    ("no_comma",): ("a; b", "a, b"),
    ("commas", 1): ("a, b", "a, b, c"),
    ("letter_times", "a", 2): ("A hat", "A big hut"),
    ("first_word", "my"): ('"My hat', "The hat my"),
    ("last_word", "hat"): ("My hat.", "Hat of mine."),
    ("no_digit",): ("one", "1"),
    ("has_digit", "12"): ("It is 12.", "It is 123."),
    ("ends_exclaiming",): ("Go! Stop!", "Go! Stop."),
    ("no_exclaiming",): ("Go.", "Go!"),
    ("longest_word", 4): ("A hat.", "Hats."),
    ("lines", 2): ("a\n\nb", "a b"),
    ("quoted",): ('"Go."', "Go."),
    ("no_quotes",): ("'Go'", '"Go'),
    ("title",): ("<<My hat>>\nIt is red.", "It is\n<<My hat>>"),
    ("postscript",): ("Go.\nPS: stop.", "PS: go.\nStop."),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules_hold_where_they_should(rule: tuple[Any, ...]) -> None:
    good, bad = RULES[rule]
    assert holds(list(rule), good) and not holds(list(rule), bad) and told(list(rule)).endswith((".", '"'))


def test_fitting_rules_hold() -> None:
    for index in range(30):
        rng = rng_for("x", index)
        text = " ".join(Writer(rng).sentences([6, 7, 8]))
        rules = fitting(rng, text, ["zebu"])
        assert len(rules) > 8 and all(holds(rule, text) for rule in rules)


def test_violations_are_those_that_do_not_hold() -> None:
    """The numbers again from the prompt's own text, for kinds that are easy to count otherwise."""
    seen = 0
    for index in range(60):
        task = DOMAINS["instructions/violations"].task(index)
        prompt = task.prompt[0].text
        text = prompt.split("-----\n")[1].rstrip("\n")
        broken = task.reference.split(", ")
        for number, said in re.findall(r"^(\d+)\. (.*)$", prompt, flags=re.MULTILINE):
            if match := re.fullmatch(r"The text has at most (\d+) words\.", said):
                holds_here = len(text.split()) <= int(match[1])
            elif match := re.fullmatch(r'The word "(\w+)" does not occur, in capitals or not\.', said):
                holds_here = not re.search(rf"\b{match[1]}\b", text, flags=re.IGNORECASE)
            elif said == "There are no capital letters.":
                holds_here = not re.search("[A-Z]", text)
            elif said == "There are no commas.":
                holds_here = text.count(",") == 0
            else:
                continue
            seen += 1
            assert holds_here == (number not in broken), (task.id, said)
    assert seen > 40


def test_conflicts_name_a_contradiction() -> None:
    """Pairs of kinds that exclude each other, and nothing else, are ever the answer."""
    excluding = {
        frozenset(pair.split())
        for pair in (
            "words_most words_least, words_exactly words_least, lower capital_word, lower upper, no_comma commas, "
            "no_digit has_digit, ends_exclaiming no_exclaiming, quoted no_quotes, no_word word_times, "
            "no_word first_word, last_word, "
            "no_letter has_word, no_letter letter_times, longest_word has_word, no_letter capital_word"
        ).split(", ")
    }
    for name in ("conflicts-easy", "conflicts", "conflicts-hard"):
        for index in range(15):
            task = DOMAINS[f"instructions/{name}"].task(index)
            first, second = (task.metadata["rules"][int(number) - 1] for number in task.reference.split())
            assert frozenset([first[0], second[0]]) in excluding, (first, second)
            letters = [rule for rule in (first, second) if rule[0] == "no_letter"]
            others = [rule for rule in (first, second) if rule[0] in ("has_word", "capital_word")]
            if letters and others:
                assert letters[0][1] in others[0][1]


def test_sorted_and_copied_golds() -> None:
    for index in range(20):
        task = DOMAINS["instructions/copy_span-hard"].task(index)
        assert f" {task.reference} " in f" {task.prompt[0].text} ".replace("\n", " ")
        task = DOMAINS["instructions/sort_given_words"].task(index)
        shown = task.prompt[0].text.split("\n\n")[1].split()
        assert sorted(shown) == sorted(task.reference.split("\n"))
        if "8 words in alphabetical order. " in task.prompt[0].text:
            lowered = [word.lower() for word in task.reference.split("\n")]
            assert lowered == sorted(lowered)


def test_options_agree_with_the_facts() -> None:
    for index in range(30):
        task = DOMAINS["instructions/options_only"].task(index)
        prompt = task.prompt[0].text
        ages = {name: int(age) for name, age in re.findall(r"(\w+) is (\d+) years old", prompt)}
        yes, no, open_ = re.findall(r'"([^"]+)" \(', prompt)
        expected = []
        for one, word, other in re.findall(r"Is (\w+) (older|younger) than (\w+)\?", prompt):
            if one not in ages or other not in ages:
                expected.append(open_)
            else:
                expected.append(yes if (ages[one] - ages[other]) * (1 if word == "older" else -1) > 0 else no)
        assert task.reference == "\n".join(expected)


def test_json_gold_is_json() -> None:
    task = DOMAINS["instructions/json_only"].task(0)
    values = json.loads(task.reference)
    assert len(values) == 3 and any(isinstance(value, int) for value in values.values())
