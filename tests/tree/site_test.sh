#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The pages as a site (make site), without mkdocs: each page is in its navigation, or in a folder that is; what is there is a page; each
# decision is in the overview's table; and a link to a part of a page leads to a heading. (names_test.sh looks for the files that links name.)
cd "$(dirname "$0")/../.." && exec python3 - <<'E2'
import re
import sys
from pathlib import Path

complaints = []
navigation = re.findall(r"^ +- .*: (\S+\.md)$", Path("docs/mkdocs.yml").read_text(), re.M)
folders = re.findall(r"^ +- .*: (docs/[\w/-]+)(?: #.*)?$", Path("docs/mkdocs.yml").read_text(), re.M)
navigation += [str(page) for folder in folders for page in sorted(Path(folder).glob("*.md"))]
complaints += [f"docs/mkdocs.yml: {folder} has no pages" for folder in folders if not list(Path(folder).glob("*.md"))]
pages = [str(p) for p in [*Path(".").glob("*.md"), *Path("docs").rglob("*.md")]]
complaints += [f"docs/mkdocs.yml: {page} is no page" for page in navigation if page not in pages]
complaints += [f"docs/mkdocs.yml: {page} is there twice" for page in set(navigation) if navigation.count(page) > 1]
complaints += [f"{page}: is not in docs/mkdocs.yml" for page in pages if page not in navigation]

FOUR = ["Context", "Decision", "Consequences", "Rejected"]
overview = Path("docs/design.md").read_text()
for number, page in enumerate(sorted(Path("docs/decisions").glob("*.md")), 1):
    text = page.read_text()
    if not page.name.startswith(f"{number:04}-") or not text.startswith(f"# {number}. "):
        complaints.append(f"{page}: is not number {number} by its name and its title")
    if re.findall(r"^## (.*)", text, re.M) != FOUR:
        complaints.append(f"{page}: its headings are not {', '.join(FOUR)}")
    if f"| [{number:04}](decisions/{page.name}) |" not in overview:
        complaints.append(f"{page}: is not in the table of docs/design.md")


def anchors(page):
    """As mkdocs and forges make them of headings."""
    text = re.sub(r"^```.*?^```", "", Path(page).read_text(), flags=re.M | re.S)
    plain = [re.sub(r"[^\w\s-]", "", heading.strip().lower()) for heading in re.findall(r"^#+ (.*)", text, re.M)]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


links = 0
for page in pages:
    for target, part in re.findall(r"\]\(([^)\s#:]*)#([^)\s]+)\)", Path(page).read_text()):
        links += 1
        other = Path(page).parent / target if target else Path(page)
        if other.is_file() and part not in anchors(other):
            complaints.append(f"{page}: {target}#{part}: no such heading")
print("\n".join(complaints) if complaints else "passed" if len(navigation) > 20 and links else "no navigation, or no links, were found")
sys.exit(bool(complaints) or len(navigation) <= 20 or not links)
E2
