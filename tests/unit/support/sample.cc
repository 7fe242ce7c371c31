// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/sample.h"

#include <iterator>
#include <utility>

namespace barcuda::sample {
namespace {

template <Op op> std::vector<std::byte> of_row(Guest& guest, Arguments& arguments) {
    using R = RowOf<op>;
    typename R::Parameters parameters{};
    return [&]<std::size_t... I>(std::index_sequence<I...>)->std::vector<std::byte> {
        typename R::Arguments values{arguments.of<std::tuple_element_t<I, typename R::Arguments>>()...};
        std::vector<std::byte> bytes((std::size_t{0} + ... + std::get<I>(parameters).room(values)));
        Writer w(bytes);
        (std::get<I>(parameters).send(w, values, guest), ...);
        if (!w.ok() || w.used() != bytes.size()) {  // never a valid size
            bytes.clear();
            bytes.push_back(std::byte{1});
        }
        return bytes;
    }
    (std::make_index_sequence<R::count>{});
}

}  // namespace

std::vector<std::byte> request(Op op, Guest& guest, Arguments& arguments) {
    using Request = std::vector<std::byte> (*)(Guest&, Arguments&);
    static constexpr Request requests[] = {
#define X(name, ...) &of_row<Op::name>,
        BARCUDA_ROWS(X)
#undef X
    };
    static_assert(std::size(requests) == static_cast<std::size_t>(Op::count));
    return requests[static_cast<std::size_t>(op)](guest, arguments);
}

}  // namespace barcuda::sample
