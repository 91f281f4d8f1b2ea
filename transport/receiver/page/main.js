// What    The page: reads the address (#runs, #run=ID&metric=M), asks, fills in. Text from the store is only ever set as text.

import { ask, Denied, metrics, setToken, takeTokenFromAddress } from "/page/query.js";
import * as questions from "/page/questions.js";
import { drawBand, drawTrace } from "/page/curve.js";
import { HeatMap } from "/page/heatmap.js";

const REFRESH_MS = 5000;
const CURVE_BUCKETS = 800;
const HEAT_COLUMNS = 300;
const HEAT_LINES = 200;
const HEAT_POINTS_MAX = 20e6; // beyond that the range starts later; a heat map must not hold up the store

const $ = (id) => document.getElementById(id);
const count = (n) => Number(n).toLocaleString("en");
const view = { run: "", metric: "", metrics: [], lo: 0, hi: 0, chosen: false, env: null, cancel: null };

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function fill(body, rows, numeric = [], decorate = () => {}) {
  if (rows.length === 0) rows = [["none"]];
  $(body).replaceChildren(...rows.map((row) => {
    const tr = document.createElement("tr");
    row.forEach((value, i) => {
      const td = tr.insertCell();
      td.textContent = value === null ? "" : numeric.includes(i) && value !== "none" ? count(value) : value;
      if (numeric.includes(i)) td.className = "n";
      decorate(td, i, value, row);
    });
    return tr;
  }));
}

function show(section) {
  for (const id of ["ask", "runs", "run"]) $(id).hidden = id !== section;
}

const addressOf = (run, metric) => "#" + new URLSearchParams(metric ? { run, metric } : { run });

// Runs a question of the current view; an answer to a view that is gone is dropped.
async function asking(work) {
  try {
    await work();
    notice("");
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error instanceof Denied) {
      show("ask");
      $("token").focus();
      if (sessionStorage.length) notice(error.message);
      return;
    }
    notice(error.message);
  }
}

let knownRuns = [];
function drawRuns() {
  const wanted = $("filter").value.toLowerCase();
  fill("run-rows", knownRuns.filter((r) => !wanted || (r[0] + " " + r[1]).toLowerCase().includes(wanted)), [3], (td, i, value, row) => {
    if (i === 2) td.className = value;
    if (i !== 0 || row.length === 1) return;
    const a = document.createElement("a");
    a.href = addressOf(row[0]);
    a.textContent = value;
    td.replaceChildren(a);
  });
}

async function openRuns() {
  view.run = "";
  knownRuns = await ask(questions.runs);
  drawRuns();
  fill("agent-rows", await ask(questions.agents), [2]);
  show("runs");
}

function drawMetrics() {
  const wanted = $("metric-filter").value.toLowerCase();
  $("metrics").replaceChildren(...view.metrics.filter((m) => !wanted || m[0].toLowerCase().includes(wanted)).map((m) => {
    const a = document.createElement("a");
    a.href = addressOf(view.run, m[0]);
    a.textContent = m[0];
    if (m[0] === view.metric) a.setAttribute("aria-current", "true");
    const li = document.createElement("li");
    li.append(a);
    return li;
  }));
}

async function openRun(run, metric) {
  const other = run !== view.run;
  view.run = run;
  if (other) [view.chosen, view.metrics, view.env] = [false, [], null];
  view.metrics = await ask(questions.metricsOf, { run });
  const found = view.metrics.find((m) => m[0] === metric) || view.metrics[0];
  view.metric = found ? found[0] : "";
  $("run-title").textContent = run;
  $("prove").textContent = "tallyman reconcile " + run;
  drawMetrics();
  show("run");
  await Promise.all([drawFacts(run), found ? drawPanels(found) : clearPanels()]);
}

async function drawFacts(run) {
  const [producers, gaps, events] = await Promise.all([ask(questions.producersOf, { run }), ask(questions.gapsOf, { run }), ask(questions.eventsOf, { run })]);
  fill("producer-rows", producers, [6], (td, i, value) => { if (i === 5) td.className = value; });
  fill("gap-rows", gaps, [1, 2, 3, 4]);
  fill("event-rows", events);
  const logged = producers.reduce((sum, p) => sum + Number(p[6]), 0);
  const lost = gaps.reduce((sum, g) => sum + Number(g[2]), 0);
  const facts = [["points in the ledger", count(logged)], ["declared lost", count(lost)], ["metrics", count(view.metrics.length)], ["producers", count(producers.length)]];
  $("run-facts").replaceChildren(...facts.map(([name, value]) => {
    const div = document.createElement("div");
    div.appendChild(document.createElement("dt")).textContent = name;
    div.appendChild(document.createElement("dd")).textContent = value;
    return div;
  }));
}

function clearPanels() {
  for (const id of ["curve", "trace"]) $(id).replaceChildren();
  for (const id of ["curve-title", "heat-title", "trace-title"]) $(id).textContent = "";
  $("curve-title").textContent = "No points yet";
}

