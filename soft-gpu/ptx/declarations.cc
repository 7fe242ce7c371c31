// SPDX-License-Identifier: Apache-2.0
// declarations.cc: variables with their types, sizes and initializers; functions with their parameters.
#include "soft-gpu/ptx/parsing.h"

namespace barcuda::soft::ast {

// ---- variables ------------------------------------------------------------------------------------------------------

// What follows the state space: alignment, attributes, type, name, array sizes, initializer.
Variable Parser::variable(Space space, bool external) {
    Variable v;
    v.space = space;
    v.external = external;
    v.line = token_.line;
    std::size_t align = 0;
    unsigned vector = 1;
    while (token_.kind == Token::dotted) {
        if (accept_dotted("align")) {
            align = integer();
            if (align == 0 || (align & (align - 1)) != 0 || align > 4096) fail();
        } else if (accept_dotted("attribute")) {
            expect('(');
            if (token_.is_dotted("managed")) v.managed = true;
            for (; !accept(')'); advance())
                if (token_.kind == Token::end) fail();
        } else if (accept_dotted("ptr")) {  // ".ptr .global .align 16": about the pointee
            for (;;) {
                if (accept_dotted("align")) integer();
                else if (!accept_dotted("global") && !accept_dotted("shared") && !accept_dotted("const") &&
                         !accept_dotted("local"))
                    break;
            }
        } else if (accept_dotted("v2")) {
            vector = 2;
        } else if (accept_dotted("v4")) {
            vector = 4;
        } else if (const auto type = type_named(token_.view)) {
            v.type = *type;
            advance();
        } else if (!accept_dotted("unified")) {
            fail();
        }
    }
    if (v.type == Type::none) fail();
    v.name = identifier();
    v.align = align != 0 ? align : std::size_t{bytes_of(v.type)} * vector;
    sizes(v, vector);
    if (accept('=')) values(v);
    return v;
}

void Parser::sizes(Variable& v, unsigned vector) {
    v.bytes = std::size_t{bytes_of(v.type)} * vector;
    while (accept('[')) {
        if (accept(']')) {
            v.open = true;
            v.bytes = 0;
            continue;
        }
        const auto count = integer();
        if (count > max_bytes || (count != 0 && v.bytes > max_bytes / count))
            throw refused(token_.line, "a variable of that size");
        v.bytes *= count;
        expect(']');
    }
}

void Parser::values(Variable& v) {
    if (token_.is('{')) {
        int depth = 0;
        do {
            if (accept('{')) ++depth;
            else if (accept('}')) --depth;
            else if (!accept(',')) v.values.push_back(value());
        } while (depth > 0);
    } else {
        v.values.push_back(value());
    }
    const std::size_t size = v.values.size() * bytes_of(v.type);
    if (v.open) {
        v.bytes = size;
        v.open = false;
    }
    if (size > v.bytes) throw invalid(v.line, "more values than '" + std::string(v.name) + "' has elements");
}

// 5   -1.0   0f3F800000   symbol   symbol+8   generic(symbol)+8   0xFF00(generic(symbol))
Initializer Parser::value() {
    const Nested nested(*this);
    Initializer init;
    const bool negative = accept('-');
    if (token_.kind == Token::word) {
        if (accept_word("generic")) {
            expect('(');
            init = value();
            init.generic = true;
            expect(')');
        } else {
            init.symbol = identifier();
        }
        const bool minus = token_.is('-');
        if (accept('+') || accept('-')) init.bits += minus ? 0 - integer() : integer();
        return init;
    }
    const Token t = take();
    if (t.kind == Token::integer) init.bits = negative ? 0 - t.bits : t.bits;
    else if (t.kind == Token::real64) init.bits = t.bits ^ (std::uint64_t{negative} << 63);
    else if (t.kind == Token::real32) init.bits = t.bits ^ (std::uint64_t{negative} << 31);
    else fail();
    if (t.kind == Token::integer && accept('(')) {
        if (t.bits == 0 || (t.bits >> __builtin_ctzll(t.bits)) != 0xFF)
            throw invalid(t.line, "the mask '" + std::string(t.view) + "'");
        init = value();
        init.mask_shift = static_cast<std::uint64_t>(__builtin_ctzll(t.bits));
        expect(')');
    }
    return init;
}

// ( .param .b64 p0, .reg .u32 %x, ... ) : parameters or results
std::vector<Variable> Parser::formals() {
    std::vector<Variable> list;
    expect('(');
    while (!accept(')')) {
        if (!list.empty()) expect(',');
        if (accept_dotted("param")) list.push_back(variable(Space::param, false));
        else if (accept_dotted("reg")) list.push_back(variable(Space::reg, false));
        else fail();
    }
    return list;
}

void Parser::enter(std::string_view name, const Name& what, int line) {
    auto& names = what.count < 0 ? scopes_.back().ones : scopes_.back().ranges;
    if (!names.try_emplace(name, what).second) throw invalid(line, "a second '" + std::string(name) + "'");
}

int Parser::declare(Variable v) {
    const int index = static_cast<int>(f_->variables.size());
    if (v.space == Space::reg) {
        v.reg = static_cast<int>(f_->registers.size());
        f_->registers.push_back(v.type);
        enter(v.name, {true, v.reg, -1}, v.line);
    } else {
        enter(v.name, {false, index, -1}, v.line);
    }
    f_->variables.push_back(std::move(v));
    return index;
}

// .reg .b32 %r<10>, %x;
void Parser::registers() {
    const auto type = token_.kind == Token::dotted ? type_named(token_.view) : std::nullopt;
    if (!type || bytes_of(*type) == 0)
        throw refused(token_.line, "registers of type '." + std::string(token_.view) + "'");
    advance();
    do {
        const int line = token_.line;
        const auto name = identifier();
        const int first = static_cast<int>(f_->registers.size());
        int count = -1;
        if (accept('<')) {
            const auto n = integer();
            if (n + f_->registers.size() > most_registers) fail();
            count = static_cast<int>(n);
            expect('>');
        }
        f_->registers.resize(f_->registers.size() + static_cast<std::size_t>(count < 0 ? 1 : count), *type);
        enter(name, {true, first, count}, line);
    } while (accept(','));
    expect(';');
}

void Parser::performance(Function& f) {
    const auto triple = [&](int* out) {
        int i = 0;
        out[0] = out[1] = out[2] = 1;
        do {
            if (i == 3) fail();
            const auto n = integer();
            if (n > 1024) fail();
            out[i++] = static_cast<int>(n);
        } while (accept(','));
    };
    int unused[3];
    while (token_.kind == Token::dotted) {
        if (accept_dotted("maxntid")) triple(f.max_threads);
        else if (accept_dotted("reqntid")) triple(f.required_threads);
        else if (accept_dotted("minnctapersm") || accept_dotted("maxnctapersm") || accept_dotted("maxnreg") ||
                 accept_dotted("maxclusterrank"))
            integer();
        else if (token_.is_dotted("reqnctapercluster")) {
            f.refused = token_.view;
            advance();
            triple(unused);
        } else if (token_.is_dotted("explicitcluster") || token_.is_dotted("blocksareclusters")) {
            f.refused = token_.view;
            advance();
        } else if (accept_dotted("pragma")) {
            take();
            expect(';');
        } else if (accept_dotted("abi_preserve") || accept_dotted("abi_preserve_control")) integer();
        else if (!accept_dotted("noreturn") && !accept_dotted("unique")) fail();
    }
}

void Parser::function(bool entry, bool external) {
    (void)external;
    Function f;
    f.entry = entry;
    f.line = token_.line;
    f_ = &f;
    scopes_.assign(1, {});
    std::vector<Variable> results, parameters;
    while (accept_dotted("attribute")) {
        for (; !accept(')'); advance())
            if (token_.kind == Token::end) fail();
    }
    if (token_.is('(')) results = formals();
    f.name = identifier();
    if (token_.is('(')) parameters = formals();
    for (auto& v : results) f.results.push_back(declare(std::move(v)));
    for (auto& v : parameters) f.parameters.push_back(declare(std::move(v)));
    performance(f);
    if (token_.is('{')) {
        f.defined = true;
        body();
    } else {
        accept(';');
    }
    f_ = nullptr;
    const auto found = module_.function_named.find(f.name);
    if (found == module_.function_named.end()) {
        const auto name = f.name;
        module_.functions.push_back(std::move(f));
        module_.function_named[name] = &module_.functions.back();
    } else if (f.defined) {
        if (found->second->defined) throw invalid(f.line, "a second body of '" + std::string(f.name) + "'");
        *found->second = std::move(f);
    }
}

}  // namespace barcuda::soft::ast
