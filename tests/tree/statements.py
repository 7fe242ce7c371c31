# SPDX-License-Identifier: Apache-2.0
"""Finds comma operators that stand between statements in C++: `a = b, c = d;`, `return errno = x, false;`, `ok && (take(), true)`. It reads
tokens, not types, so it knows declarations, templates and blocks by their look; the heads of for loops, and macros, are left alone."""
import re

TOKEN = re.compile(r"""
    (?P<skip> \s+ | //[^\n]* | /\*.*?\*/ | (?m:^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*) )
  | (?P<text> (?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*" | (?<!\w)'(?:\\.|[^'\\\n])+' )
  | (?P<word> [A-Za-z_]\w* )
  | (?P<number> \.?\d(?:[eEpP][+-]|'?[\w.])* )
  | ::|->|\+\+|--|<<<|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|.
""", re.S | re.X)
DECLARES = set("""auto const constexpr constinit static extern inline thread_local volatile mutable typename typedef using struct class union enum
namespace template friend virtual explicit int unsigned signed char short long float double bool void operator static_assert concept""".split())
HEADS = {"if", "for", "while", "switch", "catch"}  # a statement follows their parentheses
CLOSES = {")": "(", "]": "[", "}": "{"}


class Source:
    def __init__(self, text):
        self.text, self.found = text, []
        tokens = [m for m in TOKEN.finditer(text) if m["skip"] is None]
        self.t, self.at = [m[0] for m in tokens], [m.start() for m in tokens]
        self.word = [m["word"] is not None for m in tokens]
        self.mate, self.within, opened = {}, {}, []
        for i, token in enumerate(self.t):
            if token in CLOSES.values():
                self.within[i] = opened[-1] if opened else 0
                opened.append(i)
            elif token in CLOSES and opened:
                self.mate[opened.pop()] = i
        self.opened_by = {end: begin for begin, end in self.mate.items()}
        self.statements(0, len(self.t))

    def lines(self):
        return sorted({self.text.count("\n", 0, self.at[i]) + 1 for i in self.found})

    def template_end(self, i):
        """Behind the > of the < at i; None: it is a comparison."""
        depth = 0
        while i < len(self.t):
            token = self.t[i]
            depth += (token == "<") - (token == ">")
            if depth == 0:
                return i + 1
            if token in CLOSES.values():
                i = self.mate[i]
            elif not (self.word[i] or token in ("<", ">", "::", ",", "*", "&", "&&", "...", "-", "+", "|", ".", "==") or token[0] in "\"'.0123456789"):
                return None
            i += 1
        return None

    def declares(self, begin, end):
        """Whether [begin, end) is a declaration: a type, and then a name."""
        if self.t[begin] in DECLARES or self.t[begin:begin + 2] == ["[", "["]:
            return True
        i = begin + (self.t[begin] == "::")
        while i < end and self.word[i] and self.t[i] != "return":
            i += 1
            if i < end and self.t[i] == "<":
                i = self.template_end(i) or end
            if i < end and self.t[i] == "::":
                i += 1
                continue
            break
        else:
            return False
        while i < end and self.t[i] in ("*", "&", "&&", "const"):
            i += 1
        return i < end and self.word[i]

    def commas(self, begin, end):
        i = begin
        while i < end:
            if self.t[i] in CLOSES.values():
                i = self.mate[i]
            elif self.t[i] == "<" and (self.word[i - 1] or self.t[i - 3:i] == ["operator", "(", ")"]):
                after = self.template_end(i)
                if after and (after >= end or self.word[after] or self.t[after] in ("(", "{", "::", "<<<", ">", ")", ",", ";", ":", "?", "&", "*", "&&", "||")):
                    i = after - 1
            elif self.t[i] == "<<<":  # a kernel's launch
                while self.t[i:i + 3] != [">", ">", ">"]:
                    i = self.mate.get(i, i) + 1
                i += 2
            elif self.t[i] == "," and self.t[i + 1] != "...":
                yield i
            i += 1

    def is_lambda(self, brace):
        """Whether the { in an expression is a lambda's body: [] { or [](...) { or [](...) -> T {"""
        i = brace - 1
        while self.t[i] in ("mutable", "noexcept"):
            i -= 1
        if self.t[i] not in (")", "]"):
            while self.word[i] or self.t[i] in ("::", "<", ">", "*", "&", ","):
                i -= 1
            if self.t[i] != "->":
                return False
            i -= 1
        if self.t[i] == ")":
            i = self.opened_by[i] - 1
        return self.t[i] in ("]", ">")

    def is_macros(self, i):
        """Whether the ( at i begins an argument of a macro, or of an attribute."""
        caller = self.t[self.within[i] - 1]
        return caller == "__attribute__" or (caller.isupper() and len(caller) > 1)

    def expression(self, begin, end):
        """Lambdas in [begin, end), and parentheses that are not a call's."""
        i = begin
        while i < end:
            if self.t[i] == "{" and self.is_lambda(i):
                self.statements(i + 1, self.mate[i])
                i = self.mate[i]
            elif self.t[i] == "(" and self.t[i - 1] in ("(", ",", "=", "!", "&&", "||", "?", ":", "return"):
                if not self.is_macros(i) and not self.declares(i + 1, self.mate[i]):
                    self.found += self.commas(i + 1, self.mate[i])
            i += 1

    def is_block(self, brace, begin):
        before, head = self.t[brace - 1], self.t[begin:brace]
        if before in (")", ";", "{", "}", "]", ":", "else", "do", "try", "const", "noexcept", "override", "final", "mutable"):
            return True
        if before in ("return", "=", ",", "(", "?"):
            return False
        if {"namespace", "struct", "class", "union", "extern"} & set(head) and "=" not in head:
            return True
        return any(head[i:i + 2] == [")", "->"] for i in range(len(head)))

    def statement(self, begin, end):
        self.expression(begin, end)
        if begin < end and self.t[begin] not in ("break", "continue", "goto") and not self.declares(begin, end):
            self.found += self.commas(begin, end)

    def statements(self, begin, end):
        start = i = begin
        while i < end:
            token = self.t[i]
            if i == start:  # what comes before a statement
                if token in ("public", "private", "protected", "else", "do") or (self.word[i] and self.t[i + 1:i + 2] == [":"]):
                    i += 1 + (self.t[i + 1] == ":")
                elif token in ("case", "default"):
                    while self.t[i] != ":":
                        i = self.mate.get(i, i) + 1
                    i += 1
                elif token in HEADS:
                    i += 1 + (self.t[i + 1] == "constexpr")
                    self.expression(i + 1, self.mate[i])
                    i = self.mate[i] + 1
                elif token == "{":
                    self.statements(i + 1, self.mate[i])
                    i = self.mate[i] + 1
                if i != start:
                    start = i
                    continue
            if token == ";":
                self.statement(start, i)
                start = i + 1
            elif token == "{" and self.is_block(i, start):
                self.expression(start, i)
                if self.t[start] != "enum":
                    self.statements(i + 1, self.mate[i])
                i = self.mate[i]
                if "struct" in self.t[start:i][:3] or "union" in self.t[start:i][:3]:  # struct {...} a, b;
                    while i + 1 < end and self.t[i] != ";" and (self.t[i + 1] in (";", ",", "=", "*", "[") or self.word[i + 1]):
                        i = self.mate.get(i + 1, i + 1)
                        if self.t[i] == "=":
                            while self.t[i] != ";":
                                i = self.mate.get(i, i) + 1
                start = i + 1
            else:
                i = self.mate.get(i, i)
            i += 1
