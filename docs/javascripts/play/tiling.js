// Makes the pictures of the tiling answer to mouse, touch and keyboard: choose a warp, a lane and k, and see
// which elements of A, B and C the lane touches, where they lie in memory, and who wants which bank at once.

(() => {
  "use strict";

  const {
    LANES, WIDTH, WORD, LINE, SECTOR, span, plural, html, svg, slider, part, group, Recorded, runsOf, banks,
    sectors, showMatrices, showWarp, showWords,
  } = window.gemmLadder;

  class TilingPlayer {
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
      const block = part("block", html("p", { class: "play-title" }, title), this.picture, help);
      const choice = part("choice", part("controls", ...this.sliders.map((slider) => slider.row)), this.says);
      const zoom = part("zoom", this.zoomTitle, this.zoom);
      const loads = this.lines.map((line) => line.box);
      if (!figure.closest(".opening, .landing")) {
        figure.replaceWith(
          group(`${data.step}: ${title}`, part("column", block, zoom), part("column", choice, part("loads", ...loads))));
        return;
      }
      // On top of a page there is room for the block; what a warp loads comes where the page has a place for it.
      const closer = "Closer: the warp, lane and k chosen in the picture on top";
      const heading = html("p", { class: "play-title play-wide" }, closer);
      document.querySelector(".play-loads-here")?.replaceWith(group(`${data.step}: ${closer}`, heading, zoom, ...loads));
      figure.replaceWith(group(`${data.step}: ${title}`, block, choice));
    }

    controls() {
      const { data } = this;
      const last = data.warps.at(-1), sliders = [];
      const add = (name, label, most, step) => sliders.push(slider(this, name, label, 0, most, step));
      add("warp", "Warp", last, 1);
      add("lane", "Lane", LANES - 1, 1);
      const terms = data.terms;
      add("k", terms > 1 ? `k, ${terms} at once` : "k in the tile", data.bk - terms, terms);
      if (data.tiles > 1) add("tile", "Tile of K", data.tiles - 1, 1);
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
      showMatrices(this, warp, lane, k, loads);
      showWarp(this, warp, lane);
      showWords(this, warp, lane, k, loads);
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
      for (const { name, show } of this.sliders) show(values[name], notes[name] || "");
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

  Object.assign(window.gemmLadder, { TilingPlayer });
})();
