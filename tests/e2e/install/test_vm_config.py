# SPDX-License-Identifier: Apache-2.0
"""`barcuda vm-config`: what it prints is what each manager of VMs takes: QEMU itself, and libvirt where it is installed."""
import json
import re
import xml.etree.ElementTree as tree

import pytest

from e2e.flat import BARCUDA, need, run, succeed, written

DEVICES = ["", "--suspend", "--doorbell", "--virtio-pmem"]


def config(*words):
    return succeed(BARCUDA, "vm-config", *words)


def refused(*words, says=""):
    ran = run(BARCUDA, "vm-config", *words)
    assert ran.status != 0 and says in ran.said, ran


# ---- QEMU --------------------------------------------------------------------------------------------------------------------------------
QUESTIONS = "".join(f'{{"execute":"{command}"}}\n' for command in ("qmp_capabilities", "query-pci", "query-memory-devices", "quit"))


@pytest.mark.parametrize("kind", DEVICES)
def test_a_machine_of_qemus_comes_up_with_the_device(region, kind):
    need("qemu-system-x86_64")
    region.serve("--doorbell", region.folder / "doorbell", size="256M")
    place = {"": ["--region", region.path], "--suspend": ["--suspend", "--region", region.path],
             "--doorbell": ["--doorbell", "--socket", region.folder / "doorbell"],
             "--virtio-pmem": ["--virtio-pmem", "--memory", "64M", "--region", region.path]}[kind]
    options = config("--qemu", "vm1", "--size", "256M", *place).split()
    ran = run("qemu-system-x86_64", "-S", "-nodefaults", "-display", "none", "-qmp", "stdio", *options, input=QUESTIONS)
    assert ran.status == 0, ran
    assert '"vendor": 6900' in ran.out, f"no device: {ran}"
    if kind == "--virtio-pmem":
        assert re.search('"type": "virtio-pmem".*"size": 268435456', ran.out), ran


# ---- libvirt -----------------------------------------------------------------------------------------------------------------------------
def test_libvirt_gets_an_ivshmem_device():
    added = tree.fromstring(config("--libvirt", "vm1", "--size", "8G"))
    assert added.find("model").get("type") == "ivshmem-plain" and added.get("name") == "barcuda-vm1" and added.find("size").text == "8192"


def test_a_device_that_is_to_be_suspended_is_the_master():
    assert config("--qemu", "vm1", "--suspend").endswith("ivshmem-plain,memdev=barcuda,master=on\n")
    assert tree.fromstring(config("--libvirt", "vm1", "--suspend")).get("role") == "master"
    assert "master" not in config("--qemu", "vm1") + config("--libvirt", "vm1")
    assert config("--qemu", "vm1", "--virtio-pmem", "--suspend") == config("--qemu", "vm1", "--virtio-pmem")
    refused("--qemu", "vm1", "--doorbell", "--suspend", says="QEMU cannot save a device with interrupts")


def test_libvirt_gets_an_ivshmem_device_with_a_doorbell():
    added = tree.fromstring(config("--libvirt", "vm1", "--size", "8G", "--doorbell"))
    assert added.find("model").get("type") == "ivshmem-doorbell" and added.find("server").get("path") == "/run/barcuda/vm1/doorbell"


def test_libvirt_gets_virtio_pmem_as_options_of_qemus():
    added = tree.fromstring(config("--libvirt", "vm1", "--size", "8G", "--virtio-pmem"))
    options = config("--qemu", "vm1", "--size", "8G", "--virtio-pmem").rstrip("\n")
    assert "slots=1,maxmem=13G" in options
    assert [argument.get("value") for argument in added] == (options.replace("4G,slots", "slots") + ",addr=0x1c").split(" ")


@pytest.mark.parametrize("kind", DEVICES)
def test_a_domain_with_it_is_valid_for_libvirt(scratch, kind):
    need("virt-xml-validate", "xmllint")
    added = config("--libvirt", "vm1", "--size", "8G", *kind.split())
    inside = "</devices>" + added if kind == "--virtio-pmem" else added + "</devices>"
    domain = written(scratch / "domain.xml", '<domain type="qemu"><name>vm1</name><memory>1048576</memory><os><type arch="x86_64" machine="q35">hvm'
                                             f"</type></os><devices>{inside}</domain>\n")
    succeed("virt-xml-validate", domain, "domain")


def test_libvirt_takes_no_region_of_another_folder_but_a_doorbell():
    refused("--libvirt", "vm1", "--region", "/dev/hugepages/vm1", says="--doorbell")


# ---- Windows guests: a device for each process ---------------------------------------------------------------------------------------------
def test_a_windows_guest_gets_devices_of_a_gibibyte_with_a_region_each():
    added = tree.fromstring(f"<devices>{config('--libvirt', 'vm1', '--windows', '3')}</devices>")
    devices = [(shmem.get("name"), shmem.find("model").get("type"), shmem.find("size").text) for shmem in added.findall("shmem")]
    assert devices == [(f"barcuda-vm1-{number}", "ivshmem-plain", "1024") for number in (1, 2, 3)]
    line = config("--qemu", "vm1", "--windows", "2", "--size", "2G")
    assert line.split() == [word for number in (1, 2) for word in (
        "-object", f"memory-backend-file,id=barcuda{number},share=on,mem-path=/dev/shm/barcuda-vm1-{number},size=2G",
        "-device", f"ivshmem-plain,memdev=barcuda{number}")]
    assert config("--proxmox", "vm1", "--windows", "2", "--size", "2G").endswith(f"args: {line}")


