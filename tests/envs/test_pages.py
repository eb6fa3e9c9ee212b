"""docs/domains.md is what the code says, family by family."""

from __future__ import annotations

from pathlib import Path

from envs.families import FAMILIES, all_domains
from envs.pages import COST_LINE, render_pages, skills_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "domains.md"
REMEDY = "write it again: python -m envs pages > docs/domains.md"


def _without_costs(text: str) -> list[str]:
    """They differ from machine to machine; everything else follows from the code."""
    return [line for line in text.splitlines() if not line.startswith(COST_LINE)]


def test_the_page_in_docs_is_what_the_code_says() -> None:
    written, rendered = (_without_costs(text) for text in (PAGE.read_text(), render_pages(FAMILIES)))
    for number, (old, new) in enumerate(zip(written, rendered, strict=False), 1):
        assert old == new, f"line {number} (without cost lines); {REMEDY}"
    assert len(written) == len(rendered), REMEDY


def test_every_family_says_what_it_is_and_what_it_costs() -> None:
    text = PAGE.read_text()
    for name, family in FAMILIES.items():
        page = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert len(family.about) > 100, name
        if any(domain.needs_module for domain in family.domains()):
            assert "pip install 'jointrl[games]'" in page and COST_LINE not in page
            continue
        assert page.count(COST_LINE) == 1
        assert ", worth 1:\n" in page or family.about.count("reference policy"), name
        assert "[user]" in page and "[assistant" in page


def test_levels_of_a_skill_are_told_from_names_with_a_dash() -> None:
    domains = [domain for name, domain in all_domains().items() if name.startswith(("sql/join", "math/add"))]
    assert skills_of(domains) == {"join": ["easy", "medium", "hard"], "add": ["easy", "medium"]}
