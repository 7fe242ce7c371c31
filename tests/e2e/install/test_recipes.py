# SPDX-License-Identifier: Apache-2.0
"""Recipes for other programs, in packaging: Proxmox's hook script starts and stops the unit of its VM; Ansible reads its role, which names packages and
options that there are; and so do the recipe of the container images and cloud-init's user-data."""
import os
import re

import pytest

from e2e.flat import BRIDGE, TOP, need, run, succeed, written

HOOK, ANSIBLE = TOP / "packaging/proxmox/barcuda-hook", TOP / "packaging/ansible"
PACKAGES = set(re.findall("^Package: (.*)$", (TOP / "debian/control").read_text(), re.M))


def hook(scratch, *words, status=0):
    """What the hook asks of systemctl, which ends with this status, and how the hook ends."""
    written(scratch / "systemctl", f'#!/bin/sh\necho "$@" >> {scratch}/asked\nexit {status}\n').chmod(0o755)
    (scratch / "asked").write_text("")
    ran = run(HOOK, *words, env={"PATH": f"{scratch}:{os.environ['PATH']}"})
    return (scratch / "asked").read_text().splitlines(), ran


@pytest.mark.parametrize("phase, asked", [("pre-start", ["start barcuda-bridge@vm100"]), ("post-start", []), ("pre-stop", []),
                                          ("post-stop", ["stop barcuda-bridge@vm100"])])
def test_proxmoxs_hook_runs_the_bridge_from_before_the_vm_until_after_it(scratch, phase, asked):
    said, ran = hook(scratch, "100", phase)
    assert (said, ran.status) == (asked, 0), ran


def test_a_bridge_that_does_not_start_keeps_the_vm_from_starting(scratch):
    assert hook(scratch, "100", "pre-start", status=1)[1].status != 0


@pytest.mark.parametrize("words", [["100", "other"], ["x", "pre-start"], ["../1", "post-stop"], []], ids=" ".join)
def test_proxmoxs_hook_refuses_what_is_no_vm_and_no_phase(scratch, words):
    said, ran = hook(scratch, *words)
    assert said == [] and ran.status == 2 and "barcuda-hook: " in ran.err, ran


@pytest.mark.parametrize("play", ["host", "guest"])
def test_ansible_reads_the_role(play):
    need("ansible-playbook")
    ran = run("ansible-playbook", "--syntax-check", "-i", "localhost,", ANSIBLE / f"{play}.yml", env={"LC_ALL": "C.UTF-8"})
    assert ran.status == 0 and f"playbook: {ANSIBLE}/{play}.yml" in ran.out, ran


def test_the_role_names_packages_and_options_that_there_are():
    role = ANSIBLE / "roles/barcuda"
    names = set(re.findall(r"'(\w+)'", re.search(r"barcuda_names: >-\n((?: {6}.*\n)+)", (role / "tasks/main.yml").read_text())[1])) - {"host", "guest"}
    assert names and {f"barcuda-{name}" for name in names} <= PACKAGES, names
    options = re.findall(r"(\w[\w-]*): ", re.search(r"vm1: \{(.*)\}", (role / "defaults/main.yml").read_text())[1])
    known = re.findall(r"^#([\w-]+) =", succeed(BRIDGE, "--print-config"), re.M)
    assert options and set(options) <= set(known), options


def test_the_container_images_are_made_of_packages_that_there_are():
    recipe = (TOP / "packaging/container/Containerfile").read_text()
    assert set(re.findall(r"(barcuda-\w+)_\*\.deb", recipe)) <= PACKAGES
    assert re.findall(r"^FROM .* AS (\w+)$", recipe, re.M) == ["host", "guest"]


def user_data():
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    text = (TOP / "packaging/cloud-init/user-data").read_text()
    assert text.startswith("#cloud-config\n")
    return yaml.safe_load(text)


def test_cloud_inits_user_data_has_the_commands_of_the_page_in_their_order():
    """docs/install.md: those of the repository, then a guest's."""
    page = (TOP / "docs/install.md").read_text()
    commands = [re.sub(r"apt-get (install|update)(?: -y)?", r"apt \1", command) for command in user_data()["runcmd"]]
    commands = [re.sub(r"echo (\".*\") > (.*)", r"echo \1 | sudo tee \2", command) for command in commands]
    for command in commands:
        if command.startswith(("systemctl daemon-reexec", "apt install")):  # the page's packages are files
            continue
        assert f"sudo {command}" in page or command in page, command
    assert [command for command in commands if command.startswith("apt install")] == ["apt install --no-install-recommends barcuda-guest"]
    assert "barcuda-guest" in PACKAGES


def test_cloud_init_knows_each_part_of_the_user_data():
    need("cloud-init")
    ran = run("cloud-init", "schema", "--config-file", TOP / "packaging/cloud-init/user-data")
    assert ran.status == 0, ran
