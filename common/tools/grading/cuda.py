"""What of a student's file the CPU device would run, but no GPU: kernels and helpers that are not declared as
such. nvcc finds some of it, where there is one. Standard library only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

Found = tuple[int, str, str]  # where in the text, what is wrong, and what to look at

ATTRIBUTE = re.compile(r"(?:__launch_bounds__|__align__|alignas|decltype|requires|explicit)\s*\(")
MARKS = "the words before the functions: __global__ makes a kernel, __device__ a function that kernels call."


@dataclass(frozen=True)
class Function:
    """A function with a body. head, parameters, body: places in the text, from and to."""

    name: str
    head: str
    parameters: str
    begin: int
    body: tuple[int, int]

    @property
    def is_kernel(self) -> bool:
        return "__global__" in self.head

    @property
    def for_device(self) -> bool:
        return self.is_kernel or "__device__" in self.head

    @property
    def for_host(self) -> bool:
        return not self.for_device or "__host__" in self.head

    @property
    def is_constexpr(self) -> bool:
        return re.search(r"\bconst(?:expr|eval)\b", self.head) is not None


def no_cuda(code: str) -> Found | None:
    """The first thing that is no CUDA. code: without comments, strings and includes."""
    code = re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m[0]), code, flags=re.MULTILINE)
    functions: dict[str, list[Function]] = {}
    for function in functions_of(code):
        functions.setdefault(function.name, []).append(function)
    everything = [f for same in functions.values() for f in same]
    found = [
        *_launches(code, functions),
        *(item for f in everything for item in _calls(code, f, functions)),
        *(item for f in everything if not f.for_device for item in _device_words(code, f)),
        *(item for f in everything if f.is_kernel for item in _parameters(f)),
        *(item for f in everything if f.for_device for item in _host_only(code, f)),
    ]
    return min(found, default=None)


def functions_of(code: str) -> Iterator[Function]:
    """The functions that are defined in namespaces and in structs."""
    start = at = 0  # start: of what stands before a brace
    while at < len(code):
        sign = code[at]
        if sign in ";}":
            start = at + 1
        elif sign == "(":  # a parameter's default may hold braces
            at = _closing(code, at) - 1
        elif sign == "{":
            head = code[start:at]
            if re.match(
                r"\s*(?:template\s*<[^{}]*>\s*)?(?:inline\s+)?(?:namespace|struct|class|union)\b", head
            ) and (not re.search(r"\)\s*(?:const|noexcept)?\s*$", head)):
                start = at + 1
            else:
                end = _closing(code, at)
                if function := _function(head, start, at, end):
                    yield function
                    start = end
                at = end - 1
        at += 1


def _function(head: str, start: int, at: int, end: int) -> Function | None:
    plain = head
    while match := ATTRIBUTE.search(plain):
        stop = _closing(plain, match.end() - 1)
        plain = plain[: match.start()] + " " * (stop - match.start()) + plain[stop:]
    # A lambda with a name is a function, too.
    match = re.search(r"(\w+)\s*=\s*\[[^\]]*\]\s*(?=\()", plain) or re.search(r"(\w+)\s*(?=\()", plain)
    if match is None or re.search(r"=\s*$", plain):
        return None
    parameters = plain[match.end() : _closing(plain, match.end())]
    return Function(match[1], head, parameters, start + match.start(1), (at, end))


def _closing(code: str, at: int) -> int:
    """Behind the bracket that closes the one at this place."""
    depth = 0
    for place in range(at, len(code)):
        if code[place] in "({[":
            depth += 1
        elif code[place] in ")}]":
            depth -= 1
            if depth == 0:
                return place + 1
    return len(code)


def _launches(code: str, functions: dict[str, list[Function]]) -> Iterator[Found]:
    for match in re.finditer(r"(?<!\w)launch\s*\(", code):
        what = _first_argument(code, match.end())
        names = _names(what)
        if not any(name in functions for name in names):  # a variable that holds the kernel
            for name in names:
                what += " ".join(re.findall(rf"\b{name}\s*=(?!=)([^;]*);", code))
        if re.search(r"\[[^\]]*\]\s*[({]", what):
            yield (
                match.start(),
                "launch() is given a lambda. A GPU runs kernels only: functions with __global__ before them.",
                "the first argument of launch().",
            )
        for name in _names(what):
            if name in functions and not any(f.is_kernel for f in functions[name]):
                yield (
                    functions[name][0].begin,
                    f"`{name}` is launched, but it is no kernel: __global__ is missing before it.",
                    MARKS,
                )


def _first_argument(code: str, at: int) -> str:
    end = at
    while end < len(code) and code[end] not in ",)":
        end = _closing(code, end) if code[end] in "([{" else end + 1
    return code[at:end]


def _names(expression: str) -> list[str]:
    """Identifiers that are not called."""
    return re.findall(r"\b[A-Za-z_]\w*\b(?!\s*\()", expression)


def _calls(code: str, caller: Function, functions: dict[str, list[Function]]) -> Iterator[Found]:
    begin, end = caller.body
    for match in re.finditer(r"(?<![\w.])(\w+)\s*(?:<[^<>;(){}]*>\s*)?\(", code[begin:end]):
        name = match[1]
        called = functions.get(name)
        # A lambda or a variable of the caller's own may have the same name.
        if called is None or re.search(rf"\b{name}\s*[={{]", code[begin:end]) or name == caller.name:
            continue
        at = begin + match.start()
        if all(f.is_kernel for f in called):
            yield at, f"`{name}` is a kernel: it is launched, not called.", "launch() in sgemm()."
        elif caller.for_device and not any(f.for_device or f.is_constexpr for f in called):
            yield (
                at,
                f"The kernel's side calls `{name}`, which only the host has: __device__ is missing "
                "before it.",
                MARKS,
            )
        elif not caller.for_device and not any(f.for_host for f in called):
            yield (
                at,
                f"`{caller.name}` runs on the host and calls `{name}`, which only the GPU has (__device__).",
                MARKS,
            )


def _host_only(code: str, function: Function) -> Iterator[Found]:
    begin, end = function.body
    if match := re.search(r"\bstd\s*::\s*(min|max|clamp|swap)\b", code[begin:end]):
        name = match[1]
        own = f"CUDA's own `{name}` stands without std::." if name in ("min", "max") else "write it out."
        yield begin + match.start(), f"`std::{name}` is the host's, and this runs on the GPU: {own}", MARKS


def _device_words(code: str, function: Function) -> Iterator[Found]:
    words = r"\b(__shared__|__syncthreads|__syncwarp|threadIdx|blockIdx|blockDim|gridDim)\b"
    if match := re.search(words, code[slice(*function.body)]):
        yield (
            function.body[0] + match.start(),
            f"`{match[1]}` is for kernels, and `{function.name}` is a function of the host: is __global__ or "
            "__device__ missing before it?",
            MARKS,
        )


def _parameters(kernel: Function) -> Iterator[Found]:
    if "&" in kernel.parameters:
        yield (
            kernel.begin,
            f"A parameter of the kernel `{kernel.name}` is a reference. A GPU cannot follow it into the "
            "host's memory: parameters are copied.",
            "the parameters, as the starter has them.",
        )
