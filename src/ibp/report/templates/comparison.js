// Held-out score against time, a line for each fit and a colour for each method.
const COLOURS = {
  light: ["#2456c9", "#c2540a", "#1b7f4d", "#8b3fb3", "#a8660a", "#0d7f93", "#b3305f", "#5c6470", "#5a5fd6", "#6d7d12", "#7a4a2c", "#2c2f36"],
  dark: ["#8ab0ff", "#f5a266", "#6fd09f", "#d49af5", "#e6c25a", "#5fd0e0", "#f58aac", "#a8b2c0", "#a9a8ff", "#bccf5a", "#d8a98a", "#e6e9ef"],
};

// Powers of ten; where there are too few of them, twice and five times these, or even steps.
function timeTicks(first, last) {
  for (const factors of [[1], [1, 2, 5]]) {
    const ticks = [];
    for (let power = Math.floor(first); power <= last; power++) {
      for (const factor of factors) ticks.push(Number(`${factor}e${power}`));
    }
    const inside = ticks.filter((tick) => Math.log10(tick) >= first && Math.log10(tick) <= last);
    if (inside.length > 2) return inside;
  }
  return niceTicks(10 ** first, 10 ** last, 3);
}

function timeText(seconds) {
  return seconds < 0.01 ? `${said(1000 * seconds)} ms` : `${said(seconds)} s`;
}

if (data.fits.length) {
  const hidden = new Set();
  const colour = (label) => {
    const colours = COLOURS[isDark() ? "dark" : "light"];
    return colours[data.labels.indexOf(label) % colours.length];
  };
  // Where a fit was scored; a score that is no number leaves a gap.
  for (const fit of data.fits) {
    fit.path = fit.seconds
      .map((seconds, i) => ({ seconds: Math.max(seconds, 1e-3), score: fit.scores[i], sweep: fit.sweeps[i], fit }))
      .filter((point) => point.score !== null);
  }
  const stage = make("div", {});
  const readout = make("p", { class: "readout", "aria-live": "polite" });
  byId("score-chart").append(stage, readout);
  let width = 0;

  const legend = byId("legend");
  const keys = data.labels.map((label) => {
    const key = make("i", { "aria-hidden": "true" });
    const button = make("button", {
      type: "button", "aria-pressed": "true", "data-method": label,
      onclick() {
        if (hidden.has(label)) hidden.delete(label);
        else hidden.add(label);
        button.setAttribute("aria-pressed", String(!hidden.has(label)));
        redraw();
      },
    }, key, label);
    legend.append(make("li", {}, button));
    return [label, key];
  });

  function redraw() {
    for (const [label, key] of keys) key.style.background = colour(label);
    const fits = data.fits.filter((fit) => !hidden.has(fit.label) && fit.path.length);
    const nothing = data.labels.every((label) => hidden.has(label)) ? "All methods are hidden." : "There is no score to draw.";
    readout.textContent = fits.length ? "Point at a line, or move with the arrow keys, to read it." : nothing;
    if (!fits.length || !width) return stage.replaceChildren();
    const all = fits.flatMap((fit) => fit.path);
    const times = all.map((p) => p.seconds), scores = all.map((p) => p.score).sort((a, b) => a - b);
    // The first sweeps can be very bad; the chart ends below where nearly all scores are.
    const finals = fits.map((fit) => fit.path[fit.path.length - 1].score);
    let low = Math.min(scores[Math.floor(0.06 * scores.length)], ...finals);
    let high = scores[scores.length - 1];
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    low -= room;
    high += room;
    let [first, last] = extent(times).map(Math.log10);
    if (last - first < 0.3) { first -= 0.3; last += 0.3; }
    const height = Math.max(260, Math.min(400, width * 0.5)), levels = niceTicks(low, high, 5), left = leftMargin(levels), right = width - 16, roof = 10, floor = height - 42;
    const x = (seconds) => left + ((right - left) * (Math.log10(seconds) - first)) / (last - first);
    const y = (score) => floor - ((floor - roof) * (Math.max(score, low) - low)) / (high - low);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0", "aria-label": `Held-out score against seconds for ${fits.length} ${fits.length === 1 ? "fit" : "fits"}` });
    valueAxis(svg, levels, y, left, right);
    for (const time of timeTicks(first, last)) {
      svg.append(
        draw("line", { class: "grid", x1: x(time), x2: x(time), y1: roof, y2: floor }),
        draw("text", { x: x(time), y: floor + 18, "text-anchor": "middle", text: timeText(time) })
      );
    }
    svg.append(draw("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle", text: "seconds of fitting" }));
    const best = data.labels[0];
    const points = fits.flatMap((fit) => fit.path.map((point) => ({ ...point, x: x(point.seconds), y: y(point.score) })));
    for (const fit of [...fits].reverse()) {
      const path = fit.path.map((p, i) => `${i ? "L" : "M"}${x(p.seconds).toFixed(1)} ${y(p.score).toFixed(1)}`).join("");
      const end = fit.path[fit.path.length - 1];
      svg.append(
        draw("path", { d: path, fill: "none", stroke: colour(fit.label), "stroke-width": fit.label === best ? 2.8 : 1.8, "stroke-linejoin": "round", "data-fit": fit.label }),
        draw("circle", { cx: x(end.seconds), cy: y(end.score), r: 4, fill: colour(fit.label) })
      );
    }
    const mark = draw("circle", { r: 7, fill: "none", "stroke-width": 2, visibility: "hidden" });
    svg.append(mark);
    let at = -1;
    const show = (i) => {
      at = Math.max(0, Math.min(points.length - 1, i));
      const found = points[at];
      mark.setAttribute("cx", found.x);
      mark.setAttribute("cy", found.y);
      mark.setAttribute("stroke", colour(found.fit.label));
      mark.setAttribute("visibility", "visible");
      readout.textContent = `${found.fit.label}, seed ${found.fit.seed}: score ${said(found.score, 5)} after ${said(found.seconds)} s and ${found.sweep} ${found.sweep === 1 ? "sweep" : "sweeps"}.`;
    };
    const near = (event) => {
      const frame = svg.getBoundingClientRect();
      const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
      const away = (point) => (point.x - px) ** 2 + (point.y - py) ** 2;
      show(points.reduce((a, b, i) => (away(points[a]) <= away(b) ? a : i), 0));
    };
    svg.addEventListener("pointermove", near);
    svg.addEventListener("pointerdown", near);
    // Left and right go along a line, up and down to the end of another.
    svg.addEventListener("keydown", (event) => {
      const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key], across = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!along && !across) return;
      event.preventDefault();
      if (along || at < 0) return show(at < 0 ? fits[0].path.length - 1 : at + along);
      const now = fits.indexOf(points[at].fit);
      const fit = fits[Math.max(0, Math.min(fits.length - 1, now + across))];
      show(points.findLastIndex((point) => point.fit === fit));
    });
    stage.replaceChildren(svg);
  }
  whenSized(stage, (now) => {
    width = now;
    redraw();
  });
  whenThemeChanges(redraw);
}
