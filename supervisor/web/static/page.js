// The page works without this script: then it reloads every ten seconds. With it, changed rows are replaced, times
// count, the log is live, and keys move the focus.
"use strict";

const $ = (selector, from = document) => from.querySelector(selector);
const main = $("#main");

// --- Times ---------------------------------------------------------------------------------------------------------

const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

// span writes seconds in their two largest units: 3m12s.
function span(seconds) {
  let text = "", left = Math.max(0, Math.floor(seconds));
  for (const [unit, size] of units) {
    const n = Math.floor(left / size);
    if (n > 0 || unit === "s" && text === "") {
      const follows = text !== "";
      text += n + unit;
      left -= n * size;
      if (follows) break;
    } else if (text !== "") break;
  }
  return text;
}

function countTimes() {
  const now = Date.now();
  for (const t of document.querySelectorAll("time[datetime]")) {
    const ago = (now - Date.parse(t.dateTime)) / 1000;
    const text = ago >= 0 ? span(ago) + " ago" : "in " + span(-ago);
    if (!t.title) t.title = new Date(t.dateTime).toLocaleString();
    if (t.textContent !== text) t.textContent = text;
  }
}
countTimes();
setInterval(countTimes, 1000);

// --- Live rows -----------------------------------------------------------------------------------------------------

const lamp = $("#live");
let stream = null;

function follow() {
  if (!("live" in main.dataset)) return;
  const query = new URLSearchParams(main.dataset.query);
  query.set("v", main.dataset.version);
  stream = new EventSource("/live" + main.dataset.path + "?" + query);
  stream.onopen = () => { lamp.textContent = "live"; };
  stream.onmessage = (message) => {
    const update = JSON.parse(message.data);
    if (update.stale) return renew();
    update.changes.forEach(apply);
    main.dataset.version = update.v;
    countTimes();
  };
  stream.onerror = () => {
    stream.close();
    lamp.textContent = "not connected, retrying";
    setTimeout(renew, 3000);
  };
}

// renew fetches the page and replaces the content.
async function renew() {
  if (stream) stream.close();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected && new URL(answer.url).pathname === "/signin") return location.assign(answer.url);
    const fresh = $("#main", new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (!fresh) throw new Error("no page");
    const said = $("#said");
    if (said && said.textContent) $("#said", fresh).replaceWith(said);
    const log = $("#log");
    if (log && $("#log", fresh)) $("#log", fresh).replaceWith(log);
    const place = focused();
    main.replaceChildren(...fresh.childNodes);
    for (const name of ["version", "query", "path"]) main.dataset[name] = fresh.dataset[name];
    countTimes();
    restore(place);
    follow();
  } catch {
    lamp.textContent = "not connected, retrying";
    setTimeout(renew, 5000);
  }
}

// apply makes one change to a section.
function apply(change) {
  const section = document.getElementById(change.section);
  if (!section) return;
  if (change.note !== undefined) $("h2 small", section).textContent = change.note;
  const rows = $("[data-rows]", section);
  if (!rows) return;
  const place = focused();
  const by = new Map([...rows.children].map((row) => [row.dataset.row, row]));
  for (const [id, html] of Object.entries(change.rows || {})) {
    let row = by.get(id);
    if (!row) {
      row = document.createElement(rows.tagName === "TBODY" ? "tr" : "div");
      row.dataset.row = id;
      if (row.tagName === "DIV") row.className = "row";
      by.set(id, row);
      if (!change.order) rows.append(row);
    }
    const open = [...row.querySelectorAll("details")].map((d) => d.open);
    row.innerHTML = html; // the server's own markup, in which text is escaped
    row.querySelectorAll("details").forEach((d, i) => { if (open[i]) d.open = true; });
    row.classList.remove("fresh");
    void row.offsetWidth; // restarts the animation
    row.classList.add("fresh");
  }
  if (change.order) rows.replaceChildren(...change.order.map((id) => by.get(id)).filter(Boolean));
  restore(place);
}

// focused returns the place of the focus, and restore sets it again after rows were replaced.
function focused() {
  const row = document.activeElement && document.activeElement.closest("[data-row]");
  return row && { rows: row.parentElement.dataset.rows, row: row.dataset.row, href: document.activeElement.getAttribute("href") };
}

function restore(place) {
  if (!place) return;
  const row = document.querySelector(`[data-rows="${CSS.escape(place.rows)}"] > [data-row="${CSS.escape(place.row)}"]`);
  const link = row && [...row.querySelectorAll("a")].find((a) => a.getAttribute("href") === place.href);
  if (link && link !== document.activeElement) link.focus({ preventScroll: true });
}

follow();
addEventListener("pagehide", () => stream && stream.close());

// --- The log -------------------------------------------------------------------------------------------------------

const longest = 500000; // characters that are kept

async function followLog() {
  const section = $("#log");
  if (!section) return;
  const pre = $("pre", section), text = new TextDecoder();
  try {
    const answer = await fetch(section.dataset.log + "&follow");
    const reader = answer.body.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const below = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
      pre.textContent = (pre.textContent + text.decode(value, { stream: true })).slice(-longest);
      if (below) pre.scrollTop = pre.scrollHeight;
    }
  } catch {
    pre.textContent += "\nnot connected\n";
  }
}
followLog();

// --- The keyboard, and confirmations -----------------------------------------------------

let afterG = false;

addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  if (afterG) {
    afterG = false;
    const link = [...document.querySelectorAll("nav a[data-key]")].find((a) => a.dataset.key === e.key);
    if (link) link.click();
  } else if (e.key === "g") {
    afterG = true;
  } else if (e.key === "/") {
    e.preventDefault();
    $("#ref").focus();
  } else if (e.key === "j" || e.key === "k") {
    step(e.key === "j" ? 1 : -1);
  }
});

// step moves to the link of the next or the previous row.
function step(by) {
  const links = [...main.querySelectorAll("[data-row]")].map((row) => $("a, summary", row)).filter(Boolean);
  const here = document.activeElement.closest("[data-row]");
  const at = here ? links.findIndex((a) => here.contains(a)) : by > 0 ? -1 : 0;
  const next = links[(at + by + links.length) % links.length];
  if (next) next.focus();
}

addEventListener("submit", (e) => {
  const sure = e.submitter && e.submitter.dataset.sure;
  if (sure && !confirm(sure)) e.preventDefault();
});
