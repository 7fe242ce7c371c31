# SPDX-License-Identifier: Apache-2.0
"""cases.py: a plugin of pytest's for tests/check. It says what becomes of each test at once, in the lines that GoogleTest has for it."""
import os
import time

import pytest

os.environ.pop("PYTHONPATH", None)  # tests/check has set it, so that this file is found: it is not meant for what the tests start
RESULT = {"passed": "      OK", "failed": " FAILED ", "skipped": "SKIPPED "}


def name_of(nodeid):
    return nodeid.split("::", 1)[-1].replace(" ", "_")


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus():
    return "", "", ""  # instead of dots and letters


class Cases:
    def __init__(self, reporter):
        self.reporter = reporter
        self.began, self.result = 0.0, "passed"

    def say(self, *lines):
        for line in lines:
            self.reporter.write_line(line)
        self.reporter.flush()

    def pytest_collectreport(self, report):
        if report.failed:
            self.say(report.longreprtext)

    def pytest_collection_finish(self, session):
        self.say(*(f"[ LISTED   ] {name_of(item.nodeid)}" for item in session.items))

    def pytest_runtest_logstart(self, nodeid):
        self.began, self.result = time.monotonic(), "passed"
        self.say(f"[ RUN      ] {name_of(nodeid)}")

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.result = "failed"
            self.say(report.longreprtext, *(line for title, text in report.sections for line in (f"-- {title}", text)))
        elif report.skipped and self.result == "passed":
            self.result = "skipped"
            self.say("skipped: " + report.longrepr[2].removeprefix("Skipped: "))

    def pytest_runtest_logfinish(self, nodeid):
        self.say(f"[ {RESULT[self.result]} ] {name_of(nodeid)} ({(time.monotonic() - self.began) * 1000:.0f} ms)")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.register(Cases(config.pluginmanager.get_plugin("terminalreporter")))
