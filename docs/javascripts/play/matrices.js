// Draws a block's tile of C with what its lanes read of A and B, and a warp's tile closer; and says it in words.

(() => {
  "use strict";

  const {
    LANES, WIDTH, MARGIN, colorOf, inkOn, span, html, text, rect, Matrix, runsOf, boxesOf, extent,
  } = window.gemmLadder;

  const GAP = 8, LABEL = 18, BEFORE = 42, DEPTH = 84;
  const PIECE = { wide: 25, high: 20 }, ZOOM = 160;

  const showMatrices = (player, warp, lane, k, loads) => {
    const { m, n, bk, terms } = player.data;
    const deep = DEPTH / bk;
    const left = MARGIN + BEFORE + DEPTH + GAP, top = LABEL + DEPTH + GAP;
    const size = Math.min((WIDTH - MARGIN - left) / n, 330 / m);
    player.c = new Matrix(left, top, size, size);
    const first = player.tile * bk; // of the terms that are drawn
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
      const request = requests[player.picked[line]], at = request.load.matrix === "A" ? a : b;
      const cells = request.elements(lane).filter((e) => within(e, request.load.matrix)).map((e) => [e.row, e.col]);
      body.push(at.shape(boxesOf(cells), { class: "line strong" }, 1.6, 1.2));
    });
    body.push(rect(left, top, n * size, m * size, { class: "empty" }));
    for (const other of player.data.warps) {
      const boxes = (player.outlines ||= new Map()).get(other) || boxesOf(player.data.cellsOfWarp(other));
      player.outlines.set(other, boxes);
      if (other === warp) body.push(player.c.shape(boxes, { class: "there part" }));
      if (boxes.length === 1) body.push(player.c.shape(boxes, { class: "line edge" }));
    }
    const mine = player.data.boxes(warp, lane);
    body.push(player.c.shape(mine, { class: "here" }));
    if (!player.preview) {
      const piece = mine.filter(([row, col, rows, cols]) =>
        row <= player.at[0] && col <= player.at[1] && player.at[0] < row + rows && player.at[1] < col + cols);
      body.push(player.c.shape(piece, { class: "line strong cursor" }));
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
    player.picture.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.ceil(bottom + LABEL + 2)}`);
    player.picture.replaceChildren(...body);
  };

  // The lanes of the warp's tile, or of its first corner, each in a colour of its own.
  const showWarp = (player, warp, lane) => {
    const cells = player.data.cellsOfWarp(warp);
    const [ys, xs] = [0, 1].map((n) => cells.map((cell) => cell[n]));
    const row = Math.min(...ys), col = Math.min(...xs);
    const rows = Math.max(...ys) + 1 - row, cols = Math.max(...xs) + 1 - col;
    const pieces = player.data.boxes(warp, lane);
    const high = Math.min(...pieces.map((box) => box[2])), wide = Math.min(...pieces.map((box) => box[3]));
    const room = WIDTH - 2 * MARGIN;
    const shownCols = Math.min(cols, Math.floor(room / PIECE.wide) * wide);
    const shownRows = Math.min(rows, Math.floor(ZOOM / PIECE.high) * high);
    const [x, y] = [room / shownCols, PIECE.high / high];
    const at = (player.part = new Matrix(MARGIN - col * x, 1 - row * y, x, y));
    const body = [], over = [];
    for (let one = 0; one < LANES; ++one) {
      const shown = player.data.cells(warp, one).filter(([r, c]) => r < row + shownRows && c < col + shownCols);
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
    player.zoomTitle.textContent = `${all ? "All" : "The corner"} of warp ${warp}'s tile of C, by lane`;
    player.zoom.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.ceil(shownRows * y + 2)}`);
    player.zoom.replaceChildren(...body, ...over);
  };

  const showWords = (player, warp, lane, k, loads) => {
    const { terms } = player.data;
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
    const c = (one) => extent(one === undefined ? player.data.cellsOfWarp(warp) : player.data.cells(warp, one));
    const ofWarp = `${c()} of C. For ${at} it loads ${count("A", all)} of A and ${count("B", all)} of B.`;
    const ofLane = `${places.filter(Boolean).join(". ")}. It computes ${c(lane)} of C.`;
    player.says.replaceChildren(
      html("p", { class: "of-warp" }, html("b", {}, `Warp ${warp}`), `: ${ofWarp}`),
      html("p", { class: "of-lane" }, html("b", {}, `Warp ${warp}, lane ${lane}, ${at}`), `: ${ofLane}`));
  };

  Object.assign(window.gemmLadder, { showMatrices, showWarp, showWords });
})();
