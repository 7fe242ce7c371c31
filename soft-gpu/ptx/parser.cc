// SPDX-License-Identifier: Apache-2.0
// parser.cc: recursive descent over the tokens. Unknown directives are errors here; unknown instructions and modifiers
// are errors of the coder, so that a function that is never launched may contain unsupported ones.
#include "soft-gpu/ptx/parser.h"

#include "soft-gpu/ptx/parsing.h"

namespace barcuda::soft::ast {

void Parser::advance() {
    end_of_last_ = lexer_.position();
    token_ = lexer_.next();
}

void Parser::fail() const {
    throw invalid(token_.line, token_.kind == Token::end ? std::string("the end of the text")
                                                         : "'" + std::string(token_.kind == Token::dotted ? "." : "") +
                                                               std::string(token_.view) + "'");
}

void Parser::expect(char c) {
    if (!accept(c)) fail();
}

std::string_view Parser::identifier() {
    if (token_.kind != Token::word) fail();
    return take().view;
}

std::uint64_t Parser::integer() {
    if (token_.kind != Token::integer) fail();
    return take().bits;
}

// ---- module ---------------------------------------------------------------------------------------------------------

Module Parser::run() {
    while (token_.kind != Token::end) directive();
    if (module_.version == 0) throw invalid(1, "a module without .version");
    return std::move(module_);
}

void Parser::header_target() {
    do {
        const auto name = identifier();
        if (!name.starts_with("sm_")) continue;  // "debug", "texmode_independent", ...
        module_.target = 0;
        module_.target = digits(name.substr(3, 4));  // sm_90a is 90
        constexpr int last_known = 200;
        if (module_.target > last_known) throw invalid(token_.line, "target " + std::string(name));
    } while (accept(','));
}

void Parser::directive() {
    if (token_.is(';')) return advance();
    if (token_.kind != Token::dotted) fail();
    if (token_.is_dotted("file") || token_.is_dotted("loc")) {
        lexer_.skip_line();
        return advance();
    }
    const bool section = token_.is_dotted("section");
    if (section) {
        while (token_.kind != Token::end && !token_.is('{')) advance();
        return skip_braces();
    }
    if (accept_dotted("version")) {
        const Token t = take();
        if (t.kind != Token::real64) fail();
        const auto dot = t.view.find('.');
        if (dot == t.view.npos || t.view.size() > 6) fail();
        module_.version = digits(t.view.substr(0, dot)) * 10 + digits(t.view.substr(dot + 1));
        constexpr int last_known = 99;
        if (module_.version > last_known)
            throw Error{CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the ptx is of a newer version than any known one"};
        return;
    }
    if (accept_dotted("target")) return header_target();
    if (accept_dotted("address_size")) {
        if (integer() != 64) throw refused(token_.line, ".address_size other than 64");
        return;
    }
    if (accept_dotted("pragma")) {
        take();
        expect(';');
        return;
    }
    if (accept_dotted("alias")) {
        const auto name = identifier();
        expect(',');
        module_.aliases[name] = identifier();
        return expect(';');
    }
    bool external = false;
    linkage(external);
    if (accept_dotted("entry")) return function(true, external);
    if (accept_dotted("func")) return function(false, external);
    global_variable(external);
}

void Parser::linkage(bool& external) {
    for (;;) {
        if (accept_dotted("extern")) external = true;
        else if (!accept_dotted("visible") && !accept_dotted("weak") && !accept_dotted("common")) return;
    }
}

void Parser::skip_braces() {
    expect('{');
    for (int depth = 1; depth > 0; advance()) {
        if (token_.kind == Token::end) fail();
        depth += token_.is('{') - token_.is('}');
    }
}

void Parser::global_variable(bool external) {
    Space space;
    if (accept_dotted("global")) space = Space::global;
    else if (accept_dotted("const")) space = Space::constant;
    else if (accept_dotted("shared")) space = Space::shared;
    else if (token_.is_dotted("texref") || token_.is_dotted("surfref") || token_.is_dotted("samplerref"))
        space = Space::texture;
    else fail();
    do {
        Variable v = variable(space, external);
        // A declaration may come before its definition; the definition wins.
        const auto found = module_.variable_named.find(v.name);
        if (found != module_.variable_named.end()) {
            if (!v.external || found->second->external) *found->second = std::move(v);
        } else {
            const auto name = v.name;
            module_.variables.push_back(std::move(v));
            module_.variable_named[name] = &module_.variables.back();
        }
    } while (accept(','));
    expect(';');
}

}  // namespace barcuda::soft::ast

namespace barcuda::soft {

ast::Module parse(std::string_view text) { return ast::Parser(text).run(); }

}  // namespace barcuda::soft
