"""Questions of number theory: divisors, congruences, bases, digits.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family; witnesses: `witnesses`.
"""

from __future__ import annotations

import math
import random
import re

from envs.families.mathematics.judges import judge_number, judge_number_set
from envs.families.mathematics.texts import a_set, divisors, prime_factors, skill
from envs.families.mathematics.values import plain
from envs.skills import Question
from envs.types import Task

PRIMES = [p for p in range(2, 200) if all(p % d for d in range(2, p))]
WHOLE = "Answer with a whole number."


def _composite(rng: random.Random, primes: int, most: int) -> int:
    """A product of `primes` primes, the first ones small."""
    return math.prod(rng.choice(PRIMES[:most]) for _ in range(primes))


def ask_gcd_lcm(rng: random.Random, *, count: int, primes: int, most: int) -> Question:
    """A nested chain of greatest common divisors and least common multiples."""
    shared = _composite(rng, 1 + primes // 2, most)
    numbers = [shared * _composite(rng, primes, most) for _ in range(count)]
    text, value = str(numbers[0]), numbers[0]
    for number in numbers[1:]:
        name = rng.choice(["gcd", "lcm"])
        text = f"{name}({text}, {number})" if rng.random() < 0.5 else f"{name}({number}, {text})"
        value = math.gcd(value, number) if name == "gcd" else math.lcm(value, number)
    return Question(f"Compute {text}. (gcd: greatest common divisor, lcm: least common multiple.) {WHOLE}", str(value))


def ask_modular_power(rng: random.Random, *, most: int, modulus: int, terms: int) -> Question:
    """The remainder of a sum of large powers."""
    mod = rng.randint(max(5, modulus // 3), modulus)
    bases = [rng.randint(2, most) for _ in range(terms)]
    exponents = [rng.randint(3, most) for _ in range(terms)]
    text = " + ".join(f"{base}^{exponent}" for base, exponent in zip(bases, exponents, strict=True))
    value = sum(pow(base, exponent, mod) for base, exponent in zip(bases, exponents, strict=True)) % mod
    return Question(f"What is the remainder when {text} is divided by {mod}? {WHOLE}", str(value))


def ask_congruence(rng: random.Random, *, modulus: int, degree: int) -> Question:
    """All solutions of a linear or quadratic congruence."""
    while True:
        mod = rng.randint(max(6, modulus // 3), modulus)
        a, b, c = rng.randint(2, mod - 1), rng.randint(0, mod - 1), rng.randint(0, mod - 1)
        if degree == 1:
            found = [x for x in range(mod) if (a * x - c) % mod == 0]
            text = f"{a}*x = {c} (mod {mod})"
        else:
            found = [x for x in range(mod) if (a * x * x + b * x - c) % mod == 0]
            text = f"{a}*x^2 + {b}*x = {c} (mod {mod})"
        if 1 <= len(found) <= 8 and (len(found) > 1 or rng.random() < 0.4):
            break
    return Question(
        f"Find all x from 0 to {mod - 1} with {text}. Answer with the set of all solutions, like {{1, 5}}.",
        a_set(found),
    )


def ask_remainders(rng: random.Random, *, count: int, most: int) -> Question:
    """The smallest number with given remainders; the divisors may share factors."""
    while True:
        mods = [rng.randint(3, most) for _ in range(count)]
        total = math.lcm(*mods)
        if len(set(mods)) == count and total > 3 * max(mods):
            break
    value = rng.randrange(max(mods), total)
    told = ", ".join(f"remainder {value % mod} when divided by {mod}" for mod in mods)
    return Question(f"What is the smallest whole number >= 0 that leaves {told}? {WHOLE}", str(value % total))


def ask_totient(rng: random.Random, *, primes: int, most: int) -> Question:
    """Euler's totient, the number or the sum of divisors, or the Moebius-like radical of a number."""
    number = _composite(rng, primes, most)
    factors = prime_factors(number)
    kind = rng.randrange(4)
    if kind == 0:
        text = f"How many whole numbers from 1 to {number} have no common divisor above 1 with {number}?"
        value = math.prod((p - 1) * p ** (k - 1) for p, k in factors.items())
    elif kind == 1:
        text, value = f"How many positive divisors does {number} have?", math.prod(k + 1 for k in factors.values())
    elif kind == 2:
        text, value = f"What is the sum of all positive divisors of {number}?", sum(divisors(number))
    else:
        text = f"What is the sum of the different prime numbers that divide {number}?"
        value = sum(factors)
    return Question(f"{text} {WHOLE}", str(value))


def ask_factorise(rng: random.Random, *, primes: int, most: int) -> Question:
    """A number as a product of primes."""
    number = _composite(rng, primes, most)
    product = " * ".join(f"{p}^{k}" if k > 1 else str(p) for p, k in sorted(prime_factors(number).items()))
    return Question(f"Write {number} as a product of powers of primes, like 2^3 * 5 * 7^2.", product)


_POWER = re.compile(r"([0-9]{1,40})(?: ?\^ ?\{?([0-9]{1,3})\}?)?")


def judge_factorisation(answer: str, task: Task) -> float:
    """Powers of primes in any order, also repeated ones, with the right product."""
    found = _factors(answer)
    return float(found is not None and found == _factors(task.reference))


def _factors(text: str) -> dict[int, int] | None:
    found: dict[int, int] = {}
    for part in plain(text).split("*"):
        match = _POWER.fullmatch(part.strip())
        if match is None:
            return None
        prime = int(match.group(1))
        found[prime] = found.get(prime, 0) + int(match.group(2) or 1)
    return found  # two factorisations are equal as numbers of primes: 4 is none of the reference's


DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def in_base(number: int, base: int) -> str:
    """Digits above 9 are small letters."""
    text = ""
    while number:
        number, digit = divmod(number, base)
        text = DIGITS[digit] + text
    return text or "0"


def ask_bases(rng: random.Random, *, most: int, bases: list[int], terms: int) -> Question:
    """Numbers from one base to another, or added in it."""
    source, target = rng.sample(bases, 2)
    numbers = [rng.randint(most // 10, most) for _ in range(terms)]
    shown = " + ".join(in_base(number, source) for number in numbers)
    what = "this sum" if terms > 1 else "this number"
    letters = " Digits above 9 are the letters a, b, c, and so on." if max(source, target) > 10 else ""
    text = f"Written in base {source}: {shown}. Write {what} in base {target}.{letters}"
    return Question(f"{text} Answer with the digits only.", in_base(sum(numbers), target))


def judge_digits(answer: str, task: Task) -> float:
    """The same digits; capital letters are as good as small ones, and zeros in front or a 0x are not."""
    return float(plain(answer).lower() == task.reference)


def ask_digit_count(rng: random.Random, *, most: int) -> Question:
    """How many numbers up to a bound have a property of their digits."""
    bound = rng.randint(most // 4, most)
    kind = rng.randrange(4)
    if kind == 0:
        total = rng.randint(4, 9 * len(str(bound)) // 2)
        told, test = f"a digit sum of {total}", lambda n: sum(map(int, str(n))) == total
    elif kind == 1:
        digit = str(rng.randint(0, 9))
        times = rng.randint(1, 2)
        told, test = (
            f"the digit {digit} exactly {times} time{'s' * (times > 1)}",
            lambda n: str(n).count(digit) == times,
        )
    elif kind == 2:
        divisor = rng.randint(2, 9)
        told = f"a digit sum that {divisor} divides, and a last digit that is not 0"
        test = lambda n: sum(map(int, str(n))) % divisor == 0 and n % 10 > 0  # noqa: E731
    else:
        low = rng.randint(0, 3)
        told = f"only different digits, and none of them smaller than {low}"
        test = lambda n: len(set(str(n))) == len(str(n)) and min(map(int, str(n))) >= low  # noqa: E731
    count = sum(map(test, range(1, bound + 1)))
    return Question(f"How many whole numbers from 1 to {bound} have {told}? {WHOLE}", str(count))


def ask_trailing(rng: random.Random, *, most: int, primes: int) -> Question:
    """The exponent of a prime, or of a composite, in a factorial or a binomial coefficient."""
    prime = rng.choice(PRIMES[:primes])
    n = rng.randint(most // 2, most)
    if rng.random() < 0.5:
        what, value = f"{n}!", _legendre(n, prime)
    else:
        k = rng.randint(n // 4, n // 2)
        what = f"the binomial coefficient C({2 * n}, {n - k})"
        value = _legendre(2 * n, prime) - _legendre(n - k, prime) - _legendre(n + k, prime)
    base = prime * rng.choice([1, 1, prime])
    value = value if base == prime else value // 2
    return Question(f"What is the largest k for which {base}^k divides {what}? {WHOLE}", str(value))


def _legendre(n: int, prime: int) -> int:
    total = 0
    while n:
        n //= prime
        total += n
    return total


def ask_order(rng: random.Random, *, modulus: int) -> Question:
    """Multiplicative order or inverse in arithmetic modulo a number."""
    while True:
        mod = rng.randint(max(7, modulus // 3), modulus)
        base = rng.randint(2, mod - 2)
        if math.gcd(base, mod) == 1:
            break
    if rng.random() < 0.5:
        text = f"Which x from 1 to {mod - 1} has {base}*x = 1 (mod {mod})?"
        return Question(f"{text} {WHOLE}", str(pow(base, -1, mod)))
    order, power = 1, base
    while power != 1:
        order, power = order + 1, power * base % mod
    return Question(f"What is the smallest k >= 1 with {base}^k = 1 (mod {mod})? {WHOLE}", str(order))


def ask_frobenius(rng: random.Random, *, most: int, count: int) -> Question:
    """The largest amount that coins cannot pay."""
    while True:
        coins = sorted(rng.sample(range(3, most + 1), count))
        if math.gcd(*coins) == 1 and all(b % a for i, a in enumerate(coins) for b in coins[i + 1 :]):
            break
    payable = [True] + [False] * (coins[0] * coins[-1])
    for amount in range(1, len(payable)):
        payable[amount] = any(amount >= coin and payable[amount - coin] for coin in coins)
    largest = max(amount for amount, is_payable in enumerate(payable) if not is_payable)
    listed = ", ".join(map(str, coins))
    text = f"There are coins of {listed} cents, as many as one likes. Which is the largest whole amount of cents that"
    return Question(f"{text} they cannot pay exactly? {WHOLE}", str(largest))


SKILLS = [
    skill(
        "gcd_lcm",
        ask_gcd_lcm,
        judge_number,
        {"count": 2, "primes": 1, "most": 5},
        {"count": 3, "primes": 2, "most": 8},
        {"count": 5, "primes": 3, "most": 12},
    ),
    skill(
        "modular_powers",
        ask_modular_power,
        judge_number,
        {"most": 9, "modulus": 25, "terms": 1},
        {"most": 200, "modulus": 120, "terms": 2},
        {"most": 10**6, "modulus": 2000, "terms": 3},
    ),
    skill(
        "congruences",
        ask_congruence,
        judge_number_set,
        {"modulus": 15, "degree": 1},
        {"modulus": 40, "degree": 2},
        {"modulus": 200, "degree": 2},
    ),
    skill(
        "remainders",
        ask_remainders,
        judge_number,
        {"count": 2, "most": 9},
        {"count": 3, "most": 16},
        {"count": 4, "most": 40},
    ),
    skill(
        "divisor_functions",
        ask_totient,
        judge_number,
        {"primes": 3, "most": 4},
        {"primes": 5, "most": 6},
        {"primes": 7, "most": 10},
    ),
    skill(
        "factorisation",
        ask_factorise,
        judge_factorisation,
        {"primes": 3, "most": 8},
        {"primes": 4, "most": 12},
        {"primes": 5, "most": 40},
    ),
    skill(
        "bases",
        ask_bases,
        judge_digits,
        {"most": 60, "bases": [2, 3, 5, 10], "terms": 1},
        {"most": 3000, "bases": [2, 3, 5, 7, 8, 16], "terms": 2},
        {"most": 10**8, "bases": [3, 5, 7, 11, 13, 16, 20], "terms": 3},
    ),
    skill("digit_counts", ask_digit_count, judge_number, {"most": 150}, {"most": 1500}, {"most": 20000}),
    skill(
        "prime_exponents",
        ask_trailing,
        judge_number,
        {"most": 30, "primes": 3},
        {"most": 300, "primes": 4},
        {"most": 10**5, "primes": 6},
    ),
    skill("inverses_and_orders", ask_order, judge_number, {"modulus": 20}, {"modulus": 80}, {"modulus": 700}),
    skill(
        "unpayable_amounts",
        ask_frobenius,
        judge_number,
        {"most": 20, "count": 2},
        {"most": 20, "count": 3},
        {"most": 60, "count": 4},
    ),
]
