// The page works without this script: then it reloads every ten seconds. With it, changed rows are replaced, times
// count, the log is live, and keys move the focus.
"use strict";

const $ = (selector, from = document) => from.querySelector(selector);
const main = $("#main");

// --- Times ---------------------------------------------------------------------------------------------------------

const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

// span writes seconds in their largest unit: 3m.
function span(seconds) {
  const [unit, size] = units.find(([, size]) => seconds >= size) || units[3];
  return Math.floor(seconds / size) + unit;
}

let stale = false; // not live: then nothing counts

function countTimes() {
  if (stale) return;
  const now = Date.now();
  for (const t of document.querySelectorAll("time[datetime]")) {
    const ago = (now - Date.parse(t.dateTime)) / 1000, is = (name) => t.classList.contains(name);
    let text = ago >= 0 ? span(ago) : "in " + span(-ago);
    if (is("since") && ago >= 0) text = "for " + text;
    else if (is("until") && ago < 0) text = "for " + span(-ago);
    else if (is("in") && ago >= 0) text += " ago";
    if (!t.title) t.title = new Date(t.dateTime).toLocaleString();
    if (t.textContent !== text) t.textContent = text;
  }
  for (const bar of document.querySelectorAll("rect[data-usual]")) {
    const share = 100 * (now / 1000 - bar.dataset.from) / bar.dataset.usual;
    bar.setAttribute("width", Math.max(1, Math.min(100, share)));
    bar.classList.toggle("over", share > 100);
  }
}
countTimes();
setInterval(countTimes, 1000);

// --- Live rows -----------------------------------------------------------------------------------------------------

const lamp = $("#live"), asOf = $("#as-of");
const silence = 15000; // the server says every five seconds that the page is current
let stream = null, heard = Date.now(), again = 0;

const clock = (time) => new Date(time).toISOString().slice(11, 19);

// live says that the page shows what is true now.
function live() {
  heard = Date.now();
  asOf.textContent = clock(heard);
  lamp.textContent = "Live";
  setStale(false);
}

// setStale says in one line that the page is old, stops what counts, and turns its commands off.
function setStale(is) {
  if (stale === is) return;
  stale = is;
  const since = clock(heard), banner = $("#stale");
  lamp.textContent = is ? "" : "Live";
  main.classList.toggle("stale", is);
  banner.hidden = !is;
  if (is) $("strong", banner).textContent = `Not connected since ${since}, showing ${since} UTC.`;
  disable();
}

// disable turns the buttons that command off or on.
function disable() {
  for (const b of document.querySelectorAll("form[method=post] button, button[form=do]")) b.disabled = stale;
}

function follow() {
  if (!("live" in main.dataset)) return;
  const query = new URLSearchParams(main.dataset.query);
  query.set("v", main.dataset.version);
  stream = new EventSource("/live" + main.dataset.path + "?" + query);
  stream.onmessage = (message) => {
    const update = JSON.parse(message.data);
    if (update.stale) return renew();
    live();
    if (!update.v) return;
    showNeeds(update.needs);
    (update.changes || []).forEach(apply);
    main.dataset.version = update.v;
    countTimes();
  };
  stream.onerror = lose;
}

// showNeeds writes the number of things that need a person into the navigation.
function showNeeds(n) {
  const hidden = document.createElement("span");
  hidden.className = "hidden";
  hidden.textContent = " need you";
  $("#needs-n").replaceChildren(...(n ? [String(n), hidden] : []));
}

// lose marks the page as old and tries to connect again.
function lose() {
  if (stream) stream.close();
  setStale(true);
  clearTimeout(again);
  again = setTimeout(renew, 3000);
}

setInterval(() => { if (stream && !stale && Date.now() - heard > silence) lose(); }, 1000);

