// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/client_rows.h"

#include <algorithm>

#include "shm-device/rows/needed.h"

namespace barcuda {
namespace {

constexpr bool is_needed(Op op) { return std::ranges::find(needed_rows, op) != std::end(needed_rows); }

// A thread of the client waits for the word that such a row names, and where the row is not known, nothing writes it.
#define X(name, ...) \
    static_assert(!RowOf<Op::name>::takes<ext::Fence> || is_needed(Op::name), #name " promises a fence");
BARCUDA_DRIVER_ROWS(X)
BARCUDA_OWN_ROWS(X)
#undef X

}  // namespace

ClientRows::ClientRows() { number(published_rows()); }

void ClientRows::restore(const State& rows) {
    carried_ = rows;
    std::vector<std::uint64_t> identities;
    identities.reserve(rows.size());
    for (const Row& row : rows) identities.push_back(row.identity);
    number(identities);
    used_ = {};
    for (std::uint32_t i = 0; i < rows.size(); ++i)
        if (rows[i].needed) ours(i);
}

void ClientRows::number(std::span<const std::uint64_t> identities) {
    hash_ = rows_hash(identities);
    ours_.clear();
    theirs_.clear();
    if (std::ranges::equal(identities, row_identities())) return;
    theirs_.resize(row_identities().size());
    match(row_identities(), identities, theirs_);
    for (std::uint32_t i = 0; i < identities.size(); ++i) ours_.push_back(lacking + i);
    for (std::uint32_t op = 0; op < theirs_.size(); ++op)
        if (theirs_[op] != no_row) ours_[theirs_[op]] = op;
}

std::uint32_t ClientRows::theirs(std::uint32_t ours) const {
    if (lacks(ours)) return ours - lacking;
    if (theirs_.empty()) return ours;
    return ours < theirs_.size() ? theirs_[ours] : no_row;
}

std::string ClientRows::name(std::uint32_t ours) const {
    if (ours < op_names.size()) return std::string(op_names[ours]);
    const std::uint32_t number = theirs(ours);
    if (number < carried_.size() && !carried_[number].name.empty()) return carried_[number].name;
    return "command " + std::to_string(number);
}

ClientRows::State ClientRows::state() const {
    State all = carried_;
    if (all.empty())
        for (const std::uint64_t identity : published_rows()) all.push_back({identity, "", false});
    for (std::uint32_t i = 0; i < all.size(); ++i) {
        const std::uint32_t op = ours_.empty() ? i : ours_[i];
        if (op >= op_names.size()) continue;
        all[i].name = op_names[op];
        all[i].needed = used_[op] || is_needed(static_cast<Op>(op));
    }
    return all;
}

}  // namespace barcuda
