# SPDX-License-Identifier: Apache-2.0
"""taken.py: an installation whose workers an attacker has taken over, for test_cage.py and test_taken_over.py. Its driver is the software
GPU under a library of the test's own, which answers cuDeviceGetExecAffinitySupport with attempts to get out: each ATTEMPT(number, name, ...)
of a source file. The same library is NVIDIA's libcuda.so.1 there."""
import re
import shutil
import subprocess

from e2e.flat import BUILD, LIBRARIES, TOP, need, succeed

# Asks for one attempt, prints what it came to, and stays a client until its input ends.
ASKS = r"""
#include <cstdio>
#include <cstdlib>
extern "C" int cuInit(unsigned), cuDeviceGetExecAffinitySupport(int*, int, int);
int main(int, char** argv) {
    int answer = -1;
    const int r = cuInit(0) ? -1 : cuDeviceGetExecAffinitySupport(&answer, std::atoi(argv[1]), 0);
    if (r) std::printf("ended %d\n", r);
    else std::printf("%d\n", answer);
    std::fflush(stdout);
    while (std::getchar() != EOF) {}
}
"""


class Installation:
    """It is built, if it is not in the folder yet."""

    def __init__(self, folder, source, attempts):
        self.bridge, self.asks_source, self.asks = folder / "bin/barcuda-bridge", folder / "asks.cc", folder / "asks"
        self.soft, self.nvidia = folder / "lib/barcuda-soft", folder / "nvidia"
        self.number = {name: n for n, name in re.findall(r"ATTEMPT\(\s*(\d+),\s*(\w+)", (TOP / source).read_text())}
        assert len(self.number) == attempts, f"the attempts of {source}: {self.number}"
        if not self.asks.exists():
            self.build(folder, source)

    def build(self, folder, source):
        need("g++")
        for each in self.bridge.parent, self.soft, self.nvidia:
            each.mkdir(parents=True)
        folder.chmod(0o711)
        shutil.copy(BUILD / "bin/barcuda-bridge", self.bridge)
        real = self.soft / "libreal.so"
        succeed("g++", "-shared", "-Wl,-soname,libreal.so", "-o", real, "-x", "c", "/dev/null")
        succeed("g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-I.", "-o", self.nvidia / "libcuda.so.1", source, "-Wl,--no-as-needed", real,
                f"-Wl,--disable-new-dtags,-rpath,{self.soft}")
        shutil.copy(LIBRARIES / "barcuda-soft/libcuda.so.1", real)
        shutil.copy(self.nvidia / "libcuda.so.1", self.soft / "libcuda.so.1")
        self.asks_source.write_text(ASKS)
        succeed("g++", "-o", self.asks, self.asks_source, LIBRARIES / "libbarcuda.so")


class TakenOver:
    """A region whose bridge is of such an installation."""

    def __init__(self, region, installation):
        self.region, self.installation = region, installation
        region.folder.chmod(0o711)

    @property
    def log(self):
        return self.region.log

    def serve(self, kind, *options, env=None, **how):
        """A bridge of the software GPU (`soft`) or of NVIDIA's driver (`cuda`)."""
        if self.region.bridge and self.region.bridge.runs():
            self.region.stop()
        self.region.path.unlink(missing_ok=True)
        self.region.serve("--no-vm", *options, device=kind, program=self.installation.bridge,
                          env={"LD_LIBRARY_PATH": f"{self.installation.nvidia}:{self.installation.soft}", **(env or {})}, **how)

    def lacks(self, measure):
        return bool(re.search(f"cage lacks ('[a-z]+', )*'{measure}'", self.log))

    def attempt(self, name):
        """A client whose worker tries this."""
        return self.region.client(self.installation.asks, self.installation.number[name])

    def attempt_and_stay(self, name):
        return self.region.background("asks", self.installation.asks, self.installation.number[name], stdin=subprocess.PIPE)
