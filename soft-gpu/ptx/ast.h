// SPDX-License-Identifier: Apache-2.0
// ast.h: a PTX module as written, names resolved to declarations. The parser makes it, the preparer consumes it.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "soft-gpu/ptx/types.h"

namespace barcuda::soft::ast {

struct Initializer {  // one element: bits, or the address of a symbol
    std::uint64_t bits = 0;
    std::string_view symbol;
    bool generic = false;
    std::uint64_t mask_shift = 64;  // 0xFF00(symbol): takes the byte at this shift; 64: the whole address
};

struct Variable {
    std::string_view name;
    Space space = Space::global;
    Type type = Type::none;
    std::size_t align = 1, bytes = 0;
    bool external = false, managed = false, open = false;  // open: "x[]", sized at launch or by its initializer
    std::vector<Initializer> values;
    int line = 0;
    int reg = -1;  // a register used as a formal parameter
};

struct Operand {
    enum Kind : std::uint8_t { none, sink, reg, integer, real32, real64, variable, name, special, list };
    Kind kind = none;
    bool negated = false;        // !p
    bool address = false;        // [ ... ]
    int index = -1;              // reg: register; variable: index in Function::variables
    std::string_view name_text;  // name: module-level symbol, function or label; special: with its component
    std::uint64_t bits = 0;      // integer and real values
    std::int64_t offset = 0;     // [base + offset], symbol + offset
    std::vector<Operand> items;  // list: {a, b}, (a, b), [texture, {x, y}]; pair p|q in a reg's items
};

struct Instruction {
    std::string_view name;                    // "ld"
    std::vector<std::string_view> modifiers;  // "global", "v4", "f32"
    int guard = -1;                           // predicate register
    bool guard_negated = false;
    std::vector<Operand> operands;
    int line = 0;
    std::string_view text;  // as written, for messages
};

struct Function {
    std::string_view name;
    bool entry = false, defined = false;
    std::vector<int> parameters, results;  // variables
    std::vector<Variable> variables;       // param, local, shared and formal registers
    std::vector<Type> registers;
    std::vector<Instruction> body;
    std::map<std::string_view, std::size_t> labels;
    std::map<std::string_view, std::vector<std::string_view>> tables;  // .branchtargets and .calltargets
    std::map<std::string_view, std::pair<std::vector<Variable>, std::vector<Variable>>>
        prototypes;  // results, parameters
    int max_threads[3] = {0, 0, 0}, required_threads[3] = {0, 0, 0};
    std::string_view refused;  // a directive that stops it from being launched
    int line = 0;
};

struct Module {
    int version = 0;                 // major * 10 + minor
    int target = 0;                  // 80 for sm_80
    std::deque<Function> functions;  // addresses stay
    std::deque<Variable> variables;
    std::map<std::string_view, Function*> function_named;
    std::map<std::string_view, Variable*> variable_named;
    std::map<std::string_view, std::string_view> aliases;
};

}  // namespace barcuda::soft::ast
