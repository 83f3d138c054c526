// Keeps the page current: by server-sent events, or by polling every 5 seconds if these do not arrive.
// All addresses are relative, so the page works below any prefix. The server sends parts that are already escaped.
"use strict";

const POLL = 5000, TYPING = 200;
const live = document.getElementById("live");
const shown = new Map();
let asking = false, again = false, timer = 0;

const form = () => document.querySelector("form[data-listing]");

function query() {
  const given = new URLSearchParams(location.search);
  const here = form();
  if (here) {
    given.set("search", here.elements.search.value);
    if (here.elements.state) given.set("state", here.elements.state.value);
  }
  return given;
}

async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const answer = await fetch("live.json?" + query(), { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    const found = await answer.json();
    document.title = found.title;
    for (const [name, html] of Object.entries(found.parts)) put(name, html);
    say("live", "");
  } catch {
    say("the job does not respond; this page is stale", "bad");
  } finally {
    asking = false;
    if (again) { again = false; refresh(); }
  }
}

function put(name, html) {
  const place = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
  // A selected part is not replaced: the user may be about to copy it.
  if (!place || shown.get(name) === html || selects(place)) return;
  const focus = place.contains(document.activeElement) ? [...place.querySelectorAll("a, button, [tabindex]")].indexOf(document.activeElement) : -1;
  const scrolled = place.querySelector(".grid")?.scrollLeft;
  shown.set(name, html);
  place.innerHTML = html;
  addCopy(place);
  if (scrolled) place.querySelector(".grid")?.scrollTo(scrolled, 0);
  if (focus >= 0) place.querySelectorAll("a, button, [tabindex]")[focus]?.focus({ preventScroll: true });
}

function selects(place) {
  const chosen = getSelection();
  return chosen && !chosen.isCollapsed && place.contains(chosen.anchorNode);
}

function say(text, tone) {
  live.hidden = false;
  live.textContent = text;
  live.className = "live " + tone;
}

function addCopy(place) {
  if (!navigator.clipboard) return;
  for (const code of place.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    });
    code.after(button);
  }
}

function go(offset) {
  const asked = query();
  asked.set("offset", offset);
  history.replaceState(null, "", "?" + asked + "#tables");
  refresh();
}

function poll() {
  clearInterval(timer);
  timer = setInterval(() => { if (!document.hidden) refresh(); }, POLL);
}

function listen() {
  if (!window.EventSource) { poll(); return; }
  const events = new EventSource("events");
  events.onopen = () => clearInterval(timer);
  events.onmessage = () => { if (!document.hidden) refresh(); };
  // The browser retries by itself, unless it was refused. Until then the page polls.
  events.onerror = () => { poll(); refresh(); };
}

function step(by) {
  const heads = [...document.querySelectorAll("main h2")];
  const at = heads.indexOf(document.activeElement);
  const head = heads[Math.min(heads.length - 1, Math.max(0, at < 0 && by < 0 ? 0 : at + by))];
  head?.focus();
  head?.scrollIntoView({ block: "start" });
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && typing) { typing.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); form()?.elements.search.focus(); }
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "n" || event.key === "p") document.querySelector(`.pages [rel=${event.key === "n" ? "next" : "prev"}]`)?.click();
});
document.addEventListener("click", (event) => {
  const page = event.target.closest("a[data-offset]");
  if (page) { event.preventDefault(); go(page.dataset.offset); }
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
const search = form();
if (search) {
  let wait = 0;
  search.addEventListener("submit", (event) => { event.preventDefault(); go(0); });
  search.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(() => go(0), TYPING); });
  search.querySelector("button").hidden = true;
}
addCopy(document);
listen();
