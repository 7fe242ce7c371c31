# SPDX-License-Identifier: Apache-2.0
"""A bridge that may have few files open serves as many clients as that allows. A client that comes then is told at once, with the reason; the log
says so once for each; and when the others have gone there is room again."""
import re
import resource

from e2e.flat import BUILD, needs_soft, until

pytestmark = needs_soft("NVIDIA's driver needs more descriptors for itself than this test leaves")
DESCRIPTORS, MOST = 34, 12
REFUSAL = "cannot start a worker: Too many open files|could not be given its descriptors"


def test_a_client_that_there_are_no_descriptors_for_is_told_and_there_is_room_when_others_have_gone(region):
    region.serve(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
    clients, refused = [], None
    while not refused and len(clients) < MOST:
        client = region.background(f"client{len(clients)}", BUILD / "e2e/endless")
        until(lambda client=client: "running" in client.out or not client.runs(), f"served or told: {client}")
        if "running" in client.out:
            clients.append(client)
        else:
            refused = client
    assert clients, f"no client was served with {DESCRIPTORS} descriptors: {refused}"
    assert refused, f"{DESCRIPTORS} descriptors were enough for all"
    assert re.search(REFUSAL, refused.log), refused
    for client in clients:
        client.kill()
    tries = []

    def served():
        tries.append(region.client(BUILD / "programs/vector_add"))
        return "PASSED" in tries[-1].out
    until(served, lambda: f"a client is served again: {tries[-1]}")
    assert len(re.findall("cannot start|could not be given", region.log)) < 19 + len(tries), region.log
