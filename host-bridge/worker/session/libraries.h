// SPDX-License-Identifier: Apache-2.0
// libraries.h: NVIDIA's math libraries on the host, opened when a client first asks for one: they are large, and most
// clients never do. They work on the worker's current context, as any library of a CUDA program.
#pragma once
#include <memory>
#include <string>

#include "shm-device/rows/commands.h"

namespace barcuda {

struct LibraryFunctions;  // library_functions.h

class Libraries {
  public:
    // `driver`: where the driver was found. A driver with a place of its own, the software GPU's, has its libraries
    // beside it, and no others work on it.
    explicit Libraries(const std::string& driver);
    ~Libraries();
    Libraries& operator=(Libraries&&) noexcept;

    LibraryFunctions& functions() { return *functions_; }
    void need(Op op) {  // this command comes: its library is opened, if it has not been tried
        if (const MathLibrary* library = library_of(op); library && !state(*library).tried) open(*library);
    }
    // Before a worker's cage closes, which lets it open no more files: all that there are. Later ones are not looked for.
    static void open_all(const std::string& driver);
    bool has(Op op) const { return states_[library_of(op) - math_libraries].there; }

  private:
    struct State {
        bool tried = false, there = false;
    };
    State& state(const MathLibrary& library) { return states_[&library - math_libraries]; }
    void open(const MathLibrary& library);
    void* find(const MathLibrary& library) const;
    void* look_for(const MathLibrary& library) const;

    std::unique_ptr<LibraryFunctions> functions_;
    std::string folder_;  // with its slash; empty: where the system has its libraries
    State states_[std::size(math_libraries)];
};

}  // namespace barcuda
