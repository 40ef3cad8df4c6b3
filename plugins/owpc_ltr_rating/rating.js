"use strict";
const $ = (id) => document.getElementById(id);
const sheet = JSON.parse($("sheet").textContent);
const GROUPS = sheet.raters.length;
let rater = "", tasks = [], history = [], at = null, shownAt = 0, highlighted = false;
const memory = new Map();

// One entry of the browser's storage for each answer: two tabs never overwrite one another.
const name = (task) => `owpc-ltr/${sheet.digest}/${rater}/${task.pair}/${task.repeat ? 1 : 0}`;
function load(task) {
  try { return JSON.parse(localStorage.getItem(name(task))) ?? memory.get(name(task)) ?? null; }
  catch { return memory.get(name(task)) ?? null; }
}
function save(task, answer) {
  memory.set(name(task), answer);
  try {
    localStorage.setItem(name(task), JSON.stringify(answer));
  } catch {
    warn("This browser keeps no answers: export them before you close the page.");
  }
  send(task, answer);
}
const answered = (task) => { const answer = load(task); return answer !== null && !answer.undone; };
function warn(text) { $("trouble").textContent = text; $("trouble").hidden = !text; }

// The order is drawn by rater, so that it is the same after a reload.
function seeded(text) {
  let h = 1779033703 ^ text.length;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 3432918353), h = (h << 13) | (h >>> 19);
  return () => {
    h = (h + 0x6d2b79f5) | 0;
    let t = Math.imul(h ^ (h >>> 15), 1 | h);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
function shuffled(items, random) {
  const drawn = [...items];
  for (let i = drawn.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [drawn[i], drawn[j]] = [drawn[j], drawn[i]];
  }
  return drawn;
}
function byQuery(pairs, random) {
  const queries = new Map();
  for (const pair of pairs) {
    const id = sheet.pairs[pair].query_id;
    queries.set(id, [...(queries.get(id) ?? []), pair]);
  }
  return shuffled([...queries.values()], random).flatMap((own) => shuffled(own, random));
}
function assigned() {
  const random = seeded(`${sheet.digest}/${rater}`), group = sheet.raters.indexOf(rater), queries = new Map();
  const own = sheet.pairs.map((_, pair) => pair).filter((pair) => {
    const id = sheet.pairs[pair].query_id;
    if (!queries.has(id)) queries.set(id, queries.size);
    return group < 0 || queries.get(id) % GROUPS === group || (sheet.overlap > 0 && pair % sheet.overlap === 0);
  });
  const order = byQuery(own, random).map((pair) => ({ pair, repeat: false }));
  const again = own.length < 20 ? [] : shuffled(own, random).slice(0, Math.ceil(own.length * sheet.repeat));
  return [...order, ...byQuery(again, random).map((pair) => ({ pair, repeat: true }))];
}

function line(task, answer) {
  const pair = sheet.pairs[task.pair];
  const { grade = null, reason, seconds, undone } = answer;
  return {
    sheet: sheet.digest, judged_by: rater, query_id: pair.query_id, query: pair.query, doc_id: pair.doc_id, grade,
    ...(reason ? { reason } : {}), ...(task.repeat ? { repeat: true } : {}), seconds, ...(undone ? { undone } : {}),
  };
}
const lines = () => tasks.filter(answered).map((task) => JSON.stringify(line(task, load(task))) + "\n").join("");
function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines()], { type: "application/x-ndjson" }));
  link.download = `ratings-${rater.replace(/[^\p{L}\p{N}]+/gu, "-")}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Where the page is served, each answer goes to the service, and again later where that failed.
let sending = Promise.resolve();
function send(task, answer) {
  if (!sheet.served || answer.sent) return;
  sending = sending.then(async () => {
    const stored = load(task);
    if (stored === null || stored.sent || JSON.stringify(stored) !== JSON.stringify(answer)) return;
    try {
      const response = await fetch("answers", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(line(task, answer)),
      });
      if (!response.ok) throw new Error(await response.text());
      if (JSON.stringify(load(task)) !== JSON.stringify(answer)) return;
      const sent = JSON.stringify({ ...answer, sent: true });
      memory.set(name(task), JSON.parse(sent));
      try { localStorage.setItem(name(task), sent); } catch { /* kept in memory */ }
      warn("");
    } catch (error) {
      warn(`The service does not take answers (${error.message}): they are kept here, and sent again.`);
    }
  });
}
function sendAll() {
  for (const task of tasks) { const answer = load(task); if (answer !== null) send(task, answer); }
}

function marked(text) {
  const words = sheet.pairs[at.pair].query.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const parts = text.split(/([\p{L}\p{N}]+)/u);
  return parts.map((part) => {
    if (!highlighted || !words.includes(part.toLowerCase())) return document.createTextNode(part);
    const mark = document.createElement("mark");
    mark.textContent = part;
    return mark;
  });
}
function show() {
  const open = tasks.filter((task) => !answered(task));
  at = open[0] ?? null;
  const rated = tasks.length - open.length;
  $("progress").max = tasks.length;
  $("progress").value = rated;
  $("place").textContent = `${rated} of ${tasks.length} rated`;
  $("work").hidden = at === null;
  $("done").hidden = at !== null;
  if (at === null) { $("done-title").focus(); return; }
  const pair = sheet.pairs[at.pair];
  $("query").textContent = pair.query;
  $("need-box").hidden = !pair.need;
  $("need").textContent = pair.need;
  draw();
  shownAt = performance.now();
  $("query").focus({ preventScroll: true });
  scrollTo(0, 0);
}
function draw() {
  const pair = sheet.pairs[at.pair];
  const entries = Object.entries(pair.fields).filter(([, text]) => text);
  $("fields").replaceChildren(...(entries.length ? entries : [["doc_id", pair.doc_id]]).flatMap(([field, text]) => {
    const term = document.createElement("dt"), value = document.createElement("dd");
    term.textContent = field;
    if (sheet.images.includes(field) && /^https?:/i.test(text)) {
      const image = document.createElement("img");
      image.src = text;
      image.alt = `${field} of the document`;
      value.append(image);
    } else value.append(...marked(text));
    return [term, value];
  }));
}
function answer(content) {
  const seconds = Math.round((performance.now() - shownAt) / 100) / 10;
  history.push(at);
  save(at, { ...content, seconds });
  show();
}
function undo() {
  const last = history.pop();
  if (last === undefined) return;
  save(last, { undone: true, seconds: 0 });
  show();
}
const grade = (value) => answer({ grade: value });
function later() { tasks = [...tasks.filter((task) => task !== at), at]; show(); }
function highlight() {
  highlighted = !highlighted;
  $("highlight").setAttribute("aria-pressed", String(highlighted));
  draw();
}
function cannot() { $("reason").value = ""; $("why").showModal(); $("reason").focus(); }

function begin(chosen) {
  rater = chosen;
  tasks = assigned();
  history = tasks.filter(answered);
  $("start").hidden = true;
  $("export").disabled = false;
  try { localStorage.setItem(`owpc-ltr/${sheet.digest}/rater`, rater); } catch { /* asked again */ }
  show();
  if (sheet.served) { sendAll(); setInterval(sendAll, 15000); }
}
$("who").addEventListener("submit", (event) => {
  event.preventDefault();
  begin(GROUPS ? $("raters").value : $("rater").value.trim());
});
$("why-form").addEventListener("submit", () => answer({ grade: null, reason: $("reason").value.trim() }));
$("why-cancel").addEventListener("click", () => $("why").close());
for (const id of ["export", "export-done"]) $(id).addEventListener("click", download);
for (const id of ["undo", "undo-done"]) $(id).addEventListener("click", undo);
$("later").addEventListener("click", later);
$("unrateable").addEventListener("click", cannot);
$("highlight").addEventListener("click", highlight);
$("help").addEventListener("click", () => $("manual").showModal());
addEventListener("storage", () => { if (rater && at !== null && answered(at)) show(); });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select")) return;
  if (event.key === "?") { $("manual").showModal(); return; }
  if (event.key === "Backspace" && rater) { event.preventDefault(); undo(); return; }
  if (!rater || at === null || event.repeat) return;
  const value = Number(event.key);
  if (/^[0-9]$/.test(event.key) && value < sheet.scale.length) grade(value);
  else if (event.key === "s") later();
  else if (event.key === "u") { event.preventDefault(); cannot(); }
  else if (event.key === "h") highlight();
});

sheet.scale.forEach((words, value) => {
  const button = document.createElement("button");
  button.type = "button";
  button.innerHTML = `<kbd>${value}</kbd> `;
  button.append(words);
  button.addEventListener("click", () => grade(value));
  $("grades").append(button);
  const item = document.createElement("li");
  item.append(`${value}: ${words}`);
  $("scale").append(item);
});
$("guidelines").textContent = sheet.guidelines;
$("export").disabled = true;
if (GROUPS) {
  $("rater").remove();
  document.querySelector("label[for=rater]").htmlFor = "raters";
  $("raters").hidden = false;
  $("raters").removeAttribute("aria-label");
  for (const one of sheet.raters) $("raters").append(new Option(one, one));
  $("raters").focus();
} else {
  $("rater").focus();
  try { $("rater").value = localStorage.getItem(`owpc-ltr/${sheet.digest}/rater`) ?? ""; } catch { /* typed */ }
}
