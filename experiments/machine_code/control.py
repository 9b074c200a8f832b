"""The control word: the 21 bits of an instruction by which the compiler, not the hardware, keeps order.

Since Volta a scheduler does not look whether an operand is ready. Each instruction says itself

  stall          cycles before the warp's next instruction may start, 0 to 15. The result of an instruction of
                 fixed latency is there after as many cycles as the stalls up to its first use add up to.
  stay           whether the scheduler should go on with this warp. Clear ("yield"): it prefers another one,
                 and what the reuse cache held is lost.
  write_barrier  which of 6 counters, the scoreboards, goes up now and down when the result is written; 7 for
                 none. For what takes as long as it takes, such as loads.
  read_barrier   the same, but down when the source registers have been read and may be overwritten; 7: none.
  wait           the counters, one bit each, that must be 0 before this instruction starts.
  reuse          the source operands, one bit each, that stay in the reuse cache, until an operand of the same
                 register bank is read in the same place (experiments/register_banks).

NVIDIA does not document these. The places of the bits follow from what nvdisasm prints when one is flipped;
what they do, from published microbenchmarks and from what ptxas writes, which hazards.py is held against.
"""

from dataclasses import dataclass
from functools import cache, cached_property

from machine_code.bits import Field

NO_BARRIER = 7
BARRIERS = range(6)

PLACES = {
    "stall": Field(105, 4),
    "stay": Field(109, 1),
    "write_barrier": Field(110, 3),
    "read_barrier": Field(113, 3),
    "wait": Field(116, 6),
    "reuse": Field(122, 4),
}
ALL_PLACES = Field(105, 21)


@dataclass(frozen=True)
class Control:
    """See above. reuse and wait are sets of bits: bit n is the source operand or the counter n."""

    stall: int = 1
    stay: int = 1
    write_barrier: int = NO_BARRIER
    read_barrier: int = NO_BARRIER
    wait: int = 0
    reuse: int = 0

    @classmethod
    def of(cls, word: int) -> "Control":
        """What an instruction's 128 bits say."""
        return _control(ALL_PLACES.get(word))

    def put(self, word: int) -> int:
        """The instruction with this control word. ValueError for a number that has no room."""
        return ALL_PLACES.put(word, self._bits)

    @cached_property
    def _bits(self) -> int:
        word = 0
        for name, place in PLACES.items():
            word = place.put(word, getattr(self, name))
        return ALL_PLACES.get(word)

    @cached_property
    def waits(self) -> set[int]:
        return {n for n in BARRIERS if self.wait >> n & 1}

    def __str__(self) -> str:
        """In columns of the same width: "stall  1       write 0 read - wait 23"."""
        barrier = {NO_BARRIER: "-"}
        return (
            f"stall {self.stall:2} {'     ' if self.stay else 'yield'}"
            f" write {barrier.get(self.write_barrier, self.write_barrier)}"
            f" read {barrier.get(self.read_barrier, self.read_barrier)}"
            f" wait {''.join(map(str, sorted(self.waits))) or '-':6}"
        )


@cache  # there are few, and each is asked for often
def _control(bits: int) -> Control:
    word = ALL_PLACES.put(0, bits)
    return Control(**{name: place.get(word) for name, place in PLACES.items()})


def cycles(control: Control) -> int:
    """From this instruction to the warp's next one, at least.

    ptxas writes a stall of 0 only where an instruction holds up the warp by itself: at least 2 cycles.
    """
    return control.stall or 2
