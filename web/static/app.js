// Live updates, keys and small comforts. Every page works without this module.

const html = document.documentElement;
html.dataset.scripts = "true";
const refresh = Number(document.body.dataset.refresh);
const byId = (id) => document.getElementById(id);

// --- live updates: the page is asked for again, and what differs is mended in place -------------------------------

// Only what the server draws anew is touched; what the reader has opened, typed or chosen stays.
function mend(from, to) {
  if (from.isEqualNode(to)) return;
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || (from.id || "") !== (to.id || "")) {
    from.replaceWith(to.cloneNode(true));
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.matches("input, select, textarea")) return;
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !["open", "hidden", "tabindex"].includes(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (name !== "hidden" && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  const kept = [...from.childNodes], wanted = [...to.childNodes];
  wanted.forEach((node, i) => (i < kept.length ? mend(kept[i], node) : from.append(node.cloneNode(true))));
  kept.slice(wanted.length).forEach((node) => node.remove());
}

let stale = false;

function sayStale(text) {
  stale = true;
  html.dataset.stale = "true";
  const line = byId("evidence");
  line.className = "evidence warn";
  line.textContent = "! " + text;
}

const shownAt = () => new Date().toLocaleTimeString([], { hour12: false });
let last = shownAt();

const patience = 15_000; // milliseconds until an answer counts as none

async function update() {
  let answer, text;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(patience) });
    text = await answer.text();
  } catch {
    sayStale(`the auditor does not answer: this page is from ${last}`);
    return;
  }
  const onProblem = document.querySelector(".problem") !== null;
  if (answer.type === "opaqueredirect") return;
  if (!answer.ok && !onProblem) {
    sayStale(`the store does not answer: this page is from ${last}`);
    return;
  }
  const next = new DOMParser().parseFromString(text, "text/html");
  if (!next.getElementById("main")) return;
  document.title = next.title;
  for (const selector of ["#evidence", "#main", ".rail nav"]) mend(document.querySelector(selector), next.querySelector(selector));
  stale = false;
  delete html.dataset.stale;
  last = shownAt();
  comforts();
  document.dispatchEvent(new Event("auditor:updated"));
}

// One question at a time; none while nobody looks, or while text is being marked.
async function keepFresh() {
  const marking = String(getSelection()) !== "";
  try {
    if (!document.hidden && !marking) await update();
  } finally {
    setTimeout(keepFresh, refresh);
  }
}

if (refresh > 0) setTimeout(keepFresh, refresh);

// --- keys ----------------------------------------------------------------------------------------------------------

const typing = (target) => target.closest("input, select, textarea, [contenteditable]") !== null;
const rows = () => [...document.querySelectorAll("[data-row]")];

function step(by) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  const target = next.matches("summary") ? next : next.querySelector("a.title, a") ?? next;
  if (target === next && !next.matches("summary")) next.tabIndex = -1;
  target.focus();
  next.scrollIntoView({ block: "nearest" });
}

let going = -Infinity; // when g was pressed

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing(event.target)) event.target.blur();
  if (typing(event.target)) return;
  if (event.timeStamp - going < 1500) {
    going = -Infinity;
    const entry = document.querySelector(`.rail [data-key="${CSS.escape(event.key)}"]`);
    if (entry) {
      event.preventDefault();
      entry.click();
    }
    return;
  }
  const act = {
    "/": () => { byId("search").focus(); byId("search").select(); },
    "?": () => byId("keys").showModal(),
    j: () => step(1),
    k: () => step(-1),
    g: () => { going = event.timeStamp; },
  }[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

byId("keys-button").hidden = false;
byId("keys-button").addEventListener("click", () => byId("keys").showModal());

// --- comforts ------------------------------------------------------------------------------------------------------

// The theme changes at once, and is remembered by the same cookie that the form sets.
document.querySelector(".theme").addEventListener("submit", (event) => {
  event.preventDefault();
  const theme = event.submitter.value;
  html.dataset.theme = theme;
  document.cookie = `auditor_theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  for (const button of event.currentTarget.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.value === theme));
});

document.addEventListener("change", (event) => {
  const form = event.target.closest(".filters");
  if (form && event.target.matches("select")) form.requestSubmit();
});

// Addresses of lists are shared by people: what is not chosen does not stand in them.
document.addEventListener("submit", (event) => {
  if (!event.target.matches(".filters")) return;
  for (const field of event.target.elements) if (field.name && field.value === "") field.disabled = true;
});
addEventListener("pageshow", () => document.querySelectorAll(".filters :disabled").forEach((field) => { field.disabled = false; }));

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "copied";
});

function comforts() {
  if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
}
comforts();

// An event that is linked to shows its raw form.
function openTarget() {
  const target = location.hash ? byId(decodeURIComponent(location.hash.slice(1))) : null;
  target?.closest("details.section")?.setAttribute("open", "");
  const details = target?.querySelector(":scope > details");
  if (details) {
    details.open = true;
    target.scrollIntoView({ block: "center" });
  }
}
addEventListener("hashchange", openTarget);
openTarget();
