// Makes the picture of wgmma's operands answer to mouse, touch and keyboard: choose a thread, a row, a column and
// a k, and see which thread has their sum, and where their elements of A and B lie in shared memory. The data are
// what the CPU device makes of the kernel's descriptors; common/tools/drawing/descriptors.py says how they are kept.

(() => {
  "use strict";

  const { WIDTH, LANES, html, svg, text, rect, slider, part, group } = window.gemmLadder;

  const ELEMENTS = 8, PIECE = 16, LINE = 128, ATOM = 1024, ELEMENT = 2, TERMS = 16; // of BF16; bytes; an instruction's
  const LEFT = 46, TOP = 44, CELL = 22, WIDE = (WIDTH - 6 - LEFT) / 8;

  class Operand {
    // of_k: of each instruction [row of A or column of B, k, address] of its pieces of 16 bytes.
    constructor(name, { of_k, leading, stride }) {
      Object.assign(this, { name, leading, stride });
      this.pieces = of_k.flat();
      this.begins = of_k.map((pieces) => Math.min(...pieces.map((piece) => piece[2])));
      this.byK = name === "A"; // its elements of 16 bytes are k of a row, not columns of a k
    }

    // The piece that holds an element: `at` is a row of A, or a column of B.
    find(at, k) {
      const [first, second] = this.byK ? [at, k - (k % ELEMENTS)] : [at - (at % ELEMENTS), k];
      return this.pieces.find((piece) => piece[0] === first && piece[1] === second);
    }

    inAtom(atom) {
      return this.pieces.filter((piece) => Math.floor(piece[2] / ATOM) === atom);
    }
  }

  class DescriptorPlayer {
    constructor(figure, data) {
      this.a = new Operand("A", data.a);
      this.b = new Operand("B", data.b);
      this.threads = data.threads; // of each the rows and the columns of its sums
      Object.assign(this, { thread: 0, row: 0, column: 0, k: Number(figure.dataset.k) });
      const last = (pieces, n) => Math.max(...pieces.map((piece) => piece[n]));
      this.sliders = [
        slider(this, "thread", "Thread", 0, this.threads.length - 1),
        slider(this, "row", "Row of A", 0, last(this.a.pieces, 0)),
        slider(this, "column", "Column of B", 0, last(this.b.pieces, 0) + ELEMENTS - 1),
        slider(this, "k", "k", 0, last(this.a.pieces, 1) + ELEMENTS - 1),
      ];
      this.says = html("div", { class: "play-says", role: "status", "aria-live": "polite", "aria-atomic": "true" });
      this.drawings = html("div", { class: "play-pieces" });
      const title = "Where an element lies in shared memory";
      const controls = part("controls", ...this.sliders.map(({ row }) => row));
      figure.replaceWith(group(`${data.step}: ${title}`,
        html("p", { class: "play-title play-wide" }, title), part("choice", controls, this.says), this.drawings));
      this.show();
    }

    choose(change) {
      Object.assign(this, change);
      if ("thread" in change) [[this.row], [this.column]] = this.threads[this.thread];
      else {
        const has = ([rows, columns]) => rows.includes(this.row) && columns.includes(this.column);
        this.thread = this.threads.findIndex(has);
      }
      this.show();
    }

    show() {
      const { thread, row, column, k } = this;
      for (const { name, show } of this.sliders) show(this[name]);
      const [rows, columns] = this.threads[thread];
      const first = k - (k % TERMS), of = `k ${first}–${first + TERMS - 1}`;
      const who = `Warp ${Math.floor(thread / LANES)}, lane ${thread % LANES}`;
      this.says.replaceChildren(
        html("p", { class: "of-warp" }, html("b", {}, who),
          `: has the sum of row ${row}, column ${column}, one of its ${rows.length} × ${columns.length}.`),
        html("p", { class: "of-lane" }, html("b", {}, `A[${row}][${k}]`), this.place(this.a, row, k, of)),
        html("p", { class: "of-lane" }, html("b", {}, `B[${k}][${column}]`), this.place(this.b, column, k, of)));
      this.drawings.replaceChildren(this.draw(this.a, row, k, of), this.draw(this.b, column, k, of));
    }

    place(operand, at, k, of) {
      const [, , address] = operand.find(at, k);
      const inPiece = (operand.byK ? k : at) % ELEMENTS, byte = address + ELEMENT * inPiece;
      const line = Math.floor((address % ATOM) / LINE), piece = (address % LINE) / PIECE;
      const begin = operand.begins[Math.floor(k / TERMS)];
      return (
        `: byte ${byte}, bank ${(byte >> 2) % 32}. It is in atom ${Math.floor(address / ATOM)}, line ${line}, ` +
        `piece ${piece}; without the swizzle it would be piece ${piece ^ line} = ${piece} XOR ${line}. ` +
        `The descriptor of ${of} begins at ${begin}.`
      );
    }

    // The atom that the element is in, as it lies: blue what the instruction reads, orange the element's piece.
    draw(operand, at, k, of) {
      const mine = operand.find(at, k), atom = Math.floor(mine[2] / ATOM);
      const first = k - (k % TERMS), pieces = operand.inAtom(atom);
      const title = `${operand.name}, atom ${atom}: bytes ${atom * ATOM} to ${(atom + 1) * ATOM - 1}`;
      const body = [
        text(6, 16, title, { "font-weight": "bold" }),
        text(6, 36, operand.byK ? "in a piece: its first k" : "in a piece: its first column", { class: "soft" }),
      ];
      for (let line = 0; line < 8; ++line) {
        const y = TOP + line * CELL + 16;
        body.push(text(LEFT - 5, y, atom * ATOM + line * LINE, { "text-anchor": "end", class: "soft" }));
      }
      for (const piece of pieces) {
        const [one, term, address] = piece;
        const x = LEFT + ((address % LINE) / PIECE) * WIDE, y = TOP + Math.floor((address % ATOM) / LINE) * CELL;
        const read = term >= first && term < first + TERMS;
        const look = piece === mine ? "here" : read ? "there part" : "empty";
        const pick = operand.byK ? { row: one, k: term } : { column: one, k: term };
        body.push(
          svg("g", { style: "cursor: pointer", onclick: () => this.choose(pick) },
            rect(x, y, WIDE, CELL, { class: `${look} edge` }),
            text(x + WIDE / 2, y + 16, operand.byK ? term : one, { "text-anchor": "middle" })));
      }
      const height = TOP + 8 * CELL + 6;
      const label = `${title}; ${of} is read; marked is the piece of ${operand.byK ? "row" : "column"} ${at}, k ${k}`;
      return svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label }, ...body);
    }
  }

  Object.assign(window.gemmLadder, { DescriptorPlayer });
})();
