# SPDX-License-Identifier: Apache-2.0
"""wine_figures.py [RUNS]: a program under Wine and the same program on Linux, in turn, on one bridge with the software GPU: copies of 16 MiB of pinned
memory in GB/s, and the time of a launch that is posted. Prints the medians of all runs as a table of Markdown. Needs `make windows`."""
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from e2e.flat import BUILD, Region  # noqa: E402
from windows.under_wine import client_of, wine  # noqa: E402

KINDS = "to the device, GB/s", "from the device, GB/s", "a posted launch, us"


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    region = Region()
    region.serve()
    got = {"Wine": [], "Linux": []}
    try:
        for _ in range(runs):
            got["Wine"].append(wine(BUILD / "windows/figures/figures.exe", env=client_of(region)))
            got["Linux"].append(region.client(BUILD / "windows/native/figures/figures").out)
    finally:
        region.close()
    medians = {where: [statistics.median(column) for column in zip(*(map(float, line.split()) for line in lines))] for where, lines in got.items()}
    version = subprocess.run(["wine", "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout.strip()
    print(f"{version}, {os.cpu_count()} processors, software GPU, medians of {runs} runs in turn\n\n| | Wine | Linux | ratio |\n|---|---|---|---|")
    for kind, theirs, ours in zip(KINDS, medians["Wine"], medians["Linux"]):
        print(f"| {kind} | {theirs:.2f} | {ours:.2f} | {theirs / ours:.2f} |")


main()