let heatMap = null;
let heat = {};
async function drawPanels([metric, points, first, last, envs]) {
  if (!view.chosen) [view.lo, view.hi] = [Number(first), Number(last)];
  const { run, lo, hi } = view;
  [$("lo").value, $("hi").value] = [lo, hi];
  view.cancel?.abort();
  view.cancel = new AbortController();
  const signal = view.cancel.signal;
  const steps = hi - lo + 1;
  const band = await ask(questions.curve, { run, metric, lo, hi, width: Math.max(1, Math.ceil(steps / CURVE_BUCKETS)) }, signal);
  const nonfinite = band.reduce((sum, row) => sum + Number(row[4]), 0);
  $("curve-title").textContent = `${metric}: mean, min to max` + (nonfinite ? `; ${count(nonfinite)} values not finite` : "");
  drawBand($("curve"), band, (a, b) => choose(Math.floor(a), Math.ceil(b)));

  const perStep = Number(points) / Math.max(Number(last) - Number(first) + 1, 1);
  const heatLo = Math.max(lo, hi - Math.floor(HEAT_POINTS_MAX / Math.max(perStep, 1)));
  heat = { lo: heatLo, hi, width: Math.max(1, Math.ceil((hi - heatLo + 1) / HEAT_COLUMNS)), env_width: Math.max(1, Math.ceil(Number(envs) / HEAT_LINES)), envs: Number(envs) };
  $("heat").hidden = $("env-form").hidden = heat.envs < 2;
  $("heat-title").textContent = heat.envs < 2 ? "" : `${count(heat.envs)} environments x steps ${count(heatLo)} to ${count(hi)}`;
  $("heat-note").textContent = "";
  $("trace").replaceChildren();
  $("trace-title").textContent = "";
  if (heat.envs < 2) return;
  const rows = await ask(questions.heat, { run, metric, lo: heatLo, hi, width: heat.width, env_width: heat.env_width }, signal);
  const scale = heatMap.show(rows, Math.ceil((hi - heatLo + 1) / heat.width), Math.ceil(heat.envs / heat.env_width));
  if (rows.length) $("heat-note").textContent = `blue ${scale.low?.toPrecision(5) ?? "–"} to red ${scale.high?.toPrecision(5) ?? "–"}; grey: nothing finite; click or Enter opens an environment`;
  if (view.env !== null) await openTrace(view.env);
}

function pick(e, s, opened) {
  const cell = heatMap.cell(e, s);
  const env = e * heat.env_width;
  const last = Math.min(env + heat.env_width, heat.envs) - 1;
  const step = heat.lo + s * heat.width;
  $("heat-note").textContent = `environment ${env}${last > env ? " to " + last : ""}, step ${step}${heat.width > 1 ? " to " + (step + heat.width - 1) : ""}: ` +
    (cell ? (Number.isFinite(cell.mean) ? "mean " + cell.mean : "nothing finite") + (cell.bad ? `, ${cell.bad} not finite` : "") : "no value");
  if (opened) asking(() => openTrace(env));
}

async function openTrace(env) {
  view.env = env;
  $("env").value = env;
  const rows = await ask(questions.trace, { run: view.run, metric: view.metric, env, lo: view.lo, hi: view.hi });
  $("trace-title").textContent = `${view.metric}, environment ${env}: ${count(rows.length)} values` + (rows.length === 20000 ? " (the first; choose fewer steps for the rest)" : "");
  drawTrace($("trace"), rows);
}

function choose(lo, hi) {
  if (!Number.isSafeInteger(lo) || !Number.isSafeInteger(hi) || hi < lo) return notice("steps: two whole numbers, the lower one first");
  [view.lo, view.hi, view.chosen] = [lo, hi, true];
  asking(() => openRun(view.run, view.metric));
}

function open() {
  const where = new URLSearchParams(location.hash.slice(1));
  asking(() => (where.get("run") ? openRun(where.get("run"), where.get("metric")) : openRuns()));
}

let before = null;
async function drawRates() {
  try {
    const now = { at: performance.now(), ...(await metrics()) };
    const rate = (name) => (before ? ((now[name] - before[name]) * 1000) / (now.at - before.at) : 0);
    $("rate-sessions").textContent = count(now.tallyman_receiver_sessions ?? 0);
    $("rate-bytes").textContent = (rate("tallyman_receiver_bytes_total") / 1e6).toFixed(2) + " MB/s";
    $("rate-parcels").textContent = rate("tallyman_receiver_parcels_total").toFixed(1) + " /s";
    $("rate-refused").textContent = count((now.tallyman_receiver_refused_connections_total ?? 0) + (now.tallyman_receiver_refused_parcels_total ?? 0));
    before = now;
  } catch {
    $("rate-sessions").textContent = "receiver does not answer";
  }
  setTimeout(drawRates, 1000);
}

function start() {
  heatMap = new HeatMap($("heat"), pick);
  $("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken($("token").value);
    $("token").value = "";
    open();
  });
  $("filter").addEventListener("input", drawRuns);
  $("metric-filter").addEventListener("input", drawMetrics);
  $("range").addEventListener("submit", (event) => {
    event.preventDefault();
    choose(Number($("lo").value), Number($("hi").value));
  });
  $("whole").addEventListener("click", () => {
    view.chosen = false;
    asking(() => openRun(view.run, view.metric));
  });
  $("env-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const env = Number($("env").value);
    if (!Number.isInteger(env) || env < 0) return notice("environment: a whole number from 0");
    asking(() => openTrace(env));
  });
  addEventListener("hashchange", open);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", open);
  setInterval(() => { if (!document.hidden && !$("runs").hidden) open(); }, REFRESH_MS);
  drawRates();
  open();
}

takeTokenFromAddress();
start();