// renew fetches the page and replaces the content.
async function renew() {
  if (stream) stream.close();
  clearTimeout(again);
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "Disinto-Renews": "1" }, signal: AbortSignal.timeout(silence) });
    if (answer.redirected && new URL(answer.url).pathname === "/signin") return location.assign(answer.url);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html"), fresh = $("#main", page);
    if (!fresh || answer.status >= 500) throw new Error("no page");
    const said = $("#said");
    if (said && said.textContent) $("#said", fresh).replaceWith(said);
    const log = $("#log");
    if (log && $("#log", fresh)) $("#log", fresh).replaceWith(log);
    if ($("#needs-n", page)) $("#needs-n").replaceWith($("#needs-n", page));
    const place = focused(), typed = [...main.querySelectorAll("textarea[id], input[id]")].map((f) => [f.id, f.value]);
    main.replaceChildren(...fresh.childNodes);
    for (const [id, value] of typed) if ($("#" + id, main)) $("#" + id, main).value = value;
    for (const name of ["version", "query", "path"]) main.dataset[name] = fresh.dataset[name];
    stale = true; // the new banner is hidden, and the buttons of the head may be off
    live();
    countTimes();
    restore(place);
    follow();
  } catch {
    lose();
  }
}

addEventListener("click", (e) => { if (e.target.closest("#stale button")) renew(); });

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
      row = document.createElement(rows.tagName === "TBODY" ? "tr" : "li");
      row.dataset.row = id;
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
  disable();
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

const longest = 500000; // characters of a phase that are kept

// The built-in program says when it starts the agent and when it hands its work in. What comes before is preparation.
const phases = [[/^starting \w+/, "Run the agent"], [/^pushing \S+, \d+ (ahead|commits)/, "Hand in"]];
const timed = /^((?:\w{3} \d\d )?\d\d:\d\d:\d\d) /;

// phase adds a part of the log that can be folded, and folds the one before it.
function phase(log, name) {
  const part = document.createElement("details"), summary = document.createElement("summary");
  const pre = document.createElement("pre");
  for (const before of log.children) before.open = false;
  part.open = true;
  summary.textContent = name;
  pre.className = "log";
  pre.tabIndex = 0;
  pre.setAttribute("role", "group"); // without a role, a label is not allowed
  pre.setAttribute("aria-label", name);
  part.append(summary, pre);
  log.append(part);
  return pre;
}

async function followLog() {
  const log = $("[data-log]"), text = new TextDecoder();
  if (!log) return;
  let pre = phase(log, "Output"), rest = "", first = "", at = "";
  // The heading of a phase says from when to when it ran.
  const name = (words) => { $("summary", pre.parentElement).textContent = words + (at ? ` · ${first} to ${at}` : ""); };
  let words = "Output";
  try {
    const answer = await fetch(log.dataset.log + "&follow");
    const reader = answer.body.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      const lines = (rest + (done ? "" : text.decode(value, { stream: true }))).split("\n");
      rest = lines.pop();
      if (done && rest) lines.push(rest);
      const below = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
      let added = "";
      const show = () => { pre.textContent = (pre.textContent + added).slice(-longest); added = ""; name(words); };
      for (const line of lines) {
        const time = (line.match(timed) || [])[1] || "", next = phases.find(([start]) => start.test(line.replace(timed, "")));
        if (next && next[1] !== words) {
          words = words === "Output" ? "Prepare" : words;
          show();
          pre = phase(log, words = next[1]);
          first = at = "";
        }
        first ||= time;
        at = time || at;
        added += line + "\n";
      }
      show();
      if (below) pre.scrollTop = pre.scrollHeight;
      if (done) return;
    }
  } catch {
    pre.textContent += "\nnot connected\n";
  }
}
followLog();

// --- The keyboard -----------------------------------------------------

let afterG = false;

addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  if (afterG) {
    afterG = false;
    const link = [...document.querySelectorAll("nav a[data-key]")].find((a) => a.dataset.key === e.key);
    if (link) link.click();
  } else if (e.key === "g") {
    afterG = true;
  } else if (e.key === "?") {
    $("#help").showModal();
  } else if (e.key === "/") {
    e.preventDefault();
    $("#q").focus();
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

// A menu closes when something else is clicked, and with Escape.
addEventListener("click", (e) => closeMenus(e.target));
addEventListener("keydown", (e) => { if (e.key === "Escape") closeMenus(null); });

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!except || !menu.contains(except)) menu.open = false;
  }
}
