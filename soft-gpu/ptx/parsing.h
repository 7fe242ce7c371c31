// SPDX-License-Identifier: Apache-2.0
// parsing.h: the parser's class; its functions are in parser.cc (modules), declarations.cc and statements.cc.
#pragma once
#include <unordered_map>

#include "soft-gpu/ptx/ast.h"
#include "soft-gpu/ptx/errors.h"
#include "soft-gpu/ptx/lexer.h"

namespace barcuda::soft::ast {

struct Name {
    bool reg = false;
    int first = 0, count = -1;
};  // count -1: one; else a range "%r<count>"
struct Scope {
    std::unordered_map<std::string_view, Name> ones, ranges;
};

constexpr std::size_t max_bytes = std::size_t{1} << 40;  // of one variable: beyond it sizes would overflow

constexpr std::size_t most_registers = 10'000'000;  // of a function: ptxas gives up far earlier

// The digits at the front of a word, as a number.
inline int digits(std::string_view word) {
    int n = 0;
    for (const char c : word.substr(0, 8)) {
        if (c < '0' || c > '9') break;
        n = n * 10 + (c - '0');
    }
    return n;
}

class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text), lexer_(text) { advance(); }
    Module run();

  private:
    // tokens
    void advance();
    Token take() {
        Token t = token_;
        advance();
        return t;
    }
    bool accept(char c) { return accept_if(token_.is(c)); }
    bool accept_word(std::string_view w) { return accept_if(token_.is_word(w)); }
    bool accept_dotted(std::string_view w) { return accept_if(token_.is_dotted(w)); }
    bool accept_if(bool fits) {
        if (fits) advance();
        return fits;
    }
    void expect(char c);
    std::string_view identifier();
    std::uint64_t integer();
    [[noreturn]] void fail() const;

    // module
    void directive();
    void header_target();
    void linkage(bool& external);
    void global_variable(bool external);
    void function(bool entry, bool external);
    void skip_braces();

    // declarations
    Variable variable(Space space, bool external);
    void sizes(Variable& v, unsigned vector);
    void values(Variable& v);
    Initializer value();
    std::vector<Variable> formals();
    int declare(Variable v);
    void enter(std::string_view name, const Name& what, int line);
    void registers();
    void performance(Function& f);

    // bodies
    void body();
    void statement();
    void instruction();
    void labelled(std::string_view label);
    Operand operand();
    Operand address();
    Operand number(bool negative);
    Operand named(Token name);
    const Name* find(std::string_view name, int* index) const;

    // Every recursion passes here: no text may exhaust our stack.
    struct Nested {
        explicit Nested(Parser& p) : parser(p) {
            if (++parser.nesting_ > 64) parser.fail();
        }
        ~Nested() { --parser.nesting_; }
        Nested(const Nested&) = delete;
        Nested& operator=(const Nested&) = delete;
        Parser& parser;
    };

    std::string_view text_;
    Lexer lexer_;
    Token token_;
    std::size_t end_of_last_ = 0;  // where the text of the last taken token ended
    int nesting_ = 0;
    Module module_;
    Function* f_ = nullptr;
    std::vector<Scope> scopes_;
};

}  // namespace barcuda::soft::ast
