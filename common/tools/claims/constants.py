"""The integer constants of a kernel's source, and the extents of its arrays."""

import ast
import math
import operator
import re
from collections.abc import Callable
from contextlib import suppress

from tools.claims.objects import NoValue

# As people write them: indented or not, as static constexpr, const, in an enum or as a macro.
DEFINITION = re.compile(
    r"^[ \t]*(?:(?:static|inline)\s+)*(?:constexpr|const)\s+(?:(?:static|inline)\s+)*"
    r"(?:unsigned(?:\s+int)?|int|auto|(?:std::)?size_t)\s+(\w+\s*[={][^;]+);"
    r"|\benum\b[^;{}]*\{([^{}]*)\}"
    r"|^[ \t]*#[ \t]*define[ \t]+(\w+[ \t]+[^\n]+)",
    re.MULTILINE,
)
OPERATORS: dict[type[ast.AST], Callable[..., int]] = {
    ast.USub: operator.neg,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: int(a / b),  # towards zero, as in C++
    ast.Mod: lambda a, b: int(math.fmod(a, b)),
}


def constants(source: str) -> dict[str, int]:
    """The integer constants of a kernel's source: {'BM': 128, 'WM': 64, ...}."""
    found: dict[str, int] = {}
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    for usual, of_enum, macro in DEFINITION.findall(text):
        for item in (usual or of_enum or re.sub(r"\s+", "=", macro.strip(), count=1)).split(","):
            item = re.sub(r"^\s*(\w+)\s*\{([^{}]*)\}", r"\1 = \2", item)
            name, _, expression = (part.strip() for part in item.partition("="))
            with suppress(KeyError, SyntaxError, ZeroDivisionError):
                found.setdefault(name, integer(expression, found))
    return found


def integer(expression: str, names: dict[str, int]) -> int:
    """The value of a constant C++ expression over known names; KeyError, SyntaxError or ZeroDivisionError if
    it has none."""

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return names[name]
            case ast.UnaryOp(op=op, operand=operand):
                return OPERATORS[type(op)](value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATORS[type(op)](value(left), value(right))
        raise KeyError

    return value(ast.parse(re.sub(r"(?<=\d)[uUlLzZ]+\b", "", expression.strip()), mode="eval").body)


def extents(source: str, array: str) -> list[int]:
    """Of an array of floats that a kernel's source declares: As, or Tiles::A for a member. NoValue if it
    declares none, or none whose extents are constants."""
    name = array.rpartition("::")[2]
    found = re.search(rf"\bfloat\s+(?:[^;()]*,\s*)?{re.escape(name)}((?:\[[^\]]+\])+)\s*[;,]", source)
    names = constants(source)
    with suppress(KeyError, SyntaxError, ZeroDivisionError):
        if found:
            return [integer(extent, names) for extent in re.findall(r"\[([^\]]+)\]", found[1])]
    raise NoValue(f"the source declares no array of floats {array} of known extents")
