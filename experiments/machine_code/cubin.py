"""A program's machine code as bytes: finds the cubins in a file, the kernels in a cubin, and what is noted
there.

A cubin is an ELF file. nvcc puts one for each architecture into a container, the fat binary, which lies as it
is in the object, in the library and in the program (section .nv_fatbin). Unless it was compressed, words in
it can be changed in place: nothing else depends on them.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass, field

from tools.machine_code.listing import SassError

from machine_code.bits import WORD, words_of

ELF = b"\x7fELF"
CUDA_MACHINE = 190
FAT_ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of the header, bytes of what follows
FAT_BINARY = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes of the entries
FAT_MAGIC = 0xBA55ED50
KIND_CUBIN, FLAGS_AT, COMPRESSED = 2, 40, 0x8000
REGISTER_COUNT = 0x2F  # EIATTR_REGCOUNT, a note in .nv.info: symbol, registers
MBARRIER_PLACES = 0x39  # EIATTR_MBARRIER_INSTR_OFFSETS, in .nv.info.KERNEL
# Further notes with places in the code: of exits, of instructions for a whole warp, of cooperative groups.
PLACES = {0x1C: "exit", 0x31: "warp-wide", 0x28: "group"}


@dataclass
class Note:
    """One attribute of a .nv.info section."""

    kind: int
    at: int  # where its content begins, in the cubin
    content: bytes


@dataclass
class Cubin:
    """`data` is the cubin's own copy; `at` says where it lies in the file. Raises SassError if it is none."""

    data: bytearray
    at: int = 0
    sections: dict[str, tuple[int, int]] = field(default_factory=dict)  # place and size, by name

    def __post_init__(self) -> None:
        for name, (kind, place, size) in section_table(self.data).items():
            no_bits = 8
            self.sections[name] = (place, 0 if kind == no_bits else size)

    def section(self, name: str) -> bytes:
        place, size = self.sections.get(name, (0, 0))
        return bytes(self.data[place : place + size])

    # ---- What the compiler noted ---------------------------------------------------------------------------

    @property
    def compiler(self) -> tuple[str, str]:
        """What wrote the code, and its version: "ptxas" and "..., release 13.0, V13.0.88"."""
        _, tool, version, *_ = self._tool()
        return tool, version

    @property
    def arch(self) -> str:
        """ "sm_90a", as ptxas was told; empty if it does not say."""
        words = self._tool()[4].split()
        return words[words.index("-arch") + 1] if "-arch" in words[:-1] else ""

    def _tool(self) -> list[str]:
        """The five strings of .note.nv.tkinfo: object, tool, version, branch, arguments."""
        note = self.section(".note.nv.tkinfo")
        head, name_bytes = 12, 12
        content = note[head + name_bytes :]
        if len(content) < 24:
            return [""] * 5
        _, *starts = struct.unpack_from("<6I", content)
        texts = content[24:]
        return [texts[start : (texts + b"\0").index(b"\0", start)].decode() for start in starts]

    def notes(self, kernel: str = "") -> list[Note]:
        """Of a kernel; without a name, those about all of them."""
        name = f".nv.info.{kernel}" if kernel else ".nv.info"
        place, size = self.sections.get(name, (0, 0))
        found, at = [], place
        with_content = 4
        while at < place + size:
            form, kind, length = struct.unpack_from("<BBH", self.data, at)
            at += 4
            length = length if form == with_content else 0
            found.append(Note(kind, at, bytes(self.data[at : at + length])))
            at += length
        return found

    def symbols(self) -> dict[str, int]:
        """The numbers of the symbols."""
        table, names = self.section(".symtab"), self.section(".strtab")
        entry = 24
        starts = [struct.unpack_from("<I", table, at)[0] for at in range(0, len(table), entry)]
        return {names[s : names.index(b"\0", s)].decode(): n for n, s in enumerate(starts)}

    # ---- The code ------------------------------------------------------------------------------------------

    @property
    def kernels(self) -> list[str]:
        return [name.removeprefix(".text.") for name in self.sections if name.startswith(".text.")]

    def words(self, kernel: str) -> list[int]:
        return words_of(self.section(f".text.{kernel}"))

    def put_words(self, kernel: str, words: dict[int, int]) -> None:
        """Changes instructions, by their offset in the kernel in bytes."""
        place, size = self.sections[f".text.{kernel}"]
        for offset, word in words.items():
            assert offset % WORD == 0 and 0 <= offset < size
            self.data[place + offset : place + offset + WORD] = word.to_bytes(WORD, "little")

    def relocations(self, kernel: str) -> list[int]:
        """The offsets that the loader will change."""
        table, entry = self.section(f".rela.text.{kernel}"), 24
        return [struct.unpack_from("<Q", table, at)[0] for at in range(0, len(table), entry)]

    def marked(self, kernel: str) -> dict[int, str]:
        """The offsets of instructions that notes point to, apart from those about mbarriers, and why."""
        return {
            offset: PLACES[note.kind]
            for note in self.notes(kernel)
            if note.kind in PLACES
            for offset in struct.unpack(
                f"<{len(note.content) // 4}I", note.content[: len(note.content) // 4 * 4]
            )
        }

    def registers(self, kernel: str) -> int:
        """Of a thread, as the launch will give it."""
        return struct.unpack_from("<I", self.data, self._register_note(kernel))[0]

    def put_registers(self, kernel: str, count: int) -> None:
        struct.pack_into("<I", self.data, self._register_note(kernel), count)

    def _register_note(self, kernel: str) -> int:
        number = self.symbols()[kernel]
        for note in self.notes():
            if note.kind == REGISTER_COUNT and struct.unpack_from("<I", note.content)[0] == number:
                return note.at + 4
        raise SassError(f"the cubin does not say how many registers {kernel} has")

    def put_mbarrier_places(
        self, kernel: str, within: Collection[int], looks: list[tuple[int, int, int]]
    ) -> None:
        """Where the notes name instructions at mbarriers with an offset in `within`, they now name `looks`:
        offset, address register and uniform register. The last one stands for those that are too few."""
        entry, uniform_at = 16, 14
        for note in self.notes(kernel):
            if note.kind == MBARRIER_PLACES:
                starts = range(note.at, note.at + len(note.content), entry)
                inside = [at for at in starts if struct.unpack_from("<I", self.data, at)[0] in within]
                for n, at in enumerate(inside if looks else []):
                    offset, register, uniform = looks[min(n, len(looks) - 1)]
                    struct.pack_into("<II", self.data, at, offset, register)
                    self.data[at + uniform_at] = uniform


def section_table(data: bytes | bytearray) -> dict[str, tuple[int, int, int]]:
    """Type, place and size of an ELF file's sections, by name. Raises SassError if it is no cubin."""
    try:
        if data[:4] != ELF or struct.unpack_from("<H", data, 18)[0] != CUDA_MACHINE:
            raise SassError("this is no cubin")
        (table,) = struct.unpack_from("<Q", data, 40)
        entry, count, names = struct.unpack_from("<3H", data, 58)
        heads = [struct.unpack_from("<IIQQQQ", data, table + n * entry) for n in range(count)]
        text = heads[names][4]
        return {
            data[text + name : data.index(b"\0", text + name)].decode(): (kind, place, size)
            for name, kind, _, _, place, size in heads
        }
    except (struct.error, IndexError, ValueError) as error:
        raise SassError(f"the cubin is damaged: {error}") from None


def find_cubins(data: bytes) -> list[Cubin]:
    """All cubins of a program, library, object, fat binary or cubin.

    Raises SassError if they are compressed, as then no word of theirs can be changed in place.
    """
    if data[:4] == ELF and len(data) > 20 and struct.unpack_from("<H", data, 18)[0] == CUDA_MACHINE:
        return [Cubin(bytearray(data))]
    found, at = [], 0
    magic = struct.pack("<I", FAT_MAGIC)
    while (at := data.find(magic, at)) >= 0:
        _, version, head, size = FAT_BINARY.unpack_from(data, at)
        entry, end = at + head, at + head + size
        at += len(magic)
        if version != 1 or head != FAT_BINARY.size or end > len(data):
            continue  # the number stands there by chance
        while entry < end:
            kind, _, head, size = FAT_ENTRY.unpack_from(data, entry)
            if kind == KIND_CUBIN:
                if struct.unpack_from("<I", data, entry + FLAGS_AT)[0] & COMPRESSED:
                    raise SassError("its machine code is compressed; compile it with nvcc --no-compress")
                found.append(Cubin(bytearray(data[entry + head : entry + head + size]), entry + head))
            entry += head + size
    return found
