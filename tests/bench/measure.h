// SPDX-License-Identifier: Apache-2.0
// measure.h: how the benchmark programs measure and report. A row is one metric: a round is run and thrown away, then
// rounds are run until there are enough of them or the time for one metric is used; the median is the row's value.
// Every row is a line of JSON on stdout, so that what a program printed before it died still counts.
#pragma once
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

inline double now() {  // seconds
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds that `work` takes.
template <class F> double timed(F work) {
    const double start = now();
    work();
    return now() - start;
}

inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

class Bench {
  public:
    bool quick = false;
    double budget = 0.3;  // seconds for one metric: 60 metrics and 5 repetitions of 2 columns stay below 4 minutes
    int enough = 101;     // rounds, if the budget allows them
    std::string only;     // patterns of fnmatch(3), comma-separated; empty: everything

    bool names(const char* rows) const { return only.find(rows) != std::string::npos; }
    bool wants(const std::string& name) const {
        for (std::size_t at = 0; at <= only.size();) {
            const std::size_t end = std::min(only.find(',', at), only.size());
            if (only.empty() || !fnmatch(only.substr(at, end - at).c_str(), name.c_str(), 0)) return true;
            at = end + 1;
        }
        return false;
    }

    // `once` runs one round and returns its value in `unit`.
    template <class F> void row(const std::string& name, const char* unit, F once) {
        if (!wants(name)) return;
        const long before = failures;
        const double start = now();
        once();
        std::vector<double> values;
        for (double began = now(); failures == before;) {
            values.push_back(once());
            const bool late = now() - began > budget;
            if (static_cast<int>(values.size()) >= (late ? 3 : enough)) break;
            if (now() - start > 20) break;  // a round of many seconds: one has to do
        }
        if (failures != before) return refused(name);
        std::sort(values.begin(), values.end());
        printf(
            "{\"metric\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"low\": %.6g, \"high\": %.6g, \"rounds\": %zu}\n",
            name.c_str(), unit, median(values), values.front(), values.back(), values.size());
        fflush(stdout);
    }

    // A metric that is known already.
    void value(const std::string& name, const char* unit, double v) {
        if (!wants(name)) return;
        printf("{\"metric\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"rounds\": 1}\n", name.c_str(), unit, v);
        fflush(stdout);
    }

    // A metric that could not be measured is named, never guessed.
    void refused(const std::string& name) {
        printf("{\"metric\": \"%s\", \"failed\": \"%s\"}\n", name.c_str(), last_failure.c_str());
        fflush(stdout);
    }

    long failures = 0;
    std::string last_failure;

    void failure(const char* call, const char* error) {
        last_failure = std::string(call) + ": " + error;
        std::replace(last_failure.begin(), last_failure.end(), '"', '\'');
        if (++failures <= 10) fprintf(stderr, "failed: %s\n", last_failure.c_str());
    }
};
