"""Questions of probability and statistics, with exact fractions.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

from envs.families.mathematics.judges import judge_number, judge_numbers
from envs.families.mathematics.texts import a_list, eliminated, skill
from envs.skills import Question

EXACT = "Answer with the exact fraction, like 5/36."
COLOURS = ["red", "blue", "green", "white"]


def ask_dice(rng: random.Random, *, dice: int, sides: int) -> Question:
    """An event on the sum, maximum or product of a few dice."""
    while True:
        n, faces = rng.randint(2, dice), rng.randint(4, sides)
        told, test = _event(rng, n, faces)
        hits = sum(map(test, itertools.product(range(1, faces + 1), repeat=n)))
        chance = Fraction(hits, faces**n)
        if 0 < chance < 1:
            break
    text = f"{n} fair dice, each with the numbers 1 to {faces}, are rolled. What is the probability that {told}?"
    return Question(f"{text} {EXACT}", str(chance))


def _event(rng: random.Random, n: int, faces: int) -> tuple[str, Callable[[tuple[int, ...]], bool]]:
    total, bound = rng.randint(n + 1, n * faces - 1), rng.randint(2, faces - 1)
    events: list[tuple[str, Callable[[tuple[int, ...]], bool]]] = [
        (f"their sum is {total}", lambda roll: sum(roll) == total),
        (f"their sum is above {total}", lambda roll: sum(roll) > total),
        (f"the largest shown number is exactly {bound}", lambda roll: max(roll) == bound),
        (f"{bound} divides their product", lambda roll: math.prod(roll) % bound == 0),
        (f"the largest shown number is above {bound} and all are different", lambda roll: _differ(roll, bound)),
        (f"exactly one of them shows {bound}", lambda roll: roll.count(bound) == 1),
        (f"the largest and the smallest differ by {bound - 1}", lambda roll: max(roll) - min(roll) == bound - 1),
    ]
    return rng.choice(events)


def _differ(roll: tuple[int, ...], bound: int) -> bool:
    return max(roll) > bound and len(set(roll)) == len(roll)


def ask_urn(rng: random.Random, *, colours: int, most: int, draws: int) -> Question:
    """Draws without replacement."""
    while True:
        balls = {colour: rng.randint(1, most) for colour in COLOURS[:colours]}
        total, k = sum(balls.values()), rng.randint(2, draws)
        if total <= k:
            continue
        colour = rng.choice(sorted(balls))
        wanted = rng.randint(0, min(k, balls[colour]))
        if rng.random() < 0.6:
            told = f"exactly {wanted} of them {'is' if wanted == 1 else 'are'} {colour}"
            hits = math.comb(balls[colour], wanted) * math.comb(total - balls[colour], k - wanted)
        else:
            told, hits = "all of them have the same colour", sum(math.comb(n, k) for n in balls.values())
        chance = Fraction(hits, math.comb(total, k))
        if 0 < chance < 1:
            break
    listed = ", ".join(f"{n} {colour}" for colour, n in balls.items())
    text = f"An urn holds balls: {listed}. {k} are drawn at once, at random. What is the probability that {told}?"
    return Question(f"{text} {EXACT}", str(chance))


def ask_bayes(rng: random.Random, *, causes: int, signals: int) -> Question:
    """The probability of a cause, given what was seen."""
    shares = [rng.randint(1, 9) for _ in range(causes)]
    rates = [Fraction(rng.randint(1, 19), 20) for _ in range(causes)]
    seen = [rng.random() < 0.6 for _ in range(signals)]
    total = sum(shares)
    weights = [
        Fraction(share, total) * math.prod((rate if bad else 1 - rate) for bad in seen)
        for share, rate in zip(shares, rates, strict=True)
    ]
    chosen = rng.randrange(causes)
    listed = "; ".join(
        f"machine {name} makes {Fraction(share, total)} of the boxes, each part of which is bad with probability {rate}"
        for name, share, rate in zip("ABCD", shares, rates, strict=False)
    )
    drawn = ", then ".join("a bad one" if bad else "a good one" for bad in seen)
    text = f"In a factory, {listed}. Parts are bad independently of each other. From one random box somebody takes"
    text += f" {drawn}. What is the probability that the box came from machine {'ABCD'[chosen]}?"
    return Question(f"{text} {EXACT}", str(weights[chosen] / sum(weights)))


def ask_expectation(rng: random.Random, *, sides: int, cards: int) -> Question:
    """Expected value or variance of a payment."""
    kind = rng.choice([0, 0, 0, 0, 1, 2])
    if kind == 0:
        prizes = [rng.randint(-9, 20) for _ in range(cards)]
        weights = [rng.randint(1, 6) for _ in prizes]
        total = sum(weights)
        mean = Fraction(sum(p * w for p, w in zip(prizes, weights, strict=True)), total)
        listed = ", ".join(f"{w}/{total} for {p}" for p, w in zip(prizes, weights, strict=True))
        if rng.random() < 0.5:
            text, value = (
                f"A game pays an amount with these probabilities: {listed}. What is the expected amount?",
                mean,
            )
        else:
            square = Fraction(sum(p * p * w for p, w in zip(prizes, weights, strict=True)), total)
            text = f"A game pays an amount with these probabilities: {listed}. What is the variance of the amount?"
            value = square - mean * mean
    else:
        n, faces = rng.randint(2, 3), rng.randint(4, sides)
        rolls = list(itertools.product(range(1, faces + 1), repeat=n))
        name, of = ("largest", max) if kind == 1 else ("smallest", min)
        value = Fraction(sum(map(of, rolls)), len(rolls))
        text = (
            f"{n} fair dice with the numbers 1 to {faces} are rolled. What is the expected value of the {name} number?"
        )
    return Question(f"{text} Answer with a whole number or an exact fraction.", str(value))


def ask_markov(rng: random.Random, *, states: int, steps: int) -> Question:
    """A small Markov chain: where it is after some steps, or the expected time until it ends."""
    rows = []
    for _ in range(states):
        weights = [rng.randint(0, 3) for _ in range(states)]
        weights[rng.randrange(states)] += 1
        rows.append([Fraction(weight, sum(weights)) for weight in weights])
    names = "ABCDE"[:states]
    if rng.random() < 0.5 or any(row[-1] == 0 for row in rows[:-1]):
        chances = [Fraction(int(i == 0)) for i in range(states)]
        for _ in range(steps):
            chances = [sum((chances[i] * rows[i][j] for i in range(states)), Fraction(0)) for j in range(states)]
        target = rng.randrange(states)
        question = f"It starts in A. What is the probability that it is in {names[target]} after {steps} steps?"
        value = chances[target]
    else:
        size = states - 1
        system = [[Fraction(int(i == j)) - rows[i][j] for j in range(size)] + [Fraction(1)] for i in range(size)]
        value = eliminated(system)[0][0][-1]
        question = (
            f"It starts in A. What is the expected number of steps until it is in {names[-1]} for the first time?"
        )
    listed = "; ".join(
        f"from {a}: " + ", ".join(f"{p} to {b}" for b, p in zip(names, row, strict=True) if p)
        for a, row in zip(names, rows, strict=True)
    )
    text = f"In each step a walker moves with these probabilities: {listed}. {question}"
    return Question(f"{text} Answer with a whole number or an exact fraction.", str(value))


def ask_binomial(rng: random.Random, *, most: int) -> Question:
    """Repeated independent trials."""
    n = rng.randint(most // 2 + 1, most)
    chance = _chance(rng)
    k = rng.randint(1, n - 1)
    kind = rng.randrange(3)

    def exactly(j: int) -> Fraction:
        return math.comb(n, j) * chance**j * (1 - chance) ** (n - j)

    if kind == 0:
        told, value = f"she hits exactly {k} times", exactly(k)
    elif kind == 1:
        told, value = f"she hits at least {k} times", sum(map(exactly, range(k, n + 1)), Fraction(0))
    else:
        told, value = (
            f"her hit number {k} is at shot {n}",
            math.comb(n - 1, k - 1) * chance**k * (1 - chance) ** (n - k),
        )
    text = f"An archer hits with probability {chance} at each of {n} independent shots. What is the probability that"
    return Question(f"{text} {told}? {EXACT}", str(value))


def _chance(rng: random.Random) -> Fraction:
    under = rng.randint(3, 8)
    return Fraction(rng.randint(1, under - 1), under)


def ask_streak(rng: random.Random, *, flips: int, run: int) -> Question:
    """Runs of heads in flips of a bent coin."""
    n, k = rng.randint(flips // 2 + 1, flips), rng.randint(2, run)
    heads = _chance(rng)
    chances = [Fraction(1)] + [Fraction(0)] * (k - 1)  # by the length of the run at the end
    for _ in range(n):
        chances = [sum(chances, Fraction(0)) * (1 - heads), *(chance * heads for chance in chances[:-1])]
    none = sum(chances, Fraction(0))
    told, value = rng.choice([(f"never {k} heads in a row", none), (f"at least once {k} heads in a row", 1 - none)])
    text = f"A coin that shows heads with probability {heads} is flipped {n} times. What is the probability of {told}?"
    return Question(f"{text} {EXACT}", str(value))


def ask_statistics(rng: random.Random, *, count: int, most: int) -> Question:
    """Mean, median, population variance and mean absolute deviation of a list."""
    data = [rng.randint(-most // 4, most) for _ in range(rng.randint(count - 1, count))]
    ordered, n = sorted(data), len(data)
    mean = Fraction(sum(data), n)
    median = Fraction(ordered[(n - 1) // 2] + ordered[n // 2], 2)
    variance = sum(((x - mean) ** 2 for x in data), Fraction(0)) / n
    deviation = sum((abs(x - median) for x in data), Fraction(0)) / n
    extra, value = rng.choice(
        [("population variance", variance), ("mean absolute distance from the median", deviation)]
    )
    text = f"Give the mean, the median and the {extra} of {', '.join(map(str, data))}, exactly and in this order."
    return Question(f"{text} Answer like [7/2, 3, 5/4].", a_list([mean, median, value]))


def ask_missing(rng: random.Random, *, count: int, most: int) -> Question:
    """A value that brings a mean, or a weighted mean, to a given number."""
    data = [rng.randint(1, most) for _ in range(count)]
    weights = [rng.randint(1, 4) for _ in data]
    hidden = rng.randrange(count)
    mean = Fraction(sum(x * w for x, w in zip(data, weights, strict=True)), sum(weights))
    listed = ", ".join(
        f"{'?' if i == hidden else x} (weight {w})" for i, (x, w) in enumerate(zip(data, weights, strict=True))
    )
    text = f"The weighted mean of these numbers is {mean}: {listed}. Which number stands for the question mark?"
    return Question(f"{text} Answer with the number alone.", str(data[hidden]))


def ask_regression(rng: random.Random, *, points: int, most: int) -> Question:
    """The least-squares line through points."""
    while True:
        xs, ys = ([rng.randint(-most, most) for _ in range(points)] for _ in range(2))
        n, counted = points, Counter(xs)
        spread = n * sum(x * x for x in xs) - sum(xs) ** 2
        if spread and len(counted) > 1:
            break
    slope = Fraction(n * sum(x * y for x, y in zip(xs, ys, strict=True)) - sum(xs) * sum(ys), spread)
    shift = (sum(ys) - slope * sum(xs)) / n
    listed = ", ".join(f"({x}, {y})" for x, y in zip(xs, ys, strict=True))
    text = f"Which line y = a*x + b fits the points {listed} best (least sum of squared vertical distances)?"
    return Question(f"{text} Answer with (a, b), exactly, like (1/2, -3).", f"({slope}, {shift})")


SKILLS = [
    skill("dice", ask_dice, judge_number, {"dice": 2, "sides": 6}, {"dice": 3, "sides": 8}, {"dice": 4, "sides": 10}),
    skill(
        "urns",
        ask_urn,
        judge_number,
        {"colours": 2, "most": 5, "draws": 2},
        {"colours": 3, "most": 7, "draws": 3},
        {"colours": 4, "most": 12, "draws": 5},
    ),
    skill(
        "bayes",
        ask_bayes,
        judge_number,
        {"causes": 2, "signals": 1},
        {"causes": 2, "signals": 2},
        {"causes": 4, "signals": 3},
    ),
    skill(
        "expected_values",
        ask_expectation,
        judge_number,
        {"sides": 5, "cards": 2},
        {"sides": 8, "cards": 3},
        {"sides": 12, "cards": 6},
    ),
    skill(
        "markov_chains",
        ask_markov,
        judge_number,
        {"states": 2, "steps": 2},
        {"states": 3, "steps": 3},
        {"states": 4, "steps": 4},
    ),
    skill("repeated_trials", ask_binomial, judge_number, {"most": 4}, {"most": 6}, {"most": 9}),
    skill(
        "coin_runs", ask_streak, judge_number, {"flips": 4, "run": 3}, {"flips": 7, "run": 4}, {"flips": 12, "run": 6}
    ),
    skill(
        "summary_statistics",
        ask_statistics,
        judge_numbers,
        {"count": 4, "most": 12},
        {"count": 7, "most": 30},
        {"count": 11, "most": 200},
    ),
    skill(
        "missing_value",
        ask_missing,
        judge_number,
        {"count": 2, "most": 12},
        {"count": 4, "most": 60},
        {"count": 7, "most": 500},
    ),
    skill(
        "fitted_lines",
        ask_regression,
        judge_numbers,
        {"points": 2, "most": 6},
        {"points": 4, "most": 9},
        {"points": 6, "most": 20},
    ),
]
