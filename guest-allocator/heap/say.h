// SPDX-License-Identifier: Apache-2.0
// say.h: what the heap has to tell the user. It may be told inside malloc, in a forked child, or by a program that is
// ending: one write(2) to stderr, no memory and no stdio.
#pragma once

namespace barcuda::heap {

// One line.
void say(const char* a, const char* b = "", const char* c = "") noexcept;
// One line, with the address if there is one, and the program ends.
[[noreturn]] void die(const char* what, const void* p = nullptr) noexcept;

}  // namespace barcuda::heap
