# SPDX-License-Identifier: Apache-2.0
"""The files that docs/oversubscription.md has for systemd's units: bridges take the configurations, and share the book that tmpfiles makes."""
import os
import re

import pytest

from e2e.flat import BUILD, IS_ROOT, TOP, needs_soft
from e2e.lives.test_shared_cards import Card, nobody_has_anything, shared

pytestmark = needs_soft("needs a card of 512 MiB")

SECTION = (TOP / "docs/oversubscription.md").read_text().split("## With systemd\n")[1].split("\n## ")[0]
CONFIGURATIONS = [text for text in re.findall(r"```ini\n(.*?)```", SECTION, re.S) if not text.startswith("[")]
GIB = 1 << 30


def test_bridges_take_the_configurations_and_share_a_book(regions, scratch):
    assert len(CONFIGURATIONS) == 2
    card = Card(regions, scratch)
    for number, text in enumerate(CONFIGURATIONS):
        assert "cards = on\n" in text
        file = scratch / f"vm{number}.conf"
        file.write_text(text.replace("cards = on", f"cards = {card.book.path}"))
        region = regions()
        region.serve("--config", file, "--warm", "0", "--store-ready", "0", "--card-reserve", "16M", env=card.variables)
        card.sides.append(region)
        assert shared(region)["store"]["size"] == int(re.search(r"store = (\d+)G", text)[1]) * GIB
    for side in card.sides:
        assert side.client(BUILD / "e2e/crowd", 200, 3, 1).status == 0
    nobody_has_anything(card)


@pytest.mark.skipif(not IS_ROOT, reason="needs root: the book is root's")
def test_a_bridge_shares_the_book_that_tmpfiles_makes(regions, scratch):
    kind, path, mode, user, group, _ = re.search(r"^f /.*$", SECTION, re.M)[0].split()
    assert (kind, path, user, group) == ("f", "/dev/shm/barcuda-cards", "root", "kvm")
    card = Card(regions, scratch)
    card.book.path.touch()
    os.chmod(card.book.path, int(mode, 8))
    os.chown(card.book.path, 0, 0)
    assert card.side().client(BUILD / "e2e/crowd", 200, 3, 1).status == 0
