// SPDX-License-Identifier: Apache-2.0
// libraries.h: NVIDIA's math libraries on the host, opened when a client first uses one: they are large, and most
// clients never do. They work on the worker's current context, as in any CUDA program.
#pragma once
#include <memory>
#include <string>

#include "shm-device/rows/commands.h"

namespace barcuda {

struct LibraryFunctions;  // library_functions.h

class Libraries {
  public:
    // `driver`: where the driver was found. The software GPU's driver has a folder of its own and its libraries beside
    // it; no others work with it.
    explicit Libraries(const std::string& driver);
    ~Libraries();
    Libraries& operator=(Libraries&&) noexcept;

    LibraryFunctions& functions() { return *functions_; }
    void need(Op op) {  // called before this command: opens its library, if that has not been tried
        if (const MathLibrary* library = library_of(op); library && !state(*library).tried) open(*library);
    }
    // Opens all libraries, before a worker's cage closes, after which it can open no files. Later ones are not looked
    // for.
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
    std::string folder_;  // ends with a slash; empty: the system's folders
    State states_[std::size(math_libraries)];
};

}  // namespace barcuda
