"""Counts the instructions of each kernel's main loop: the innermost loop with most HMMA.

cuobjdump -sass main | python3 sass_loops.py [names, from `main --list`, in a file]
"""

import collections
import re
import sys

kernels, name = [], None
for line in sys.stdin:
    if m := re.search(r"Function : (\S+)", line):
        name = m[1]
        kernels.append((name, []))
    elif (m := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?);", line)) and kernels:
        kernels[-1][1].append((int(m[1], 16), m[2]))


def opcode(text):
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0]


for name, code in kernels:
    if "gemm" not in name:
        continue
    loops = []
    for at, text in code:
        if opcode(text).startswith("BRA") and (m := re.search(r"0x([0-9a-f]+)", text)) and int(m[1], 16) < at:
            body = [opcode(t) for a, t in code if int(m[1], 16) <= a <= at]
            loops.append((sum(o.startswith("HMMA") for o in body), -len(body), int(m[1], 16), at))
    loops = [l for l in loops if l[0]]
    if not loops:
        print(name, "no loop")
        continue
    # the smallest loop that has all the HMMAs of the largest count among innermost ones
    most = max(l[0] for l in loops)
    hmma, minus, begin, end = max(l for l in loops if l[0] == most)
    body = [(a, t) for a, t in code if begin <= a <= end]
    count = collections.Counter(opcode(t).split(".")[0] for _, t in body)
    local = sum(opcode(t).startswith(("LDL", "STL")) for _, t in body)
    others = len(body) - hmma
    args = re.search(r"Design(.*)EE", name)
    print(
        f"{args[1] if args else name}\n   loop {len(body)} instructions, {16 * len(body)} bytes; HMMA {hmma}; {others / hmma:.2f} others per HMMA;"
        f" local {local}; whole kernel {len(code)}, {sum(opcode(t).startswith(('LDL', 'STL')) for _, t in code)} local"
    )
    print("  ", " ".join(f"{k} {v}" for k, v in count.most_common()))
