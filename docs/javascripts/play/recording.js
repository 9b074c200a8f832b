// What was recorded of a step's block, as common/tools/drawing/play.py keeps it: who loads and stores which
// elements, and where these lie in memory.

(() => {
  "use strict";

  const { LANES, span, ranges } = window.gemmLadder;

  const BANKS = 32, WORD = 4; // bytes

  class Recorded {
    constructor(data) {
      const { loads, ...others } = data;
      Object.assign(this, others, { lines: loads, tiles: data.k / data.bk });
      this.warps = [];
      this.owner = new Int16Array(this.m * this.n).fill(-1); // of an element of C: 32 * warp + lane
      data.sums.warps.forEach((_, warp) => {
        if (data.sums.warps[warp]) this.warps.push(warp);
        for (let lane = 0; lane < LANES; ++lane) {
          for (const [row, col] of this.cells(warp, lane)) this.owner[row * this.n + col] = warp * LANES + lane;
        }
      });
      this.found = new Map();
    }

    // The lane's part of C: [row, column, rows, columns].
    boxes(warp, lane) {
      const arrangement = this.sums.warps[warp];
      if (!arrangement) return [];
      const [lanes, row, col] = arrangement, [shape, r, c] = this.sums.lanes[lanes][lane];
      return this.sums.shapes[shape].map((box) => [row + r + box[0], col + c + box[1], box[2], box[3]]);
    }

    cells(warp, lane) {
      const cells = [];
      for (const [row, col, rows, cols] of this.boxes(warp, lane)) {
        for (let r = row; r < row + rows; ++r) for (let c = col; c < col + cols; ++c) cells.push([r, c]);
      }
      return cells;
    }

    cellsOfWarp(warp) {
      return Array.from({ length: LANES }, (_, lane) => this.cells(warp, lane)).flat();
    }

    // What the warp loads for the terms from k on: of each line of the source, its loads in their order. One
    // that only repeats another is left out.
    loads(warp, k) {
      if (!this.found.has(warp)) this.found.set(warp, this.lines.map((line) => this.groups(line, warp)));
      return this.found.get(warp).map((groups) => groups[Math.floor(k / this.terms)] || []);
    }

    groups(load, warp) {
      const groups = [], seen = new Set();
      const [, order, address, row, col] = load.warps.find((one) => one[0] === warp) || [];
      for (const [pattern, a, r, c] of load.orders[order] || []) {
        const request = new Request(load, load.patterns[pattern], address + a, row + r, col + c);
        const terms = request.terms(), key = [pattern, a, r, c].join();
        if (!terms || seen.has(key)) continue;
        seen.add(key);
        const last = Math.floor(terms[1] / this.terms);
        for (let group = Math.floor(terms[0] / this.terms); group <= last; ++group) {
          (groups[group] ||= []).push(request);
        }
      }
      return groups;
    }
  }

  // One load of a warp.
  class Request {
    constructor(load, pattern, address, row, col) {
      Object.assign(this, { load, pattern, address, row, col });
    }

    // The first and the last term of K that it brings; null if it only brings zeros past the matrix.
    terms() {
      const terms = [];
      for (let lane = 0; lane < LANES; ++lane) {
        for (const element of this.elements(lane)) terms.push(this.load.matrix === "A" ? element.col : element.row);
      }
      return terms.length ? [Math.min(...terms), Math.max(...terms)] : null;
    }

    // The elements that the lane gets, and the address of each. ldmatrix: eight lanes say where the eight rows
    // of a matrix begin, of which each lane gets a word.
    elements(lane) {
      const [shape, row, col] = this.pattern.lanes[lane];
      const found = [];
      this.load.shapes[shape].forEach((at, n) => {
        if (!at) return;
        const from = this.load.operation === "ldmatrix" ? 8 * n + (lane >> 2) : lane;
        const word = this.load.operation === "ldmatrix" ? lane & 3 : n;
        const address = this.address + this.pattern.addresses[from] + WORD * word;
        found.push({ row: this.row + row + at[0], col: this.col + col + at[1], address });
      });
      return found;
    }

    // Number of the word -> the lanes that get it, of a part that is served at once.
    words([first, last]) {
      const words = new Map();
      const matrix = this.load.operation === "ldmatrix" ? first / 8 : -1;
      for (let lane = 0; lane < LANES; ++lane) {
        if (matrix < 0 && (lane < first || lane > last)) continue;
        this.elements(lane).forEach(({ address }, n) => {
          if (matrix >= 0 && n !== matrix) return;
          const word = address / WORD;
          words.set(word, [...(words.get(word) || []), lane]);
        });
      }
      return words;
    }

    // As[3][40], as the kernel would say.
    place(address) {
      let rest = address / WORD;
      const index = [];
      for (const extent of [...this.load.dims].reverse()) {
        index.unshift(rest % extent);
        rest = Math.floor(rest / extent);
      }
      return index;
    }

    stage(stages) {
      const bytes = WORD * this.load.dims.reduce((a, b) => a * b, 1);
      return Math.floor(this.address / (bytes / stages));
    }
  }

  // Neighbours in memory that are neighbours in the matrix, too: of each run what it is, where it lies, and in
  // which banks.
  const runsOf = (request, lane) => {
    const runs = [];
    for (const element of request.elements(lane)) {
      const last = runs.at(-1)?.at(-1);
      const next = last && element.address === last.address + WORD && runs.at(-1).length < 8;
      if (next && Math.abs(element.row - last.row) + Math.abs(element.col - last.col) === 1) {
        runs.at(-1).push(element);
      } else runs.push([element]);
    }
    return runs.map((run) => {
      const [first, last] = [run[0], run.at(-1)];
      const [from, to] = [request.place(first.address), request.place(last.address)];
      const { matrix, array, space } = request.load;
      const element = `${matrix}[${span(first.row, last.row)}][${span(first.col, last.col)}]`;
      const place = array + from.map((index, n) => `[${span(index, to[n])}]`).join("");
      const banks = run.map(({ address }) => (address / WORD) % BANKS);
      const where =
        space === "shared" ? `bank${banks.length > 1 ? "s" : ""} ${ranges(banks)}` : `byte ${first.address}`;
      return { element, place, where };
    });
  };

  // Rectangles that hold exactly these cells.
  const boxesOf = (cells) => {
    const rows = new Map();
    for (const [row, col] of cells) rows.set(row, (rows.get(row) || new Set()).add(col));
    const done = [];
    let open = new Map();
    for (const row of [...rows.keys()].sort((a, b) => a - b)) {
      const runs = [], now = new Map();
      for (const col of [...rows.get(row)].sort((a, b) => a - b)) {
        if (runs.length && runs.at(-1)[0] + runs.at(-1)[1] === col) ++runs.at(-1)[1];
        else runs.push([col, 1]);
      }
      for (const [col, cols] of runs) {
        const key = `${col},${cols}`, above = open.get(key);
        open.delete(key);
        if (above && above[0] + above[2] === row) now.set(key, [above[0], col, above[2] + 1, cols]);
        else {
          if (above) done.push(above);
          now.set(key, [row, col, 1, cols]);
        }
      }
      done.push(...open.values());
      open = now;
    }
    return [...done, ...open.values()];
  };

  const extent = (cells) => {
    const found = boxesOf(cells);
    if (found.length === 1) return `${found[0][2]} × ${found[0][3]}`;
    const rows = new Set(cells.map((cell) => cell[0])), cols = new Set(cells.map((cell) => cell[1]));
    const product = rows.size * cols.size === cells.length;
    return product ? `${rows.size} rows × ${cols.size} columns` : `${cells.length} elements`;
  };

  Object.assign(window.gemmLadder, { BANKS, WORD, Recorded, runsOf, boxesOf, extent });
})();
