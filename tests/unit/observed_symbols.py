"""The observed build of a kernel must not lend its code to the rest of the program.

The compiler puts inline functions and templates that it did not inline into every object that uses them, as
weak symbols, and the linker keeps one copy of each. Taken from an observed object, std::min in the harness
would report accesses, or slow everything down. So no weak function there may be instrumented.

Usage: observed_symbols.py ARCHIVE...; needs objdump. Exit status: 0 none is, 1 some are.
"""

import re
import subprocess
import sys

# Runs outside of kernels only, where nothing is observed. What it calls back has a name of its own.
HARMLESS = re.compile(r"void launch<")
# All but __tsan_func_entry and __tsan_func_exit, which do nothing and stand in lambdas all the same that are
# not to be instrumented.
INSTRUMENTATION = re.compile(r"__tsan_(?!func_)")

SYMBOL = re.compile(r"[0-9a-f]+ (?P<flags>.{7}) (?P<section>\S+)\t[0-9a-f]+ +(\.hidden )?(?P<name>.+)")
RELOCATIONS = re.compile(r"RELOCATION RECORDS FOR \[(?P<section>\S+)\]:")
RELOCATION = re.compile(r"[0-9a-f]+ +R_\S+ +(?P<target>\S+)")


def objdump(*arguments: str) -> list[str]:
    command = ["objdump", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def instrumented_sections(archive: str) -> set[str]:
    sections = set()
    section = ""
    for line in objdump("--reloc", archive):
        if match := RELOCATIONS.fullmatch(line):
            section = match["section"]
        elif (match := RELOCATION.match(line)) and INSTRUMENTATION.match(match["target"]):
            sections.add(section)
    return sections


def weak_functions(archive: str) -> list[tuple[str, str]]:
    """The name and the section of each."""
    found = [SYMBOL.fullmatch(line) for line in objdump("--syms", "--demangle", archive)]
    weak = [match for match in found if match and (match["flags"][1] == "w" or match["flags"][0] == "u")]
    return [(match["name"], match["section"]) for match in weak if "F" in match["flags"]]


def main(archives: list[str]) -> int:
    bad = 0
    for archive in archives:
        sections = instrumented_sections(archive)
        if ".text" not in sections:
            print(f"{archive}: the kernel is not instrumented, or objdump's output was not understood")
            bad += 1
        for name, section in weak_functions(archive):
            if section in sections and not HARMLESS.match(name):
                print(f"{archive}: instrumented and weak: {name}")
                bad += 1
    print(f"{len(archives)} archives, {bad} complaints")
    return 1 if bad or not archives else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
