# SPDX-License-Identifier: Apache-2.0
"""Which devices a program sees: what --gpus gives its VM, and of these what its CUDA_VISIBLE_DEVICES names, in that order. The host enforces
the first with the driver's own means, and gives each client a worker of its devices."""
import re

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, DEVICE, RUN, needs_soft, run

WHICH = BUILD / "programs/which_devices"
NOT_THE_PROGRAMS = 125
PATIENCE = 300  # of programs that use each device


@pytest.fixture(autouse=True)
def three_devices(monkeypatch):
    if DEVICE == "soft":
        monkeypatch.setenv("BARCUDA_SOFT_DEVICES", "3")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def seen_by(ran):
    assert ran.status == 0 and "PASSED" in ran.out.splitlines(), ran
    numbers = re.findall(r"^(\d+) (GPU-[-0-9a-f]*) ", ran.out, re.M)
    assert [int(n) for n, _ in numbers] == list(range(len(numbers))), ran
    return [uuid for _, uuid in numbers]


@pytest.fixture
def uuids(three_devices):
    all_ = seen_by(run(*RUN, WHICH))
    if len(all_) == 1:
        assert DEVICE != "soft"
        pytest.skip("there is one device")
    return all_


@pytest.fixture
def last(uuids):
    return len(uuids) - 1


@pytest.fixture
def sees(uuids):
    """A program sees these of all devices, in this order, and uses each."""
    def check(numbers, ran):
        assert seen_by(ran) == [uuids[n] for n in numbers], f"not {numbers} but {ran}"
    return check


def sees_none(ran):
    assert ran.status == 0 and "no device: cudaErrorNoDevice" in ran.out.splitlines(), ran
    return ran


# ---- barcuda run --------------------------------------------------------------------------------------------------------------------
def test_the_variable_of_barcuda_run_is_the_programs(sees, last):
    sees([0, last], run(*RUN, WHICH, env={"CUDA_VISIBLE_DEVICES": f"0,{last}"}))
    sees([last], run(*RUN, WHICH, env={"CUDA_VISIBLE_DEVICES": last}))
    sees([1, 0], run(*RUN, WHICH, "CUDA_VISIBLE_DEVICES=1,0"))


def test_a_program_that_asks_for_no_device_sees_none(uuids):
    sees_none(run(*RUN, WHICH, env={"CUDA_VISIBLE_DEVICES": "MIG-1"}))
    assert not sees_none(run(*RUN, WHICH, env={"CUDA_VISIBLE_DEVICES": ""})).err


# ---- in a guest -----------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def visible(region):
    """Runs a program as a client with this list of devices."""
    def client(devices, *command, **how):
        return region.client(*command, env={"CUDA_VISIBLE_DEVICES": devices}, **how)
    return client


def test_a_guests_program_sees_the_devices_that_its_variable_names(region, sees, visible, uuids, last):
    region.serve("--no-vm")
    sees(range(last + 1), region.client(WHICH))
    for _ in range(3):  # the third has a warm worker
        sees([last, 0], visible(f"{last},0", WHICH))
    sees([1], visible("1", WHICH))
    sees([1, 0], visible(f"{uuids[1]},{uuids[0]}", WHICH))
    sees([0], visible("0,-1,1", WHICH))
    sees([1], visible("1,9", WHICH))
    sees([0], visible(f"0,{uuids[1]}", WHICH))
    sees([1, 0], visible("0", WHICH, "CUDA_VISIBLE_DEVICES=1,0"))  # as the program sets it, before it asks


def test_lists_that_name_nothing_or_one_device_twice_are_empty(region, visible, uuids):
    region.serve("--no-vm")
    for devices in "", "-1", "9", "GPU-x", "MIG-0", "0,0":
        sees_none(visible(devices, WHICH))
    twice = sees_none(visible(f"{uuids[0]},{uuids[0]}", WHICH))
    assert re.search(f"barcuda: no GPU: CUDA_VISIBLE_DEVICES=.*: it names {uuids[0]} twice", twice.err), twice


def test_a_device_that_is_not_there_is_named_but_nothing_is_said_where_none_was_asked_for(region, visible, uuids):
    region.serve("--no-vm")
    assert "barcuda: no GPU: CUDA_VISIBLE_DEVICES=9: there is no 9; `barcuda doctor`" in visible("9", WHICH).said
    assert "barcuda" not in visible("-1", WHICH).said


