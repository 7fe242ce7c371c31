// parser.cc: recursive descent over the tokens. Unknown directives are errors here; unknown instructions and modifiers
// are errors of the preparer, so that a function nobody launches may contain what the software GPU does not run.
#include "host-bridge/soft-gpu/ptx/parser.h"

#include <unordered_map>

#include "host-bridge/soft-gpu/ptx/errors.h"
#include "host-bridge/soft-gpu/ptx/lexer.h"

namespace barcuda::soft {
namespace {

using namespace ast;

struct Name {
    bool reg = false;
    int first = 0, count = -1;
};  // count -1: one; else a range "%r<count>"
using Scope = std::unordered_map<std::string_view, Name>;

constexpr std::size_t max_bytes = std::size_t{1} << 40;  // of one variable: beyond it sizes would overflow

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
    bool accept(char c) { return token_.is(c) && (advance(), true); }
    bool accept_word(std::string_view w) { return token_.is_word(w) && (advance(), true); }
    bool accept_dotted(std::string_view w) { return token_.is_dotted(w) && (advance(), true); }
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

    std::string_view text_;
    Lexer lexer_;
    Token token_;
    std::size_t end_of_last_ = 0;  // where the text of the last taken token ended
    Module module_;
    Function* f_ = nullptr;
    std::vector<Scope> scopes_;
};

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

// ---- module
// ------------------------------------------------------------------------------------------------------------

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
        for (char c : name.substr(3)) {
            if (c < '0' || c > '9') break;  // sm_90a
            module_.target = module_.target * 10 + (c - '0');
        }
    } while (accept(','));
}

