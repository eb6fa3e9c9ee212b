"""Easy, medium and hard settings of each reasoning-gym dataset: a table.

In: nothing.  Out: what a level changes of a dataset's defaults.  Read by `envs.families.reasoning_gym`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Levels:
    """Settings of each level, on top of the dataset's own defaults.

    The library's curricula are not used: some levels fail an assertion or never end, most start above the defaults, and
    the highest make prompts of 100,000 characters.
    """

    easy: Mapping[str, Any]
    hard: Mapping[str, Any]
    medium: Mapping[str, Any] = field(default_factory=dict)

    def of(self, level: str) -> Mapping[str, Any]:
        table = {"easy": self.easy, "medium": self.medium, "hard": self.hard}
        if level not in table:
            raise ValueError(f"level {level!r} is none of {', '.join(table)}")
        return table[level]


def span(name: str, least: float, most: float) -> dict[str, float]:
    """`span("terms", 2, 3)` is ``{"min_terms": 2, "max_terms": 3}``."""
    return {f"min_{name}": least, f"max_{name}": most}


ONE_LEVEL: dict[str, str] = {
    "acre": "a fixed set of puzzles",
    "gsm_symbolic": "its difficulty takes one value only",
    "list_functions": "it has no settings",
}

_OUTPUT_ONLY = {"input_prediction_probability": 1.0}  # sic: then it asks for outputs, which have one right answer

LEVELS: dict[str, Levels] = {
    "ab": Levels({"length": 5}, {"length": 25}),
    "advanced_geometry": Levels(span("coord", -5, 5), span("coord", -100, 100)),
    "aiw": Levels(
        {"max_entities": 4, "task_type_weights": [1.0, 0.0, 0.0]},
        {"max_entities": 10, "task_type_weights": [0.2, 0.4, 0.4]},
    ),
    "arc_1d": Levels(span("size", 10, 12), span("size", 30, 50)),
    "arc_agi": Levels(
        {"use_eval": False, "use_color_permutation": False, "rotations_weights": [1.0, 0, 0, 0]}
        | {"mirrors_weights": [1.0, 0, 0, 0, 0]},
        {"use_train": False, "rotations_weights": [0.0, 0.4, 0.2, 0.4], "mirrors_weights": [0.05, 0.05, 0.1, 0.4, 0.4]},
    ),
    "base_conversion": Levels(
        span("base", 2, 10) | span("value", 0, 100), span("base", 2, 36) | span("value", 10_000, 1_000_000)
    ),
    "basic_arithmetic": Levels(span("terms", 2, 3) | span("digits", 1, 2), span("terms", 6, 9) | span("digits", 3, 5)),
    "bf": Levels({"difficulty": 1}, {"difficulty": 3}, {"difficulty": 2}),
    "binary_alternation": Levels(span("n", 4, 9), span("n", 30, 80)),
    "binary_matrix": Levels(span("n", 2, 4), span("n", 10, 16) | {"p_zero": 0.1}),
    "bitwise_arithmetic": Levels({"difficulty": 1}, {"difficulty": 5}),
    "caesar_cipher": Levels(span("words", 2, 4) | span("rotation", 1, 3), span("words", 20, 40)),
    "calendar_arithmetic": Levels(
        {"tasks": ["weekday_offset", "weekday_of_date"], "offset_upper_bound": 10},
        {"tasks": ["weekday_of_date_from_first_date", "recurring_event_day", "count_days", "count_business_days"]}
        | {"offset_upper_bound": 365},
    ),
    "chain_sum": Levels(span("terms", 2, 3) | span("digits", 1, 2), span("terms", 6, 10) | span("digits", 4, 6)),
    "circuit_logic": Levels(span("terms", 2, 3) | span("inputs", 2, 2), span("terms", 8, 12) | span("inputs", 4, 6)),
    "codeio": Levels(
        _OUTPUT_ONLY | {"difficulty": 6}, _OUTPUT_ONLY | {"difficulty": 9}, _OUTPUT_ONLY | {"difficulty": 7}
    ),
    "coin_flip": Levels(span("trials", 2, 4), span("trials", 12, 25)),
    "color_cube_rotation": Levels(span("rotations", 1, 1), span("rotations", 5, 15)),
    "complex_arithmetic": Levels(
        {"operations_weights": [0.5, 0.5, 0.0, 0.0]},
        span("real", -100, 100) | span("imag", -100, 100) | {"operations_weights": [0.1, 0.1, 0.4, 0.4]},
    ),
    "count_bits": Levels(span("n", 1, 255), span("n", 2**31, 2**48)),
    "count_primes": Levels(span("n", 1, 200), span("n", 1, 50_000)),
    "countdown": Levels(
        span("numbers", 3, 3) | span("value", 1, 20) | span("target", 10, 100),
        span("numbers", 6, 8) | span("target", 100, 5_000),
    ),
    "course_schedule": Levels(
        span("num_courses", 3, 5) | span("cycle_length", 3, 3),
        span("num_courses", 20, 40) | span("num_prerequisites", 1, 3) | span("cycle_length", 3, 8),
    ),
    "cryptarithm": Levels(span("words", 2, 2), span("words", 4, 6)),
    "decimal_arithmetic": Levels(
        span("num_decimal_places", 1, 2) | span("terms", 2, 3) | {"precision": 8},
        span("num_decimal_places", 4, 6) | span("terms", 5, 9) | {"precision": 16},
    ),
    "decimal_chain_sum": Levels(
        span("terms", 2, 3) | span("digits", 1, 2) | span("decimal_places", 1, 1),
        span("terms", 6, 10) | span("digits", 4, 6) | span("decimal_places", 3, 6),
    ),
    "dice": Levels({"num_dice": 2, "max_dice_size": 8}, {"num_dice": 6, "max_dice_size": 30}),
    "emoji_mystery": Levels(span("words_in_sentence", 3, 8), span("words_in_sentence", 25, 50)),
    "family_relationships": Levels(span("family_size", 3, 4), span("family_size", 9, 11)),
    "figlet_font": Levels(span("word_len", 3, 4), span("word_len", 8, 12)),
    "fraction_simplification": Levels(
        span("value", 1, 20) | span("factor", 2, 10), span("value", 1_000, 10_000) | span("factor", 100, 1_000)
    ),
    "futoshiki": Levels(
        span("board_size", 4, 4) | span("difficulty", 0, 1), span("board_size", 6, 7) | span("difficulty", 2, 3)
    ),
    "game_of_life": Levels(
        {"grid_size_x": 5, "grid_size_y": 5, "filled_cells_weights": 0.3},
        {"grid_size_x": 14, "grid_size_y": 14, "filled_cells_weights": 0.3, "simulation_steps": 3},
    ),
    "game_of_life_halting": Levels(
        {"grid_size_x": 9, "grid_size_y": 9, "num_oscillators": 2, "max_simulation_steps": 10},
        {"grid_size_x": 20, "grid_size_y": 20, "difficulty": 2, "num_oscillators": 8, "max_simulation_steps": 40},
    ),
    "gcd": Levels(span("value", 1, 50), span("numbers", 3, 4) | span("value", 1_000, 100_000)),
    "graph_color": Levels(
        span("num_vertices", 5, 6) | {"num_colors": 4}, span("num_vertices", 16, 20) | {"edge_probability": 0.15}
    ),
    "group_anagrams": Levels(
        span("anagram_groups", 2, 3) | span("words_per_group", 2, 3), span("anagram_groups", 10, 20)
    ),
    "intermediate_integration": Levels(
        {"problem_type_weights": [1, 0, 0, 0, 0, 0, 0, 0]},
        {"problem_type_weights": [0, 0, 0.25, 0, 0.25, 0, 0.25, 0.25]},
    ),
    "isomorphic_strings": Levels(span("string_length", 2, 4), span("string_length", 15, 40)),
    "jugs": Levels({"difficulty": 5}, {"difficulty": 14}),
    "kakurasu": Levels(span("rows", 3, 4) | span("cols", 3, 4), span("rows", 6, 7) | span("cols", 6, 7)),
    "knight_swap": Levels(
        span("nodes", 6, 6) | span("pieces", 1, 1) | span("steps", 2, 10),
        span("nodes", 8, 9) | span("steps", 8, 30),
    ),
    "knights_knaves": Levels({}, {"n_people": 5, "depth_constraint": 3, "width_constraint": 3}, {"n_people": 3}),
    "largest_island": Levels(
        span("rows", 4, 5) | span("cols", 4, 5) | span("num_islands", 1, 2) | span("island_size", 1, 5),
        span("rows", 12, 18) | span("cols", 12, 18) | span("num_islands", 4, 10) | span("island_size", 5, 20),
    ),
    "lcm": Levels(span("value", 1, 15), span("numbers", 3, 4) | span("value", 10, 200)),
    "leg_counting": Levels(
        span("animals", 1, 3) | span("instances", 1, 5), span("animals", 12, 20) | span("instances", 10, 100)
    ),
    "letter_counting": Levels(span("words", 2, 5), span("words", 20, 40)),
    "letter_jumble": Levels(
        span("word_len", 2, 6) | span("words", 1, 4) | span("corruption_level", 0.1, 0.4),
        span("words", 20, 30) | span("corruption_level", 0.7, 0.9),
    ),
    "mahjong_puzzle": Levels(span("num_rounds", 3, 10), span("num_rounds", 50, 100)),
    "manipulate_matrix": Levels(
        span("rows", 2, 4) | span("cols", 2, 4) | span("transforms", 1, 2),
        span("rows", 8, 12) | span("cols", 8, 12) | span("transforms", 8, 15),
    ),
    "maze": Levels(span("dist", 3, 5) | span("grid_size", 5, 7), span("dist", 10, 20) | span("grid_size", 12, 18)),
    "mini_sudoku": Levels(span("empty", 3, 7), span("empty", 12, 12)),
    "modulo_grid": Levels(
        {"size_x": 10, "size_y": 10, "max_divisor": 5, "max_target": 4},
        {"size_x": 30, "size_y": 30, "max_divisor": 30, "max_target": 30, "max_holes": 5},
    ),
    "n_queens": Levels({"n": 5} | span("remove", 1, 3), {"n": 9} | span("remove", 6, 8)),
    "needle_haystack": Levels(span("num_statements", 3, 10), span("num_statements", 100, 250)),
    "number_filtering": Levels(
        span("numbers", 2, 4) | span("decimals", 0, 1), span("numbers", 15, 40) | span("value", -1_000.0, 1_000.0)
    ),
    "number_format": Levels(span("num_candidates", 2, 2), span("num_candidates", 6, 15) | {"max_delta": 0.01}),
    "number_sequence": Levels(
        span("value", -20, 20) | {"max_complexity": 1}, span("terms", 6, 10) | {"max_complexity": 4}
    ),
    "number_sorting": Levels(span("numbers", 2, 4) | span("decimals", 0, 0), span("numbers", 20, 40)),
    "palindrome_generation": Levels(span("length", 2, 4), span("length", 15, 40)),
    "palindrome_partitioning": Levels(
        span("string_len", 3, 6), span("string_len", 14, 18) | span("substring_palindrome_len", 2, 7)
    ),
    "path_star": Levels(
        {"degree": 2, "node_range": 1_000} | span("path_length", 2, 3), {"degree": 6} | span("path_length", 6, 8)
    ),
    "polynomial_equations": Levels(
        span("degree", 1, 1) | span("terms", 2, 3), span("degree", 3, 4) | span("terms", 3, 5)
    ),
    "polynomial_multiplication": Levels(
        span("terms", 2, 2) | span("degree", 0, 1) | span("polynomials", 2, 2) | span("value", 1, 10),
        span("terms", 3, 5) | span("degree", 1, 5) | span("polynomials", 3, 4) | span("value", 1, 1_000),
    ),
    "pool_matrix": Levels(
        span("rows", 2, 4) | span("cols", 2, 4) | span("pool_size", 1, 2),
        span("rows", 10, 16) | span("cols", 10, 16) | span("pool_size", 2, 4),
    ),
    "power_function": Levels(span("exponent", 0, 2) | span("base", -20.0, 20.0), span("exponent", 6, 12)),
    "prime_factorization": Levels(span("value", 2, 60), span("value", 1_000, 30_000)),
    "products": Levels(span("digits", 1, 2), span("terms", 3, 4) | span("digits", 3, 5)),
    "puzzle24": Levels(span("value", 1, 6), span("value", 4, 10)),
    "quantum_lock": Levels({"difficulty": 2}, {"difficulty": 10}, {"difficulty": 6}),
    "ransom_note": Levels(
        span("note_length", 1, 3) | span("magazine_length", 2, 8),
        span("note_length", 15, 40) | span("magazine_length", 40, 120),
    ),
    "rearc": Levels(
        {"rng_difficulty_weights": [1.0, 0, 0, 0, 0, 0, 0], "pso_difficulty_weights": [1.0, 0, 0, 0, 0, 0, 0]},
        {"rng_difficulty_weights": [0, 0, 0, 0, 0, 0, 1.0], "pso_difficulty_weights": [0, 0, 0, 0, 0, 0, 1.0]},
    ),
    "rectangle_count": Levels({"max_rectangles": 3, "width": 30, "height": 30}, {"max_rectangles": 20}),
    "rotate_matrix": Levels(span("n", 2, 4) | span("rotations", 0, 3), span("n", 10, 14) | span("rotations", 4, 15)),
    "rotten_oranges": Levels(span("n", 3, 8), span("n", 30, 40)),
    "rubiks_cube": Levels(span("scramble_steps", 1, 2), span("scramble_steps", 10, 20)),
    "rush_hour": Levels(span("moves", 1, 6), span("moves", 20, 50)),
    "self_reference": Levels({"difficulty": 2}, {"difficulty": 8}),
    "sentence_reordering": Levels(span("words_in_sentence", 3, 5), span("words_in_sentence", 15, 30)),
    "shortest_path": Levels(span("rows", 3, 4) | span("cols", 3, 4), span("rows", 10, 14) | span("cols", 10, 14)),
    "simple_equations": Levels(
        span("terms", 2, 2) | span("value", 1, 10), span("terms", 5, 8) | span("value", 10, 1_000)
    ),
    "simple_geometry": Levels(span("sides", 3, 4), span("sides", 7, 15)),
    "simple_integration": Levels(
        span("terms", 1, 2) | span("degree", 1, 3), span("terms", 5, 8) | span("degree", 1, 12)
    ),
    "sokoban": Levels(
        span("w", 6, 8) | span("h", 6, 8) | span("boxes", 1, 2),
        span("w", 9, 12) | span("h", 9, 12) | span("boxes", 5, 9),
    ),
    "spell_backward": Levels(span("word_len", 3, 4), span("word_len", 8, 10)),
    "spiral_matrix": Levels(span("n", 2, 3), span("n", 10, 14)),
    "string_insertion": Levels(span("string_length", 5, 8), span("string_length", 20, 60)),
    "string_manipulation": Levels(
        span("string_length", 5, 8) | span("num_rules", 3, 4), span("string_length", 20, 50) | span("num_rules", 8, 15)
    ),
    "string_splitting": Levels(span("initial_machines", 0, 2), span("initial_machines", 6, 20)),
    "string_synthesis": Levels(span("initial_blocks", 0, 2), span("initial_blocks", 6, 20)),
    "sudoku": Levels(span("empty", 10, 25), span("empty", 48, 54)),
    "survo": Levels(span("board_size", 4, 4) | span("empty", 3, 3), span("board_size", 5, 6) | span("empty", 6, 9)),
    "syllogism": Levels(
        {"allow_some": False, "allow_some_not": False}, {"invalid_ratio": 0.5, "inversion_probability": 0.5}
    ),
    "time_intervals": Levels(
        {"task_types": ["time", "date"], "max_time_difference_seconds": 3_600, "max_date_difference_days": 10},
        {"task_types": ["time_ms", "datetime", "datetime_tz"], "max_date_difference_days": 1_000},
    ),
    "tower_of_hanoi": Levels(span("disks", 2, 3), span("disks", 6, 8)),
    "tsumego": Levels(span("board_size", 5, 7) | {"max_stones": 8}, span("board_size", 13, 19) | {"max_stones": 25}),
    "word_ladder": Levels(span("word_length", 3, 3), span("word_length", 5, 5)),
    "word_sequence_reversal": Levels(span("words", 2, 4), span("words", 10, 25)),
    "word_sorting": Levels(span("words", 2, 4), span("words", 15, 30)),
    "zebra_puzzles": Levels({"num_people": 3, "num_characteristics": 3}, {"num_people": 5, "num_characteristics": 5}),
}
