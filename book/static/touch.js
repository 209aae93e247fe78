// Things to touch in the book: a table that fills, weights that one points at, a dial. No library, no server.
(() => {
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // A row of buttons and a slider that share one number from 0 to `last`; `show` draws it.
  const stepper = (name, last, first, show) => {
    const slider = make("input", { type: "range", min: 0, max: last, value: first, ariaLabel: name });
    const go = place => {
      slider.value = Math.max(0, Math.min(last, place));
      show(+slider.value, slider);
    };
    slider.addEventListener("input", () => go(+slider.value));
    const button = (text, by) => {
      const made = make("button", { type: "button", textContent: text });
      made.addEventListener("click", () => go(+slider.value + by));
      return made;
    };
    const bar = make("div", { className: "touch-bar" }, button("Back", -1), slider, button("Next", 1));
    return [bar, () => go(first)];
  };

  const note = () => {
    const made = make("p", { className: "touch-note" });
    made.setAttribute("aria-live", "polite");
    return made;
  };

  const kinds = {
    table(place, data) {
      const cells = data.cells.map(row => row.map(() => make("td")));
      const head = make("tr", {}, make("td"), ...data.columns.map(text => make("th", { scope: "col", textContent: text })));
      const body = cells.map((row, i) => make("tr", {}, make("th", { scope: "row", textContent: data.rows[i] }), ...row));
      const grid = make("div", { className: "touch-grid", tabIndex: 0 }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
      grid.setAttribute("role", "region");
      grid.setAttribute("aria-label", "The table");
      const said = note();
      const [bar, start] = stepper("Step", data.steps.length, 0, (at, slider) => {
        cells.flat().forEach(cell => { cell.textContent = ""; cell.className = ""; });
        data.steps.slice(0, at).forEach(step => step.cells.forEach(([i, j]) => { cells[i][j].textContent = data.cells[i][j]; }));
        const now = data.steps[at - 1];
        if (now) {
          (now.origins || []).forEach(([i, j]) => cells[i][j].classList.add("touch-origin"));
          now.cells.forEach(([i, j]) => cells[i][j].classList.add("touch-now"));
        }
        said.textContent = now ? now.note : "Press Next, or move the slider.";
        slider.setAttribute("aria-valuetext", `step ${at} of ${data.steps.length}`);
      });
      place.append(bar, grid, said);
      start();
    },

    pointing(place, data) {
      const said = note();
      const tokens = data.below.map(text => make("span", { className: "touch-token", textContent: text }));
      const buttons = data.above.map((text, row) => {
        const made = make("button", { type: "button", textContent: text });
        const show = () => {
          buttons.forEach(each => each.setAttribute("aria-pressed", String(each === made)));
          const best = data.weights[row].indexOf(Math.max(...data.weights[row]));
          data.weights[row].forEach((weight, column) => {
            tokens[column].style.setProperty("--weight", `${Math.round(100 * weight)}%`);
            tokens[column].textContent = `${data.below[column]} ${weight.toFixed(2)}`;
          });
          said.textContent = `${text} looks most at ${data.below[best]}: ${data.weights[row][best].toFixed(2)}.`;
        };
        for (const event of ["mouseenter", "focus", "click"]) made.addEventListener(event, show);
        return made;
      });
      place.append(make("div", { className: "touch-row" }, ...buttons), make("div", { className: "touch-row" }, ...tokens), said);
      buttons[0].click();
    },

    dial(place, data) {
      const bars = make("ul", { className: "touch-bars" }), said = note(), label = make("strong");
      const [bar, start] = stepper(data.name, data.frames.length - 1, 0, (at, slider) => {
        const frame = data.frames[at];
        label.textContent = `${data.name}: ${frame.label}`;
        slider.setAttribute("aria-valuetext", frame.label);
        bars.replaceChildren(...frame.bars.map(([text, size]) => {
          const line = make("li", {}, make("span", { textContent: text }), make("span", { className: "touch-size", textContent: size.toFixed(3) }));
          line.style.setProperty("--weight", `${Math.round(100 * Math.max(0, Math.min(1, size)))}%`);
          return line;
        }));
        said.textContent = frame.note || "";
      });
      place.append(label, bar, bars, said);
      start();
    },
  };

  const start = () => document.querySelectorAll(".touch:not([data-ready])").forEach(place => {
    place.dataset.ready = "yes";
    kinds[place.dataset.kind](place, JSON.parse(place.querySelector("script").textContent));
  });
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
