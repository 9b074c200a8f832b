"""What the kernels of a student's file call and read, as GCC lists it before it inlines anything: functions
that lack __device__, and constants that lie on the host. nvcc refuses both; as they are found here, nobody
passes for want of nvcc. Standard library only.
"""

import re
from dataclasses import dataclass, field

from tools.grading.finding import Failed, Finding

NODE = re.compile(r"^(\S.*?)/(\d+) \((.*)\)(?: @\w+)?$")
# What stands before a function's name where it is declared, not called; and before a constant's.
DECLARES = re.compile(
    r"\s*(?!(?:if|while|for|switch|return|else|do|case|default|goto|new)\b)\w(?:[\w\s:,*]|&(?!&)|<[^<>]*>|\([^()]*\))*"
)
CONSTANT = re.compile(r"[^;]*\bconst(?:expr)?\b[^;]*")
LONGEST_HEAD = 1000  # what stands before a name where it is declared
MARKS = re.compile(r"__(?:device|global|constant|shared)__")
# nvcc takes the value of a constant that is a number, and no other from the host.
NUMBER = re.compile(
    r"\b(?:int|char|short|long|unsigned|bool|float|double|size_t|ptrdiff_t|u?int\w*_t)\b[^\[]*$"
)


@dataclass
class Node:
    """A function or a variable. symbol: the linker's name for it; type: with its name; uses: what it calls
    or names."""

    symbol: str
    type: str
    is_function: bool = False
    uses: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As the source has it; "" of what lies within a function, where all is the device's."""
        if self.symbol.startswith("_ZZ") or (" " in self.symbol and "::" not in self.type):
            return ""
        plain, bare = "", re.sub(r" \[.*| const$", "", self.type)
        while plain != bare:
            plain, bare = bare, re.sub(r"\([^()]*\)|<[^<>]*>", "", bare)
        match = re.search(r"(?<!operator)(?<!\w)(\w+)$", plain)
        return match[1] if match else ""

    def places(self, text: str) -> list[tuple[int, str]]:
        """Where the code declares it, and the words before its name there."""
        name = self.name
        if not name or name not in text:
            return []
        found = []
        for match in re.finditer(rf"\b{name}\s*(?=[(\[={{])", text):
            ends = ";{}" if self.is_function else ";"  # another variable's braces may come between
            head = text[max(match.start() - LONGEST_HEAD, 0) : match.start()]
            head = head[max(map(head.rfind, ends)) + 1 :]
            declares = DECLARES if self.is_function else CONSTANT
            if declares.fullmatch(head):
                found.append((match.start(), head))
        return found


def check_call_graph(dump: str, text: str) -> None:
    """dump: of GCC's -fdump-ipa-visibility; text: the student's code. Raises Failed."""
    nodes = _parsed(dump)
    reached = [node for node in nodes.values() if any("__global__" in head for _, head in node.places(text))]
    for caller in reached:  # grows
        for node in (nodes[number] for number in caller.uses if number in nodes):
            if node in reached:
                continue
            reached.append(node)
            places = node.places(text)  # none, if a header declares it
            if not places or any(MARKS.search(head) for _, head in places):
                continue
            line = text.count("\n", 0, places[0][0]) + 1
            if node.is_function:
                says = f"A kernel calls `{node.name}`, before which __device__ is missing."
                raise Failed(Finding("no CUDA", says, line, look="the words before the function."))
            if not NUMBER.search(node.type):
                says = f"A kernel reads `{node.name}`, which is the host's: __device__ is missing before it."
                look = "where it is declared, which may also be in the kernel. (Single numbers need no word.)"
                raise Failed(Finding("no CUDA", says, line, look=look))


def _parsed(dump: str) -> dict[str, Node]:
    """By GCC's numbers."""
    nodes: dict[str, Node] = {}
    node = None
    for line in dump.partition("\nSymbol table:")[2].splitlines():
        key, _, value = line.strip().partition(": ")
        if match := NODE.match(line):
            node = nodes[match[2]] = Node(match[1], re.sub(r" \[with .*", "", match[3]))
        elif node and key == "Type":
            node.is_function = value.startswith("function")
        elif node and key in ("Calls", "References"):
            node.uses += re.findall(r"/(\d+)(?= |$)", value)
    return nodes
