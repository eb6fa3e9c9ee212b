"""The skills of `layout`, with the settings of their levels.

In: nothing.  Out: `SKILLS`, listed by the family.
"""

from __future__ import annotations

from typing import Any

from envs.families.instructions import layout
from envs.skills import Ask, Judge, Skill


def _skill(name: str, ask: Ask, judge: Judge, *levels: dict[str, Any], tagged: bool = False) -> Skill:
    named = dict(zip(("easy", "medium", "hard"), levels, strict=True))
    return Skill(name=name, ask=ask, judge=judge, levels=named, tagged=tagged)


SKILLS = [
    _skill(
        "bullets",
        layout.ask_bullets,
        layout.judge_bullets,
        {"topics": 1, "count": 2, "slack": 5},
        {"topics": 3, "count": 4, "slack": 1},
        {"topics": 4, "count": 7, "slack": 0},
    ),
    _skill(
        "numbered_list",
        layout.ask_numbered_list,
        layout.judge_numbered_list,
        {"topics": 2, "styles": ("1.",)},
        {"topics": 4, "styles": ("1.", "a)", "9.")},
        {"topics": 8, "styles": ("9.", "10.", "II.")},
    ),
    _skill(
        "stairs",
        layout.ask_stairs,
        layout.judge_stairs,
        {"topics": 1, "count": 2, "shapes": ("down",)},
        {"topics": 2, "count": 4, "shapes": ("down", "up", "turns")},
        {"topics": 3, "count": 7, "shapes": ("up", "turns", "hill")},
    ),
    _skill(
        "line_starts",
        layout.ask_line_starts,
        layout.judge_line_starts,
        {"topics": 1, "count": 1, "speakers": 2},
        {"topics": 2, "count": 2, "speakers": 2},
        {"topics": 4, "count": 3, "speakers": 3},
    ),
    _skill(
        "headings",
        layout.ask_headings,
        layout.judge_headings,
        {"topics": 1, "count": 2, "depth": 1},
        {"topics": 2, "count": 3, "depth": 2},
        {"topics": 4, "count": 6, "depth": 4},
    ),
    _skill(
        "table",
        layout.ask_table,
        layout.judge_table,
        {"rows": 2, "columns": 1, "sort": False},
        {"rows": 4, "columns": 2, "sort": False},
        {"rows": 9, "columns": 3, "sort": True},
        tagged=True,
    ),
    _skill(
        "two_responses",
        layout.ask_two_responses,
        layout.judge_two_responses,
        {"topics": 1, "count": 1, "share": 6},
        {"topics": 2, "count": 2, "share": 3},
        {"topics": 3, "count": 3, "share": 0},
    ),
    _skill(
        "json_only",
        layout.ask_json_only,
        layout.judge_json_only,
        {"topics": 1, "count": 1, "tags": 1},
        {"topics": 2, "count": 2, "tags": 3},
        {"topics": 3, "count": 5, "tags": 8},
    ),
    _skill(
        "repeat_request",
        layout.ask_repeat_request,
        layout.judge_repeat_request,
        {"topics": 1, "count": 1, "twist": ("plain",)},
        {"topics": 2, "count": 2, "twist": ("plain", "quoted")},
        {"topics": 4, "count": 4, "twist": ("upper", "quoted")},
    ),
    _skill(
        "options_only",
        layout.ask_options_only,
        layout.judge_options_only,
        {"people": 3, "asked": 2},
        {"people": 4, "asked": 4},
        {"people": 8, "asked": 9},
        tagged=True,
    ),
]