void Parser::directive() {
    if (token_.is(';')) return advance();
    if (token_.kind != Token::dotted) fail();
    if (token_.is_dotted("file") || token_.is_dotted("loc")) return lexer_.skip_line(), advance();
    const bool section = token_.is_dotted("section");
    if (section) {
        while (token_.kind != Token::end && !token_.is('{')) advance();
        return skip_braces();
    }
    if (accept_dotted("version")) {
        const Token t = take();
        if (t.kind != Token::real64) fail();
        const auto dot = t.view.find('.');
        module_.version =
            std::stoi(std::string(t.view.substr(0, dot))) * 10 + std::stoi(std::string(t.view.substr(dot + 1)));
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

// ---- declarations
// ------------------------------------------------------------------------------------------------------

// What follows the state space: alignment, attributes, type, name, array sizes, initializer.
Variable Parser::variable(Space space, bool external) {
    Variable v;
    v.space = space, v.external = external, v.line = token_.line;
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
            v.open = true, v.bytes = 0;
            continue;
        }
        const auto count = integer();
        if (count > max_bytes || v.bytes * count > max_bytes) throw refused(token_.line, "a variable of that size");
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
    if (v.open) v.bytes = size, v.open = false;
    if (size > v.bytes) throw invalid(v.line, "more values than '" + std::string(v.name) + "' has elements");
}

// 5   -1.0   0f3F800000   symbol   symbol+8   generic(symbol)+8   0xFF00(generic(symbol))
Initializer Parser::value() {
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

int Parser::declare(Variable v) {
    const int index = static_cast<int>(f_->variables.size());
    if (v.space == Space::reg) {
        v.reg = static_cast<int>(f_->registers.size());
        f_->registers.push_back(v.type);
        scopes_.back()[v.name] = {true, v.reg, -1};
    } else {
        scopes_.back()[v.name] = {false, index, -1};
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
        const auto name = identifier();
        const int first = static_cast<int>(f_->registers.size());
        int count = -1;
        if (accept('<')) {
            const auto n = integer();
            if (n > 10'000'000) fail();
            count = static_cast<int>(n);
            expect('>');
        }
        f_->registers.resize(f_->registers.size() + static_cast<std::size_t>(count < 0 ? 1 : count), *type);
        scopes_.back()[name] = {true, first, count};
    } while (accept(','));
    expect(';');
}

void Parser::performance(Function& f) {
    const auto triple = [&](int* out) {
        int i = 0;
        out[0] = out[1] = out[2] = 1;
        do {
            if (i == 3) fail();
            out[i++] = static_cast<int>(integer());
        } while (accept(','));
    };
    int unused[3];
    while (token_.kind == Token::dotted) {
        if (accept_dotted("maxntid")) triple(f.max_threads);
        else if (accept_dotted("reqntid")) triple(f.required_threads);
        else if (accept_dotted("minnctapersm") || accept_dotted("maxnctapersm") || accept_dotted("maxnreg") ||
                 accept_dotted("maxclusterrank"))
            integer();
        else if (token_.is_dotted("reqnctapercluster")) f.refused = token_.view, advance(), triple(unused);
        else if (token_.is_dotted("explicitcluster") || token_.is_dotted("blocksareclusters"))
            f.refused = token_.view, advance();
        else if (accept_dotted("pragma")) {
            take();
            expect(';');
        } else if (accept_dotted("abi_preserve") || accept_dotted("abi_preserve_control")) integer();
        else if (!accept_dotted("noreturn") && !accept_dotted("unique")) fail();
    }
}

void Parser::function(bool entry, bool external) {
    (void)external;
    Function f;
    f.entry = entry, f.line = token_.line;
    f_ = &f;
    scopes_.assign(1, {});
    std::vector<Variable> results, parameters;
    while (token_.is_dotted("attribute")) {
        while (!accept(')')) advance();
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

// ---- bodies
// ------------------------------------------------------------------------------------------------------------

void Parser::body() {
    expect('{');
    scopes_.emplace_back();
    for (std::size_t depth = 1; depth > 0;) {
        if (accept('{')) scopes_.emplace_back(), ++depth;
        else if (accept('}')) scopes_.pop_back(), --depth;
        else statement();
    }
}

void Parser::statement() {
    if (accept(';')) return;
    if (token_.kind == Token::word || token_.is('@')) return instruction();
    if (token_.kind != Token::dotted) fail();
    if (token_.is_dotted("loc") || token_.is_dotted("file")) return lexer_.skip_line(), advance();
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
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    const auto prefix = name.substr(0, digits), suffix = name.substr(digits);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (const auto at = scope->find(name); at != scope->end() && at->second.count < 0)
            return *index = at->second.first, &at->second;
        if (suffix.empty() || suffix.size() > 8) continue;
        if (const auto at = scope->find(prefix); at != scope->end() && at->second.count >= 0) {
            const int n = std::stoi(std::string(suffix));
            if (n < at->second.count) return *index = at->second.first + n, &at->second;
        }
    }
    return nullptr;
}

Operand Parser::named(Token name) {
    Operand o;
    if (name.view == "_") return o.kind = Operand::sink, o;
    if (name.view == "WARP_SZ") return o.kind = Operand::integer, o.bits = 32, o;
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
    if (t.kind == Token::integer) o.kind = Operand::integer, o.bits = negative ? 0 - t.bits : t.bits;
    else if (t.kind == Token::real32) o.kind = Operand::real32, o.bits ^= std::uint64_t{negative} << 31;
    else if (t.kind == Token::real64) o.kind = Operand::real64, o.bits ^= std::uint64_t{negative} << 63;
    else throw invalid(t.line, "the operand '" + std::string(t.view) + "'");
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
    if (accept('~')) return o = number(false), o.bits = ~o.bits, o;
    o = token_.kind == Token::word ? named(take()) : number(false);
    while (token_.is('+') || token_.is('-')) {
        const bool minus = accept('-');
        if (!minus) advance();
        const bool negative = accept('-') != minus;
        const auto n = integer();
        o.offset += static_cast<std::int64_t>(negative ? 0 - n : n);
    }
    if (accept('|')) {
        Operand second = operand();
        o.items.push_back(std::move(second));
    }
    return o;
}

}  // namespace

ast::Module parse(std::string_view text) { return Parser(text).run(); }

}  // namespace barcuda::soft
