// SPDX-License-Identifier: Apache-2.0
// rows.cc: the command table as this compiler sees it, a line for each row: its name, how it travels, its identity, and
// for each parameter the sizes of it and of what it points at. Two compilers that print the same lay each command out
// alike. tests/windows/test_rows.py
#include <cstdio>

#include "shm-device/rows/identity.h"
#include "shm-device/rows/library_commands.h"

using namespace barcuda;

namespace {

template <class Arguments> struct Sizes;
template <class... P> struct Sizes<std::tuple<P...>> {
    template <class T> static void print() {
        std::printf(" %zu", sizeof(T));
        if (std::is_pointer_v<T>)
            std::printf(">%llu", static_cast<unsigned long long>(size_if_known<std::remove_pointer_t<T>>()));
    }
    static void print_all() { (print<P>(), ...); }
};

template <Op op> void print(const RowText& text) {
    const auto identity = static_cast<unsigned long long>(identities[static_cast<std::size_t>(op)]);
    std::printf("%s %s %016llx", text.name.data(), text.how.data(), identity);
    Sizes<typename RowOf<op>::Arguments>::print_all();
    std::printf("\n");
}

template <std::size_t... I> void print_rows(std::index_sequence<I...>) {
    (print<static_cast<Op>(I)>(row_texts()[I]), ...);
}

}  // namespace

int main() {
    print_rows(std::make_index_sequence<static_cast<std::size_t>(Op::count)>());
    return 0;
}
