"""Questions of combinatorics and of sets: words, paths, distributions, selections, inclusion and exclusion.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable

from envs.families.mathematics.judges import judge_number, judge_number_set
from envs.families.mathematics.texts import NAMES, a_set, a_tuple, skill
from envs.skills import Question

WHOLE = "Answer with a whole number."
LETTERS = "ABCDEFGH"


def ask_words(rng: random.Random, *, letters: int, kinds: int) -> Question:
    """Arrangements of letters, some of them equal, with a condition."""
    while True:
        word = "".join(rng.choice(LETTERS[:kinds]) for _ in range(letters))
        times = Counter(word)
        if len(times) >= 2 and max(times.values()) >= 2:
            break
    total = _arrangements(times.values())
    first, second = rng.sample(sorted(times), 2)
    kind = rng.randrange(4)
    if kind == 0:
        rule, count = "", total
    elif kind == 1:
        rule = f" in which all letters {first} stand next to each other"
        count = _arrangements([1, *(n for letter, n in times.items() if letter != first)])
    elif kind == 2:
        rest = [n for letter, n in times.items() if letter != first]
        rule = f" in which no two letters {first} are neighbours"
        count = _arrangements(rest) * math.comb(sum(rest) + 1, times[first])
    else:
        rule = f" that begin with {first} and do not end with {second}"
        left = times - Counter(first)
        ends = _arrangements((left - Counter(second)).values()) if len(word) > 1 else 0
        count = _arrangements(left.values()) - ends
    shown = "".join(sorted(word))
    text = f"How many different words can be made with all the letters of {shown} (each as often as it stands there)"
    return Question(f"{text}{rule}? {WHOLE}", str(count))


def _arrangements(counts: Iterable[int]) -> int:
    """Of things of which so many are equal."""
    found = list(counts)
    return math.factorial(sum(found)) // math.prod(map(math.factorial, found))


def ask_paths(rng: random.Random, *, size: int, blocked: int, diagonal: bool) -> Question:
    """Monotone paths in a grid with forbidden points."""
    while True:
        width, height = rng.randint(size // 2 + 1, size), rng.randint(size // 2 + 1, size)
        points = [(x, y) for x in range(width + 1) for y in range(height + 1)]
        closed = sorted(rng.sample(points[1:-1], blocked))
        ways: dict[tuple[int, int], int] = {(0, 0): 1}
        for x, y in points[1:]:
            steps = ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0)
            steps += ways.get((x - 1, y - 1), 0) if diagonal else 0
            ways[x, y] = 0 if (x, y) in closed else steps
        if ways[width, height] > 1:
            break
    moves = "from (x, y) to (x+1, y) or (x, y+1)" if not diagonal else "to (x+1, y), (x, y+1) or (x+1, y+1)"
    text = f"A path goes from (0, 0) to {a_tuple((width, height))} by steps {moves}."
    text += f" It may not visit {', '.join(map(a_tuple, closed))}. How many such paths are there?"
    return Question(f"{text} {WHOLE}", str(ways[width, height]))


def ask_fixed_points(rng: random.Random, *, most: int) -> Question:
    """Permutations with a given number of fixed points, or none among some."""
    n = rng.randint(most // 2 + 1, most)
    person = f"{n} people put their hats into a box, and each takes one out at random"
    if rng.random() < 0.5:
        k = rng.randint(0, n - 2)
        count = math.comb(n, k) * _derangements(n - k)
        text = f"{person}. In how many of the possible outcomes do exactly {k} of them get their own hats?"
    else:
        k = rng.randint(2, n - 1)
        own = rng.randint(0, k - 1)
        rest = sum((-1) ** j * math.comb(k - own, j) * math.factorial(n - own - j) for j in range(k - own + 1))
        count = math.comb(k, own) * rest
        whom = f"exactly {own} of these sisters" if own else "none of these sisters"
        text = f"{person}. Among them are {k} sisters. In how many outcomes is it {whom} that get their own hats?"
    return Question(f"{text} {WHOLE}", str(count))


def _derangements(n: int) -> int:
    return sum((-1) ** j * math.factorial(n) // math.factorial(j) for j in range(n + 1))


def ask_distributions(rng: random.Random, *, total: int, variables: int, bounds: bool) -> Question:
    """Whole solutions of an equation with lower and upper bounds."""
    n = rng.randint(total // 2, total)
    names = [f"x{i}" for i in range(1, variables + 1)]
    low = [rng.choice([0, 0, 1, 2]) for _ in names]
    high = [rng.choice([None, n // 2, n // 3 + 1]) if bounds else None for _ in names]
    ways = [1] + [0] * n
    for least, most in zip(low, high, strict=True):
        top = n if most is None else most
        ways = [sum(ways[s - v] for v in range(least, min(top, s) + 1)) for s in range(n + 1)]
    rules = ", ".join(
        f"{name} >= {least}" if most is None else f"{least} <= {name} <= {most}"
        for name, least, most in zip(names, low, high, strict=True)
    )
    text = f"How many solutions in whole numbers has {' + '.join(names)} = {n} with {rules}?"
    return Question(f"{text} {WHOLE}", str(ways[n]))


def ask_inclusion(rng: random.Random, *, most: int, count: int) -> Question:
    """Numbers that are multiples of at least one, none, or exactly one of several."""
    bound = rng.randint(most // 2, most)
    steps = sorted(rng.sample(range(2, 16), count))
    kinds = ["at least one", "none", "exactly one"]
    kind = rng.choice(kinds)
    hits = Counter(sum(n % step == 0 for step in steps) for n in range(1, bound + 1))
    found = {"at least one": bound - hits[0], "none": hits[0], "exactly one": hits[1]}[kind]
    text = f"How many whole numbers from 1 to {bound} are multiples of {kind} of the numbers"
    return Question(f"{text} {', '.join(map(str, steps))}? {WHOLE}", str(found))


def ask_committees(rng: random.Random, *, most: int, size: int) -> Question:
    """Selections from two groups with conditions."""
    while True:
        teachers, pupils = rng.randint(2, most), rng.randint(2, most)
        chosen, least = rng.randint(2, size), rng.randint(1, 2)
        first, second = rng.sample(NAMES, 2)
        rule = rng.choice(["both", "neither", "either"])
        base = [
            (w, math.comb(teachers - 1, w - a) * math.comb(pupils - 1, chosen - w - b), a, b)
            for w in range(least, chosen)
            for a, b in itertools.product((0, 1), repeat=2)
            if w - a >= 0 and chosen - w - b >= 0
        ]
        wanted = {"both": {(1, 1)}, "neither": {(0, 0)}, "either": {(0, 1), (1, 0)}}[rule]
        count = sum(ways for _, ways, a, b in base if (a, b) in wanted)
        if count > 1:
            break
    told = {
        "both": f"{first} and {second} must both be in it",
        "neither": f"neither {first} nor {second} may be in it",
        "either": f"exactly one of {first} and {second} must be in it",
    }[rule]
    text = f"A club has {teachers} teachers, one of them {first}, and {pupils} pupils, one of them {second}."
    text += f" A committee of {chosen} needs at least {least} teacher{'s' * (least > 1)} and at least one pupil,"
    text += f" and {told}."
    return Question(f"{text} How many such committees are there? {WHOLE}", str(count))


def ask_sets(rng: random.Random, *, size: int, depth: int) -> Question:
    """A set expression, element by element."""
    while True:
        given = {name: set(rng.sample(range(1, size + 1), rng.randint(size // 3, 2 * size // 3))) for name in "ABC"}
        text, value = _set_tree(rng, given, depth)
        if 0 < len(value) < size - 1:
            break
    listed = ", ".join(f"{name} = {a_set(sorted(values))}" for name, values in given.items())
    rules = "union is +, intersection is &, X - Y is what is in X and not in Y, X ^ Y is what is in exactly one of them"
    return Question(
        f"Let {listed}. Which elements are in {text}? ({rules}.) Answer like {{1, 5}}.", a_set(sorted(value))
    )


def _set_tree(rng: random.Random, given: dict[str, set[int]], depth: int) -> tuple[str, set[int]]:
    if depth == 0:
        name = rng.choice("ABC")
        return name, given[name]
    left, a = _set_tree(rng, given, depth - 1)
    right, b = _set_tree(rng, given, 0 if depth == 1 else rng.randrange(depth))
    sign = rng.choice("+&-^")
    value = {"+": a | b, "&": a & b, "-": a - b, "^": a ^ b}[sign]
    return f"({left} {sign} {right})", value


def ask_venn(rng: random.Random, *, most: int, groups: int) -> Question:
    """Sizes of sets from sizes of their intersections."""
    names = ["tea", "coffee", "milk"][:groups]
    cells = {key: rng.randint(0, most) for key in itertools.product((0, 1), repeat=groups)}
    total = sum(cells.values())

    def size(*wanted: int) -> int:
        return sum(n for key, n in cells.items() if all(key[i] for i in wanted))

    told = [f"{size(i)} drink {name}" for i, name in enumerate(names)]
    told += [f"{size(i, j)} drink {names[i]} and {names[j]}" for i, j in itertools.combinations(range(groups), 2)]
    if groups == 3:
        told.append(f"{size(0, 1, 2)} drink all three")
    nobody = cells[(0,) * groups]
    exactly_one = sum(n for key, n in cells.items() if sum(key) == 1)
    what, value = rng.choice([("none of these", nobody), (f"exactly one of {', '.join(names)}", exactly_one)])
    text = f"Of {total} people, {', '.join(told)} (others are not excluded by these words). How many drink {what}?"
    return Question(f"{text} {WHOLE}", str(value))


def ask_strings(rng: random.Random, *, length: int, symbols: int) -> Question:
    """Texts over a small alphabet that avoid a pattern."""
    n = rng.randint(length // 2, length)
    letters = "abcd"[: rng.randint(2, symbols)]
    pattern = "".join(rng.choice(letters) for _ in range(rng.randint(2, 3 + (length > 8))))
    ways: Counter[str] = Counter({"": 1})
    for _ in range(n):
        following: Counter[str] = Counter()
        for end, count in ways.items():
            for letter in letters:
                text = end + letter
                if not text.endswith(pattern):
                    following[text[-(len(pattern) - 1) :]] += count
        ways = following
    text = f"How many texts of {n} letters, each of them {' or '.join(letters)}, do not contain {pattern} anywhere"
    return Question(f"{text} as consecutive letters? {WHOLE}", str(sum(ways.values())))


SKILLS = [
    skill(
        "letter_arrangements",
        ask_words,
        judge_number,
        {"letters": 4, "kinds": 3},
        {"letters": 7, "kinds": 4},
        {"letters": 12, "kinds": 6},
    ),
    skill(
        "grid_paths",
        ask_paths,
        judge_number,
        {"size": 3, "blocked": 1, "diagonal": False},
        {"size": 5, "blocked": 3, "diagonal": False},
        {"size": 8, "blocked": 6, "diagonal": True},
    ),
    skill("fixed_points", ask_fixed_points, judge_number, {"most": 7}, {"most": 14}, {"most": 30}),
    skill(
        "bounded_sums",
        ask_distributions,
        judge_number,
        {"total": 9, "variables": 2, "bounds": False},
        {"total": 16, "variables": 3, "bounds": True},
        {"total": 40, "variables": 5, "bounds": True},
    ),
    skill(
        "multiples",
        ask_inclusion,
        judge_number,
        {"most": 50, "count": 2},
        {"most": 400, "count": 3},
        {"most": 5000, "count": 4},
    ),
    skill(
        "committees",
        ask_committees,
        judge_number,
        {"most": 5, "size": 3},
        {"most": 8, "size": 5},
        {"most": 14, "size": 8},
    ),
    skill(
        "set_expressions",
        ask_sets,
        judge_number_set,
        {"size": 6, "depth": 1},
        {"size": 10, "depth": 3},
        {"size": 20, "depth": 5},
    ),
    skill(
        "set_sizes",
        ask_venn,
        judge_number,
        {"most": 9, "groups": 2},
        {"most": 20, "groups": 3},
        {"most": 300, "groups": 3},
    ),
    skill(
        "texts_without_a_pattern",
        ask_strings,
        judge_number,
        {"length": 6, "symbols": 3},
        {"length": 9, "symbols": 4},
        {"length": 18, "symbols": 4},
    ),
]
