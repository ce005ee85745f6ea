// Small charts: curves and histograms, drawn anew for the width that there is.
function niceTicks(low, high, most) {
  const span = high - low || 1;
  const raw = span / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw * 0.999) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; i++) ticks.push(i * step + 0); // never -0
  return ticks;
}

// As many digits as tell neighbours apart, which are a step from each other.
function tickText(value, step) {
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && step < 1e-6)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  const decimals = (unit) => Math.max(0, Math.min(Math.ceil(-Math.log10(step / unit)) + 1, 12));
  if (size >= 1e5) {
    const unit = 10 ** (3 * Math.floor(Math.log10(size) / 3));
    return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: decimals(unit) });
  }
  return value.toLocaleString("en", { maximumFractionDigits: step >= 1 && Number.isInteger(step) ? 0 : decimals(1) });
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

// Room for the longest number beside the value axis.
function leftMargin(ticks) {
  const texts = ticks.map((tick) => tickText(tick, tickStep(ticks)));
  return Math.max(40, 14 + 7.2 * Math.max(...texts.map((text) => text.length)));
}

function tickStep(ticks) {
  return ticks.length > 1 ? ticks[1] - ticks[0] : 1;
}

function whenSized(box, drawNow) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(box.clientWidth);
    if (now > 0 && now !== width) drawNow((width = now));
  }).observe(box);
}

function valueAxis(svg, ticks, y, left, right) {
  const step = tickStep(ticks);
  for (const tick of ticks) {
    svg.append(
      draw("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
      draw("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end", text: tickText(tick, step) })
    );
  }
}

// A value of each sweep, with a read-out under the pointer or the arrow keys.
function curve(box, { values, sweeps, name, say, whole }) {
  if (!values.length || values.every((value) => value === null)) {
    box.append(make("p", { class: "empty", text: "There was no sweep, so there is nothing to draw." }));
    box.style.minHeight = "0";
    return;
  }
  const readout = make("p", { class: "readout", "aria-live": "polite" });
  const stage = make("div", {});
  box.append(stage, readout);
  const known = values.filter((value) => value !== null);
  const last = known[known.length - 1];
  const total = sweeps[sweeps.length - 1];
  const title = `${name} over ${total} ${total === 1 ? "sweep" : "sweeps"}: from ${said(known[0], 6)} to ${said(last, 6)}`;
  const rest = () => (readout.textContent = `At the end: ${say(values.length - 1)}`);
  whenSized(stage, (width) => {
    let [low, high] = extent(known);
    if (whole) low = Math.min(low, 0);
    const margin = (high - low || Math.abs(high) || 1) * 0.08;
    if (!whole) low -= margin;
    high += margin;
    let ticks = niceTicks(low, high, 4);
    if (whole) ticks = ticks.filter(Number.isInteger);
    const height = 190, left = leftMargin(ticks), right = width - 14, top = 10, bottom = height - 26;
    const x = (sweep) => (total === 1 ? (left + right) / 2 : left + ((right - left) * (sweep - 1)) / (total - 1));
    const y = (value) => bottom - ((bottom - top) * (value - low)) / (high - low);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0", "aria-label": title });
    valueAxis(svg, ticks, y, left, right);
    const marks = niceTicks(1, total, Math.min(6, width / 70)).filter((s) => Number.isInteger(s) && s >= 1);
    for (const sweep of marks) svg.append(draw("text", { x: x(sweep), y: height - 8, "text-anchor": "middle", text: tickText(sweep, 1) }));
    const points = values.map((value, i) => (value === null ? null : [x(sweeps[i]), y(value)])).filter(Boolean);
    const line = points.map((point, i) => `${i ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`).join("");
    if (points.length > 1) {
      svg.append(
        draw("path", { class: "area", d: `${line}L${points[points.length - 1][0]} ${bottom}L${points[0][0]} ${bottom}Z` }),
        draw("path", { class: "curve", d: line })
      );
    }
    const end = points[points.length - 1];
    const dot = draw("circle", { class: "dot", r: 5, cx: end[0], cy: end[1] });
    const below = end[1] < top + 22;
    svg.append(
      dot,
      draw("text", { class: "final", x: end[0], y: end[1] + (below ? 22 : -12), "text-anchor": total === 1 ? "middle" : "end", text: said(last, 6) })
    );
    let at = values.length - 1;
    const show = (i) => {
      at = Math.max(0, Math.min(values.length - 1, i));
      if (values[at] === null) return;
      dot.setAttribute("cx", x(sweeps[at]));
      dot.setAttribute("cy", y(values[at]));
      readout.textContent = `Sweep ${sweeps[at]}: ${say(at)}`;
    };
    svg.addEventListener("pointermove", (event) => {
      const inside = event.clientX - svg.getBoundingClientRect().left;
      show(Math.round(((inside - left) / (right - left || 1)) * (values.length - 1)));
    });
    svg.addEventListener("pointerleave", () => {
      show(values.length - 1);
      rest();
    });
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      show(at + move);
    });
    stage.replaceChildren(svg);
    rest();
  });
}

