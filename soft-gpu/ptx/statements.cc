// SPDX-License-Identifier: Apache-2.0
// statements.cc: a function's body: scopes, labels, instructions and their operands.
#include "soft-gpu/ptx/parsing.h"

namespace barcuda::soft::ast {

void Parser::body() {
    expect('{');
    scopes_.emplace_back();
    for (std::size_t depth = 1; depth > 0;) {
        if (accept('{')) {
            scopes_.emplace_back();
            ++depth;
        } else if (accept('}')) {
            scopes_.pop_back();
            --depth;
        } else statement();
    }
}

void Parser::statement() {
    if (accept(';')) return;
    if (token_.kind == Token::word || token_.is('@')) return instruction();
    if (token_.kind != Token::dotted) fail();
    if (token_.is_dotted("loc") || token_.is_dotted("file")) {
        lexer_.skip_line();
        return advance();
    }
    if (accept_dotted("reg")) return registers();
    if (accept_dotted("pragma")) {
        take();
        return expect(';');
    }
    Space space = Space::generic;
    if (accept_dotted("local")) space = Space::local;
    else if (accept_dotted("shared")) space = Space::shared;
    else if (accept_dotted("param")) space = Space::param;
    if (space != Space::generic) {
        do declare(variable(space, false));
        while (accept(','));
        return expect(';');
    }
    if (token_.is_dotted("global") || token_.is_dotted("const")) return global_variable(false);
    fail();
}

// label:   label: .branchtargets a, b;   label: .callprototype (...) _ (...);
void Parser::labelled(std::string_view label) {
    if (accept_dotted("branchtargets") || accept_dotted("calltargets")) {
        auto& table = f_->tables[label];
        do table.push_back(identifier());
        while (accept(','));
        return expect(';');
    }
    if (accept_dotted("callprototype")) {
        auto& [results, parameters] = f_->prototypes[label];
        if (token_.is('(')) results = formals();
        identifier();
        if (token_.is('(')) parameters = formals();
        while (token_.kind == Token::dotted) {
            const bool counted = token_.is_dotted("abi_preserve") || token_.is_dotted("abi_preserve_control");
            advance();
            if (counted) integer();
        }
        return expect(';');
    }
    f_->labels[label] = f_->body.size();
}

void Parser::instruction() {
    Instruction in;
    in.line = token_.line;
    const auto begin = token_.view.data();
    if (accept('@')) {
        in.guard_negated = accept('!');
        const auto name = identifier();
        int index = 0;
        const Name* found = find(name, &index);
        if (found == nullptr || !found->reg || f_->registers[static_cast<std::size_t>(index)] != Type::pred)
            throw invalid(in.line, "the predicate '" + std::string(name) + "'");
        in.guard = index;
    }
    in.name = identifier();
    if (in.guard < 0 && accept(':')) return labelled(in.name);
    while (token_.kind == Token::dotted && token_.glued) in.modifiers.push_back(take().view);
    if (!token_.is(';')) {
        do in.operands.push_back(operand());
        while (accept(','));
    }
    in.text = std::string_view(begin, static_cast<std::size_t>(text_.data() + end_of_last_ - begin));
    expect(';');
    f_->body.push_back(std::move(in));
}

const Name* Parser::find(std::string_view name, int* index) const {
    std::size_t split = name.size();
    while (split > 0 && name[split - 1] >= '0' && name[split - 1] <= '9') --split;
    const auto prefix = name.substr(0, split), suffix = name.substr(split);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (const auto at = scope->ones.find(name); at != scope->ones.end()) {
            *index = at->second.first;
            return &at->second;
        }
        if (suffix.empty() || suffix.size() > 8) continue;
        if (const auto at = scope->ranges.find(prefix); at != scope->ranges.end()) {
            const int n = digits(suffix);
            if (n < at->second.count) {
                *index = at->second.first + n;
                return &at->second;
            }
        }
    }
    return nullptr;
}

Operand Parser::named(Token name) {
    Operand o;
    if (name.view == "_") {
        o.kind = Operand::sink;
        return o;
    }
    if (name.view == "WARP_SZ") {
        o.kind = Operand::integer;
        o.bits = 32;
        return o;
    }
    int index = 0;
    if (const Name* found = find(name.view, &index)) {
        o.kind = found->reg ? Operand::reg : Operand::variable;
        o.index = index;
        if (token_.kind == Token::dotted && token_.glued) throw refused(token_.line, "vector registers");
    } else if (name.view.starts_with('%')) {
        o.kind = Operand::special;
        o.name_text = name.view.substr(1);
        if (token_.kind == Token::dotted && token_.glued) {
            const Token component = take();
            o.name_text = std::string_view(
                name.view.data() + 1,
                static_cast<std::size_t>(component.view.data() + component.view.size() - name.view.data() - 1));
        }
    } else {
        o.kind = Operand::name;
        o.name_text = name.view;
    }
    return o;
}

Operand Parser::number(bool negative) {
    const Token t = take();
    Operand o;
    o.bits = t.bits;
    if (t.kind == Token::integer) {
        o.kind = Operand::integer;
        o.bits = negative ? 0 - t.bits : t.bits;
    } else if (t.kind == Token::real32) {
        o.kind = Operand::real32;
        o.bits ^= std::uint64_t{negative} << 31;
    } else if (t.kind == Token::real64) {
        o.kind = Operand::real64;
        o.bits ^= std::uint64_t{negative} << 63;
    } else throw invalid(t.line, "the operand '" + std::string(t.view) + "'");
    return o;
}

// [ base ]  [ base + offset ]  [ texture, {x, y} ]
Operand Parser::address() {
    Operand o = operand();
    if (token_.is(',')) {
        Operand list;
        list.kind = Operand::list;
        list.items.push_back(std::move(o));
        while (accept(',')) list.items.push_back(operand());
        o = std::move(list);
    }
    o.address = true;
    expect(']');
    return o;
}

Operand Parser::operand() {
    const Nested nested(*this);
    if (accept('[')) return address();
    const bool braces = token_.is('{');
    if (accept('{') || accept('(')) {
        Operand list;
        list.kind = Operand::list;
        while (!accept(braces ? '}' : ')')) {
            if (!list.items.empty()) expect(',');
            list.items.push_back(operand());
        }
        return list;
    }
    Operand o;
    if (accept('!')) {
        o = operand();
        o.negated = true;
        return o;
    }
    if (accept('-')) return number(true);
    if (accept('+')) return number(false);
    if (accept('~')) {
        o = number(false);
        o.bits = ~o.bits;
        return o;
    }
    o = token_.kind == Token::word ? named(take()) : number(false);
    while (token_.is('+') || token_.is('-')) {
        const bool minus = accept('-');
        if (!minus) advance();
        const bool negative = accept('-') != minus;
        const auto n = integer();
        o.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(o.offset) + (negative ? 0 - n : n));
    }
    if (accept('|')) {
        Operand second = operand();
        o.items.push_back(std::move(second));
    }
    return o;
}

}  // namespace barcuda::soft::ast
