# SPDX-License-Identifier: Apache-2.0
"""The pages as a site (make site), without mkdocs: each page is in its navigation, or in a folder that is; what is there is a page; each decision
is in the table of docs/decisions/README.md; and a link to a part of a page leads to a heading. (test_names.py looks for the files that links name.)"""
import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PAGES = sorted(str(page.relative_to(TOP)) for page in [*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")])
DECISIONS = sorted(set((TOP / "docs/decisions").glob("*.md")) - {TOP / "docs/decisions/README.md"})
MKDOCS = (TOP / "docs/mkdocs.yml").read_text()
FOLDERS = re.findall(r"^ +- .*: (docs/[\w/-]+)(?: #.*)?$", MKDOCS, re.M)
NAVIGATION = re.findall(r"^ +- .*: (\S+\.md)$", MKDOCS, re.M) + [str(page.relative_to(TOP)) for folder in FOLDERS
                                                               for page in sorted((TOP / folder).glob("*.md"))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_the_navigation_has_pages(folder):
    assert list((TOP / folder).glob("*.md"))


def test_each_page_is_in_the_navigation_once():
    assert len(NAVIGATION) > 20, "no navigation was found"
    assert sorted(NAVIGATION) == PAGES


@pytest.mark.parametrize("number, page", enumerate(DECISIONS, 1), ids=lambda value: getattr(value, "stem", ""))
def test_a_decision_has_its_number_its_four_headings_and_its_line_in_the_table(number, page):
    text = page.read_text()
    assert page.name.startswith(f"{number:04}-") and text.startswith(f"# {number}. ")
    assert re.findall(r"^## (.*)", text, re.M) == ["Context", "Decision", "Consequences", "Rejected"]
    assert f"| [{number:04}]({page.name}) |" in (TOP / "docs/decisions/README.md").read_text()


def anchors(page):
    """As mkdocs and forges make them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    plain = [re.sub(r"[^\w\s-]", "", heading.strip().lower()) for heading in re.findall(r"^#+ (.*)", text, re.M)]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def links():
    for page in (TOP / name for name in PAGES):
        for target, part in re.findall(r"\]\(([^)\s#:]*)#([^)\s]+)\)", page.read_text()):
            yield page, page.parent / target if target else page, part


def test_a_link_to_a_part_of_a_page_leads_to_a_heading():
    found = list(links())
    assert found, "no links were found"
    assert [f"{page}: {other}#{part}" for page, other, part in found if other.is_file() and part not in anchors(other)] == []


@pytest.mark.parametrize("words, page", {"error 46": "troubleshooting", "error 100": "troubleshooting", "jupyter": "recipes", "vs code": "recipes", "docker": "recipes",
                                         "nvcc": "recipes", "windows": "windows", "secure boot": "install", "cloud-init": "install"}.items())
def test_what_people_search_for_is_on_the_page_that_has_the_answer(words, page):
    assert words in (TOP / f"docs/{page}.md").read_text().lower()
