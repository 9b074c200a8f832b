// Makes the picture of stream-K answer: other numbers of tiles and of multiprocessors; and of a piece of work,
// where the rest of its tile is computed. common/tools/drawing/schedule.py says what the data are, and draws the
// same.

(() => {
  "use strict";

  const { WIDTH, MARGIN, FONT, span, html, svg, text, rect, widthOf, plural, slider, part, group } =
    window.gemmLadder;

  const LEFT = 46, RIGHT = 12, ROW = 16;
  const LOOKS = {
    whole: { class: "there", "fill-opacity": 0.5 }, part: { class: "mark", "fill-opacity": 0.6 },
    end: { class: "here", "fill-opacity": 0.75 },
  };
  const LEGEND = {
    whole: "a whole tile, by its number", part: "a part: the block hands over its sums",
    end: "the tile's end: the block adds them, and stores",
  };

  class SchedulePlayer {
    constructor(figure, data) {
      this.data = data;
      [this.sms, this.tiles] = data.shown;
      this.picked = [1, 2]; // the block, and the number of the piece
      this.preview = null; // what the mouse points at
      this.build(figure);
      this.show();
    }

    build(figure) {
      const { data } = this, title = "Which SM works when, in k-tiles";
      this.picture = svg("svg", {
        class: "play-matrices", viewBox: `0 0 ${WIDTH} 10`, tabindex: 0, role: "application",
        "aria-label": "Stream-K: arrow keys go to the next piece of work, and to the next SM.",
        onkeydown: (event) => this.key(event),
      });
      const chosen = (event) => {
        const piece = event.target.closest("[data-piece]");
        return piece && piece.dataset.piece.split(",").map(Number);
      };
      this.picture.addEventListener("click", (event) => chosen(event) && this.choose({ picked: chosen(event) }));
      this.picture.addEventListener("pointermove", (event) => {
        if (event.pointerType !== "mouse" || `${chosen(event)}` === `${this.preview}`) return;
        this.preview = chosen(event);
        this.show();
      });
      this.picture.addEventListener("pointerleave", () => {
        this.preview = null;
        this.show();
      });
      this.says = html("div", { class: "play-says", role: "status", "aria-live": "polite", "aria-atomic": "true" });
      this.sliders = [slider(this, "tiles", "Tiles", ...data.tiles), slider(this, "sms", "SMs", ...data.sms)];
      const help = html("p", { class: "play-help" },
        "Point at a piece of stream-K's work, touch it, or click it and use the arrow keys.");
      const block = part("block", html("p", { class: "play-title" }, title), this.picture, help);
      const choice = part("choice", part("controls", ...this.sliders.map(({ row }) => row)), this.says);
      figure.replaceWith(group(`${data.step}: ${title}`, block, choice));
    }

    // ---- What is known

    // Of each block its pieces: k-tiles [first, last) of a tile, from `begin` on.
    blocks() {
      const { sms, tiles, schedules } = this.data;
      return schedules[this.sms - sms[0]][this.tiles - tiles[0]].map((numbers) => {
        const pieces = [];
        for (let n = 0, begin = 0; n < numbers.length; n += 3) {
          const [tile, first, last] = numbers.slice(n, n + 3);
          pieces.push({ tile, first, last, begin });
          begin += last - first;
        }
        return pieces;
      });
    }

    // Step 13's: a block for each tile, the next one where one has ended.
    byTile() {
      const { slabs } = this.data, blocks = Array.from({ length: this.sms }, () => []);
      for (let tile = 0; tile < this.tiles; ++tile) {
        const of = blocks[tile % this.sms];
        of.push({ tile, first: 0, last: slabs, begin: of.length * slabs });
      }
      return blocks;
    }

    // ---- What a reader does

    choose(change) {
      Object.assign(this, change);
      const blocks = this.blocks(), sm = Math.max(0, Math.min(this.picked[0], blocks.length - 1));
      this.picked = [sm, Math.max(0, Math.min(this.picked[1], blocks[sm].length - 1))];
      this.preview = null;
      this.show();
    }

    key(event) {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const step = steps[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      this.choose({ picked: this.picked.map((n, which) => n + step[which]) });
      event.preventDefault();
    }

    // ---- What is shown

    show() {
      const before = this.byTile(), now = this.blocks(), picked = this.preview || this.picked;
      const end = (blocks) => Math.max(...blocks.flat().map((one) => one.begin + one.last - one.first));
      const scale = (WIDTH - LEFT - RIGHT) / Math.max(end(before), end(now));
      const body = [], { tile } = now[picked[0]][picked[1]];
      let y = this.panel(body, "Step 13: one tile after the other", before, end(before), 0, scale, tile);
      y = this.panel(body, "Step 14: stream-K", now, end(now), y + 6, scale, tile, picked);
      for (const [kind, says] of Object.entries(LEGEND)) {
        y += FONT + 5;
        body.push(rect(MARGIN + 1.5, y - 12, 13, 13, LOOKS[kind]), text(MARGIN + 22, y, says));
      }
      this.picture.setAttribute("viewBox", `0 0 ${WIDTH} ${y + 4}`);
      this.picture.replaceChildren(...body);
      for (const { name, show } of this.sliders) show(this[name]);
      this.says.setAttribute("aria-live", this.preview ? "off" : "polite");
      const gain = (end(before) / end(now)).toFixed(2), waves = Math.ceil(this.tiles / this.sms);
      const all = `${this.tiles} tiles of ${this.data.slabs} k-tiles on ${this.sms} SMs: one after the other they ` +
        `take ${plural(waves, "wave")}, ${end(before)} k-tiles; with stream-K ${end(now)}, ${gain} times as fast.`;
      this.says.replaceChildren(html("p", {}, all), html("p", {}, this.words(now, ...picked)));
    }

    // marked: the tile whose pieces are framed; picked: a block and one of its pieces.
    panel(body, title, blocks, end, top, scale, marked, picked) {
      const { slabs } = this.data, over = [];
      const y0 = top + FONT + 9, bottom = y0 + ROW * blocks.length;
      body.push(text(MARGIN, top + FONT, title, { "font-weight": "bold" }));
      body.push(rect(LEFT, y0, WIDTH - LEFT - RIGHT, bottom - y0, { class: "empty" }));
      blocks.forEach((pieces, sm) => {
        const y = y0 + ROW * sm;
        body.push(text(LEFT - 5, y + ROW - 3, `SM ${sm}`, { class: "soft", "text-anchor": "end" }));
        pieces.forEach(({ tile, first, last, begin }, n) => {
          const x = LEFT + begin * scale, wide = (last - first) * scale - 1;
          const kind = last < slabs ? "part" : first ? "end" : "whole", named = widthOf(`${tile}`) < wide;
          body.push(svg("g", picked ? { "data-piece": `${sm},${n}` } : {},
            svg("title", {}, `tile ${tile}, k-tiles ${span(first, last - 1, "–")}`),
            rect(x, y, wide, ROW - 1, LOOKS[kind]),
            ...(named ? [text(x + wide / 2, y + ROW - 3, tile, { "text-anchor": "middle" })] : [])));
          const here = picked && sm === picked[0] && n === picked[1];
          const frame = { class: "line strong", "stroke-width": here ? 3 : 1.5, "pointer-events": "none" };
          if (tile === marked) over.push(rect(x, y, wide, ROW - 1, frame));
        });
      });
      const steps = Array.from({ length: Math.ceil(end / slabs) }, (_, n) => n * slabs);
      for (const tick of [...steps, end]) {
        const near = tick !== end && (end - tick) * scale < 20; // no room beside the last
        const look = { class: "soft", "text-anchor": "middle" };
        if (!near) body.push(text(LEFT + tick * scale, bottom + FONT, tick, look));
      }
      body.push(...over);
      return bottom + FONT + 2;
    }

    words(blocks, sm, n) {
      const { tile, first, last, begin } = blocks[sm][n], { slabs } = this.data;
      const which = last - first === slabs ? `all k-tiles of tile ${tile}`
        : `k-tile${last - first > 1 ? "s" : ""} ${span(first, last - 1, "–")} of tile ${tile}`;
      const others = blocks.flatMap((pieces, other) => pieces.filter((one) => one.tile === tile && other !== sm)
        .map((one) => ({ ...one, other })));
      const finisher = others.find((one) => one.last === slabs);
      const names = others.filter((one) => one.last < slabs).map((one) => one.other).join(", ");
      const then = last < slabs ? `It hands its sums over to SM ${finisher.other}, which finishes the tile.`
        : first ? `It adds the sums of SM ${names}, and stores the tile.` : "It stores the tile.";
      return `SM ${sm}, from ${begin} on: ${which}. ${then}`;
    }
  }

  Object.assign(window.gemmLadder, { SchedulePlayer });
})();
