// Held-out score against time, a line for each fit and a colour for each method.
const COLOURS = {
  light: ["#2456c9", "#c2540a", "#1b7f4d", "#8b3fb3", "#a8660a", "#0d7f93", "#b3305f", "#5c6470", "#5a5fd6", "#6d7d12", "#7a4a2c", "#2c2f36"],
  dark: ["#8ab0ff", "#f5a266", "#6fd09f", "#d49af5", "#e6c25a", "#5fd0e0", "#f58aac", "#a8b2c0", "#a9a8ff", "#bccf5a", "#d8a98a", "#e6e9ef"],
};

if (data.fits.length) {
  const hidden = new Set();
  const colour = (label) => {
    const colours = COLOURS[isDark() ? "dark" : "light"];
    return colours[data.labels.indexOf(label) % colours.length];
  };
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
    const fits = data.fits.filter((fit) => !hidden.has(fit.label) && fit.seconds.length);
    readout.textContent = fits.length ? "Point at a line to read it." : "All methods are hidden.";
    if (!fits.length || !width) return stage.replaceChildren();
    const all = fits.flatMap((fit) => fit.seconds.map((s, i) => [Math.max(s, 1e-3), fit.scores[i]])).filter((p) => p[1] !== null);
    const times = all.map((p) => p[0]), scores = all.map((p) => p[1]).sort((a, b) => a - b);
    // The first sweeps can be very bad; the chart ends below where nearly all scores are.
    const top = scores[scores.length - 1];
    const finals = fits.map((fit) => fit.scores[fit.scores.length - 1]);
    let low = Math.min(scores[Math.floor(0.06 * scores.length)], ...finals);
    let high = top;
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    low -= room;
    high += room;
    let first = Math.log10(Math.min(...times)), last = Math.log10(Math.max(...times));
    if (last - first < 0.3) { first -= 0.3; last += 0.3; }
    const height = Math.max(260, Math.min(400, width * 0.5)), left = 56, right = width - 16, roof = 10, floor = height - 42;
    const x = (seconds) => left + ((right - left) * (Math.log10(Math.max(seconds, 1e-3)) - first)) / (last - first);
    const y = (score) => floor - ((floor - roof) * (Math.max(score, low) - low)) / (high - low);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `Held-out score against seconds for ${fits.length} fits` });
    valueAxis(svg, niceTicks(low, high, 5), y, left, right);
    for (let power = Math.ceil(first); power <= last; power++) {
      svg.append(
        draw("line", { class: "grid", x1: x(10 ** power), x2: x(10 ** power), y1: roof, y2: floor }),
        draw("text", { x: x(10 ** power), y: floor + 18, "text-anchor": "middle", text: `${10 ** power} s`.replace("0.001", "1 ms").replace("1 ms s", "1 ms") })
      );
    }
    svg.append(draw("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle", text: "seconds of fitting" }));
    const best = data.labels[0];
    const points = [];
    for (const fit of [...fits].reverse()) {
      const path = fit.seconds.map((s, i) => {
        points.push({ x: x(s), y: y(fit.scores[i]), fit, i });
        return `${i ? "L" : "M"}${x(s).toFixed(1)} ${y(fit.scores[i]).toFixed(1)}`;
      }).join("");
      const end = fit.seconds.length - 1;
      svg.append(
        draw("path", { d: path, fill: "none", stroke: colour(fit.label), "stroke-width": fit.label === best ? 2.8 : 1.8, "stroke-linejoin": "round", "data-fit": fit.label }),
        draw("circle", { cx: x(fit.seconds[end]), cy: y(fit.scores[end]), r: 4, fill: colour(fit.label) })
      );
    }
    const mark = draw("circle", { r: 7, fill: "none", "stroke-width": 2, visibility: "hidden" });
    svg.append(mark);
    const near = (event) => {
      const frame = svg.getBoundingClientRect();
      const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
      const found = points.reduce((a, b) => ((a.x - px) ** 2 + (a.y - py) ** 2 <= (b.x - px) ** 2 + (b.y - py) ** 2 ? a : b));
      mark.setAttribute("cx", found.x);
      mark.setAttribute("cy", found.y);
      mark.setAttribute("stroke", colour(found.fit.label));
      mark.setAttribute("visibility", "visible");
      readout.textContent = `${found.fit.label}, seed ${found.fit.seed}: score ${said(found.fit.scores[found.i], 5)} after ${said(found.fit.seconds[found.i])} s and ${found.fit.sweeps[found.i]} sweeps.`;
    };
    svg.addEventListener("pointermove", near);
    svg.addEventListener("pointerdown", near);
    stage.replaceChildren(svg);
  }
  whenSized(stage, (now) => {
    width = now;
    redraw();
  });
  whenThemeChanges(redraw);
}
