"""Entities, roles, relations, and which statements count: what a text says happened, and what it only mentions.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random

from envs.families.extraction.judging import asked_set, asked_value, judge_set, judge_value, levels
from envs.families.extraction.words import FIRMS, GOODS, NAMES, SURNAMES, TOWNS, TRADES
from envs.skills import Question, Skill

# ---- entities --------------------------------------------------------------------------------------------------------


def ask_entities(rng: random.Random, sentences: int, partial: bool) -> Question:
    """People, places and firms with their types; some people are named like towns, some names come twice."""
    people = [f"{rng.choice([*NAMES, *TOWNS[:6]])} {surname}" for surname in rng.sample(SURNAMES, 2 * sentences)]
    towns = rng.sample(TOWNS[6:], min(sentences + 2, 11))
    firms = rng.sample(FIRMS, min(sentences + 1, len(FIRMS)))
    found: list[list[str]] = []
    told = []
    for _ in range(sentences):
        person, other, town, firm = people.pop(), people.pop(), rng.choice(towns), rng.choice(firms)
        pattern, used = rng.choice(
            [
                ("{p} of {f} opened an office in {t}.", "pft"),
                ("{f} sent {p} from {t} to meet {o}.", "fpto"),
                ("In {t}, {p} and {o} signed a contract.", "tpo"),
                ("{p} has left {f}.", "pf"),
                ("A lorry of {f} broke down near {t}.", "ft"),
                ("{p} told {o} about the weather.", "po"),
            ]
        )
        told.append(pattern.format(p=person, o=other, t=town, f=firm))
        table = {"p": ["person", person], "o": ["person", other], "t": ["place", town], "f": ["firm", firm]}
        found += [table[mark] for mark in used if table[mark] not in found]
    text = (
        " ".join(told) + "\n\nList every person, place and firm that is named, once each, as a JSON array of pairs "
        '[type, name], type "person", "place" or "firm", names in full as written, in any order.'
    )
    return asked_set(text, found, partial)


# ---- who did what to whom --------------------------------------------------------------------------------------------

# past, participle, what the passive turns on
_ACTS = (
    ("hired", "hired"),
    ("paid", "paid"),
    ("blamed", "blamed"),
    ("invited", "invited"),
    ("followed", "followed"),
    ("warned", "warned"),
    ("rescued", "rescued"),
    ("saw", "seen"),
    ("beat", "beaten"),
    ("drove home", "driven home"),
)
_ROLES = (
    "{a} {past} {b}.",
    "{b} was {part} by {a}.",
    "It was {b} whom {a} {past}.",
    "It was {b} who was {part} by {a}.",
    "The one who {past} {b} was {a}.",
    "{b}, {part} by {a}, said nothing.",
    "{a}, having {part} {b}, went home.",
    "After being {part} by {a}, {b} slept.",
)


def ask_roles(rng: random.Random, events: int, partial: bool) -> Question:
    """Who acted on whom, whatever the sentence begins with."""
    told, found = [], []
    patterns = rng.sample(_ROLES, min(events, len(_ROLES)))
    acts = rng.sample(_ACTS, min(events, len(_ACTS)))
    for pattern, (past, part) in zip(patterns, acts, strict=False):
        first, second = rng.sample(NAMES, 2)
        told.append(pattern.format(a=first, b=second, past=past, part=part))
        found.append([first, past, second])
    many = events > 1
    text = (
        " ".join(told)
        + "\n\nWho did what to whom? Write "
        + (
            'a JSON array with a triple for each sentence, in order: ["who", "past tense", "whom"].'
            if many
            else 'a JSON array: ["who", "past tense", "whom"].'
        )
    )
    return asked_value(text, found if many else found[0], partial)


# ---- statements that count -------------------------------------------------------------------------------------------

_REAL = (
    "{n} {v} {x}.",
    "Yesterday {n} {v} {x}.",
    "It is true that {n} {v} {x}.",
    "{n} finally {v} {x}, as promised.",
    "Nobody doubts that {n} {v} {x}.",
    "{n} not only looked around, but {v} {x}.",
)
_UNREAL = (
    "{n} never {v} {x}.",
    "If {n} had {v} {x}, the clerk would know.",
    "It is false that {n} {v} {x}.",
    "{n} only dreamt of having {v} {x}.",
    "Had {n} {v} {x}, there would be a receipt.",
    "{n} nearly {v} {x}, but left without it.",
    "Nobody saw {n} there, and {n} denies having {v} {x}: rightly so.",
    "{n} would have {v} {x} if it had been cheaper.",
)
_VERBS = ("bought", "sold", "repaired", "painted")


def ask_asserted(rng: random.Random, sentences: int, partial: bool) -> Question:
    """What really happened: negated, hypothetical and imagined acts are left out."""
    verb = rng.choice(_VERBS)
    real = max(1, sentences // 2)
    patterns = [(one, True) for one in rng.sample(_REAL, min(real, len(_REAL)))]
    patterns += [(one, False) for one in rng.sample(_UNREAL, min(sentences - len(patterns), len(_UNREAL)))]
    rng.shuffle(patterns)
    told, found = [], []
    # No thing comes twice, so that no two statements contradict each other.
    for (pattern, counts), good in zip(patterns, rng.sample(GOODS, len(patterns)), strict=True):
        name = rng.choice(NAMES)
        told.append(pattern.format(n=name, v=verb, x=f"a {good}"))
        found += [[name, good]] if counts else []
    text = (
        "From a report: " + " ".join(told) + f"\n\nWho really {verb} what, by this report? Leave out what did not "
        'happen. Write a JSON array of pairs ["name", "thing"] in any order, things without article.'
    )
    return asked_set(text, found, partial)


# ---- coreference -----------------------------------------------------------------------------------------------------


def ask_coreference(rng: random.Random, acts: int, people: int, partial: bool) -> Question:
    """Who is meant by a trade, by the former or the latter, and by the same."""
    names, trades = rng.sample(NAMES, people), rng.sample(TRADES, people)
    told = [f"{name} is a {trade}." for name, trade in zip(names, trades, strict=True)]
    found = []
    pair: tuple[int, int] | None = None
    last = 0
    for number, good in enumerate(rng.sample(GOODS, acts)):
        kind = rng.randrange(4) if number else 0
        if kind == 1 and pair:
            which = rng.randrange(2)
            who, said = pair[which], ("The former", "The latter")[which]
        elif kind == 2:
            who, said = last, "The same person"
        elif kind == 3 and people > 2:
            first, second = rng.sample(range(people), 2)
            told.append(f"{names[first]} and the {trades[second]} met.")
            pair = (first, second)
            which = rng.randrange(2)
            who, said = pair[which], ("The former", "The latter")[which]
        else:
            who = rng.randrange(people)
            said = f"The {trades[who]}"
        told.append(f"{said} bought a {good}.")
        found.append([names[who], good])
        last = who
    rules = " The former and the latter are the two of whom the text last said that they met." if pair else ""
    more = " The same person is the buyer of the sentence before." if any("same person" in one for one in told) else ""
    text = (
        " ".join(told) + f"\n\nWho bought what?{rules}{more} Write a JSON array of pairs "
        '["name", "thing"], in the order of the purchases, things without article.'
    )
    return asked_value(text, found, partial)


# ---- relations -------------------------------------------------------------------------------------------------------

_RELATIONS: dict[str, tuple[str, ...]] = {
    "parent_of": ("{a} is the father of {b}.", "{b} is a daughter of {a}.", "{b}, whose mother is {a}, is young."),
    "boss_of": ("{a} is the boss of {b}.", "{b} works under {a}.", "{b}, who takes orders from {a}, is ill."),
    "taught": ("{a} taught {b} to swim.", "{b} was a pupil of {a}.", "{b} learnt to swim from {a}."),
    "owes": ("{a} owes {b} money.", "{b} has lent {a} money.", "{a}, a debtor of {b}, moved away."),
    "neighbour_of": ("{a} lives next door to {b}.", "{a} and {b} are neighbours.", "{b} has {a} as a neighbour."),
}
_NOISE = (
    "{a} met {b} at the market.",
    "{a} asked after the father of {b}.",
    "{a} would like to work with {b}.",
    "{a} is no relative of {b}.",
    "{b} and {a} both like to swim.",
)


def ask_relations(rng: random.Random, count: int, noise: int, partial: bool) -> Question:
    """Triples of a subject, a relation of a list, and an object; a symmetric one goes by the alphabet."""
    chosen = [rng.choice(list(_RELATIONS)) for _ in range(count)]
    told: list[str] = []
    found: list[list[str]] = []
    for kind in chosen:
        first, second = rng.sample(NAMES, 2)
        told.append(rng.choice(_RELATIONS[kind]).format(a=first, b=second))
        pair = sorted([first, second]) if kind == "neighbour_of" else [first, second]
        triple = [pair[0], kind, pair[1]]
        found += [triple] if triple not in found else []
    related = {name for triple in found for name in triple}
    others = [name for name in NAMES if name not in related]
    for pattern in rng.sample(_NOISE, noise):
        first, second = rng.choice(others), rng.choice(found)[rng.choice([0, 2])]
        told.append(pattern.format(a=first, b=second))
    rng.shuffle(told)
    text = (
        " ".join(told) + "\n\nWrite all relations of these kinds that the text states, each once, as a JSON array of "
        "triples [X, kind, Y] in any order. Kinds: X parent_of Y; X boss_of Y; X taught Y (to swim); X owes Y (money); "
        "X neighbour_of Y (once, X before Y in the alphabet)."
    )
    return asked_set(text, found, partial)


# ---- quotations ------------------------------------------------------------------------------------------------------

_CLAIMS = (
    "the bridge is closed",
    "the train is late",
    "the shop is full",
    "the key is lost",
    "the tea is cold",
    "the roof leaks",
    "the dog is asleep",
    "the lamp is broken",
    "the road is wet",
    "the boat is gone",
)
_SAID = ('"{c}," said {n}.', "{n} said that {c}.", "According to {n}, {c}.", '{n}: "{c}."')


def ask_speakers(rng: random.Random, claims: int, partial: bool) -> Question:
    """Who claims what: said, reported, agreed with, doubted, or said by the same again."""
    names = rng.sample(NAMES, min(claims + 1, 8))
    told, found = [], []
    last = ""
    for claim in rng.sample(_CLAIMS, claims):
        name, other = rng.sample(names, 2)
        kind = rng.randrange(5) if claims > 1 else 0
        if kind == 1 and last:
            told.append(f'"Also, {claim}," the same speaker added.')
            name = last
        elif kind == 2:
            told.append(f'{other} told {name}: "{claim}." {name} did not believe it.')
            name, last = other, ""
        elif kind == 3:
            told.append(f'{name} said: "{claim}." {other} agreed.')
            found.append([other, claim])
            last = ""
        else:
            told.append(rng.choice(_SAID).format(c=claim, n=name))
            last = name
        found.append([name, claim])
    text = (
        " ".join(told) + "\n\nWho claims what? Whoever agrees with a claim claims it too; whoever does not believe it "
        'does not. Write a JSON array of pairs ["name", "claim"] in any order, each claim as written, without marks.'
    )
    return asked_set(text, found, partial)


SKILLS = [
    Skill(name="entities", ask=ask_entities, judge=judge_set, levels=levels("sentences", 1, 3, 7)),
    Skill(name="roles", ask=ask_roles, judge=judge_value, levels=levels("events", 1, 4, 8)),
    Skill(name="asserted", ask=ask_asserted, judge=judge_set, levels=levels("sentences", 3, 6, 12)),
    Skill(
        name="coreference",
        ask=ask_coreference,
        judge=judge_value,
        levels=levels("acts", 2, 4, 9, people=(2, 3, 5)),
    ),
    Skill(
        name="relations",
        ask=ask_relations,
        judge=judge_set,
        levels=levels("count", 1, 4, 9, noise=(0, 2, 5)),
    ),
    Skill(name="speakers", ask=ask_speakers, judge=judge_set, levels=levels("claims", 1, 4, 9)),
]
