"""The expressions of claims and pages (see values.py): what they may hold, and their value."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tools.claims.context import MINE, Context, N, all_steps
from tools.claims.objects import Accesses, ExpressionError, Figures, NotAvailable, ValueProblem, Xray
from tools.machine_code import sass
from tools.machine_code.listing import Frame, Instruction
from tools.machine_code.loops import Block, Loop, RegisterReads
from tools.machine_code.occupancies import Occupancy

# What expressions may look into: the attributes and methods of these, and of nothing else.
VISIBLE = (Accesses, Xray, Figures, sass.Kernel, Loop, Block, RegisterReads, Instruction, Frame, Occupancy)
SOURCES = ("xray", "sass", "profile", "ladder", "experiment", "variant", "const")
PLAIN: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "sum": sum,
    "len": len,
    "all": all,
    "any": any,
}
NAMES = ("here", "before", "mine", "gpu", "steps", "N")
ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}


@dataclass(frozen=True)
class Comparison:
    """One comparison that was made: the source of its sides, their values, and whether it held."""

    left: str
    left_value: Any
    sign: str
    right: str
    right_value: Any
    holds: bool


@dataclass(frozen=True)
class Evaluation:
    value: Any
    comparisons: list[Comparison]


def parse(expression: str) -> ast.expr:
    """The syntax tree of an expression. ExpressionError if it uses anything that is not on the whitelist."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        _check(tree, frozenset())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExpressionError(f"not an expression: {said}") from None
    return tree


