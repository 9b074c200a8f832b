"""What of a student's file the CPU device would run, but no GPU: calls from the wrong side. nvcc finds them,
where there is one, and the guard what is launched and no function at all (guard.hpp). Standard library only.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

Found = tuple[int, str, str]  # where in the text, what is wrong, and what to look at

ARGUMENTS = r"\s*\((?:[^()]|\([^()]*\))*\)"
ATTRIBUTE = re.compile(rf"\b(?:__launch_bounds__|__align__|alignas|decltype|requires|explicit){ARGUMENTS}")
# A lambda with a name is a function, too; a constructor has a list behind its parameters.
FUNCTION = re.compile(
    r"(?:\A|(?<=[;{}]))([^;{}()]*)\b(?!(?:if|for|while|switch|catch)\b)(\w+)\s*(?:=\s*\[[^\]]*\]\s*)?"
    rf"{ARGUMENTS}[^;{{}}()=:]*(?::[^;{{}}]*)?\{{"
)
DEVICE_WORDS = ("__shared__", "__syncthreads", "__syncwarp", "threadIdx", "blockIdx", "blockDim", "gridDim")
NOT_CALLED = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*\()")
USE = re.compile(rf"\b({'|'.join(DEVICE_WORDS)})\b|(?<![\w.])(\w+)\s*(?:<[^<>;(){{}}]*>\s*)?\(")
MARKS = "the words before the functions: __global__ makes a kernel, __device__ a function that kernels call."


@dataclass(frozen=True)
class Function:
    """A function with a body. marks: what stands before its name; start, at: where it and the body begin."""

    name: str
    marks: str
    start: int
    at: int
    body: str

    @property
    def is_kernel(self) -> bool:
        return "__global__" in self.marks

    @property
    def for_device(self) -> bool:
        return self.is_kernel or "__device__" in self.marks

    @property
    def for_host(self) -> bool:
        return not self.for_device or "__host__" in self.marks

    @property
    def for_kernels(self) -> bool:
        return self.for_device or re.search(r"\bconst(?:expr|eval)\b", self.marks) is not None


def no_cuda(code: str) -> Found | None:
    """The first thing that is no CUDA. code: without comments and the contents of strings."""
    code = re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m[0]), code, flags=re.MULTILINE)
    functions: dict[str, list[Function]] = defaultdict(list)
    for function in functions_of(code):
        functions[function.name].append(function)
    found = [item for same in functions.values() for f in same for item in _wrong_side(f, functions)]
    for launch in re.finditer(r"(?<!\w)launch\s*\(([^,]*)", code):
        names = NOT_CALLED.findall(launch[1])
        holds = [x for name in names for x in re.findall(rf"\b{name}\s*=(?!=)([^;[]*);", code)]
        names += NOT_CALLED.findall(" ".join(holds))  # of a variable that holds the kernel
        for same in (functions[name] for name in names if name in functions):
            if not any(f.is_kernel for f in same):
                says = f"`{same[0].name}` is launched, but it is no kernel: __global__ is missing before it."
                found.append((same[0].start, says, MARKS))
    return min(found, default=None)


def functions_of(code: str) -> Iterator[Function]:
    """The functions that are defined in namespaces and in structs."""
    code = ATTRIBUTE.sub(lambda m: " " * len(m[0]), code)
    at = 0
    while match := FUNCTION.search(code, at):
        at, depth = match.end(), 1
        while depth and at < len(code):
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        yield Function(match[2], match[1], match.start(2), match.end(), code[match.end() : at])


def _wrong_side(caller: Function, functions: dict[str, list[Function]]) -> Iterator[Found]:
    for match in USE.finditer(caller.body):
        word, name = match.groups()
        # A lambda or a variable of the caller's own may have the same name.
        own = name == caller.name or re.search(rf"\b{name}\s*[={{]", caller.body)
        called = [] if name is None or own else functions.get(name, [])
        at = caller.at + match.start()
        if word and not caller.for_device:
            yield (
                at,
                f"`{word}` is for kernels, and `{caller.name}` is a function of the host: is __global__ or "
                "__device__ missing before it?",
                MARKS,
            )
        elif called and all(f.is_kernel for f in called):
            yield at, f"`{name}` is a kernel: it is launched, not called.", "launch() in sgemm()."
        elif called and caller.for_device and not any(f.for_kernels for f in called):
            says = (
                f"The kernel's side calls `{name}`, which only the host has: __device__ is missing before it."
            )
            yield at, says, MARKS
        elif called and not caller.for_device and not any(f.for_host for f in called):
            says = (
                f"`{caller.name}` runs on the host and calls `{name}`, which only the GPU has (__device__)."
            )
            yield at, says, MARKS