@needs_soft("its devices are in this order in any case")
def test_devices_may_be_ordered_by_their_place_on_the_bus(region, sees, last):
    region.serve("--no-vm")
    sees(range(last + 1), region.client(WHICH, env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}))


def test_doctor_says_which_devices_programs_see(region, visible, uuids, last):
    region.serve("--no-vm")
    ran = visible(f"{last},0,9", BARCUDA, "doctor")
    for i, uuid in enumerate(uuids):
        assert re.search(f"GPU {i}: .*, {uuid}", ran.out), ran
    assert f"CUDA_VISIBLE_DEVICES={last},0,9: programs see GPU {last}, 0, in this order; there is no 9" in ran.out, ran


def test_clients_of_different_devices_run_at_once(region, visible, last):
    region.serve("--no-vm")
    one = region.background("one", BUILD / "programs/bursts", env={"CUDA_VISIBLE_DEVICES": last})
    two = visible("0", BUILD / "programs/bursts")
    assert two.status == 0, two
    assert one.wait() == 0, one


# ---- --gpus: what a VM gets, and no guest gets round --------------------------------------------------------------------------------------
def test_a_vm_has_the_devices_of_the_option_gpus(region, sees, visible, uuids, last):
    region.serve("--no-vm", "--gpus", f"{last},0")
    assert re.search(rf"0 .* \({uuids[last]}\), 1 .* \({uuids[0]}\)", region.log), "the bridge does not say which"
    sees([last, 0], region.client(WHICH))
    sees([0], visible("1", WHICH))
    sees([0, last], visible(f"{uuids[0]},{uuids[last]}", WHICH))
    if last > 1:
        sees_none(visible(uuids[1], WHICH))
    sees_none(visible("2", WHICH))


def test_a_vm_has_the_one_device_that_is_named_by_its_uuid(region, sees, visible, uuids):
    region.serve("--no-vm", "--gpus", uuids[1])
    sees([1], region.client(WHICH))
    sees_none(visible(uuids[0], WHICH))


def run_with(*options):
    return [*RUN[:-1], *options, "--"]


def test_barcuda_run_has_the_same_option(sees, uuids):
    sees([1], run(*run_with("--gpus", "1"), WHICH))
    sees([1], run(*run_with("--gpus", f"{uuids[0]},{uuids[1]}"), WHICH, "CUDA_VISIBLE_DEVICES=1"))


@pytest.mark.parametrize("words, gpus", [("there is no GPU 9; these are here:", "0,9"), ("there is no GPU x", "x"), ("it names 1 twice", "1,1"),
                                         ("there is no GPU GPU-x", "GPU-x")], ids=lambda value: value)
def test_devices_that_are_not_there_are_refused_by_bridge_and_run(region, uuids, words, gpus):
    ran = run(BRIDGE, "--region", region.path, "--size", "128M", "--device", DEVICE, "--gpus", gpus)
    assert ran.status != 0 and f"--gpus {gpus}: {words}" in ran.err and f"0  {uuids[0]}" in ran.err, ran
    ran = run(*run_with("--gpus", gpus), "true")
    assert ran.status == NOT_THE_PROGRAMS, ran


def test_a_part_of_a_device_is_for_the_bridges_own_variable(region):
    ran = run(BRIDGE, "--region", region.path, "--device", DEVICE, "--gpus", "MIG-1")
    assert "start the bridge with CUDA_VISIBLE_DEVICES=MIG-1" in ran.said, ran


def test_an_empty_option_gpus_is_refused():
    ran = run(*run_with("--gpus", ""), "true")
    assert ran.status != 0 and "it names no GPU" in ran.said, ran


# ---- what each device has for itself, of many and in any order ------------------------------------------------------------------------------
def test_each_device_has_its_own_state(uuids):
    ran = run(*RUN, BUILD / "programs/device_state", patience=PATIENCE)
    assert ran.status == 0, ran


def test_devices_work_together_in_any_order(last):
    for variable, pair in (None, (0, last)), (None, (last, 0)), (f"{last},0", ()):
        ran = run(*RUN, BUILD / "programs/devices", *pair, env={"CUDA_VISIBLE_DEVICES": variable}, patience=PATIENCE)
        assert ran.status == 0, ran


@needs_soft("a machine of 32 GPUs")
def test_there_may_be_32_devices():
    ran = run(*RUN, BUILD / "programs/device_state", env={"BARCUDA_SOFT_DEVICES": 32}, patience=PATIENCE)
    assert ran.out.startswith("32 devices") or "\n32 devices" in ran.out, ran
