# SPDX-License-Identifier: Apache-2.0
"""`barcuda` under the name nvidia-smi answers what scripts and monitoring agents ask, in NVIDIA's form. An H100's values (h100_nvml.c) are shown as
NVIDIA's nvidia-smi 590.48.01 shows them; the requests are those of public agents: GPUtil, Telegraf, Netdata, nvidia_gpu_exporter, PyTorch's
collect_env, Zabbix. In a guest the answers are those of the software GPU."""
import os
import re
import subprocess
from xml.etree import ElementTree

import pytest

from e2e.flat import BARCUDA, BUILD, TOP, needs_soft, run, succeed, until

pytestmark = needs_soft("an NVML is put in the place of NVIDIA's")
MINE = os.getpid()

# What NVIDIA's prints of that GPU, by --query-gpu: header, value with its unit.
H100 = {
    "driver_version": "590.48.01", "count": "1", "name": "NVIDIA H100 80GB HBM3", "serial": "0000000000000",
    "uuid": "GPU-00000000-0000-0000-0000-000000000000", "pci.bus_id": "00000000:00:09.0", "pci.domain": "0x0000", "pci.bus": "0x00",
    "pci.device": "0x09", "pci.device_id": "0x233010DE", "pci.sub_device_id": "0x16C110DE", "pcie.link.gen.current": "5",
    "pcie.link.gen.gpucurrent": "5", "pcie.link.gen.max": "5", "pcie.link.gen.gpumax": "5", "pcie.link.gen.hostmax": "[N/A]",
    "pcie.link.width.current": "16", "pcie.link.width.max": "16", "index": "0", "display_active": "Disabled", "persistence_mode": "Enabled",
    "driver_model.current": "[N/A]", "vbios_version": "96.00.A5.00.01", "inforom.img": "G520.0200.00.05", "gom.current": "[N/A]",
    "fan.speed [%]": "[N/A]", "pstate": "P0", "clocks_event_reasons.supported": "0x00000000000001FF",
    "clocks_event_reasons.active": "0x0000000000000001", "clocks_event_reasons.gpu_idle": "Active",
    "clocks_event_reasons.sw_power_cap": "Not Active", "memory.total [MiB]": "81559 MiB", "memory.reserved [MiB]": "479 MiB",
    "memory.used [MiB]": "0 MiB", "memory.free [MiB]": "81081 MiB", "compute_mode": "Default", "compute_cap": "9.0",
    "utilization.gpu [%]": "0 %", "utilization.memory [%]": "0 %", "utilization.encoder [%]": "0 %", "utilization.decoder [%]": "0 %",
    "dramEncryption.mode.current": "[N/A]", "ecc.mode.current": "Enabled", "ecc.mode.pending": "Enabled",
    "ecc.errors.corrected.volatile.dram": "0", "ecc.errors.corrected.volatile.l1_cache": "[N/A]", "ecc.errors.corrected.volatile.total": "0",
    "ecc.errors.uncorrected.aggregate.sram": "0", "retired_pages.single_bit_ecc.count": "[N/A]", "remapped_rows.correctable": "0",
    "remapped_rows.pending": "No", "temperature.gpu": "41", "temperature.memory": "48", "power.draw [W]": "69.85 W", "power.limit [W]": "700.00 W",
    "enforced.power.limit [W]": "700.00 W", "power.default_limit [W]": "700.00 W", "power.min_limit [W]": "200.00 W",
    "power.max_limit [W]": "700.00 W", "clocks.current.graphics [MHz]": "345 MHz", "clocks.current.sm [MHz]": "345 MHz",
    "clocks.current.memory [MHz]": "2619 MHz", "clocks.current.video [MHz]": "765 MHz", "clocks.max.graphics [MHz]": "1980 MHz",
    "clocks.max.sm [MHz]": "1980 MHz", "clocks.max.memory [MHz]": "2619 MHz", "mig.mode.current": "Disabled", "gsp.mode.current": "Enabled",
    "c2c.mode": "[N/A]",
}
# ... and by -q.
REPORT = """
    Product Name                                       : NVIDIA H100 80GB HBM3
    Product Brand                                      : NVIDIA
    Product Architecture                               : Hopper
    MIG Mode
        Current                                        : Disabled
    GPU UUID                                           : GPU-00000000-0000-0000-0000-000000000000
    MultiGPU Board                                     : No
    Board ID                                           : 0x9
    Board Part Number                                  : 692-2G520-0200-000
    PCI
        Bus Id                                         : 00000000:00:09.0
        GPU Link Info
            Link Width
                Max                                    : 16x
    Fan Speed                                          : N/A
    Performance State                                  : P0
    FB Memory Usage
        Total                                          : 81559 MiB
        Free                                           : 81081 MiB
    Compute Mode                                       : Default
    Utilization
        GPU                                            : 0 %
    Temperature
        GPU Current Temp                               : 41 C
        Memory Current Temp                            : 48 C
    GPU Power Readings
        Current Power Limit                            : 700.00 W
    Clocks
        Graphics                                       : 345 MHz
"""


