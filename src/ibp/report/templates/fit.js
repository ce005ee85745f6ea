// The fit sweep by sweep, errors of the rows, and which features are on together.
{
  const { sweeps, evidence, n_components: components, seconds } = data.history;
  const passed = (i) => (seconds[i] === undefined || seconds[i] === null ? "" : `, after ${said(seconds[i])} s`);
  curve(byId("evidence-chart"), {
    values: evidence,
    sweeps,
    name: "Evidence",
    say: (i) => `evidence ${said(evidence[i], 9)}${passed(i)}`,
  });
  curve(byId("components-chart"), {
    values: components,
    sweeps,
    name: "Number of features",
    whole: true,
    say: (i) => `${components[i]} ${components[i] === 1 ? "feature" : "features"}${passed(i)}`,
  });
}

if (data.row_errors) histogram(byId("error-chart"), data.row_errors, { name: "Errors of the rows", unit: "row" });
else byId("error-chart").append(make("p", { class: "empty", text: "Nothing was observed in any row." }));

if (data.pairs) {
  const { features, n_rows: nRows } = data.pairs;
  const correlation = floats(data.pairs.correlation);
  const together = floats(data.pairs.together);
  const size = features.length;
  const shown = correlation.slice();
  let most = 0.3;
  for (let i = 0; i < size; i++) {
    shown[i * size + i] = NaN;
    for (let j = 0; j < size; j++) if (i !== j) most = Math.max(most, Math.abs(correlation[i * size + j]));
  }
  matrix(byId("pair-matrix"), {
    values: shown,
    rows: size,
    columns: size,
    scale: { kind: "diverging", low: -most, high: most },
    label: `Correlation of ${size} features, two by two`,
    acrossNames: features,
    downNames: features,
    ends: [`${said(-most, 2)}: apart`, `${said(most, 2)}: together`],
    say(i, j) {
      const [a, b] = [features[i], features[j]];
      const onA = together[i * size + i], onB = together[j * size + j], both = together[i * size + j];
      if (i === j) return `Feature ${a} is ${inAmounts ? "" : "on "}in ${onA.toLocaleString("en")} rows (${percent(onA / nRows)}).`;
      const chance = (onA * onB) / nRows;
      const lift = chance > 0 ? `, ${said(both / chance, 2)} times` : "";
      return `Features ${a} and ${b}: ${inAmounts ? "" : "on "}together in ${both.toLocaleString("en")} rows${lift} the ${said(chance, 3)} expected by chance; correlation ${said(correlation[i * size + j], 2)}.`;
    },
  });
}
