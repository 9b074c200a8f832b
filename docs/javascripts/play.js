// Makes the pictures of the tiling answer to mouse, touch and keyboard: choose a warp, a lane and k, and see
// which elements of A, B and C the lane touches, where they lie in memory, and who wants which bank at once.
// The data, window.gemmLadderPlay, are recordings; common/tools/drawing/play.py says how they are kept. Works
// from file://, asks nobody for anything.

(() => {
  "use strict";

  const LANES = 32, BANKS = 32, WORD = 4, LINE = 128, SECTOR = 32; // bytes
  // Of the pictures, as in common/tools/drawing: units, of which a picture is WIDTH wide.
  const WIDTH = 440, MARGIN = 6, FONT = 14, GAP = 8, LABEL = 18, BEFORE = 42, DEPTH = 84;
  const PIECE = { wide: 25, high: 20 }, ZOOM = 160;
  const MOST_ROWS = 9;
  // Viridis, as in common/tools/drawing/svg.py.
  const COLORS =
    "471d6e48277845317c433a814043853d4c893a548b365c8c33648d306b8e2d728e2a798e27808e25878d238f8c21968a" +
    "1f9e8925a5852bab8130b27c39b87748bf6e57c56566cb5d77d0528ad4469dd93ab0dd2ec3e02ad7e228eae527fde725";
  const colorOf = (lane) => "#" + COLORS.slice(6 * lane, 6 * lane + 6);
  const inkOn = (lane) => (lane < 13 ? "#fff" : "#000");

  // ---- What was recorded --------------------------------------------------------------------------------

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

  // ---- Words --------------------------------------------------------------------------------------------

  const span = (first, last, sign = "..") => (first === last ? `${first}` : `${first}${sign}${last}`);

  const ranges = (numbers) => {
    const runs = [];
    for (const n of numbers) {
      if (runs.length && runs.at(-1)[1] + 1 === n) runs.at(-1)[1] = n;
      else runs.push([n, n]);
    }
    return runs.map(([a, b]) => (b === a + 1 ? `${a}, ${b}` : span(a, b, "–"))).join(", ");
  };

  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

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

  // ---- Making elements ----------------------------------------------------------------------------------

  const add = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== null) node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };
  const html = (name, attributes = {}, ...children) => add(document.createElement(name), attributes, children);
  const svg = (name, attributes = {}, ...children) =>
    add(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
  const text = (x, y, content, attributes = {}) =>
    svg("text", { x, y, "font-size": FONT, class: "ink", ...attributes }, `${content}`);
  const rect = (x, y, width, height, attributes) => svg("rect", { x, y, width, height, ...attributes });

  // About how wide a text is, on the wide side; as common/tools/drawing/picture.py has it.
  const widthOf = (content) => {
    const narrow = [...content].filter((c) => " ,.–il".includes(c)).length;
    return FONT * (0.64 * (content.length - narrow) + 0.45 * narrow);
  };

  // Where a matrix is drawn, and how large an element is.
  class Matrix {
    constructor(left, top, wide, high) {
      Object.assign(this, { left, top, wide, high });
    }

    // least: what a box has at least, so that it is seen; around: how far it reaches beyond the elements.
    shape(boxes, attributes, least = 0, around = 0) {
      const path = boxes.map(([row, col, rows, cols]) => {
        const width = Math.max(cols * this.wide, least) + 2 * around;
        const height = Math.max(rows * this.high, least) + 2 * around;
        const x = this.left + col * this.wide - around, y = this.top + row * this.high - around;
        return `M${x.toFixed(2)} ${y.toFixed(2)}h${width.toFixed(2)}v${height.toFixed(2)}h${(-width).toFixed(2)}z`;
      });
      return svg("path", { d: path.join(""), ...attributes });
    }
  }

  // ---- One picture --------------------------------------------------------------------------------------

  class Player {
    constructor(figure, data) {
      this.data = new Recorded(data);
      this.warp = Number(figure.dataset.warp);
      this.lane = Number(figure.dataset.lane);
      this.k = this.data.bk >= 2 * this.data.terms ? this.data.terms : 0; // as the picture
      this.tile = 0;
      this.picked = data.loads.map(() => 0); // of each line's loads, which one is shown
      this.preview = null; // what the mouse points at
      this.at = this.firstCell();
      this.source = figure.dataset.source;
      this.build(figure);
      this.show();
    }

    firstCell() {
      const [row, col] = this.data.boxes(this.warp, this.lane)[0];
      return [row, col];
    }

    // ---- Its parts

    build(figure) {
      const { data } = this;
      const keys = "Arrow keys go to the next lane's, Page Up and Page Down to the next k.";
      const title = "Who computes what of a block's tile";
      this.picture = svg("svg", {
        class: "play-matrices", viewBox: `0 0 ${WIDTH} 10`, tabindex: 0, role: "application",
        "aria-label": `C: ${data.m} × ${data.n} elements. ${keys}`, onkeydown: (event) => this.key(event),
      });
      this.zoom = svg("svg", { class: "play-warp", viewBox: `0 0 ${WIDTH} 10`, "aria-hidden": "true" });
      for (const picture of [this.picture, this.zoom]) this.listen(picture);
      this.zoomTitle = html("p", { class: "play-title", "aria-hidden": "true" });
      this.says = html("div", { class: "play-says", role: "status", "aria-live": "polite", "aria-atomic": "true" });
      this.sliders = this.controls();
      this.lines = data.lines.map((load, n) => this.line(load, n));
      const help = html("p", { class: "play-help" },
        "Point at C, touch it, or click it and use the arrow keys; Page Up and Page Down change k.");
      const part = (name, ...children) => html("div", { class: `play-${name}` }, ...children);
      const group = (of, ...children) =>
        part("box", html("div", { class: "play", role: "group", "aria-label": `${data.step}: ${of}` }, ...children));
      const block = part("block", html("p", { class: "play-title" }, title), this.picture, help);
      const choice = part("choice", part("controls", ...this.sliders.map((slider) => slider.row)), this.says);
      const zoom = part("zoom", this.zoomTitle, this.zoom);
      const loads = this.lines.map((line) => line.box);
      if (!figure.closest(".opening, .landing")) {
        figure.replaceWith(
          group(title, part("column", block, zoom), part("column", choice, part("loads", ...loads))));
        return;
      }
      // On top of a page there is room for the block; what a warp loads comes where the page has a place for it.
      const closer = "Closer: the warp, lane and k chosen in the picture on top";
      const heading = html("p", { class: "play-title play-wide" }, closer);
      document.querySelector(".play-loads-here")?.replaceWith(group(closer, heading, zoom, ...loads));
      figure.replaceWith(group(title, block, choice));
    }

    controls() {
      const { data } = this;
      const last = data.warps.at(-1), sliders = [];
      const slider = (name, label, most, step) => {
        // While a number is typed, what is no value yet is left alone.
        const set = ({ target }) => {
          if (target.value !== "" && target.validity.valid) this.choose({ [name]: Number(target.value) });
        };
        const settle = ({ target }) => {
          const value = Math.min(most, Math.max(0, Math.round(Number(target.value) / step) * step));
          if (target.value !== "") this.choose({ [name]: value });
          target.value = this[name];
        };
        const limits = { min: 0, max: most, step };
        const range = html("input", { type: "range", ...limits, name, "aria-label": label, oninput: set });
        const number = html("input", {
          type: "number", ...limits, name: `${name}_number`, "aria-label": `${label}, as a number`,
          inputmode: "numeric", oninput: set, onchange: settle,
        });
        const note = html("span", { class: "play-note" }), shown = html("span", { class: "play-name" }, label);
        const row = html("div", { class: "play-control" }, shown, range, number, note);
        sliders.push({ name, range, number, note, row });
      };
      slider("warp", "Warp", last, 1);
      slider("lane", "Lane", LANES - 1, 1);
      const terms = data.terms;
      slider("k", terms > 1 ? `k, ${terms} at once` : "k in the tile", data.bk - terms, terms);
      if (data.tiles > 1) slider("tile", "Tile of K", data.tiles - 1, 1);
      return sliders;
    }

    // A line of the source that loads, and what the warp's memory makes of one of its loads.
    line(load, n) {
      const move = (by) => () => {
        this.picked[n] += by;
        this.show();
      };
      const { matrix } = load;
      const button = (label, by, sign) =>
        html("button", { type: "button", "aria-label": `${label} load of ${matrix}`, onclick: move(by) }, sign);
      const back = button("Previous", -1, "‹"), next = button("Next", 1, "›");
      const which = html("span", { class: "play-which" });
      const verdict = html("span", { class: "play-verdict" });
      const lane = html("p", { class: "play-lane" });
      const strip = svg("svg", { class: "play-banks", viewBox: `0 0 ${WIDTH} 10`, role: "img" });
      strip.addEventListener("click", (event) => {
        const lanes = event.target.closest("[data-lane]");
        if (lanes) this.choose({ lane: Number(lanes.dataset.lane) });
      });
      const where = `line ${load.line}`;
      const number = this.source ? html("a", { href: `${this.source}#L${load.line}` }, where) : where;
      const array = load.space === "shared" ? html("code", {}, load.array) : "global memory";
      const rows = html("span", {}, ` Each row: ${LINE} bytes of ${load.array}; in front, where it begins, in bytes.`);
      const box = html("section", { class: "play-load", "aria-label": `The loads of ${matrix}` },
        html("p", { class: "play-head" }, html("b", {}, matrix), " from ", array, ", ", number,
          html("span", { class: "play-step" }, back, which, next)),
        html("p", { class: "play-code" }, html("code", {}, load.source)),
        lane, strip, html("p", { class: "play-foot" }, verdict, rows));
      return { box, back, next, which, verdict, lane, strip, rows };
    }

    // ---- What a reader does

    choose(change) {
      Object.assign(this, change);
      this.preview = null;
      if (!this.data.warps.includes(this.warp)) {
        this.warp = this.data.warps.reduce((a, b) => (Math.abs(b - this.warp) < Math.abs(a - this.warp) ? b : a));
      }
      if (!change.at) this.at = this.firstCell();
      this.show();
    }

    ownerAt([row, col]) {
      const owner = this.data.owner[row * this.data.n + col];
      return owner >= 0 ? { warp: owner >> 5, lane: owner & 31, at: [row, col] } : null;
    }

    // The element of C under the pointer.
    cellAt(picture, event) {
      const { left, top, width } = picture.getBoundingClientRect();
      const scale = WIDTH / width, matrix = picture === this.picture ? this.c : this.part;
      const row = Math.floor(((event.clientY - top) * scale - matrix.top) / matrix.high);
      const col = Math.floor(((event.clientX - left) * scale - matrix.left) / matrix.wide);
      const inside = row >= 0 && col >= 0 && row < this.data.m && col < this.data.n;
      return inside ? this.ownerAt([row, col]) : null;
    }

    listen(picture) {
      const chosen = (event) => {
        const owner = this.cellAt(picture, event);
        if (owner) this.choose(owner);
      };
      picture.addEventListener("click", chosen);
      picture.addEventListener("pointermove", (event) => {
        if (event.buttons) return chosen(event);
        if (event.pointerType !== "mouse") return;
        const owner = this.cellAt(picture, event);
        if (owner?.warp !== this.preview?.warp || owner?.lane !== this.preview?.lane) {
          this.preview = owner;
          this.show();
        }
      });
      picture.addEventListener("pointerleave", () => {
        if (!this.preview) return;
        this.preview = null;
        this.show();
      });
    }

    key(event) {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (steps[event.key]) this.go(steps[event.key]);
      else if (event.key === "PageUp") this.term(1);
      else if (event.key === "PageDown") this.term(-1);
      else return;
      event.preventDefault();
    }

    // To the next element in that direction that another lane has.
    go([down, right]) {
      const own = this.warp * LANES + this.lane;
      for (let [row, col] = this.at; ; ) {
        row += down;
        col += right;
        if (row < 0 || col < 0 || row >= this.data.m || col >= this.data.n) return;
        const owner = this.ownerAt([row, col]);
        if (owner && owner.warp * LANES + owner.lane !== own) return this.choose(owner);
      }
    }

    // To the next k, from tile to tile.
    term(by) {
      const { bk, terms, tiles } = this.data;
      const k = this.tile * bk + this.k + by * terms;
      if (k >= 0 && k < tiles * bk) this.choose({ tile: Math.floor(k / bk), k: k % bk, at: this.at });
    }

    // ---- What is shown

    show() {
      const { warp, lane } = this.preview || this;
      const k = this.tile * this.data.bk + this.k;
      const loads = this.data.loads(warp, k);
      this.picked = this.picked.map((n, line) => Math.max(0, Math.min(n, loads[line].length - 1)));
      this.says.setAttribute("aria-live", this.preview ? "off" : "polite");
      this.showControls(warp, lane, loads);
      this.showMatrices(warp, lane, k, loads);
      this.showWarp(warp, lane);
      this.showWords(warp, lane, k, loads);
      loads.forEach((requests, n) => this.showLine(n, requests, lane));
    }

    showControls(warp, lane, loads) {
      const { data } = this;
      const values = { warp, lane, k: this.k, tile: this.tile };
      const k = this.tile * data.bk + this.k, some = loads.flat()[0];
      const stage = some && data.stages > 1 ? `stage ${some.stage(data.stages)}` : "";
      const notes = {
        k: data.terms > 1 ? `k = ${span(k, k + data.terms - 1, "–")}` : this.tile ? `k = ${k}` : "",
        tile: stage && `in ${stage} of ${data.stages}`,
      };
      for (const { name, range, number, note } of this.sliders) {
        range.value = values[name];
        if (document.activeElement !== number) number.value = values[name];
        note.textContent = notes[name] || "";
        range.setAttribute("aria-valuetext", [values[name], notes[name]].filter(Boolean).join(", "));
      }
    }

    showMatrices(warp, lane, k, loads) {
      const { m, n, bk, terms } = this.data;
      const deep = DEPTH / bk;
      const left = MARGIN + BEFORE + DEPTH + GAP, top = LABEL + DEPTH + GAP;
      const size = Math.min((WIDTH - MARGIN - left) / n, 330 / m);
      this.c = new Matrix(left, top, size, size);
      const first = this.tile * bk; // of the terms that are drawn
      const a = new Matrix(left - GAP - DEPTH - first * deep, top, deep, size);
      const b = new Matrix(left, top - GAP - DEPTH - first * deep, size, deep);
      const bottom = top + m * size, body = [];
      const within = ({ row, col }, matrix) => {
        const term = matrix === "A" ? col : row;
        return term >= k && term < k + terms;
      };
      for (const [name, at, x, y, width, height] of [
        ["A", a, left - GAP - DEPTH, top, DEPTH, m * size], ["B", b, left, top - GAP - DEPTH, n * size, DEPTH],
      ]) {
        body.push(rect(x, y, width, height, { class: "empty" }));
        const cells = (lanes) => {
          const found = new Map();
          for (const request of loads.flat().filter((one) => one.load.matrix === name)) {
            for (const e of lanes.flatMap((one) => request.elements(one))) {
              if (within(e, name)) found.set(`${e.row},${e.col}`, [e.row, e.col]);
            }
          }
          return boxesOf(found.values());
        };
        body.push(at.shape(cells(Array.from({ length: LANES }, (_, one) => one)), { class: "there part" }, 1.6));
        body.push(at.shape(cells([lane]), { class: "here" }, 1.6));
      }
      // The elements of the loads that are shown below.
      loads.forEach((requests, line) => {
        if (requests.length < 2) return;
        const request = requests[this.picked[line]], at = request.load.matrix === "A" ? a : b;
        const cells = request.elements(lane).filter((e) => within(e, request.load.matrix)).map((e) => [e.row, e.col]);
        body.push(at.shape(boxesOf(cells), { class: "line strong" }, 1.6, 1.2));
      });
      body.push(rect(left, top, n * size, m * size, { class: "empty" }));
      for (const other of this.data.warps) {
        const boxes = (this.outlines ||= new Map()).get(other) || boxesOf(this.data.cellsOfWarp(other));
        this.outlines.set(other, boxes);
        if (other === warp) body.push(this.c.shape(boxes, { class: "there part" }));
        if (boxes.length === 1) body.push(this.c.shape(boxes, { class: "line edge" }));
      }
      const mine = this.data.boxes(warp, lane);
      body.push(this.c.shape(mine, { class: "here" }));
      if (!this.preview) {
        const piece = mine.filter(([row, col, rows, cols]) =>
          row <= this.at[0] && col <= this.at[1] && this.at[0] < row + rows && this.at[1] < col + cols);
        body.push(this.c.shape(piece, { class: "line strong cursor" }));
      }
      const middle = { "text-anchor": "middle", class: "soft" }, end = { "text-anchor": "end", class: "soft" };
      body.push(
        text(left + (n * size) / 2, LABEL - 5, `${n} columns`, middle),
        text(left - GAP - DEPTH - 5, top + (m * size) / 2, m, end),
        text(left - GAP - DEPTH - 5, top + (m * size) / 2 + LABEL - 2, "rows", end),
        text(left - GAP - DEPTH / 2, bottom + LABEL - 3, `k ${span(first, first + bk - 1, "–")}`, middle),
        text(left - GAP - DEPTH + 6, bottom - 8, "A", { "font-weight": "bold" }),
        text(left + 6, top - GAP - 8, "B", { "font-weight": "bold" }),
        text(left + n * size - 16, bottom - 8, "C", { "font-weight": "bold" }));
      this.picture.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.ceil(bottom + LABEL + 2)}`);
      this.picture.replaceChildren(...body);
    }

    // The lanes of the warp's tile, or of its first corner, each in a colour of its own.
    showWarp(warp, lane) {
      const cells = this.data.cellsOfWarp(warp);
      const [ys, xs] = [0, 1].map((n) => cells.map((cell) => cell[n]));
      const row = Math.min(...ys), col = Math.min(...xs);
      const rows = Math.max(...ys) + 1 - row, cols = Math.max(...xs) + 1 - col;
      const pieces = this.data.boxes(warp, lane);
      const high = Math.min(...pieces.map((box) => box[2])), wide = Math.min(...pieces.map((box) => box[3]));
      const room = WIDTH - 2 * MARGIN;
      const shownCols = Math.min(cols, Math.floor(room / PIECE.wide) * wide);
      const shownRows = Math.min(rows, Math.floor(ZOOM / PIECE.high) * high);
      const [x, y] = [room / shownCols, PIECE.high / high];
      const at = (this.part = new Matrix(MARGIN - col * x, 1 - row * y, x, y));
      const body = [], over = [];
      for (let one = 0; one < LANES; ++one) {
        const shown = this.data.cells(warp, one).filter(([r, c]) => r < row + shownRows && c < col + shownCols);
        const boxes = boxesOf(shown);
        const look = { style: `fill:${colorOf(one)}`, class: "edge" };
        (one === lane ? over : body).push(at.shape(boxes, one === lane ? { ...look, class: "chosen" } : look));
        for (const [r, c, h, w] of boxes) {
          if (w * x < PIECE.wide - 3 || h * y < PIECE.high - 3) continue;
          const weight = one === lane ? "bold" : null;
          over.push(text(at.left + (c + w / 2) * x, at.top + (r + h / 2) * y + 5, one, {
            "text-anchor": "middle", class: null, style: `fill:${inkOn(one)}`, "font-weight": weight,
          }));
        }
      }
      const all = shownRows === rows && shownCols === cols && rows * cols === cells.length;
      this.zoomTitle.textContent = `${all ? "All" : "The corner"} of warp ${warp}'s tile of C, by lane`;
      this.zoom.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.ceil(shownRows * y + 2)}`);
      this.zoom.replaceChildren(...body, ...over);
    }

    showWords(warp, lane, k, loads) {
      const { terms } = this.data;
      const at = `k = ${span(k, k + terms - 1, "–")}`;
      const count = (matrix, lanes) => {
        const found = new Set();
        for (const request of loads.flat()) {
          if (request.load.matrix !== matrix) continue;
          for (const one of lanes) for (const e of request.elements(one)) found.add(`${e.row},${e.col}`);
        }
        return found.size;
      };
      const all = Array.from({ length: LANES }, (_, one) => one);
      const places = loads.map((requests) => {
        const runs = requests.flatMap((request) => runsOf(request, lane));
        const some = runs.slice(0, runs.length > 4 ? 3 : 4).map(({ place, where }) => `${place}, ${where}`);
        return some.join("; ") + (runs.length > some.length ? `; and ${runs.length - some.length} more` : "");
      });
      const c = (one) => extent(one === undefined ? this.data.cellsOfWarp(warp) : this.data.cells(warp, one));
      const ofWarp = `${c()} of C. For ${at} it loads ${count("A", all)} of A and ${count("B", all)} of B.`;
      const ofLane = `${places.filter(Boolean).join(". ")}. It computes ${c(lane)} of C.`;
      this.says.replaceChildren(
        html("p", { class: "of-warp" }, html("b", {}, `Warp ${warp}`), `: ${ofWarp}`),
        html("p", { class: "of-lane" }, html("b", {}, `Warp ${warp}, lane ${lane}, ${at}`), `: ${ofLane}`));
    }

    showLine(n, requests, lane) {
      const { back, next, which, verdict, lane: words, strip, rows, box } = this.lines[n];
      const request = requests[this.picked[n]];
      box.hidden = !request;
      if (!request) return;
      // Not disabled: that would take the focus away from who has pressed it.
      back.setAttribute("aria-disabled", this.picked[n] === 0);
      next.setAttribute("aria-disabled", this.picked[n] === requests.length - 1);
      back.hidden = next.hidden = requests.length < 2;
      which.textContent = requests.length > 1 ? `load ${this.picked[n] + 1} of ${requests.length}` : "one load";
      const runs = runsOf(request, lane).map((run) => `${run.element} in ${run.place}, ${run.where}`);
      words.textContent = `Lane ${lane}: ${runs.join("; ")}`;
      const { said, conflict } = this.judge(request);
      verdict.textContent = said;
      verdict.classList.toggle("conflict", conflict);
      const memory = request.load.space === "shared" ? banks : sectors;
      const { body, height, addressed } = memory(request, lane);
      rows.hidden = !addressed;
      strip.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.ceil(height)}`);
      strip.setAttribute("aria-label", `Who wants which word: ${said}`);
      strip.replaceChildren(...body);
    }

    judge({ load, pattern, address }) {
      if (load.space === "global") {
        const wanted = new Set();
        for (const a of pattern.addresses) {
          if (a === null) continue;
          for (let byte = address + a; byte < address + a + load.bytes; byte += WORD) wanted.add(byte);
        }
        const moved = new Set([...wanted].map((byte) => Math.floor(byte / SECTOR))).size;
        const bytes = `${plural(moved, "sector")} = ${moved * SECTOR} bytes moved`;
        return { said: `${WORD * wanted.size} bytes wanted, ${bytes}.`, conflict: false };
      }
      const total = pattern.parts.reduce((sum, part) => sum + part[4], 0), least = pattern.parts.length;
      const conflict = total > least;
      const why = conflict ? `; without bank conflicts ${least}` : ": no bank conflict";
      return { said: `${plural(total, "wavefront")}${why}.`, conflict };
    }
  }

  // ---- The memory that a load wants ---------------------------------------------------------------------

  const STRIP_LEFT = MARGIN + 54; // of the addresses
  const STRIP_TEXT = 15;

  // The lanes of a cell, in one line or in two; if there is no room, a letter, which a legend explains.
  const labelOf = (lanes, room, letters) => {
    const fits = (line) => widthOf(line) <= room, all = ranges(lanes), parts = all.split(", ");
    if (fits(all)) return [all];
    for (let n = Math.ceil(parts.length / 2); n > 0 && n < parts.length; ++n) {
      const lines = [parts.slice(0, n).join(" "), parts.slice(n).join(" ")];
      if (lines.every(fits)) return lines;
    }
    if (!letters.has(all)) letters.set(all, String.fromCharCode(97 + (letters.size % 26)));
    return [letters.get(all)];
  };

  // A row of words: grey boxes, and over them a cell for neighbours that the same lanes want; of an ldmatrix for
  // a row of four words, of which four lanes get one each. `words` are by place in the row, if they say
  // themselves which word they are.
  const drawRow = (body, request, words, first, count, width, y, height, chosen, letters) => {
    for (let n = 0; n < count; ++n) {
      body.push(rect(STRIP_LEFT + n * width, y, width, height, { class: "empty rule" }));
    }
    const over = [], last = first + count;
    const alike = (a, b) => words.has(b) && words.get(a).join() === words.get(b).join();
    const matrix = (word) => request.load.operation === "ldmatrix" && word % 4 > 0 && words.has(word);
    const runFrom = (word) => {
      let end = word + 1;
      while (end < last && alike(word, end)) ++end;
      return end;
    };
    const place = (from, to) => {
      const ends = [from, to].map((word) => request.place((words.get(word).word ?? word) * WORD));
      return request.load.array + ends[0].map((index, n) => `[${span(index, ends[1][n])}]`).join("");
    };
    for (let word = first; word < last; ) {
      if (!words.has(word)) {
        ++word;
        continue;
      }
      const says = [], lanes = new Set(), x = STRIP_LEFT + (word - first) * width, begin = word;
      do {
        const end = runFrom(word), all = words.get(word);
        says.push(`${place(word, end - 1)}: ${all.length > 1 ? "lanes" : "lane"} ${ranges(all)}`);
        for (const lane of all) lanes.add(lane);
        word = end;
      } while (word < last && matrix(word));
      const all = sorted(lanes), wide = (word - begin) * width;
      const mine = lanes.has(chosen), shown = mine ? chosen : all[0];
      const label = labelOf(all, wide, letters), top = y + height / 2 + 5 - (label.length - 1) * (FONT / 2);
      const ink = { "text-anchor": "middle", class: null, style: `fill:${inkOn(shown)}` };
      body.push(svg("g", { "data-lane": shown, class: mine ? "mine" : null },
        svg("title", {}, says.join("; ")),
        rect(x, y, wide, height, { style: `fill:${colorOf(shown)}`, class: "edge" }),
        ...label.map((line, n) => text(x + wide / 2, top + n * FONT, line, ink))));
      const frame = { class: "line chosen", "pointer-events": "none" };
      if (mine) over.push(rect(x + 1, y + 1, wide - 2, height - 2, frame));
    }
    body.push(...over);
  };

  const soft = { class: "soft" };
  const centred = { ...soft, "text-anchor": "middle" }, ended = { ...soft, "text-anchor": "end" };
  const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

  const legend = (body, letters, y) => {
    for (const [lanes, letter] of letters) {
      y += STRIP_TEXT + 4;
      body.push(text(MARGIN, y, `${letter}: lanes ${lanes}`, soft));
    }
    return y;
  };

  // The banks that the lanes want, by row of 128 bytes; a part that is served at once below the other. Of many
  // rows that want no bank twice only the banks are shown.
  const banks = (request, lane) => {
    const { load, pattern } = request, body = [], letters = new Map();
    const aligned = pattern.addresses.every((a) => a === null || (request.address + a) % load.bytes === 0);
    const unit = [8, 16].includes(load.bytes) && aligned ? load.bytes / WORD : 1;
    const count = unit > 1 ? BANKS : BANKS / 2; // side by side
    const width = (WIDTH - MARGIN - STRIP_LEFT) / count;
    const parts = pattern.parts.map((part) => ({ part, words: request.words(part) }));
    const cells = parts.flatMap(({ words }) => [...words.values()]);
    const high = cells.some((lanes) => labelOf(lanes, unit * width, new Map()).length > 1) ? 34 : 22;
    let y = 0, addressed = false; // whether rows are shown with their addresses
    for (let first = 0; first < BANKS; first += count) {
      const wanted = ([word]) => word % BANKS >= first && word % BANKS < first + count;
      if (!parts.some(({ words }) => [...words].some(wanted))) {
        y += STRIP_TEXT + 5;
        body.push(text(MARGIN, y, `Banks ${first}–${first + count - 1} are not wanted.`, soft));
        continue;
      }
      y += STRIP_TEXT + 2 + (first ? 6 : 0);
      body.push(text(STRIP_LEFT - 5, y - 4, "banks", ended));
      for (let bank = first; bank < first + count; bank += unit) {
        const name = unit === 4 ? span(bank, bank + 3, "–") : bank;
        body.push(text(STRIP_LEFT + (bank - first + unit / 2) * width, y - 4, name, centred));
      }
      for (const { part, words } of parts) {
        if (parts.length > 1) {
          y += STRIP_TEXT + 3;
          const lanes = span(part[0], part[1], "–"), matrix = `Matrix ${part[0] / 8}`;
          const ldmatrix = load.operation === "ldmatrix";
          const who = ldmatrix ? `${matrix}, whose rows begin where lanes ${lanes} say:` : `Lanes ${lanes} at once:`;
          body.push(text(MARGIN, y - 1, who, soft));
          y += 3;
        }
        const here = new Map([...words].filter(wanted));
        const rowOf = (word) => Math.floor(word / BANKS);
        const rows = sorted([...here.keys()].map(rowOf));
        if (part[4] === 1 && rows.length > 2) {
          body.push(text(STRIP_LEFT - 5, y + high / 2 + 5, `${rows.length} rows`, ended));
          const flat = new Map([...here].map(([word, lanes]) => [word % BANKS, Object.assign([...lanes], { word })]));
          drawRow(body, request, flat, first, count, width, y, high, lane, letters);
          y += high;
          continue;
        }
        const own = [...here].find(([, lanes]) => lanes.includes(lane))?.[0];
        const kept = rows.filter((row, n) =>
          rows.length <= MOST_ROWS || n < MOST_ROWS - 3 || n === rows.length - 1 || row === rowOf(own));
        addressed ||= kept.length > 0;
        kept.forEach((row, n) => {
          const out = n ? rows.indexOf(row) - rows.indexOf(kept[n - 1]) - 1 : 0;
          if (out) {
            y += STRIP_TEXT;
            body.push(text(STRIP_LEFT, y - 3, `… ${plural(out, "more row")} …`, soft));
          }
          body.push(text(STRIP_LEFT - 5, y + high / 2 + 5, row * LINE, ended));
          drawRow(body, request, words, row * BANKS + first, count, width, y, high, lane, letters);
          y += high;
        });
        const counts = Array.from({ length: count }, () => 0); // of words, by bank
        for (const word of here.keys()) ++counts[(word % BANKS) - first];
        if (part[4] > 1 && Math.max(...counts) > 0) {
          y += STRIP_TEXT;
          body.push(text(STRIP_LEFT - 5, y, "words", ended));
          for (let n = 0; n < count; n += unit) {
            const many = Math.max(...counts.slice(n, n + unit));
            const look = many > 1 ? { class: "mark", "text-anchor": "middle", "font-weight": "bold" } : centred;
            if (many) body.push(text(STRIP_LEFT + (n + unit / 2) * width, y, many, look));
          }
          y += 4;
        }
      }
    }
    return { body, height: legend(body, letters, y) + 4, addressed };
  };

  // The sectors that the lanes touch, each a row.
  const sectors = (request, lane) => {
    const words = request.words(request.pattern.parts[0]), body = [], letters = new Map();
    const width = (WIDTH - MARGIN - STRIP_LEFT) / 8;
    const wanted = sorted([...words.keys()].map((word) => Math.floor((word * WORD) / SECTOR)));
    let y = STRIP_TEXT + 2;
    body.push(text(MARGIN, y - 4, "A row: a sector of 32 bytes, from this byte of the array on.", soft));
    wanted.forEach((sector, n) => {
      if (n && Math.floor(wanted[n - 1] / 4) !== Math.floor(sector / 4)) y += 3;
      body.push(text(STRIP_LEFT - 5, y + 16, sector * SECTOR, ended));
      drawRow(body, request, words, (sector * SECTOR) / WORD, 8, width, y, 22, lane, letters);
      y += 22;
    });
    return { body, height: legend(body, letters, y) + 4 };
  };

  // ---- All pictures of the page -------------------------------------------------------------------------

  const start = () => {
    for (const figure of document.querySelectorAll(".figure[data-play]")) {
      const data = window.gemmLadderPlay?.[figure.dataset.play];
      if (data) new Player(figure, data);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
