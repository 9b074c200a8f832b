"""Checks on paper (no GPU) the shared-memory maps of gemm.cuh: that the fragments of every lane hold the elements that
mma.sync.m16n8k8 expects, that C's elements go where they belong, and that no load or cp.async has a bank conflict."""

import itertools

BM, BN, WM, WN = 128, 256, 64, 64


def swizzle_row(row, BK):
    return row & 7 if BK == 32 else row >> 1 & 3


def a_byte(row, k, BK):  # [row][k], chunks swizzled
    return row * BK * 4 + (((k // 4) ^ swizzle_row(row, BK)) << 4) + k % 4 * 4


def b_byte(k, n, BK, mode):
    if mode == "lds32":
        return k * BN * 4 + ((n // 4 ^ 2 * (k & 3)) << 4) + n % 4 * 4
    if mode == "ldmatrix":
        return a_byte(n, k, BK)
    return n // 32 * BK * 128 + k * 128 + ((n % 32 // 4 ^ (k & 7)) << 4) + n % 4 * 4


def conflicts(addresses, width):
    """Wavefronts of a warp's load beyond the least possible."""
    per = 32 // (width // 4)  # lanes of a phase
    extra = 0
    for p in range(0, 32, per):
        words = {}
        for a in addresses[p : p + per]:
            for w in range(a // 4, (a + width) // 4):
                words.setdefault(w % 32, set()).add(w)
        extra += max(len(s) for s in words.values()) - 1
    return extra


def check(mode, BK):
    inv_a = {a_byte(r, k, BK): (r, k) for r in range(BM) for k in range(BK)}
    inv_b = {b_byte(k, n, BK, mode): (k, n) for k in range(BK) for n in range(BN)}
    assert len(inv_a) == BM * BK and len(inv_b) == BN * BK, "two elements in one place"
    swap = mode == "transpose"
    I, J = (WN if swap else WM) // 16, (WM if swap else WN) // 8
    bad = 0
    for wm, wn, s in itertools.product((0, 64), (0, 64, 192), range(BK // 8)):
        x = [[[None] * 4 for _ in range(I)] for _ in range(32)]
        y = [[[None] * 2 for _ in range(J)] for _ in range(32)]

        def ldmatrix(addresses):  # per lane: 4 registers, as (row, k) found there
            out = [[None] * 4 for _ in range(32)]
            for m in range(4):
                nonlocal bad
                bad += conflicts([addresses[m * 8 + r] for r in range(8)] * 4, 16)
                for lane in range(32):
                    out[lane][m] = addresses[m * 8 + lane // 4] + lane % 4 * 4
            return out

        def lane_ldm16(lane):
            row, hi = lane & 15, lane >> 4
            return row * BK * 4 + ((hi ^ swizzle_row(row, BK)) << 4)

        def lane_ldm8(lane):
            row, hi = (lane & 7) + (lane >> 4) * 8, lane >> 3 & 1
            return row * BK * 4 + ((hi ^ swizzle_row(row, BK)) << 4)

        if swap:
            for i in range(I):
                addr = []
                for lane in range(32):
                    g, t = lane // 4, lane % 4
                    chunk = (g >> 2) + 4 * (g >> 1 & 1)
                    at = wn // 32 * BK * 128 + t * 128 + ((chunk ^ t) << 4) + (g & 1) * 8
                    addr.append((at ^ ((i & 1) << 5)) + i // 2 * BK * 128 + s * 1024)
                bad += conflicts(addr, 8) + conflicts([(a ^ 64) + 512 for a in addr], 8)
                for lane in range(32):
                    a = addr[lane]
                    b = (a ^ 64) + 512
                    x[lane][i] = [inv_b[a], inv_b[a + 4], inv_b[b], inv_b[b + 4]]
            for j in range(0, J, 2):
                r = ldmatrix([((wm * BK * 4 + lane_ldm8(l)) ^ (s << 5)) + j * 8 * BK * 4 for l in range(32)])
                for l in range(32):
                    v = [inv_a[b] for b in r[l]]
                    y[l][j], y[l][j + 1] = v[:2], v[2:]
        else:
            for i in range(I):
                r = ldmatrix(
                    [((wm * BK * 4 + lane_ldm16(l)) ^ (s << 5)) + i * 16 * BK * 4 for l in range(32)]
                )
                for l in range(32):
                    x[l][i] = [inv_a[b] for b in r[l]]
            if mode == "ldmatrix":
                for j in range(0, J, 2):
                    r = ldmatrix(
                        [((wn * BK * 4 + lane_ldm8(l)) ^ (s << 5)) + j * 8 * BK * 4 for l in range(32)]
                    )
                    for l in range(32):
                        v = [inv_b[b] for b in r[l]]
                        y[l][j], y[l][j + 1] = v[:2], v[2:]
            elif mode == "lds128":
                for j in range(0, J, 4):
                    for e in range(2):
                        addr = []
                        for l in range(32):
                            g, t = l // 4, l % 4
                            chunk = g >> 1 | (g & 1) << 2
                            at = wn // 32 * BK * 128 + t * 128 + ((chunk ^ t) << 4)
                            addr.append((at ^ (64 * e)) + j // 4 * BK * 128 + s * 1024 + 512 * e)
                        bad += conflicts(addr, 16)
                        for l in range(32):
                            for q in range(4):
                                y[l][j + q][e] = inv_b[addr[l] + 4 * q]
            else:
                for j in range(J):
                    for e in range(2):
                        addr = []
                        for l in range(32):
                            g, t = l // 4, l % 4
                            at = t * BN * 4 + wn * 4 + (g >> 2) * 16 + (g & 3) * 4
                            addr.append(
                                ((at + (j >> 2) * 128) ^ (((j & 3) ^ t) << 5))
                                + s * 8 * BN * 4
                                + 4 * BN * 4 * e
                            )
                        bad += conflicts(addr, 4)
                        for l in range(32):
                            y[l][j][e] = inv_b[addr[l]]
        # The instruction: D[g][2t..] of rows g, g + 8; the k of slot t and t + 4 must agree, and C's place with both.
        for i, j, l in itertools.product(range(I), range(J), range(32)):
            g, t = l // 4, l % 4
            for e in range(4):
                row16, col8 = g + 8 * (e >> 1), 2 * t + (e & 1)
                for slot in range(8):
                    xs = x[row16 % 8 * 4 + slot % 4][i][(row16 // 8) + 2 * (slot // 4)]
                    ys = y[col8 * 4 + slot % 4][j][slot // 4]
                    (m, ka), (kb, n) = ((ys, xs) if swap else (xs, ys)) if mode != "ldmatrix" else (xs, ys)
                    assert ka == kb and ka // 8 == s, (mode, BK, i, j, l, e, slot)
                    if slot == 0:
                        mn = (m, n)
                    assert mn == (m, n), (mode, "mixes elements")
                if swap:
                    row = wm + 8 * j + 2 * t + (e & 1)
                    col = (
                        wn
                        + i // 2 * 32
                        + 8 * (i & 1)
                        + 4 * ((g >> 2) + 4 * (g >> 1 & 1))
                        + 2 * (g & 1)
                        + (e >> 1)
                    )
                elif mode == "lds128":
                    row, col = wm + 16 * i + g + 8 * (e >> 1), wn + j // 4 * 32 + 4 * t + 16 * (e & 1) + j % 4
                else:
                    row, col = wm + 16 * i + g + 8 * (e >> 1), wn + 8 * j + 2 * t + (e & 1)
                assert mn == (row, col), (mode, BK, mn, row, col)
    print(f"{mode:9} BK {BK}: fragments and C right, {bad} bank conflicts")


for mode in ("lds32", "lds128", "transpose", "ldmatrix"):
    for BK in (16, 32):
        check(mode, BK)
