"""Which reasoning-gym datasets are offered, how each is scored, which are not and why: tables.

In: nothing.  Out: names, rules and patterns.  Read by `envs.families.reasoning_gym`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from envs.sandbox import Limits

# Rules: `text` equal up to white space; `word` also up to case; `number` equal as plain decimals; `numbers` equal as a
# list of plain decimals; `roots` as `numbers`, each within 0.001; `ratio` a decimal or fraction, nearly equal; `roles`
# equal as a set of "X is a Y"; `json` equal as JSON; `own` the dataset's own scorer; `partial` its own partial credit,
# for answers no longer than the reference; `expression` sums, products and quotients of the task's numbers, each used
# once, with the exact value wanted; `moves` legal moves that free the red car; `survo` a square with the numbers given
# and the right sums (the library knows one of several); `sandbox` its own scorer, which executes the answer and so
# runs in the sandbox, on answers made of what `ALLOWED` lets through.
DATASETS: dict[str, str] = {
    "ab": "text",
    "acre": "text",
    "advanced_geometry": "own",
    "aiw": "text",
    "arc_1d": "text",
    "arc_agi": "text",
    "base_conversion": "text",
    "basic_arithmetic": "number",
    "bf": "text",
    "binary_alternation": "number",
    "binary_matrix": "sandbox",
    "bitwise_arithmetic": "own",
    "caesar_cipher": "text",
    "calendar_arithmetic": "word",
    "chain_sum": "number",
    "circuit_logic": "text",
    "codeio": "json",
    "coin_flip": "ratio",
    "color_cube_rotation": "word",
    "complex_arithmetic": "own",
    "count_bits": "number",
    "count_primes": "number",
    "countdown": "expression",
    "course_schedule": "word",
    "cryptarithm": "own",
    "decimal_arithmetic": "own",
    "decimal_chain_sum": "number",
    "dice": "text",
    "emoji_mystery": "partial",
    "family_relationships": "word",
    "figlet_font": "word",
    "fraction_simplification": "own",
    "futoshiki": "partial",
    "game_of_life": "json",
    "game_of_life_halting": "word",
    "gcd": "number",
    "graph_color": "own",
    "group_anagrams": "own",
    "gsm_symbolic": "number",
    "intermediate_integration": "sandbox",
    "isomorphic_strings": "word",
    "jugs": "own",
    "kakurasu": "own",
    "knight_swap": "own",
    "knights_knaves": "roles",
    "largest_island": "number",
    "lcm": "number",
    "leg_counting": "number",
    "letter_counting": "number",
    "letter_jumble": "word",
    "list_functions": "text",
    "mahjong_puzzle": "word",
    "manipulate_matrix": "text",
    "maze": "text",
    "mini_sudoku": "partial",
    "modulo_grid": "text",
    "n_queens": "sandbox",
    "needle_haystack": "word",
    "number_filtering": "text",
    "number_format": "own",
    "number_sequence": "number",
    "number_sorting": "numbers",
    "palindrome_generation": "own",
    "palindrome_partitioning": "own",
    "path_star": "text",
    "polynomial_equations": "roots",
    "polynomial_multiplication": "sandbox",
    "pool_matrix": "own",
    "power_function": "own",
    "prime_factorization": "own",
    "products": "number",
    "puzzle24": "expression",
    "quantum_lock": "own",
    "ransom_note": "word",
    "rearc": "text",
    "rectangle_count": "number",
    "rotate_matrix": "text",
    "rotten_oranges": "number",
    "rubiks_cube": "own",
    "rush_hour": "moves",
    "self_reference": "number",
    "sentence_reordering": "partial",
    "shortest_path": "own",
    "simple_equations": "number",
    "simple_geometry": "number",
    "simple_integration": "sandbox",
    "sokoban": "own",
    "spell_backward": "word",
    "spiral_matrix": "sandbox",
    "string_insertion": "sandbox",
    "string_manipulation": "text",
    "string_splitting": "text",
    "string_synthesis": "text",
    "sudoku": "partial",
    "survo": "survo",
    "syllogism": "word",
    "time_intervals": "text",
    "tower_of_hanoi": "own",
    "tsumego": "word",
    "word_ladder": "own",
    "word_sequence_reversal": "text",
    "word_sorting": "partial",
    "zebra_puzzles": "word",
}

# Why these are not left to their own scorers, beyond the partial credit and the credit for padding of most of them.
RESCORED: dict[str, str] = {
    "codeio": "its scorer looks for JSON anywhere in the answer, and an input is right only if it is the one it knows",
    "coin_flip": "its scorer takes any prefix of the number, such as 0",
    "countdown": "its scorer executes the answer, and rounds",
    "game_of_life_halting": "its scorer takes any answer that is not empty",
    "number_sorting": "its scorer takes NaN for any number",
    "puzzle24": "its scorer executes the answer, rounds, and takes any four numbers",
    "rush_hour": "its scorer skips over illegal moves and other text",
    "survo": "its scorer knows one of several solutions",
    "time_intervals": "its scorer gives a near miss more than 0.99",
}

EXCLUDED: dict[str, str] = {
    "boxnet": "it ships no solution, and its scorer raises on valid JSON",
    "propositional_logic": "restating a premise scores the maximum in nine tasks of ten",
    "composite": "it is a mixture of the others; mixing is the run's task",
}

# Nothing else may reach a scorer that executes it: neither a name to call nor a way to make one.  What is left can only
# take time, which the sandbox bounds.
ALLOWED: dict[str, re.Pattern[str]] = {
    "binary_matrix": re.compile(r"[0-9\s,\[\]]+"),
    "intermediate_integration": re.compile(
        r"(?:[0-9\s()*+/.,^-]|\b(?:C|x|Integral|a?(?:sin|cos|tan)|(?:sin|cos|tan)h|exp|log|sqrt|pi|E)\b)+"
    ),
    "n_queens": re.compile(r"[Q_\s]+"),
    "polynomial_multiplication": re.compile(r"(?:[0-9\s()*+^-]|\b[xyz]\b)+"),
    "simple_integration": re.compile(r"(?:[0-9\s()*+/.^-]|\b[CXxYy]\b)+"),
    "spiral_matrix": re.compile(r"[0-9\s,\[\]-]+"),
    "string_insertion": re.compile(r"[A-E\s,'\"\[\]]+"),
}
# Their tasks depend on PYTHONHASHSEED: made in the sandbox, where it is 0 for everybody.
HASH_SEEDED = {"isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder"}
# And this one executes packaged code for each task, which may print, or draw from any random stream.
MADE_INSIDE = {*HASH_SEEDED, "codeio"}
SCORER_LIMITS = Limits(wall_seconds=2.0, cpu_seconds=2.0, memory_mib=512)
TASK_LIMITS = Limits(wall_seconds=20.0, cpu_seconds=20.0, memory_mib=1024)

# These build all their tasks at construction; an index beyond the size repeats a task.
EAGER_SIZES = {"acre": 2_000, "list_functions": 100_000, "gsm_symbolic": 100_000, "word_ladder": 1_000}
ENDLESS_SIZE = 10**9

GOLD_FROM_METADATA: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "graph_color": lambda metadata: json.dumps(metadata["possible_answer"]),
    "rubiks_cube": lambda metadata: str(metadata["example_correct_answer"]),
}

# What no right answer contains, but what costs a scorer seconds or gigabytes, or deceives it (NaN).
HOSTILE_NUMBER = re.compile(r"\b[+-]?(?:s?nan|inf|infinity)\b|\d[eE][+-]?\d{4,}|\d{1000,}", re.IGNORECASE)
HOSTILE_TEXT: dict[str, re.Pattern[str]] = {
    "rubiks_cube": re.compile(r"\d{2,}"),  # R999999999 is expanded to a list of that length
    "kakurasu": re.compile(r"[^01\s]"),  # the scorer skips any text between the digits
    "quantum_lock": re.compile(r"[^ABC→>,\s-]"),  # … and here between the letters
    "sokoban": re.compile(r"[^UDLR\s]"),  # … and here between the moves
}
