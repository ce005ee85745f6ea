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

function tickText(value, step) {
  const size = Math.abs(value);
  if (size >= 1e5) return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 });
  const places = step >= 1 ? 0 : Math.min(Math.ceil(-Math.log10(step)) + 1, 8);
  return value.toLocaleString("en", { maximumFractionDigits: places });
}

function whenSized(box, drawNow) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(box.clientWidth);
    if (now > 0 && now !== width) drawNow((width = now));
  }).observe(box);
}

function valueAxis(svg, ticks, y, left, right) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  for (const tick of ticks) {
    svg.append(
      draw("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
      draw("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end", text: tickText(tick, step) })
    );
  }
}

// One value per sweep, with a read-out under the pointer or the arrow keys.
function curve(box, { values, name, say, whole }) {
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
  const title = `${name} over ${values.length} sweeps: from ${said(known[0], 6)} to ${said(last, 6)}`;
  const rest = () => (readout.textContent = `At the end: ${say(values.length - 1)}`);
  whenSized(stage, (width) => {
    let low = Math.min(...known), high = Math.max(...known);
    if (whole) low = Math.min(low, 0);
    const margin = (high - low || Math.abs(high) || 1) * 0.08;
    if (!whole) low -= margin;
    high += margin;
    const height = 190, left = 56, right = width - 14, top = 10, bottom = height - 26;
    const x = (i) => (values.length === 1 ? (left + right) / 2 : left + ((right - left) * i) / (values.length - 1));
    const y = (value) => bottom - ((bottom - top) * (value - low)) / (high - low);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0", "aria-label": title });
    let ticks = niceTicks(low, high, 4);
    if (whole) ticks = ticks.filter(Number.isInteger);
    valueAxis(svg, ticks, y, left, right);
    const sweeps = niceTicks(1, values.length, Math.min(6, width / 70)).filter((s) => Number.isInteger(s) && s >= 1);
    for (const sweep of sweeps) svg.append(draw("text", { x: x(sweep - 1), y: height - 8, "text-anchor": "middle", text: sweep }));
    const points = values.map((value, i) => (value === null ? null : [x(i), y(value)])).filter(Boolean);
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
      draw("text", { class: "final", x: end[0], y: end[1] + (below ? 22 : -12), "text-anchor": values.length === 1 ? "middle" : "end", text: said(last, 6) })
    );
    let at = values.length - 1;
    const show = (i) => {
      at = Math.max(0, Math.min(values.length - 1, i));
      if (values[at] === null) return;
      dot.setAttribute("cx", x(at));
      dot.setAttribute("cy", y(values[at]));
      readout.textContent = `Sweep ${at + 1}: ${say(at)}`;
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

function histogram(box, { counts, edges, median }, { name, unit }) {
  const readout = make("p", { class: "readout", "aria-live": "polite" });
  const stage = make("div", {});
  box.append(stage, readout);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const rest = () => (readout.textContent = `Half of the rows have an error below ${said(median)}.`);
  whenSized(stage, (width) => {
    const height = 200, left = 56, right = width - 14, top = 26, bottom = height - 26;
    const low = edges[0], high = edges[edges.length - 1];
    const most = Math.max(...counts);
    const x = (value) => left + ((right - left) * (value - low)) / (high - low);
    const y = (count) => bottom - ((bottom - top) * count) / most;
    const title = `${name}: ${total} ${unit}, from ${said(low)} to ${said(high)}, half of them below ${said(median)}`;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": title });
    valueAxis(svg, niceTicks(0, most, 3).filter(Number.isInteger), y, left, right);
    const ticks = niceTicks(low, high, Math.min(8, width / 80));
    for (const tick of ticks) svg.append(draw("text", { x: x(tick), y: height - 8, "text-anchor": "middle", text: tickText(tick, ticks[1] - ticks[0] || 1) }));
    counts.forEach((count, i) => {
      const from = x(edges[i]), until = x(edges[i + 1]);
      if (count) {
        const tall = Math.max(bottom - y(count), 1.5);
        svg.append(draw("rect", { class: "column", x: from + 0.5, y: bottom - tall, width: Math.max(until - from - 1, 1), height: tall, rx: 1.5 }));
      }
      svg.append(draw("rect", {
        x: from, y: top, width: until - from, height: bottom - top, fill: "transparent",
        onpointerenter: () => (readout.textContent = `${count.toLocaleString("en")} ${unit} between ${said(edges[i])} and ${said(edges[i + 1])}`),
      }));
    });
    svg.append(draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    svg.append(draw("line", { class: "marker", x1: x(median), x2: x(median), y1: top - 18, y2: bottom, "pointer-events": "none" }));
    svg.append(draw("text", { x: x(median) + 5, y: top - 8, "text-anchor": "start", text: "median" }));
    svg.addEventListener("pointerleave", rest);
    stage.replaceChildren(svg);
    rest();
  });
}