def test_a_machine_of_qemus_comes_up_with_a_windows_guests_devices(regions):
    need("qemu-system-x86_64")
    served = [regions(), regions()]
    options = config("--qemu", "vm1", "--windows", "2")
    for number, region in enumerate(served, 1):
        region.serve()
        options = options.replace(f"/dev/shm/barcuda-vm1-{number}", str(region.path))
    ran = run("qemu-system-x86_64", "-S", "-nodefaults", "-display", "none", "-qmp", "stdio", *options.split(), input=QUESTIONS)
    assert ran.status == 0 and ran.out.count('"vendor": 6900') == 2, ran


@pytest.mark.parametrize("words, says", [
    ("--kubevirt vm1 --windows 2", "not for kubevirt"), ("--qemu vm1 --windows 2 --doorbell", "leave out --doorbell"),
    ("--qemu vm1 --windows 2 --virtio-pmem", "leave out"), ("--qemu vm1 --windows 2 --region /dev/shm/x", "leave out --region"),
    ("--qemu vm1 --windows 2 --size 4G", "--size 1G or 2G"), ("--qemu vm1 --windows 17", "--windows")])
def test_what_no_windows_guest_takes_is_refused(words, says):
    refused(*words.split(), says=says)


# ---- KubeVirt ----------------------------------------------------------------------------------------------------------------------------
DOMAIN = """<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>a_b</name><devices><disk type='file'>\
<source file='/a &amp; b'/></disk></devices><metadata>100% \\n $x</metadata></domain>"""


@pytest.fixture
def hook(scratch):
    """KubeVirt's hook, by its protocol."""
    said = config("--kubevirt", "vm1", "--size", "8G")
    script = re.search("^  barcuda.sh: [|]\n(.*?)^---$", said, re.M | re.S)[1]
    file = written(scratch / "onDefineDomain", re.sub("^    ", "", script, flags=re.M))
    file.chmod(0o755)
    return file


def plain(element):
    return element.tag, element.attrib, (element.text or "").strip(), [plain(child) for child in element]


def test_the_annotation_for_kubevirts_hook_is_json():
    json.loads(re.search("hookSidecars: .(.*).$", config("--kubevirt", "vm1"), re.M)[1])


def test_kubevirts_hook_adds_to_a_domain_what_libvirt_gets(hook):
    made = tree.fromstring(succeed(hook, "--vmi", '{"metadata": {"name": "a --domain b"}}', "--domain", DOMAIN))
    device = made.find("devices/shmem")
    assert plain(device) == plain(tree.fromstring(config("--libvirt", "vm1", "--size", "8G", "--region", "/dev/shm/barcuda")))
    assert device.get("name") == "barcuda" and device.find("size").text == "8192"
    made.find("devices").remove(device)
    assert plain(made) == plain(tree.fromstring(DOMAIN))


def test_kubevirts_hook_gives_a_domain_no_second_device(hook):
    once = succeed(hook, "--vmi", "{}", "--domain", DOMAIN)
    assert succeed(hook, "--domain", once.rstrip("\n"), "--vmi", "{}") == once


def test_kubevirts_hook_without_a_domain_says_so(hook):
    ran = run(hook, "--vmi", "{}")
    assert ran.status != 0 and "no domain" in ran.said, ran


# ---- others ------------------------------------------------------------------------------------------------------------------------------
def test_proxmox_and_incus_get_their_own_lines():
    assert re.search("^args: .*size=1536M", said := config("--proxmox", "vm1", "--size", "1536M"), re.M), said
    assert re.search("^incus config set vm1 raw.qemu='-object .*/dev/shm/barcuda-vm1", said := config("--incus", "vm1"), re.M), said


@pytest.mark.parametrize("words", ["--kubevirt vm1 --virtio-pmem", "--qemu vm1 --virtio-pmem --doorbell", "vm1"],
                         ids=["KubeVirt and virtio-pmem", "virtio-pmem with interrupts", "no manager"])
def test_what_goes_with_no_manager_is_refused(words):
    refused(*words.split())


# ---- other monitors of VMs, in the words of their own pages; none of them runs here ------------------------------------------------------------
def test_cloud_hypervisor_and_crosvm_get_an_option():
    assert config("--cloud-hypervisor", "vm1") == "--pmem file=/dev/shm/barcuda-vm1,discard_writes=off\n"
    assert config("--crosvm", "vm1", "--region", "/dev/shm/x") == "--pmem /dev/shm/x\n"


def test_firecracker_gets_a_part_of_its_configuration():
    assert json.loads("{" + config("--firecracker", "vm1") + "}") == \
        {"pmem": [{"id": "barcuda", "path_on_host": "/dev/shm/barcuda-vm1", "root_device": False, "read_only": False}]}


@pytest.mark.parametrize("monitor", ["--cloud-hypervisor", "--crosvm", "--firecracker"])
def test_other_monitors_have_no_doorbell_and_the_text_says_that_it_was_not_run(monitor):
    refused(monitor, "vm1", "--doorbell", says="virtio-pmem alone: leave out --doorbell")
    assert "this has not been run" in run(BARCUDA, "vm-config", monitor, "vm1").err


@pytest.mark.parametrize("name", ["", "../vm1", ".vm1", "-vm1", "vm 1", "vm1'", "<vm1>", "v" * 64])
def test_what_is_no_name_gets_into_no_configuration(name):
    """It would be a word of a shell's, a part of XML or a path."""
    for words in ["vm-config", "--libvirt"], ["cdi"]:
        ran = run(BARCUDA, *words, "--", name)
        assert ran.status == 2 and not ran.out and "is no name" in ran.err, ran
