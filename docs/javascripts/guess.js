// Asks for a guess before "What came out" unfolds, and shows it beside the prediction and the measurement: of each
// <div class="guess">, a table of one row with what is asked, the prediction and the measurement. A reader's
// guess stays in the browser. Without this script, or on paper, all is open.

(() => {
  "use strict";

  const html = (name, attributes, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const memory = {
    get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
    set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* of this page view only */ } },
    remove: (key) => { try { localStorage.removeItem(key); } catch { /* nothing was kept */ } },
  };

  // All from the question on, to the end of "Why", which gives the answer away.
  const wrap = (box) => {
    const rest = html("div", { class: "guess-rest" });
    box.before(rest);
    for (let next = box; next && next.id !== "what-is-left" && next.id !== "checked-claims"; next = rest.nextSibling) {
      rest.append(next);
    }
    return rest;
  };

  const ask = (box) => {
    const [head, row] = box.querySelectorAll("tr");
    const [asked, step] = [head.cells[0].textContent.trim(), row.cells[0].textContent.trim()];
    const key = `gemm-ladder guess: ${step}, ${asked}`, choices = box.dataset.choices?.split(", ");
    const question = html("legend", {}, "Your guess: ", html("b", {}, `${step}, ${asked}`));
    const number = { name: "guess", inputmode: "decimal", autocomplete: "off", required: "", size: 7, "aria-label": asked };
    const choice = (value) => html("label", {}, html("input", { type: "radio", name: "guess", value, required: "" }), value);
    const fields = choices ? choices.map(choice) : [html("input", { ...number, pattern: "[0-9]+([.,][0-9]+)?" })];
    const skip = html("button", { type: "button" }, "Show it without a guess");
    const form = html("form", { class: "guess-form" },
      html("fieldset", {}, question, ...fields, html("button", {}, "Show what came out"), skip));
    const said = html("p", { class: "guess-said", role: "status" });
    const again = html("button", { type: "button" }, "Guess again");
    const rest = wrap(box);
    rest.before(form);
    box.append(said);

    const fold = () => {
      form.hidden = false;
      rest.setAttribute("hidden", "until-found"); // by the browser's own search, too
    };
    const unfold = (guess) => {
      form.hidden = true;
      rest.removeAttribute("hidden");
      for (const old of box.querySelectorAll(".guess-own")) old.remove();
      if (guess) {
        head.cells[1].before(html("th", { class: "guess-own" }, "your guess"));
        row.cells[1].before(html("td", { class: "guess-own" }, guess));
        const own = Number(guess.replace(",", ".")), measured = parseFloat(row.cells[3].textContent.replace(/\s/g, ""));
        const off = Math.round(100 * (own / measured - 1));
        const far = off ? `${Math.abs(off)} % ${off > 0 ? "above" : "below"} what was measured` : "what was measured";
        said.replaceChildren(choices ? "" : `Your guess is ${far}. `, again);
      } else said.replaceChildren(again);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const guess = new FormData(form).get("guess").trim();
      memory.set(key, guess);
      unfold(guess);
      again.focus({ preventScroll: true });
    });
    skip.addEventListener("click", () => {
      memory.set(key, "");
      unfold("");
      again.focus({ preventScroll: true });
    });
    again.addEventListener("click", () => {
      memory.remove(key);
      form.reset();
      fold();
      form.elements.guess.focus?.();
    });
    rest.addEventListener("beforematch", () => unfold(""));
    const followed = () => {
      const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target || !rest.contains(target) || !rest.hasAttribute("hidden")) return;
      unfold("");
      target.scrollIntoView();
    };
    addEventListener("hashchange", followed);
    const kept = memory.get(key);
    if (kept === null) fold();
    else unfold(kept);
    followed();
  };

  const start = () => document.querySelectorAll(".guess").forEach(ask);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
