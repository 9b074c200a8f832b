"""The mutants of a kernel's file or of a header: one small change each."""

import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.edits import Change

OPERATORS = ("constant", "comparison", "arithmetic", "index", "barrier", "guard", "alpha, beta")

# What only nvcc or a reader sees, and what no program can come of: left alone. In this order.
MASKED = (
    r"//[^\n]*|/\*.*?\*/",
    r'"[^"\n]*"',
    r"^[ \t]*#[^\n]*",
    r"static_assert\(.*?\);",
    r"__launch_bounds__\([^)]*\)",
    r"template <[^>]*>",
)
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "^": "|", "&&": "||", "||": "&&"}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "^=": "|="}
# What may be taken for each other; each becomes its neighbours in the group that the kernel knows, too.
CONFUSED = (
    *("row col", "row0 col0", "rows cols", "tx ty", "m n", "i j", "k k0", "a b", "a_row a_k", "b_k b_col"),
    *("a_row row", "a_k b_k", "warp lane", "lane_m lane_n", "a_from b_from", "a_step b_step", "set stage"),
    *("As Bs", "A B", "M N K", "lda ldb ldc", "strideA strideB strideC", "x y z", "v.x v.y v.z v.w"),
    *("a4.x a4.y a4.z a4.w", "BM BN BK", "TM TN", "TX TY", "WM WN", "LM LN", "A_ROWS B_ROWS", "TILE BK"),
    *("COPY_K BK", "from to", "first last end", "split splits", "tiles_m tiles_n", "down across"),
    *("a.x a.y a.z a.w", "b.x b.y b.z b.w", "mine other", "SWAPPED ALIGNED"),
)
# Calls that order or wait, and return nothing: each goes.
SYNCHRONISING = re.compile(
    r"__syncthreads\(\);|async_copy_(?:commit\(\)|wait<[^>]*>\(\));"
    r"|\bmbarrier_(?:wait|arrive|fence_init)\([^;{}]*\);|\bnamed_barrier_sync\([^;{}]*\);"
    r"|\bwgmma_(?:fence|commit|wait<[^>]*>)\(\w*\);|\bfence_async_proxy\(\);"
    r"|\bbulk_store_(?:commit|wait_read<[^>]*>)\(\);|\bwarpgroup_reg_(?:de)?alloc<\w+>\(\);"
    r"|\bwait_for_previous_launch\(\);"
)
DECLARED = re.compile(
    r"(?:\b(?:int|float|float4|bool|auto|int64_t|Matrices)\b|__global__ void)[*& ]*$|\[\w*\]\[$|\bGemm $"
)


@dataclass(frozen=True)
class Mutant:
    file: str  # from the project's root
    operator: str
    line: int
    column: int
    old: str
    new: str
    code: str  # the line, without comment and indentation
    begin: int
    end: int
    source: str

    @functools.cached_property
    def group(self) -> str:
        """The step whose file it is, or "common"."""
        first, second = self.file.split("/")[:2]
        return second if first == "steps" else first

    @property
    def text(self) -> str:
        return self.source[: self.begin] + self.new + self.source[self.end :]

    @property
    def change(self) -> Change:
        """That of its line, with as many lines before it as make it the only one of its kind."""
        code = masked(self.source)
        first = code.rfind("\n", 0, self.begin) + 1
        last = self.end + len(code[self.end :].split("\n", 1)[0].rstrip())
        first += len(code[first:last]) - len(code[first:last].lstrip())
        while self.source.count(self.source[first:last]) > 1:
            first = self.source.rfind("\n", 0, first - 1) + 1
        new = self.source[first : self.begin] + self.new + self.source[self.end : last]
        return Change(self.source[first:last], new)

    @property
    def name(self) -> str:
        where = self.file.removeprefix("steps/").removesuffix("/kernel.cu")
        return f"{where}:{self.line}:{self.column} `{self.old}` -> `{self.new or 'nothing'}`"

    def __str__(self) -> str:
        return f"{self.operator}: {self.name} in {self.code}"

    @property
    def order(self) -> str:
        """An arbitrary order that edits elsewhere in the file do not change."""
        parts = (self.file, self.operator, self.code, self.old, self.new)
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def for_cpu(source: str) -> str:
    """The source with blanks where it is for nvcc alone; every other character keeps its place."""
    lines, hidden = [], []  # hidden: of each #if around the line, None if it is not about nvcc
    for line in source.splitlines(keepends=True):
        word, *rest = re.findall(r"\w+", line) if line.startswith("#") else [""]
        if word.startswith("if"):
            hidden.append((word == "ifdef") if rest[:1] == ["__CUDACC__"] else None)
        elif word == "else" and hidden[-1] is not None:
            hidden[-1] = not hidden[-1]
        elif word == "endif":
            hidden.pop()
        lines.append(blank(line) if True in hidden else line)
    return "".join(lines)


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def masked(source: str) -> str:
    """The source with blanks where nothing is to be changed; every other character keeps its place."""
    source = for_cpu(source)
    for pattern in MASKED:
        source = re.sub(pattern, lambda m: blank(m[0]), source, flags=re.MULTILINE | re.DOTALL)
    return source


