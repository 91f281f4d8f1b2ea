// What    Environments (down) x steps (across) on a canvas: the mean of each cell by colour, cells without a finite value marked.
// Owns    The canvas and its keyboard and pointer.

const HOLE = [128, 128, 128];

// Blue over white to red for light ground, over near-black for dark: the middle recedes, both ends stand out.
function colour(t, dark) {
  const middle = dark ? [38, 44, 50] : [246, 246, 246];
  const end = t < 0.5 ? [33, 102, 208] : [208, 62, 42];
  const k = Math.abs(t - 0.5) * 2;
  return middle.map((m, i) => Math.round(m + (end[i] - m) * k));
}

export class HeatMap {
  // onPick(env bucket, step bucket, opened): opened is true for a click or Enter, false while moving.
  constructor(canvas, onPick) {
    this.canvas = canvas;
    this.onPick = onPick;
    this.at = { e: 0, s: 0 };
    this.cells = new Map();
    canvas.addEventListener("mousemove", (event) => this.move(this.under(event), false));
    canvas.addEventListener("click", (event) => this.move(this.under(event), true));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  // rows: [env bucket, step bucket, mean or null, nonfinite values]
  show(rows, columns, lines) {
    this.columns = Math.max(columns, 1);
    this.lines = Math.max(lines, 1);
    this.cells = new Map(rows.map((r) => [Number(r[0]) * this.columns + Number(r[1]), { mean: r[2] === null ? NaN : Number(r[2]), bad: Number(r[3]) }]));
    this.at = { e: 0, s: 0 };
    const means = [...this.cells.values()].map((c) => c.mean).filter(Number.isFinite).sort((a, b) => a - b);
    // The 2nd to 98th percentile carry the colours: one outlier must not wash out the rest.
    const [low, high] = [means[Math.floor(means.length * 0.02)], means[Math.ceil(means.length * 0.98) - 1]];
    this.canvas.width = this.columns;
    this.canvas.height = this.lines;
    const paper = this.canvas.getContext("2d");
    const image = paper.createImageData(this.columns, this.lines);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    for (const [index, cell] of this.cells) {
      const t = high > low ? Math.min(Math.max((cell.mean - low) / (high - low), 0), 1) : 0.5;
      image.data.set([...(Number.isFinite(cell.mean) ? colour(t, dark) : HOLE), 255], index * 4);
    }
    paper.putImageData(image, 0, 0);
    return { low, high };
  }

  cell(e, s) {
    return this.cells.get(e * this.columns + s);
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    return {
      e: Math.min(Math.floor(((event.clientY - box.top) / box.height) * this.lines), this.lines - 1),
      s: Math.min(Math.floor(((event.clientX - box.left) / box.width) * this.columns), this.columns - 1),
    };
  }

  key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Enter: [0, 0] }[event.key];
    if (!steps) return;
    event.preventDefault();
    const clamp = (value, count) => Math.min(Math.max(value, 0), count - 1);
    this.move({ e: clamp(this.at.e + steps[0], this.lines), s: clamp(this.at.s + steps[1], this.columns) }, event.key === "Enter");
  }

  move(at, opened) {
    if (this.cells.size === 0 || at.e < 0 || at.s < 0) return;
    this.at = at;
    this.onPick(at.e, at.s, opened);
  }
}
