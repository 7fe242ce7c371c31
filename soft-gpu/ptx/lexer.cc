// SPDX-License-Identifier: Apache-2.0
// lexer.cc: how PTX spells its words and numbers.
#include "soft-gpu/ptx/lexer.h"

#include <charconv>
#include <cstdlib>
#include <string>

#include "soft-gpu/ptx/errors.h"

namespace barcuda::soft {

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool begins_word(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
static bool continues_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$' || c == '%'; }
static bool continues_number(char c) { return is_letter(c) || is_digit(c); }

// Blanks and comments. True if there was one.
bool Lexer::skip_blanks() {
    const auto begin = at_;
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '\n') ++line_;
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v') {
            ++at_;
        } else if (text_.substr(at_, 2) == "//") {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else if (text_.substr(at_, 2) == "/*") {
            const auto close = text_.find("*/", at_ + 2);
            if (close == text_.npos) throw invalid(line_, "a comment that does not end");
            for (; at_ < close + 2; ++at_) line_ += text_[at_] == '\n';
        } else {
            break;
        }
    }
    return at_ != begin;
}

void Lexer::skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

std::string_view Lexer::take_while(bool (*accept)(char)) {
    const auto begin = at_;
    while (at_ < text_.size() && accept(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
}

Token Lexer::next() {
    Token token;
    token.glued = !skip_blanks();
    token.line = line_;
    if (at_ >= text_.size() || text_[at_] == '\0') return token;  // a fat binary may pad its text with zeros
    const char c = text_[at_];
    if (is_digit(c)) return number(token);
    if (begins_word(c)) {
        token.kind = Token::word;
        token.view = take_while(continues_word);
        return token;
    }
    if (c == '.' && at_ + 1 < text_.size() && continues_word(text_[at_ + 1])) {
        token.kind = Token::dotted;
        const auto begin = ++at_;
        take_while(continues_word);
        while (text_.substr(at_, 2) == "::") {
            at_ += 2;
            take_while(continues_word);
        }
        token.view = text_.substr(begin, at_ - begin);
        return token;
    }
    if (c == '"') {
        const auto close = text_.find('"', at_ + 1);
        if (close == text_.npos) throw invalid(line_, "a string that does not end");
        token.kind = Token::text;
        token.view = text_.substr(at_ + 1, close - at_ - 1);
        at_ = close + 1;
        return token;
    }
    token.kind = Token::mark;
    token.punctuation = c;
    token.view = text_.substr(at_++, 1);
    return token;
}

// 12  0x1F  017  0b101  12U  0f3F800000  0d3FF0000000000000  1.5  1e-3
Token Lexer::number(Token token) {
    const auto begin = at_;
    const bool hex_float = text_[at_] == '0' && at_ + 1 < text_.size() &&
                           std::string_view("fFdD").find(text_[at_ + 1]) != std::string_view::npos;
    const bool prefixed = text_[at_] == '0' && at_ + 1 < text_.size() &&
                          std::string_view("xXbB").find(text_[at_ + 1]) != std::string_view::npos;
    take_while(continues_number);
    auto view = text_.substr(begin, at_ - begin);
    const auto parse = [&](std::string_view digits, int base) {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
        if (error != std::errc() || end != digits.data() + digits.size())
            throw invalid(token.line, "the number '" + std::string(view) + "'");
        return value;
    };
    if (hex_float) {
        const bool wide = view[1] == 'd' || view[1] == 'D';
        if (view.size() != (wide ? 18u : 10u)) throw invalid(token.line, "the number '" + std::string(view) + "'");
        token.kind = wide ? Token::real64 : Token::real32;
        token.bits = parse(view.substr(2), 16);
    } else if (!prefixed && (view.find_first_of("eE") != view.npos ||
                             (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])))) {
        if (at_ < text_.size() && text_[at_] == '.') {
            ++at_;
            take_while(continues_number);
        }
        if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+') &&
            (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E')) {
            ++at_;
            take_while(is_digit);
        }
        view = text_.substr(begin, at_ - begin);
        const double value = std::strtod(std::string(view).c_str(), nullptr);
        token.kind = Token::real64;
        token.bits = __builtin_bit_cast(std::uint64_t, value);
    } else {
        auto digits = view;
        if (digits.back() == 'U') digits.remove_suffix(1);
        token.kind = Token::integer;
        if (prefixed) token.bits = parse(digits.substr(2), digits[1] == 'x' || digits[1] == 'X' ? 16 : 2);
        else token.bits = parse(digits, digits.size() > 1 && digits[0] == '0' ? 8 : 10);
    }
    token.view = view;
    return token;
}

}  // namespace barcuda::soft
