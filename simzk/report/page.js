
"use strict";
// The page is readable without this script. It adds sorting, saving, filters, zoom, the znode tree at a moment, and the
// events of a long run that are compressed in the page. It fetches nothing, and writes texts as text only.

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function titleOf(element) {
  // The nearest heading above, as a file name.
  let at = element;
  while (at && !/^H[123]$/.test(at.tagName)) at = at.previousElementSibling || at.parentElement;
  return ((at && at.textContent) || document.title).trim().replace(/[^\p{L}\p{N}]+/gu, "-").toLowerCase();
}

// Tables: sorted by a click on a heading, saved as CSV.

function valueOf(row, column) {
  const text = row.cells[column].textContent.trim();
  const found = /^-?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text);
  return found ? Number(found[0].replace(/,/g, "")) : text;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, "en", { numeric: true });
}

function sortBy(table, column) {
  const heading = table.tHead.rows[0].cells[column];
  const downwards = heading.getAttribute("aria-sort") === "ascending";
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", downwards ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row, column), row]);
  rows.sort((a, b) => (downwards ? compare(b[0], a[0]) : compare(a[0], b[0])));
  table.tBodies[0].append(...rows.map((pair) => pair[1]));
}

function csv(table) {
  const rows = [...table.rows].filter((row) => !row.hidden);
  const line = (row) => [...row.cells].map((cell) => `"${cell.textContent.replace(/"/g, '""')}"`).join(",");
  return rows.map(line).join("\r\n") + "\r\n";
}

function equip(table) {
  for (const [column, cell] of [...table.tHead.rows[0].cells].entries()) {
    const button = make("button", { type: "button", onclick: () => sortBy(table, column) }, cell.textContent);
    cell.replaceChildren(button);
  }
  const box = table.closest(".scroll");
  const named = titleOf(box);
  const button = make("button", { type: "button", onclick: () => save(`${named}.csv`, "text/csv", csv(table)) }, "Save CSV");
  let tools = box.previousElementSibling;
  if (!tools || !tools.classList.contains("tools")) {
    tools = make("div", { class: "tools" });
    box.before(tools);
  }
  tools.append(make("span", { class: "spring" }), button);
}

// Charts: zoom, saved as SVG with the page's own style.

const NAME_PX = 190, PLOT_PX = 950;

