// SPDX-License-Identifier: Apache-2.0
// findings.h: what `barcuda doctor` finds, printed at once as text, or at the end as JSON.
#pragma once
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace barcuda::doctor {

using Json = nlohmann::ordered_json;

struct Findings {
    bool json = false;
    int missing = 0;
    std::string section;
    Json findings = Json::array(), cage = Json::array();

    void begin(const std::string& name) {
        section = name;
        line("\n" + name);
    }
    void find(const char* state, const std::string& what, const std::string& remedy = {}) {
        Json finding = {{"section", section}, {"state", state}, {"what", what}};
        if (!remedy.empty()) finding["remedy"] = remedy;
        findings.push_back(finding);
        line(fmt::format("  {:8} {}", state, what));
        if (!remedy.empty()) line("           -> " + remedy);
    }
    void line(const std::string& text) const {
        if (!json) fmt::print("{}\n", text);
    }
};
inline Findings report;

inline void good(const std::string& what) { report.find("ok", what); }
inline void note(const std::string& what) { report.find("note", what); }
inline void bad(const std::string& what, const std::string& remedy) {
    report.find("missing", what, remedy);
    ++report.missing;
}

// The summary. Returns the exit status: 0 if CUDA programs can run here, 1 if something is missing. `as`: guest or
// host. (doctor_region.cc)
int conclude(const char* as);
// Says which build this is. (doctor_region.cc)
void introduce();
// A region, its bridge, and what it has. `needed`: a region must exist; so it is if one is named. `path` null: that of
// a program which names none. (doctor_region.cc)
void look_at_region(bool needed, const char* path = nullptr);

}  // namespace barcuda::doctor
