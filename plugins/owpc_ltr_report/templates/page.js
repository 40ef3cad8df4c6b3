"use strict";
(() => {
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const narrow = () => document.documentElement.clientWidth < 640;

  // Colours are names of the style sheet, so that themes and printing need no second drawing.
  const config = () => ({
    background: "transparent",
    aria: false,
    font: "system-ui, 'Segoe UI', Roboto, Arial, sans-serif",
    autosize: { type: "fit-x", contains: "padding" },
    view: { stroke: null },
    axis: {
      labelColor: "var(--ink)", titleColor: "var(--quiet)", gridColor: "var(--line)",
      domainColor: "var(--line)", tickColor: "var(--line)", labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: "normal",
    },
    axisY: { labelLimit: narrow() ? 130 : 280 },
    axisX: { labelLimit: narrow() ? 80 : 160, labelSeparation: 6 },
    legend: {
      labelColor: "var(--ink)", labelFontSize: 12, symbolStrokeColor: "var(--ink)",
      labelLimit: narrow() ? 260 : 400, columns: narrow() ? 1 : 4,
    },
    text: { font: "system-ui, sans-serif" },
  });

  const draw = async (place, spec) => {
    const made = await vegaEmbed(place, structuredClone(spec), {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: config(),
    });
    // The place is one picture, with words of its own: its parts are no pictures more.
    for (const svg of place.querySelectorAll("svg")) svg.setAttribute("aria-hidden", "true");
    return made;
  };

  const drawn = new Map();
  const redraw = async (place, spec) => {
    if (drawn.has(place)) drawn.get(place).finalize();
    drawn.set(place, await draw(place, spec));
  };

  const figure = (value) => value.toFixed(4).replace("-", "−");
  const difference = (value) => (value < 0 ? "" : "+") + figure(value);

  const listQueries = (root, list) => {
    const form = root.querySelector("form");
    const body = root.querySelector("tbody");
    const chart = root.querySelector(".chart");
    const status = root.querySelector(".status");
    const pages = root.querySelector(".pages");
    const [earlier, later] = pages.querySelectorAll("button");
    const sign = list.higher ? 1 : -1;
    const rows = list.rows.map(([id, text, before, after]) => ({
      id, name: text || id, before, after, change: after - before,
      words: `${text} ${id}`.toLocaleLowerCase(),
      direction: before === after ? "same" : sign * (after - before) > 0 ? "better" : "worse",
    }));
    const orders = {
      losses: (a, b) => sign * (a.change - b.change),
      gains: (a, b) => sign * (b.change - a.change),
      name: (a, b) => a.name.localeCompare(b.name),
    };
    let found = rows;
    let first = 0;

    const cell = (tag, text, number) => {
      const made = document.createElement(tag);
      made.textContent = text;
      if (tag === "th") made.scope = "row";
      if (number) made.className = "number";
      return made;
    };

    const show = async () => {
      const shown = found.slice(first, first + list.at_once);
      body.replaceChildren(...shown.map((row) => {
        const line = document.createElement("tr");
        line.append(
          cell("th", row.name), cell("td", figure(row.before), true),
          cell("td", figure(row.after), true), cell("td", difference(row.change), true),
          cell("td", row.id),
        );
        return line;
      }));
      const last = Math.min(first + list.at_once, found.length);
      status.textContent = found.length === 0
        ? "No query has these words."
        : `Queries ${first + 1} to ${last} of ${found.length.toLocaleString("en")}.`;
      earlier.disabled = first === 0;
      later.disabled = last >= found.length;
      const names = new Map();
      const spec = structuredClone(list.spec);
      spec.data.values = shown.map((row) => {
        // Two queries of the same words are two rows.
        const times = (names.get(row.name) || 0) + 1;
        names.set(row.name, times);
        const name = times > 1 ? `${row.name} (${row.id})` : row.name;
        // The chart library takes what every object has for a name that it knows.
        const query = name in {} ? `${name}\u2060` : name;
        return { query, before: row.before, after: row.after, direction: row.direction };
      });
      spec.height = Math.max(1, shown.length) * 26;
      chart.hidden = shown.length === 0;
      if (shown.length) await redraw(chart, spec);
    };

    const search = () => {
      const words = form.elements.words.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
      found = rows.filter((row) => words.every((word) => row.words.includes(word)));
      found.sort(orders[form.elements.order.value]);
      first = 0;
      return show();
    };

    let waiting = 0;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(search, 120);
    });
    earlier.addEventListener("click", () => { first = Math.max(0, first - list.at_once); show(); });
    later.addEventListener("click", () => { first += list.at_once; show(); });
    form.hidden = false;
    pages.hidden = false;
    return search;
  };

  const drawAll = async () => {
    for (const place of document.querySelectorAll("[data-chart]")) {
      await redraw(place, payload.charts[place.dataset.chart]);
    }
    for (const search of lists) await search();
    document.documentElement.dataset.drawn = narrow() ? "narrow" : "wide";
  };

  const lists = [...document.querySelectorAll("[data-queries]")].map(
    (root) => listQueries(root, payload.queries[root.dataset.queries]),
  );
  const opened = [];
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details:not([open])")) {
      each.open = true;
      opened.push(each);
    }
  });
  addEventListener("afterprint", () => {
    for (const each of opened.splice(0)) each.open = false;
  });
  addEventListener("resize", () => {
    const width = narrow() ? "narrow" : "wide";
    if (document.documentElement.dataset.drawn !== width) drawAll();
  });
  drawAll();
})();