def operand(code: str, at: int, forward: bool, stops: tuple[str, ...]) -> int:
    """Where the expression that begins (or ends) at a place has its other end: at one of `stops` outside of
    its own parentheses, or where those that hold it end."""
    opening, closing = ("([{", ")]}") if forward else (")]}", "([{")
    depth = 0
    while True:
        here = code[at] if forward else code[at - 1]
        if depth == 0:
            before = code[at:] if forward else code[:at]
            if here in closing + ",;" or any(
                before.startswith(s) if forward else before.endswith(s) for s in stops
            ):
                return at
        depth += (here in opening) - (here in closing)
        at += 1 if forward else -1


def trimmed(code: str, begin: int, end: int) -> tuple[int, int]:
    text = code[begin:end]
    return begin + len(text) - len(text.lstrip()), begin + len(text.rstrip())


def conditions(code: str) -> Iterator[tuple[int, int]]:
    """Each condition of an `if` or `?:`, and each part of one that && or || joins."""
    for found in re.finditer(r"\bif (?:constexpr )?\(", code):
        yield found.end(), operand(code, found.end(), True, ())
    for found in re.finditer(r" \? ", code):
        yield operand(code, found.start(), False, (" = ", " : ", " ? ", "return ", "+= ")), found.start()
    for found in re.finditer(r"&&|\|\|", code):
        stops = (" = ", " : ", " ? ", "return ", "&&", "||")
        yield operand(code, found.start(), False, stops), found.start()
        yield found.end(), operand(code, found.end(), True, stops)


def is_declared(code: str, at: int) -> bool:
    """Whether the name there is being declared: what stands before it says so."""
    return bool(DECLARED.search(code[max(at - 200, 0) : at]))


def changes(code: str) -> Iterator[tuple[str, int, int, str]]:
    """(operator, begin, end, new text) of every change."""
    waits = [
        m.span() for m in re.finditer(r"(?:async_copy|wgmma)_wait<[^>]*>|bulk_store_wait_read<[^>]*>", code)
    ]
    for found in re.finditer(r"(?<![\w.])\d+(?![\w.])", code):
        value = int(found[0])
        power = value > 0 and value & (value - 1) == 0
        neighbours = (2 * value, value // 2) if power else (1 << value.bit_length(),)
        waiting = any(begin <= found.start() < end for begin, end in waits)
        for other in dict.fromkeys((value + 1, value - 1, 0, *neighbours)):
            if other >= 0 and other != value:
                yield "barrier" if waiting else "constant", *found.span(), str(other)
    for found in re.finditer(r"\b0\.0f", code):
        yield "constant", *found.span(), "1.0f"
    for operator, table, pattern in (
        ("comparison", COMPARISONS, r"(?<= )(?:[<>=!]=|[<>])(?= )"),
        ("arithmetic", ARITHMETIC, r"(?<= )(?:[-+*/%^]|&&|\|\|)(?= )"),
        ("arithmetic", ASSIGNMENTS, r"(?<= )[-+^]=(?= )"),
    ):
        for found in re.finditer(pattern, code):
            yield operator, *found.span(), table[found[0]]
    for group in CONFUSED:
        names = [name for name in group.split() if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code)]
        for found in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, names)) or '(?!)'})(?!\w)", code):
            if not is_declared(code, found.start()):
                for other in names:
                    if other != found[0]:
                        yield "index", *found.span(), other
    for found in re.finditer(SYNCHRONISING, code):
        is_body = code[: found.start()].endswith(") ")  # of an `if`
        yield "barrier", *found.span(), ";" if is_body else ""
        if found[0] == "__syncthreads();":
            yield "barrier", *found.span(), "__syncwarp();"
    for begin, end in conditions(code):
        for value in ("true", "false"):
            yield "guard", *trimmed(code, begin, end), value
    for found in re.finditer(r"\bmin\(", code):
        comma = operand(code, found.end(), True, ())
        end = operand(code, comma + 1, True, ())
        for begin, stop in ((found.end(), comma), (comma + 1, end)):
            yield "guard", found.start(), end + 1, code[slice(*trimmed(code, begin, stop))]
    for found in re.finditer(r"(?<![\w.])(g\.)?(alpha|beta)\b", code):
        if not is_declared(code, found.start()):
            other = "beta" if found[2] == "alpha" else "alpha"
            for new in ("1.0f", "0.0f", (found[1] or "") + other):
                yield "alpha, beta", *found.span(), new


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a file, in the order of their places; no two have the same text."""
    code = masked(source)
    made: dict[str, Mutant] = {}
    for operator, begin, end, new in changes(code):
        first = code.rfind("\n", 0, begin) + 1
        mutant = Mutant(
            file,
            operator,
            line=code.count("\n", 0, begin) + 1,
            column=begin - first + 1,
            old=" ".join(source[begin:end].split()),
            new=new,
            code=" ".join(code[first : code.find("\n", end)].split()),
            begin=begin,
            end=end,
            source=source,
        )
        made.setdefault(mutant.text, mutant)
    made.pop(source, None)
    return sorted(made.values(), key=lambda m: (m.line, m.column, m.new))


def sample(group: list[Mutant], size: int) -> list[Mutant]:
    """A fixed choice, the operators in turn; a larger one holds a smaller one."""
    waiting = {
        name: sorted((m for m in group if m.operator == name), key=lambda m: m.order, reverse=True)
        for name in OPERATORS
    }
    turn = sorted(OPERATORS, key=lambda name: hashlib.sha256(f"{group[0].group} {name}".encode()).hexdigest())
    chosen: list[Mutant] = []
    while len(chosen) < size and any(waiting.values()):
        chosen += [waiting[name].pop() for name in turn if waiting[name]]
    return chosen[:size]
