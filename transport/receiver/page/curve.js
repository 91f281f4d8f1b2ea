// What    Curves: a mean inside its min-max band, or one environment's values. uPlot draws; without it a table is shown.

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function table(into, names, columns) {
  const rows = columns[0].length;
  const t = into.appendChild(document.createElement("table"));
  const head = t.createTHead().insertRow();
  for (const name of names) head.appendChild(document.createElement("th")).textContent = name;
  const body = t.createTBody();
  for (let i = 0; i < Math.min(rows, 50); ++i) {
    const row = body.insertRow();
    for (const column of columns) row.insertCell().textContent = column[i] === null ? "" : column[i];
  }
  const note = into.appendChild(document.createElement("p"));
  note.textContent = "This receiver was built without the chart library; the first 50 rows are shown.";
}

function draw(into, names, columns, series, bands, onSelect) {
  into.replaceChildren();
  if (typeof uPlot === "undefined") return table(into, names, columns);
  const axis = { stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 } };
  const plot = new uPlot({
    width: Math.max(into.clientWidth, 300), height: 240,
    scales: { x: { time: false } },
    axes: [{ ...axis }, { ...axis, size: 70 }],
    series: [{ label: names[0] }, ...series], bands,
    cursor: { drag: { x: Boolean(onSelect), y: false, setScale: false } },
    hooks: { setSelect: [(u) => { if (onSelect && u.select.width > 4) onSelect(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")); }] },
  }, columns, into);
  new ResizeObserver(() => plot.setSize({ width: Math.max(into.clientWidth, 300), height: 240 })).observe(into);
}

// rows: [step, mean, min, max, nonfinite]. onSelect(lo, hi): steps the user dragged over.
export function drawBand(into, rows, onSelect) {
  const columns = [0, 1, 2, 3].map((c) => rows.map((r) => (r[c] === null ? null : Number(r[c]))));
  const edge = { stroke: "transparent", points: { show: false } };
  draw(into, ["step", "mean", "min", "max"], columns, [
    { label: "mean", stroke: style("--accent"), width: 1.5, points: { show: rows.length < 60 } },
    { label: "min", ...edge }, { label: "max", ...edge },
  ], [{ series: [3, 2], fill: style("--accent") + "33" }], onSelect);
}

// rows: [step, value or null, value as text, bits as text, dtype]
export function drawTrace(into, rows) {
  const columns = [rows.map((r) => Number(r[0])), rows.map((r) => (r[1] === null ? null : Number(r[1])))];
  draw(into, ["step", "value"], columns, [{ label: "value", stroke: style("--accent"), width: 1, points: { show: rows.length < 200 } }], []);
}
