# SPDX-License-Identifier: Apache-2.0
"""A program that finds in its ring what no worker writes (something has overwritten the channel) says so and ends its waits: it does not wait for
an answer that cannot come."""
import contextlib
import os
import re
import signal
import struct

from e2e.flat import BUILD, TOP, until

LAYOUT = (TOP / "shm-device/layout.h").read_text()
# Bits 7 and 15 of a descriptor's flags say "used" in every other round of the ring, and neither in the rounds between.
USED_IN_ONE_ROUND_AND_IN_THE_NEXT = 0x8080, 0


def number(name):
    """A constant of layout.h."""
    text = re.search(rf"#define {name}\s+(.+?)(?:/\*|$)", LAYOUT, re.M)[1].strip()
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)(?:ull|u|ULL|U)?\b", r"\1", text)
    return eval(re.sub(r"BARCUDA_\w+", lambda m: str(number(m[0])), text))


def test_a_program_whose_ring_is_overwritten_says_so_and_ends_its_waits(region):
    region.serve("--no-vm")
    client = region.start("client", BUILD / "e2e/endless")
    worker = region.bridge.workers()[0]
    ring = number("BARCUDA_CHANNELS_OFFSET") + number("BARCUDA_RING_OFFSET")

    def overwritten(flags):
        """A descriptor's last 8 bytes are length, id and flags. True once the client has seen it: not if it waits for a fence, and for no command."""
        os.kill(worker, signal.SIGSTOP)
        with open(region.path, "r+b", buffering=0) as file:
            for i in range(number("BARCUDA_QUEUE_SIZE")):
                file.seek(ring + 16 * i + 8)
                file.write(struct.pack("<IHH", 0, 65535, flags))
        try:
            until(lambda: "completed a command that it was not given" in client.log, "", patience=2)  # it may look once a tenth of a second
            return True
        except AssertionError:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):  # its bridge may have ended it with the client
                os.kill(worker, signal.SIGCONT)
    until(lambda: any(overwritten(flags) for flags in USED_IN_ONE_ROUND_AND_IN_THE_NEXT), lambda: f"the client complains: {client}")
    client.wait()
