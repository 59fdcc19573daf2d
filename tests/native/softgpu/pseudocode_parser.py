"""Parser of the published instruction pseudo-code, into nested tuples.

Statements: ("set", target, operator, value), ("if", [(condition, body)…], otherwise), ("for", name, first,
last, body),
("return", value), ("break",), ("expression", value), ("lambda", name, parameters, body), ("declare", name,
kind, width, is_array).
"""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<cast>\d+'(?:BF|[UIFB])(?=\())
      | (?P<type>\d+'(?:BF|[UIFB])\b)
      | (?P<sized>\d+'-?(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)U?)
      | (?P<hex>0x[0-9a-fA-F]+)(?P<hexsuffix>[UL]*)
      | (?P<real>\d+\.\d+)(?P<realsuffix>F?)
      | (?P<integer>\d+)(?P<suffix>[UL]*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<operator>\*\*|<<|>>|<>|<=|>=|==|!=|&&|\|\||\+=|-=|[-+*/%&|^~!<>=?:;,.(){}\[\]])""",
    re.VERBOSE,
)
BINARY = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", "<>"], ["<", "<=", ">", ">="], ["<<", ">>"],
["+", "-"],
          ["*", "/"], ["**"]]  # fmt: skip


def tokens(text: str) -> list[tuple[str, str]]:
    # Words that ran together when the text was taken from a printed page.
    text = re.sub(r"\b(break)(endif)\b", r"\1 \2", text)
    found, position = [], 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise SyntaxError(f"pseudo-code: {text[position : position + 30]!r}")
        position = match.end()
        if match.lastgroup != "space":
            kind = next(
                k
                for k in ("cast", "type", "sized", "hex", "real", "integer", "name", "operator")
                if match[k] is not None
            )
            found.append((kind, match[0]))
    return [*found, ("end", "")]


class Parser:
    """Recursive descent over the tokens of one instruction."""

    def __init__(self, text: str) -> None:
        self.tokens = tokens(text)
        self.at = 0

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    def next(self) -> tuple[str, str]:
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, text: str) -> bool:
        if self.text != text or self.tokens[self.at][0] == "end":
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise SyntaxError(f"pseudo-code: expected {text!r}, found {self.text!r}")

    def program(self) -> list[tuple]:
        body = self.block(set())
        if self.tokens[self.at][0] != "end":
            raise SyntaxError(f"pseudo-code: unexpected {self.text!r}")
        return body

    def block(self, ends: set[str]) -> list[tuple]:
        statements = []
        while True:
            while self.take(";"):
                pass
            if self.tokens[self.at][0] == "end" or self.text in ends:
                return statements
            statements.append(self.statement())

    def statement(self) -> tuple:
        if self.take("if"):
            return self.conditional()
        if self.take("for"):
            name = self.next()[1]
            self.expect("in")
            first = self.expression()
            self.expect(":")
            last = self.expression()
            self.expect("do")
            body = self.block({"endfor"})
            self.expect("endfor")
            return ("for", name, first, last, body)
        if self.take("return"):
            return ("return", self.expression())
        if self.take("break"):
            return ("break",)
        if self.take("declare"):
            name = self.next()[1]
            self.expect(":")
            width, kind = self.next()[1].split("'")
            is_array = self.take("[")
            if is_array:
                self.expression()
                self.expect("]")
            return ("declare", name, kind.lower(), int(width), is_array)
        target = self.expression()
        for operator in ("=", "+=", "-="):
            if self.take(operator):
                return self.assignment(target, operator)
        return ("expression", target)

    def assignment(self, target: tuple, operator: str) -> tuple:
        if self.take("lambda"):
            self.expect("(")
            parameters = []
            while not self.take(")"):
                parameters.append(self.next()[1])
                self.take(",")
            self.expect("(")
            body = self.block({")"}) if self.text in ("if", "declare") else [("return", self.expression())]
            self.expect(")")
            return ("lambda", target[1], parameters, body)
        value = self.expression()
        if operator == "=" and self.take("="):  # a chain: the right one first
            return ("chain", target, self.assignment(value, "="))
        return ("set", target, operator, value)

    def conditional(self) -> tuple:
        branches, otherwise = [], []
        while True:
            condition = self.expression()
            self.expect("then")
            branches.append((condition, self.block({"elsif", "else", "endif"})))
            if not self.take("elsif"):
                break
        if self.take("else"):
            otherwise = self.block({"endif"})
        self.expect("endif")
        return ("if", branches, otherwise)

    def expression(self) -> tuple:
        condition = self.binary(0)
        if not self.take("?"):
            return condition
        yes = self.expression()
        self.expect(":")
        return ("choose", condition, yes, self.expression())

    def binary(self, level: int) -> tuple:
        if level == len(BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.text in BINARY[level] and self.tokens[self.at][0] == "operator":
            operator = self.next()[1]
            left = ("binary", operator, left, self.binary(level + 1))
        return left

    def unary(self) -> tuple:
        for operator in ("-", "+", "!", "~"):
            if self.take(operator):
                return ("unary", operator, self.unary())
        return self.postfix(self.primary())

    def postfix(self, value: tuple) -> tuple:
        while True:
            if self.take("."):
                value = ("member", value, self.next()[1])
            elif self.take("["):
                high = self.expression()
                if self.take(":"):
                    value = ("slice", value, high, self.expression())
                else:
                    value = ("index", value, high)
                self.expect("]")
            else:
                return value

    def arguments(self, end: str) -> list[tuple]:
        values = []
        while not self.take(end):
            values.append(self.expression())
            self.take(",")
        return values

    def primary(self) -> tuple:
        kind, text = self.next()
        if kind == "cast":
            width, name = text.split("'")
            self.expect("(")
            value = self.expression()
            self.expect(")")
            return ("cast", name.lower(), int(width), value)
        if kind in ("sized", "hex", "real", "integer"):
            return ("literal", text)
        if kind == "name":
            return ("call", text, self.arguments(")")) if self.take("(") else ("name", text)
        if text == "(":
            value = self.expression()
            self.expect(")")
            return value
        if text == "{":
            return ("concat", self.arguments("}"))
        raise SyntaxError(f"pseudo-code: unexpected {text!r}")


def parse(text: str) -> list[tuple]:
    return Parser(text).program()