function element(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawing(chart) {
  const whole = element("svg", { xmlns: SVG, class: "chart", width: NAME_PX + PLOT_PX + 30 });
  whole.append(element("style", {}, document.querySelector("style").textContent));
  whole.append(document.querySelector("defs").cloneNode(true));
  whole.append(element("rect", { class: "paper", width: "100%", height: "100%" }));
  let y = 12;
  const written = (text, x) => element("text", { x, y: y + 12 }, text);
  let x = 10;
  for (const key of chart.querySelectorAll(".legend li")) {
    const sign = key.firstElementChild.cloneNode(true);
    const width = 45 + 6.5 * key.textContent.length;
    if (x + width > NAME_PX + PLOT_PX) {
      x = 10;
      y += 20;
    }
    sign.setAttribute("x", x);
    sign.setAttribute("y", y);
    whole.append(sign, written(key.textContent, x + 20));
    x += width;
  }
  y += 28;
  const top = y;
  for (const row of chart.querySelectorAll(".wide > h4, .lane:not([hidden])")) {
    if (row.tagName === "H4") {
      whole.append(written(row.textContent, 10));
      y += 22;
      continue;
    }
    const picture = row.querySelector("svg").cloneNode(true);
    for (const [name, value] of [["x", NAME_PX], ["y", y], ["width", PLOT_PX], ["overflow", "visible"]]) picture.setAttribute(name, value);
    whole.append(written(row.querySelector(".name").textContent, 10), picture);
    y += Number(picture.getAttribute("height")) + 6;
  }
  const lines = chart.querySelector("svg.lines");
  if (lines) {
    const copy = lines.cloneNode(true);
    for (const cursor of copy.querySelectorAll(".cursor")) cursor.remove();
    for (const [name, value] of [["x", NAME_PX], ["y", top + 20], ["width", PLOT_PX], ["height", y - top - 20]]) copy.setAttribute(name, value);
    whole.append(copy);
  }
  whole.setAttribute("height", y + 12);
  return new XMLSerializer().serializeToString(whole);
}

function zoom(chart, factor) {
  const wide = chart.querySelector(".wide");
  const now = Math.min(Math.max(Number(wide.dataset.zoom || 1) * factor, 1), 64);
  const box = wide.parentElement;
  const middle = (box.scrollLeft + box.clientWidth / 2) / wide.clientWidth;
  wide.dataset.zoom = now;
  wide.style.width = `${100 * now}%`;
  const cursor = chart.querySelector(".cursor");
  const share = cursor ? parseFloat(cursor.getAttribute("x1")) / 100 : middle;
  box.scrollLeft = share * wide.clientWidth - box.clientWidth / 2;
}

for (const chart of document.querySelectorAll("figure.chart")) {
  const tools = make("div", { class: "tools" });
  if (chart.dataset.end) {
    tools.append(
      make("button", { type: "button", onclick: () => zoom(chart, 2), "aria-label": "Zoom in" }, "Zoom +"),
      make("button", { type: "button", onclick: () => zoom(chart, 0.5), "aria-label": "Zoom out" }, "Zoom −"),
    );
  }
  const named = titleOf(chart);
  const write = () => save(`${named}.svg`, "image/svg+xml", drawing(chart));
  tools.append(make("button", { type: "button", onclick: write }, "Save SVG"));
  chart.querySelector("figcaption").append(tools);
}

// Events: filters by kind, broker and topic, which hide the rows of the chart too.

function brokersOf(row) {
  // The brokers that an event names: who acted, and leaders, ISRs and replicas before and after.
  const [, who, what, , change] = [...row.cells].map((cell) => cell.textContent);
  const named = `${who} ${what}`.match(/(?:broker|controller) \d+/g) || [];
  const listed = change.match(/\[[\d, ]*\]|leader \d+/g) || [];
  return new Set([...named, ...listed].join(" ").match(/\d+/g) || []);
}

function ofTopic(row, topic) {
  const [, , what, subject, change] = [...row.cells].map((cell) => cell.textContent);
  const partition = subject.slice(0, topic.length + 1) === `${topic}-` && /^\d+$/.test(subject.slice(topic.length + 1));
  const words = ` ${what} ${/step|expectation/.test(row.className) ? subject : ""} `.split(/[\s,:[\]]+/);
  return subject === topic || partition || words.some((word) => word === topic || (word.startsWith(`${topic}-`) && /^\d+$/.test(word.slice(topic.length + 1))));
}

function filters(events, chart) {
  const table = events.querySelector("table");
  const rows = [...table.tBodies[0].rows];
  const kinds = [...new Set(rows.map((row) => row.className.split(" ")[0]).filter(Boolean))];
  const about = new Map(rows.map((row) => [row, brokersOf(row)]));
  const brokers = [...new Set(rows.flatMap((row) => (row.cells[1].textContent.match(/^(?:broker|controller) (\d+)$/) || []).slice(1)))];
  const topics = events.dataset.topics ? events.dataset.topics.split("\n") : [];
  const count = make("output", {});
  const chosen = {};
  const apply = () => {
    const [kind, broker, topic] = ["kind", "broker", "topic"].map((name) => chosen[name].value);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !((!kind || row.classList.contains(kind)) && (!broker || about.get(row).has(broker)) && (!topic || ofTopic(row, topic)));
      shown += !row.hidden;
    }
    for (const lane of chart ? chart.querySelectorAll(".lane[data-topic], .lane[data-broker]") : []) {
      lane.hidden = Boolean((topic && lane.dataset.topic && lane.dataset.topic !== topic) || (broker && lane.dataset.broker && lane.dataset.broker !== broker));
    }
    count.textContent = `${shown} of ${rows.length} events`;
  };
  const select = (name, values, every) => {
    chosen[name] = make("select", { onchange: apply, "data-filter": name }, make("option", { value: "" }, every));
    chosen[name].append(...values.map((value) => make("option", { value }, value)));
    return make("label", {}, name, chosen[name]);
  };
  const clear = () => {
    for (const one of Object.values(chosen)) one.value = "";
    apply();
  };
  const tools = make(
    "div",
    { class: "tools", role: "search", "aria-label": "Filter of events" },
    select("kind", kinds, "all kinds"),
    select("broker", brokers.sort((a, b) => a - b), "all brokers"),
    select("topic", topics, "all topics"),
    make("button", { type: "button", onclick: clear }, "Show all"),
    count,
  );
  events.querySelector(".scroll").before(tools);
  apply();
}

// Data blocks, as report/packed.py writes them.

