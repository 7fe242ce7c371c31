// SPDX-License-Identifier: Apache-2.0
// lexer.h: PTX text -> tokens. A token is a view into the text: nothing is copied.
//
// PTX is regular enough for a one-token lexer: words, dotted words (".global", ".shared::cta"), numbers, strings, and
// single characters. `glued` distinguishes an instruction's modifier ("ld.param") from a directive after a blank (".reg
// .b32").
#pragma once
#include <cstdint>
#include <string_view>

namespace barcuda::soft {

struct Token {
    enum Kind : std::uint8_t { end, word, dotted, integer, real32, real64, text, mark };
    Kind kind = end;
    bool glued = false;    // no blank before it
    char punctuation = 0;  // of a mark
    int line = 0;
    std::string_view view;   // dotted: without its dot; text: without its quotes
    std::uint64_t bits = 0;  // value of a number, as its own bit pattern

    bool is(char c) const { return kind == mark && punctuation == c; }
    bool is_word(std::string_view name) const { return kind == word && view == name; }
    bool is_dotted(std::string_view name) const { return kind == dotted && view == name; }
};

class Lexer {
  public:
    explicit Lexer(std::string_view text) : text_(text) {}
    Token next();
    void skip_line();  // the rest of the line: .loc and .file end there
    int line() const { return line_; }
    std::size_t position() const { return at_; }

  private:
    bool skip_blanks();
    Token number(Token token);
    std::string_view take_while(bool (*accept)(char));

    std::string_view text_;
    std::size_t at_ = 0;
    int line_ = 1;
};

}  // namespace barcuda::soft
