// What the pictures to play with share: sizes and colours, making elements, words, controls. These files are loaded
// one behind the other (common/tools/website/hooks.py) and hand over what they have in window.gemmLadder. They
// work from file:// and ask nobody for anything.

window.gemmLadder = {};

(() => {
  "use strict";

  const LANES = 32;
  // Of the pictures, as in common/tools/drawing: units, of which a picture is WIDTH wide.
  const WIDTH = 440, MARGIN = 6, FONT = 14;
  // Viridis, as in common/tools/drawing/svg.py.
  const COLORS =
    "471d6e48277845317c433a814043853d4c893a548b365c8c33648d306b8e2d728e2a798e27808e25878d238f8c21968a" +
    "1f9e8925a5852bab8130b27c39b87748bf6e57c56566cb5d77d0528ad4469dd93ab0dd2ec3e02ad7e228eae527fde725";
  const colorOf = (lane) => "#" + COLORS.slice(6 * lane, 6 * lane + 6);
  const inkOn = (lane) => (lane < 13 ? "#fff" : "#000");

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

  const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

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

  // A row with a slider and a number for a value from `least` to `most`. owner: has the value under this name, and
  // choose(), which sets it.
  const slider = (owner, name, label, least, most, step = 1) => {
    // While a number is typed, what is no value yet is left alone.
    const set = ({ target }) => {
      if (target.value !== "" && target.validity.valid) owner.choose({ [name]: Number(target.value) });
    };
    const settle = ({ target }) => {
      const value = Math.min(most, Math.max(least, Math.round(Number(target.value) / step) * step));
      if (target.value !== "") owner.choose({ [name]: value });
      target.value = owner[name];
    };
    const limits = { min: least, max: most, step };
    const range = html("input", { type: "range", ...limits, name, "aria-label": label, oninput: set });
    const number = html("input", {
      type: "number", ...limits, name: `${name}_number`, "aria-label": `${label}, as a number`,
      inputmode: "numeric", oninput: set, onchange: settle,
    });
    const note = html("span", { class: "play-note" }), shown = html("span", { class: "play-name" }, label);
    const row = html("div", { class: "play-control" }, shown, range, number, note);
    const show = (value, said = "") => {
      range.value = value;
      if (document.activeElement !== number) number.value = value;
      note.textContent = said;
      range.setAttribute("aria-valuetext", [value, said].filter((text) => text !== "").join(", "));
    };
    return { name, row, show };
  };

  const part = (name, ...children) => html("div", { class: `play-${name}` }, ...children);
  const group = (label, ...children) =>
    part("box", html("div", { class: "play", role: "group", "aria-label": label }, ...children));

  Object.assign(window.gemmLadder, {
    LANES, WIDTH, MARGIN, FONT, colorOf, inkOn, span, ranges, plural, sorted, html, svg, text, rect, widthOf, Matrix,
    slider, part, group,
  });
})();