def _check(node: ast.AST, bound: frozenset[str]) -> None:
    def check(*nodes: ast.AST) -> None:
        for n in nodes:
            _check(n, bound)

    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            pass
        case ast.Name(id=name):
            if name not in NAMES and name not in bound:
                raise ExpressionError(f"unknown name '{name}'; known are {', '.join(NAMES)}")
        case ast.Attribute(value=value, attr=name):
            if name.startswith("_"):
                raise ExpressionError(f"'.{name}' is not allowed: no name that begins with _")
            check(value)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            match function:
                case ast.Name(id=name) if name in SOURCES or name in PLAIN:
                    pass
                case ast.Attribute():
                    check(function)
                case _:
                    known = ", ".join((*SOURCES, *PLAIN))
                    raise ExpressionError(f"unknown function '{ast.unparse(function)}'; known are {known}")
            if any(keyword.arg is None for keyword in keywords):
                raise ExpressionError("'**' in a call is not allowed")
            check(*arguments, *(keyword.value for keyword in keywords))
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in ARITHMETIC:
                raise ExpressionError(f"'{ast.unparse(node)}' is not arithmetic that is allowed")
            check(left, right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
            check(operand)
        case ast.BoolOp(values=values):
            check(*values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            if any(type(op) not in COMPARISONS for op in ops):
                raise ExpressionError("'is' is not allowed; use ==")
            check(left, *others)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            check(*elements)
        case (
            ast.GeneratorExp(elt=element, generators=generators)
            | ast.ListComp(elt=element, generators=generators)
        ):
            inner = bound
            for generator in generators:
                if generator.is_async or not isinstance(generator.target, ast.Name):
                    raise ExpressionError("a comprehension takes one name: ... for s in ...")
                _check(generator.iter, inner)
                inner |= {generator.target.id}
                for condition in generator.ifs:
                    _check(condition, inner)
            _check(element, inner)
        case _:
            raise ExpressionError(f"'{ast.unparse(node)}' is not allowed in an expression")


def sources(expression: str) -> list[str]:
    """Which of xray, sass, profile, ladder, experiment, const and gpu an expression uses."""
    names = {node.id for node in ast.walk(parse(expression)) if isinstance(node, ast.Name)}
    return [name for name in (*SOURCES, "gpu") if name in names]


def is_condition(expression: str) -> bool:
    """Whether an expression is true or false by its form."""

    def boolean(node: ast.AST) -> bool:
        match node:
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.BoolOp(values=values):
                return all(map(boolean, values))
            case ast.Call(func=ast.Name(id="all" | "any")):
                return True
        return False

    return boolean(parse(expression))


def evaluate(expression: str, context: Context) -> Any:
    """The value of an expression. Raises NotAvailable or ExpressionError."""
    return explain(expression, context).value


def explain(expression: str, context: Context) -> Evaluation:
    """The value of an expression and the comparisons on the way to it. Raises as evaluate() does."""
    tree = parse(expression)
    evaluator = _Evaluator(context)
    try:
        value = evaluator.value(tree, {})
    except (NotAvailable, ExpressionError):
        raise
    except ZeroDivisionError:
        raise ValueProblem(f"division by zero in '{ast.unparse(tree)}'") from None
    except (TypeError, ValueError, OverflowError, re.error) as error:
        raise ValueProblem(f"{error} in '{ast.unparse(tree)}'") from None
    return Evaluation(value, evaluator.comparisons)


class _Evaluator:
    """Walks a syntax tree that parse() has let through."""

    def __init__(self, context: Context):
        self.context = context
        self.comparisons: list[Comparison] = []

    def value(self, node: ast.AST, bound: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return bound[name] if name in bound else self.name(name)
            case ast.Attribute(value=of, attr=name):
                return self.attribute(self.value(of, bound), name)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                values = [self.value(argument, bound) for argument in arguments]
                named = {str(k.arg): self.value(k.value, bound) for k in keywords}
                return self.call(node, function, values, named, bound)
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(op, self.value(left, bound), self.value(right, bound))
            case ast.UnaryOp(op=op, operand=operand):
                value = self.value(operand, bound)
                if isinstance(op, ast.Not):
                    return not value
                return -number(value) if isinstance(op, ast.USub) else number(value)
            case ast.BoolOp(op=op, values=nodes):
                for n in nodes:
                    value = self.value(n, bound)
                    if bool(value) != isinstance(op, ast.And):
                        break
                return value
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self.compare(left, ops, others, bound)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [self.value(element, bound) for element in elements]
            case (
                ast.GeneratorExp(elt=element, generators=generators)
                | ast.ListComp(elt=element, generators=generators)
            ):
                return [self.value(element, names) for names in self.bindings(generators, bound)]
        raise ExpressionError(f"'{ast.unparse(node)}' is not allowed in an expression")

    def bindings(
        self, generators: list[ast.comprehension], bound: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if not generators:
            yield bound
            return
        first, *rest = generators
        assert isinstance(first.target, ast.Name)
        items = self.value(first.iter, bound)
        if not isinstance(items, (list, tuple)):
            raise ValueProblem(f"'{ast.unparse(first.iter)}' is no list")
        for item in items:
            names = {**bound, first.target.id: item}
            if all(self.value(condition, names) for condition in first.ifs):
                yield from self.bindings(rest, names)

    def name(self, name: str) -> Any:
        match name:
            case "here":
                return self.context.step
            case "before":
                return self.context.previous()
            case "mine":
                if self.context.mine is None:
                    raise ValueProblem("'mine' is a student's kernel: only the goals of exercises know it")
                return MINE
            case "gpu":
                return self.context.gpu()
            case "steps":
                return all_steps()
        return N

    def attribute(self, of: Any, name: str) -> Any:
        if name.startswith("_") or not is_value_object(of):
            raise ValueProblem(f"{of!r} has no .{name}")
        try:
            return getattr(of, name)
        except AttributeError:
            known = ", ".join(public_names(of))
            raise ValueProblem(f"{type(of).__name__.lower()} has no .{name}; it has {known}") from None

    def call(
        self,
        node: ast.AST,
        function: ast.AST,
        values: list[Any],
        named: dict[str, Any],
        bound: dict[str, Any],
    ) -> Any:
        if isinstance(function, ast.Name):
            target = PLAIN.get(function.id) or getattr(self.context, function.id)
        else:
            target = self.value(function, bound)
            if not is_value_object(getattr(target, "__self__", None)):
                raise ValueProblem(f"'{ast.unparse(function)}' is no function")
        try:
            return target(*values, **named)
        except sass.SassError as error:
            raise NotAvailable(str(error)) from None
        except (TypeError, AttributeError) as error:
            said = re.sub(r"^Context\.|^\w+\.(?=\w+\(\))", "", str(error))
            raise ValueProblem(f"'{ast.unparse(node)}': {said}") from None

    def arithmetic(self, op: ast.operator, left: Any, right: Any) -> Any:
        a, b = number(left), number(right)
        if isinstance(op, ast.Pow) and (abs(b) > 64 or abs(a) > 2**64):
            raise ValueProblem(f"{a} ** {b} is too large")
        return ARITHMETIC[type(op)][1](a, b)

    def compare(
        self, left: ast.AST, ops: list[ast.cmpop], others: list[ast.expr], bound: dict[str, Any]
    ) -> bool:
        value = self.value(left, bound)
        for op, other in zip(ops, others, strict=True):
            other_value = self.value(other, bound)
            sign, function = COMPARISONS[type(op)]
            holds = bool(function(value, other_value))
            # The names of a comprehension are shown by their values.
            self.comparisons.append(
                Comparison(shown(left, bound), value, sign, shown(other, bound), other_value, holds)
            )
            if not holds:
                return False
            left, value = other, other_value
        return True


def number(value: Any) -> int | float:
    if isinstance(value, (int, float)):
        return value
    raise ValueProblem(f"{value!r} is no number")


def is_value_object(value: Any) -> bool:
    """Whether expressions may look into a value."""
    return isinstance(value, VISIBLE)


def public_names(value: Any) -> list[str]:
    names = {name for name in dir(value) if not name.startswith("_")}
    return sorted(names | set(value._names() if isinstance(value, Figures) else ()))


def shown(node: ast.AST, bound: dict[str, Any]) -> str:
    """The source of an expression, with the values of a comprehension's names in their places."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            return ast.Constant(bound[name.id]) if isinstance(bound.get(name.id), (int, str)) else name

    return (
        ast.unparse(Fill().visit(ast.parse(ast.unparse(node), mode="eval").body))
        if bound
        else ast.unparse(node)
    )