@pytest.fixture(scope="module")
def host(shared):
    """nvidia-smi on a host whose NVML has an H100; this process is on it."""
    for name in "libnvidia-ml.so.1", "libcuda.so.1":
        succeed("gcc", "-shared", "-fPIC", f"-DPID={MINE}", "-o", shared / name, TOP / "tests/e2e/nvml/h100_nvml.c")
    (shared / "nvidia-smi").symlink_to(BARCUDA)
    return lambda *words: run(shared / "nvidia-smi", *words, env={"LD_LIBRARY_PATH": shared, "BARCUDA_REGION": None})


def said(ran, status=0):
    assert ran.status == status and not ran.err, ran
    return ran.out


def rows(ran):
    return [line.split(", ") for line in said(ran).splitlines()]


def test_properties_are_shown_as_nvidias_shows_them(host):
    header, values = rows(host("--query-gpu=" + ",".join(name.split(" ")[0] for name in H100), "--format=csv"))
    assert dict(zip(header, values)) == H100
    assert header == list(H100)


def test_a_property_may_be_named_otherwise_and_the_header_has_its_name(host):
    assert rows(host("--query-gpu", "gpu_name, clocks.gr,clocks_throttle_reasons.active", "--format=csv"))[0] == \
        ["name", "clocks.current.graphics [MHz]", "clocks_event_reasons.active"]


def test_the_time_has_milliseconds(host):
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}\n", said(host("--query-gpu=timestamp", "--format=csv,noheader")))


def test_units_and_header_may_be_left_out(host):
    assert said(host("--query-gpu=memory.total,power.draw,fan.speed", "--format=csv,noheader,nounits")) == "81559, 69.85, [N/A]\n"
    assert said(host("--query-gpu=memory.total", "--format=csv,nounits")) == "memory.total [MiB]\n81559\n"


def test_what_is_no_property_is_refused_with_nvidias_words_and_status(host):
    assert said(host("--query-gpu=name,nonsense", "--format=csv"), 2) == 'Field "nonsense" is not a valid field to query.\n'
    assert "--format=csv" in said(host("--query-gpu=name"), 2)
    assert said(host("-i", "7"), 6) == "No devices were found\n"


def test_statuses_are_those_of_the_manual(host, shared):
    """barcuda-smi(1): those of nvidia-smi except for a missing NVML's."""
    own = {"LD_LIBRARY_PATH": shared, "BARCUDA_REGION": None}
    assert run(BARCUDA, "smi", "-i", "7", env=own).status == 6
    assert run(BARCUDA, "smi", "--query-gpu=nonsense", "--format=csv", env=own).status == 2
    assert run(BARCUDA, "smi", "-f", "/no/folder/file", env=own).status == 1
    (shared / "nothing").mkdir()
    for command, status in ([BARCUDA, "smi"], 1), ([shared / "nvidia-smi"], 9):
        ran = run(*command, env={**own, "LD_LIBRARY_PATH": shared / "nothing"})
        assert ran.status == status, ran


