// How sure the assignments are, and which features came back.
for (const bar of document.querySelectorAll(".fill[data-share]")) {
  place(bar, { width: `${100 * Number(bar.dataset.share)}%` });
}

if (data.restarts && byId("restart-matrix")) {
  const { features, restarts, thresholds } = data.restarts;
  const [cameBack, inPart] = thresholds;
  const similarity = floats(data.restarts.similarity);
  matrix(byId("restart-matrix"), {
    values: similarity,
    rows: restarts.length,
    columns: features.length,
    scale: { kind: "sequential", low: 0, high: 1 },
    label: `Similarity of ${features.length} features with ${restarts.length} other ${restarts.length === 1 ? "restart" : "restarts"}`,
    acrossNames: features,
    downNames: restarts,
    ends: ["0: nothing like it", "1: the same"],
    say(i, j) {
      const value = similarity[i * features.length + j];
      const word = value >= cameBack ? "came back" : value >= inPart ? "came back in part" : "did not come back";
      return `Feature ${features[j]} ${word} in restart ${restarts[i]}: similarity ${said(value, 2)}.`;
    },
  });
}