// For a card: counts of bins that start at 0, and what is typical, 1, amid them or to their left.
function smallHistogram({ counts, width }, label) {
  const high = Math.max(2, counts.length * width), most = Math.max(...counts);
  const height = 52, bottom = 38;
  const x = (value) => `${(100 * value) / high}%`;
  const svg = draw("svg", { class: "small", height, role: "img", "aria-label": label });
  counts.forEach((count, i) => {
    const tall = count ? Math.max(((bottom - 2) * count) / most, 1.5) : 0;
    svg.append(draw("rect", { class: "column", x: x(i * width), y: bottom - tall, width: x(0.9 * width), height: tall }));
  });
  svg.append(
    draw("line", { class: "axis", x1: 0, x2: "100%", y1: bottom, y2: bottom }),
    draw("text", { x: 0, y: height - 2, text: "0" }),
    draw("text", { x: x(1), y: height - 2, "text-anchor": "middle", text: high < 12 ? "1" : "" }),
    draw("text", { x: "100%", y: height - 2, "text-anchor": "end", text: said(high, 2) })
  );
  return svg;
}

// Counts between edges, with a read-out under the pointer or the arrow keys.
function histogram(box, { counts, edges, median }, { name, unit }) {
  const readout = make("p", { class: "readout", "aria-live": "polite" });
  const stage = make("div", {});
  box.append(stage, readout);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const units = (count) => `${count.toLocaleString("en")} ${count === 1 ? unit : `${unit}s`}`;
  const rest = () => (readout.textContent = `Half of the rows have an error up to ${said(median)}.`);
  whenSized(stage, (width) => {
    const low = edges[0], high = edges[edges.length - 1];
    const most = Math.max(...counts);
    const levels = niceTicks(0, most, 3).filter(Number.isInteger);
    const height = 200, left = leftMargin(levels), right = width - 14, top = 26, bottom = height - 26;
    const x = (value) => left + ((right - left) * (value - low)) / (high - low);
    const y = (count) => bottom - ((bottom - top) * count) / most;
    const title = `${name}: ${units(total)}, from ${said(low)} to ${said(high)}, half of them up to ${said(median)}`;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0", "aria-label": title });
    valueAxis(svg, levels, y, left, right);
    const ticks = niceTicks(low, high, Math.min(8, width / 80));
    for (const tick of ticks) svg.append(draw("text", { x: x(tick), y: height - 8, "text-anchor": "middle", text: tickText(tick, tickStep(ticks)) }));
    const columns = counts.map((count, i) => {
      const tall = count ? Math.max(bottom - y(count), 1.5) : 0;
      const from = x(edges[i]), wide = x(edges[i + 1]) - from;
      return draw("rect", { class: "column", x: from + 0.5, y: bottom - tall, width: Math.max(wide - 1, 1), height: tall, rx: 1.5 });
    });
    svg.append(...columns);
    svg.append(draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    svg.append(draw("line", { class: "marker", x1: x(median), x2: x(median), y1: top - 18, y2: bottom, "pointer-events": "none" }));
    const beyond = x(median) > right - 60;
    svg.append(draw("text", { x: x(median) + (beyond ? -5 : 5), y: top - 8, "text-anchor": beyond ? "end" : "start", text: "median" }));
    let at = -1;
    const show = (i) => {
      if (at >= 0) columns[at].classList.remove("near");
      at = Math.max(0, Math.min(counts.length - 1, i));
      columns[at].classList.add("near");
      readout.textContent = `${units(counts[at])} between ${said(edges[at])} and ${said(edges[at + 1])}`;
    };
    const leave = () => {
      if (at >= 0) columns[at].classList.remove("near");
      at = -1;
      rest();
    };
    svg.addEventListener("pointermove", (event) => {
      const inside = event.clientX - svg.getBoundingClientRect().left;
      show(Math.floor(((inside - left) / (right - left || 1)) * counts.length));
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      show(at + move);
    });
    stage.replaceChildren(svg);
    rest();
  });
}