async function unpack(script) {
  if (script.type === "application/json") return JSON.parse(script.textContent);
  const bytes = Uint8Array.from(atob(script.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function sums(differences) {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
}

async function addEvents(events) {
  const block = events.querySelector("script");
  if (!block) return;
  const found = await unpack(block);
  const rowsBefore = sums(found.rows), times = sums(found.ms), latest = new Map();
  const body = events.querySelector("tbody");
  const rows = [...body.rows];
  const whole = document.createDocumentFragment();
  let next = 0;
  for (const [place, ms] of times.entries()) {
    while (next < rowsBefore[place]) whole.append(rows[next++]);
    const subject = found.subject[place], after = found.after[place];
    const before = found.before[place] === null ? latest.get(subject) : found.before[place];
    latest.set(subject, after);
    const texts = [(ms / 1000).toFixed(3), found.who[place], found.what[place], subject, [before, after].filter(Boolean).join(" → ")];
    whole.append(make("tr", { class: found.kinds[place] }, ...texts.map((text) => make("td", {}, text))));
  }
  whole.append(...rows.slice(next));
  body.replaceChildren(whole);
}

// The moment: a line through the chart, its events, and the znode tree as of then.

function treeAt(found, moment) {
  const tree = new Map(found.start.map(([path, data]) => [path, data]));
  const marks = new Map();
  const [moments, paths, begins, ends, texts] = found.changes;
  for (let place = 0; place < moments.length && moments[place] <= moment; place++) {
    const at = moments[place], path = paths[place], begin = begins[place], end = ends[place], between = texts[place];
    const before = tree.get(path);
    if (begin < 0) {
      tree.delete(path);
      if (at === moment) marks.set(path, "gone");
      continue;
    }
    const old = [...(before || "")];
    tree.set(path, old.slice(0, begin).join("") + between + old.slice(old.length - end).join(""));
    if (at === moment && marks.get(path) !== "new") marks.set(path, before === undefined ? "new" : "set");
  }
  return [tree, marks];
}

function showTree(list, found, moment) {
  const [tree, marks] = treeAt(found, moment);
  const places = [...new Set([...tree.keys(), ...[...marks.keys()]])];
  const parts = new Map(places.map((place) => [place, found.paths[place].split("/")]));
  const order = (a, b) => {
    const [one, other] = [parts.get(a), parts.get(b)];
    for (let at = 0; at < Math.min(one.length, other.length); at++) {
      if (one[at] !== other[at]) return compare(/^\d+$/.test(one[at]) ? Number(one[at]) : one[at], /^\d+$/.test(other[at]) ? Number(other[at]) : other[at]);
    }
    return one.length - other.length;
  };
  const lines = places.sort(order).filter((place) => found.paths[place] !== "/").map((place) => {
    const path = found.paths[place], names = parts.get(place);
    const line = make("li", { class: tree.has(place) ? marks.get(place) || "old" : "gone", title: path }, names[names.length - 1], " ");
    line.style.setProperty("--depth", names.length - 2);
    line.append(make("span", {}, tree.get(place) || ""));
    return line;
  });
  list.replaceChildren(...lines);
}

async function moments(box) {
  const chart = document.getElementById(box.dataset.chart);
  const found = await unpack(box.querySelector("script"));
  found.moments = sums(found.moments);
  found.changes[0] = sums(found.changes[0]);
  const slider = box.querySelector("input"), said = box.querySelector("output"), list = box.querySelector(".tree");
  const begin = Number(chart.dataset.begin), end = Number(chart.dataset.end);
  const cursor = element("line", { class: "cursor", y1: "0", y2: "100%" });
  chart.querySelector("svg.lines").append(cursor);
  const events = eventsOf(box);
  const rows = events ? [...events.querySelectorAll("tbody tr")] : [];
  const byTime = new Map();
  for (const row of rows) {
    const at = Math.round(1000 * Number(row.cells[0].textContent));
    byTime.set(at, [...(byTime.get(at) || []), row]);
  }
  let marked = [];
  const show = () => {
    const moment = Number(slider.value), at = found.moments[moment];
    const share = `${(100 * (at / 1000 - begin)) / (end - begin)}%`;
    cursor.setAttribute("x1", share);
    cursor.setAttribute("x2", share);
    for (const row of marked) row.classList.remove("now");
    marked = byTime.get(at) || [];
    for (const row of marked) row.classList.add("now");
    const what = marked.map((row) => [...row.cells].slice(1, 4).map((cell) => cell.textContent).filter(Boolean).join(" "));
    const more = what.length > 3 ? `, and ${what.length - 3} more` : "";
    said.textContent = `${(at / 1000).toFixed(3)} s  ${what.slice(0, 3).join("; ")}${more}`;
    slider.setAttribute("aria-valuetext", said.textContent);
    if (!list) return;
    if (found.until !== null && at >= found.until) {
      list.replaceChildren(make("li", { class: "old" }, `Changes of znodes are left out from ${(found.until / 1000).toFixed(3)} s on.`));
    } else showTree(list, found, moment);
  };
  const go = (at) => {
    let best = 0;
    for (const [place, time] of found.moments.entries()) if (Math.abs(time - at) < Math.abs(found.moments[best] - at)) best = place;
    slider.value = best;
    show();
  };
  slider.addEventListener("input", show);
  chart.querySelector(".wide").addEventListener("click", (event) => {
    const plot = chart.querySelector("svg.lines").getBoundingClientRect();
    if (event.clientX >= plot.left) go(1000 * (begin + ((event.clientX - plot.left) / plot.width) * (end - begin)));
  });
  for (const row of rows) row.addEventListener("click", () => go(1000 * Number(row.cells[0].textContent)));
  box.hidden = false;
  show();
}

function eventsOf(box) {
  let at = box;
  while (at && !at.classList.contains("events")) at = at.nextElementSibling;
  return at;
}

async function begin() {
  const all = [...document.querySelectorAll(".events")];
  for (const events of all) await addEvents(events);
  const boxes = [...document.querySelectorAll(".moment")];
  for (const box of boxes) await moments(box);
  for (const events of all) {
    const box = boxes.find((one) => eventsOf(one) === events);
    filters(events, box && document.getElementById(box.dataset.chart));
  }
  for (const table of document.querySelectorAll("table")) equip(table);
  document.documentElement.dataset.ready = "yes";
}

begin();