def test_processes_are_shown_as_nvidias_shows_them(host):
    header, values = rows(host("--query-compute-apps=gpu_name,gpu_bus_id,gpu_serial,gpu_uuid,pid,used_memory", "--format=csv"))
    assert header == ["gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "pid", "used_gpu_memory [MiB]"]
    assert values == ["NVIDIA H100 80GB HBM3", "00000000:00:09.0", "0000000000000", "GPU-00000000-0000-0000-0000-000000000000", str(MINE), "2566 MiB"]


def test_gpus_are_listed(host):
    assert said(host("-L")) == "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    assert said(host("--list-gpus")) == said(host("-L"))


def test_versions_are_shown(host):
    assert said(host("--version")) == ("NVIDIA-SMI version  : 590.48.01\nNVML version        : 590.48\n"
                                       "DRIVER version      : 590.48.01\nCUDA Version        : 13.1\n")


def test_the_report_has_nvidias_lines(host):
    report = said(host("-q"))
    lines = iter(report.splitlines())
    for line in REPORT.strip("\n").splitlines():
        assert line in lines, f"{line!r} is not there, or not behind those before: {report}"
    assert f"        Process ID                                     : {MINE}\n" in report


def test_the_report_may_be_of_some_sections(host):
    report = said(host("-q", "-d", "memory,POWER"))
    assert "FB Memory Usage" in report and "GPU Power Readings" in report
    assert "Product Name" not in report and "Clocks" not in report and "Processes" not in report


def test_pytorchs_collect_env_finds_the_drivers_version(host):
    assert re.search(r"Driver Version: (.*?) ", said(host()))[1] == "590.48.01"
    assert "NVIDIA-SMI 590.48.01" in said(host())


def test_gputil_gets_numbers(host):
    """GPUtil and those that follow it: index, uuid, loads and memory as numbers, without units."""
    values = rows(host("--query-gpu=index,uuid,utilization.gpu,memory.total,memory.used,memory.free,driver_version,name,gpu_serial,display_active,"
                       "display_mode,temperature.gpu", "--format=csv,noheader,nounits"))[0]
    assert [int(values[0])] + [float(value) for value in values[2:6]] + [float(values[11])] == [0, 0, 81559, 0, 81081, 41]


def test_nvidia_gpu_exporter_finds_the_properties_and_may_ask_for_all(host):
    names = re.findall(r'^"([^"]+)"', said(host("--help-query-gpu")), re.M)
    assert set(name.split(" ")[0] for name in H100) <= set(names)
    header, values = rows(host("--query-gpu=" + ",".join(names), "--format=csv"))
    assert len(header) == len(values) == len(names)
    assert "used_gpu_memory" in re.findall(r'^"([^"]+)"', said(host("--help-query-compute-apps")), re.M)


def test_telegraf_and_netdata_find_what_they_read_in_the_xml(host):
    text = said(host("-q", "-x"))
    assert re.search(r'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v1[123]\.dtd">', text)  # by which Telegraf picks its parser
    root = ElementTree.fromstring(text)
    gpu = root.find("gpu")
    assert (root.tag, root.findtext("driver_version"), root.findtext("cuda_version"), root.findtext("attached_gpus")) == \
        ("nvidia_smi_log", "590.48.01", "13.1", "1")
    assert gpu.get("id") == "00000000:00:09.0"
    read = {"product_name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-00000000-0000-0000-0000-000000000000", "performance_state": "P0", "fan_speed": "N/A",
            "fb_memory_usage/total": "81559 MiB", "fb_memory_usage/used": "0 MiB", "fb_memory_usage/free": "81081 MiB",
            "fb_memory_usage/reserved": "479 MiB", "bar1_memory_usage/used": "N/A", "temperature/gpu_temp": "41 C", "temperature/memory_temp": "48 C",
            "utilization/gpu_util": "0 %", "utilization/memory_util": "0 %", "utilization/encoder_util": "0 %", "utilization/decoder_util": "0 %",
            "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "5", "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "5",
            "pci/pci_gpu_link_info/link_widths/current_link_width": "16x", "pci/pci_bus_id": "00000000:00:09.0", "pci/pci_device_id": "233010DE",
            "clocks/graphics_clock": "345 MHz", "clocks/sm_clock": "345 MHz", "clocks/mem_clock": "2619 MHz", "clocks/video_clock": "765 MHz",
            "gpu_power_readings/power_draw": "69.85 W", "gpu_power_readings/current_power_limit": "700.00 W", "mig_mode/current_mig": "Disabled",
            "compute_mode": "Default", "ecc_mode/current_ecc": "Enabled", "ecc_errors/volatile/dram_uncorrectable": "0",
            "remapped_rows/remapped_row_corr": "0", "encoder_stats/session_count": "N/A", "fbc_stats/session_count": "N/A"}
    assert {path: gpu.findtext(path) for path in read} == read
    process, = gpu.findall("processes/process_info")
    assert (process.findtext("pid"), process.findtext("type"), process.findtext("used_memory")) == (str(MINE), "C", "2566 MiB")


def test_zabbix_asks_for_one_gpu_by_its_uuid(host):
    assert said(host("--query-gpu=temperature.gpu", "--format=csv,noheader,nounits", "-i", "GPU-00000000-0000-0000-0000-000000000000")) == "41\n"


def test_a_loop_goes_on_with_one_header(host, shared):
    asker = subprocess.Popen([shared / "nvidia-smi", "--query-gpu=index", "--format=csv", "-lms", "10", "-f", shared / "loop"],
                             env={**os.environ, "LD_LIBRARY_PATH": str(shared)})
    file = shared / "loop"
    until(lambda: file.exists() and file.read_text().count("0\n") >= 3, "three answers")
    asker.kill()
    asker.wait()
    assert file.read_text().startswith("index\n0\n0\n0\n")


def test_a_guest_has_its_own_processes_and_gpus(region, scratch):
    (scratch / "nvidia-smi").symlink_to(BARCUDA)
    region.serve(env={"BARCUDA_SOFT_DEVICES": 2})
    program = region.background("client", BUILD / "e2e/nvml_client", "0", stdin=subprocess.PIPE)
    program.wait_for("^[0-9]")

    def ask(*words):
        return run(scratch / "nvidia-smi", *words, env=region.named)
    assert [line.split(":")[0] for line in said(ask("-L")).splitlines()] == ["GPU 0", "GPU 1"]
    until(lambda: said(ask("--query-compute-apps=pid", "--format=csv,noheader")) == f"{program.pid}\n", "the client is shown")
    region.stop()
    assert "no bridge serves the region" in said(ask("-L"), 9)
