/* One line chart as SVG. Texts from runs become text nodes only. */

const MARGIN = { top: 10, right: 12, bottom: 38, left: 54 };

/** A new element with attributes, put into `parent`. */
function add(parent, name, attributes = {}, text = "") {
  const isDrawing = parent.namespaceURI.endsWith("svg") || name === "svg";
  const made = document.createElementNS(`http://www.w3.org/${isDrawing ? "2000/svg" : "1999/xhtml"}`, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

function colour(series) {
  return `var(--method-${series.method})`;
}

/** The index of the number in ascending `values` that is nearest to `wanted`. */
function nearest(values, wanted) {
  let [low, high] = [0, values.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle;
    else high = middle;
  }
  return wanted - values[low] <= values[high] - wanted ? low : high;
}

class Chart {
  /** `view` says what all charts show: their methods, `isHidden(method)`, `logSteps` and `logValues`. */
  constructor(parent, chart, group, view) {
    Object.assign(this, { chart, group, view, cursor: null });
    this.figure = add(parent, "figure", { class: "chart" });
    if (chart.task !== null) this.figure.dataset.task = chart.task;
    const caption = add(this.figure, "figcaption", {}, chart.title);
    this.remark = add(caption, "span", { class: "remark" });
    const label = `${chart.title}: ${group.label} by ${group.xLabel}. The arrow keys read the values.`;
    this.plot = add(this.figure, "div", { class: "plot", tabindex: 0, role: "group", "aria-label": label });
    this.svg = add(this.plot, "svg", { "aria-hidden": "true" });
    this.tip = add(this.plot, "div", { class: "tip", role: "status", hidden: "" });
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerdown", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.read(null));
    this.plot.addEventListener("blur", () => this.read(null));
    this.plot.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  /** Draw everything anew, for the methods and scales that the view now has. */
  draw() {
    this.width = this.plot.clientWidth;
    this.height = Math.min(Math.max(0.45 * this.width, 230), 380);
    this.svg.setAttribute("height", this.height);
    this.svg.replaceChildren();
    this.series = this.chart.series.filter((series) => !this.view.isHidden(series.method));
    this.tip.hidden = true;
    this.remark.textContent = "";
    if (!this.width) return;
    if (!this.series.length) {
      this.remark.textContent = "no method with a curve is ticked";
      return;
    }
    this.makeScales();
    this.drawAxes();
    for (const series of this.series) this.drawBand(series);
    for (const series of this.series) this.drawMean(series);
    this.pointer = add(this.svg, "g");
    if (this.cursor !== null) this.read(Math.min(this.cursor, this.grid.length - 1));
  }

  makeScales() {
    const lengths = this.series.map((series) => series.x.length);
    this.grid = this.series[lengths.indexOf(Math.max(...lengths))].x;
    const isLogX = this.view.logSteps && this.chart.task !== null;
    const xs = this.series.flatMap((series) => [series.x[0], series.x.at(-1)]);
    const firstX = isLogX ? Math.min(...xs) : 0;
    const lastX = Math.max(...xs) > firstX ? Math.max(...xs) : 2 * firstX || 1;
    this.x = makeScale(firstX, lastX, MARGIN.left, this.width - MARGIN.right, isLogX);
    this.makeScaleOfValues();
  }

  /** A logarithmic axis has no place for 0, which is left out; values below 0 keep the axis linear. */
  makeScaleOfValues() {
    const known = (values) => (values ?? []).filter((value) => value !== null);
    const means = this.series.flatMap((series) => known(series.mean));
    const isAsked = this.view.logValues && this.chart.task !== null;
    const isLog = isAsked && Math.min(...means) >= 0 && Math.max(...means) > 0;
    if (isAsked && !isLog) this.remark.textContent = "linear: a logarithm needs values above 0";
    const all = this.series.flatMap((series) => [...known(series.mean), ...known(series.low), ...known(series.high)]);
    const ends = isLog ? all.filter((value) => value > 0) : all;
    this.lowest = Math.min(...ends);
    let [low, high] = [this.lowest, Math.max(...ends)];
    // Relative to the value: next to a huge one, a difference of 1 would be lost.
    if (low === high) [low, high] = isLog ? [low / 2, high * 2] : [low - (Math.abs(low) || 1), high + (Math.abs(low) || 1)];
    const room = isLog ? 0 : 0.04 * (high - low);
    this.y = makeScale(low - room, high + room, this.height - MARGIN.bottom, MARGIN.top, isLog);
    this.isDrawn = (value) => value !== null && !(isLog && value <= 0);
  }

  drawAxes() {
    const [left, right, bottom] = [MARGIN.left, this.width - MARGIN.right, this.height - MARGIN.bottom];
    const text = this.group.isShare ? percentage : shortNumber;
    for (const tick of this.y.ticks(5)) {
      const y = this.y(tick);
      add(this.svg, "line", { class: "gridline", x1: left, x2: right, y1: y, y2: y });
      add(this.svg, "text", { class: "tick-y", x: left - 6, y: y + 4, "text-anchor": "end" }, text(tick));
    }
    for (const tick of this.x.ticks(Math.max(2, this.width / 100))) {
      const x = this.x(tick);
      add(this.svg, "line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 4 });
      add(this.svg, "text", { class: "tick-x", x, y: bottom + 16, "text-anchor": "middle" }, shortNumber(tick));
    }
    add(this.svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
    add(this.svg, "text", { x: right, y: this.height - 6, "text-anchor": "end" }, this.group.xLabel);
    add(this.svg, "text", { x: left, y: this.height - 6 }, `↑ ${this.group.label}`);
    this.drawThreshold(left, right, bottom);
  }

  /** The return at which the task counts as solved, if the axis reaches it. */
  drawThreshold(left, right, bottom) {
    const threshold = this.chart.threshold ?? null;
    const y = threshold === null ? NaN : this.y(threshold);
    if (!(y > MARGIN.top && y < bottom)) return;
    add(this.svg, "line", { class: "threshold", x1: left, x2: right, y1: y, y2: y });
    add(this.svg, "text", { x: left + 4, y: y - 4 }, `solved: ${shortNumber(threshold)}`);
  }

  drawBand(series) {
    if (!series.low) return;
    const edge = (values, order) => order.map((index) => this.corner(series.x[index], values[index]));
    const known = [...series.x.keys()].filter((index) => series.low[index] !== null && this.isDrawn(series.high[index]));
    if (!known.length) return;
    const path = [...edge(series.low, known), ...edge(series.high, known.toReversed())];
    add(this.svg, "path", { class: "band", fill: colour(series), d: `M${path.join("L")}Z`, "data-method": series.method });
  }

  drawMean(series) {
    const known = [...series.x.keys()].filter((index) => this.isDrawn(series.mean[index]));
    if (!known.length) return;
    const path = known.map((index) => this.corner(series.x[index], series.mean[index])).join("L");
    const look = { stroke: colour(series), "stroke-width": this.view.lineWidth };
    look["stroke-dasharray"] = this.view.methods[series.method].dashes.join(" ");
    add(this.svg, "path", { class: "mean", d: `M${path}`, "data-method": series.method, ...look });
  }

  /** A point of a path; on a logarithmic axis, a band that reaches 0 ends at the lowest value above it. */
  corner(x, y) {
    return `${this.x(x).toFixed(1)} ${this.y(Math.max(y, this.lowest)).toFixed(1)}`;
  }

  point(event) {
    if (!this.series?.length || !this.width) return;
    const pixel = event.clientX - this.plot.getBoundingClientRect().left;
    this.read(nearest(this.grid, this.x.value(pixel)));
  }

  press(event) {
    if (event.key === "Escape") this.read(null);
    if (!this.series?.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.grid.length - 1;
    const step = event.shiftKey ? 10 : 1;
    const now = this.cursor ?? (event.key === "ArrowLeft" ? last + step : -step);
    const places = { ArrowLeft: now - step, ArrowRight: now + step, Home: 0, End: last };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.read(Math.min(Math.max(places[event.key], 0), last));
  }

  /** Show the values at a place of the grid, or none. */
  read(cursor) {
    this.cursor = cursor;
    this.pointer?.replaceChildren();
    this.tip.hidden = cursor === null;
    if (cursor === null) return;
    const wanted = this.grid[cursor];
    const x = this.x(wanted);
    add(this.pointer, "line", { class: "crosshair", x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom });
    const reached = this.series.filter((series) => wanted >= series.x[0] && wanted <= series.x.at(-1));
    const rows = reached.map((series) => ({ series, index: nearest(series.x, wanted) }));
    const found = rows.filter(({ series, index }) => this.isDrawn(series.mean[index]));
    found.sort((a, b) => b.series.mean[b.index] - a.series.mean[a.index]);
    for (const { series, index } of found) {
      const place = { cx: x, cy: this.y(series.mean[index]), r: 4, fill: colour(series) };
      add(this.pointer, "circle", { class: "dot", ...place });
    }
    this.fillTip(wanted, found);
    const isRight = x > this.width / 2;
    this.tip.style.left = isRight ? "auto" : `${x + 12}px`;
    this.tip.style.right = isRight ? `${this.width - x + 12}px` : "auto";
  }

  fillTip(wanted, found) {
    const text = this.group.isShare ? percentage : longNumber;
    this.tip.replaceChildren();
    add(this.tip, "div", { class: "muted" }, `${this.group.xLabel}: ${longNumber(wanted)}`);
    const table = add(this.tip, "table");
    for (const { series, index } of found) {
      const row = add(table, "tr");
      const name = add(add(row, "td"), "span", { class: "method" });
      add(name, "span", { class: "swatch", style: `background: ${colour(series)}` });
      add(name, "span", {}, this.view.methods[series.method].name);
      add(row, "td", { class: "number" }, text(series.mean[index]));
      const [low, high] = [series.low?.[index] ?? null, series.high?.[index] ?? null];
      add(row, "td", {}, low === null || high === null ? "" : `${text(low)} to ${text(high)}`);
    }
  }
}
