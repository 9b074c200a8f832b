// The memory that a load of a warp wants: banks of shared memory, sectors of global memory.

(() => {
  "use strict";

  const {
    WIDTH, MARGIN, FONT, BANKS, WORD, colorOf, inkOn, span, ranges, plural, sorted, svg, text, rect,
    widthOf,
  } = window.gemmLadder;

  const LINE = 128, SECTOR = 32; // bytes
  const MOST_ROWS = 9;
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

  Object.assign(window.gemmLadder, { LINE, SECTOR, banks, sectors });
})();
