// The features as cards, in the order that one asks for, a page of them at a time.
const components = floats(data.components);
const nColumns = data.columns.length;
const nFeatures = data.features.counts.length;
// Whether rows have more or less of a feature, and do not only have or lack it.
const inAmounts = data.codes === "weighted" || data.codes === "real";
const FIRST_PAGE = 24, PAGE = 60;

function componentOf(k) {
  return components.subarray(k * nColumns, (k + 1) * nColumns);
}

function topBars(k) {
  const { top, top_names: names, top_values: values, top_lengths: lengths } = data.features;
  const most = largest(lengths[k]);
  const list = make("ol", { class: "bars" });
  top[k].forEach((column, i) => {
    const value = values[k][i];
    if (value === 0) return;
    const share = Math.abs(lengths[k][i]) / most;
    const bar = make("span", { class: value < 0 ? "fill negative" : "fill" });
    if (data.signed) {
      place(bar, { left: value < 0 ? `${50 - 50 * share}%` : "50%", width: `${50 * share}%`, right: "auto" });
    } else {
      place(bar, { width: `${100 * share}%` });
    }
    list.append(
      make("li", {},
        make("span", { class: "name", title: names[column], text: names[column] }),
        make("span", { class: "track" }, bar),
        make("span", { class: "number", text: said(value) })
      )
    );
  });
  return list;
}

// How much of it rows have that have it, where rows have weights.
function weightChart(k) {
  if (!data.features.weights) return null;
  const { said: inWords } = data.features.weights[k];
  const n = data.features.counts[k];
  if (!n) return make("p", { class: "weights empty", text: "no row has it" });
  const label = `Weights of feature ${k} in the ${n.toLocaleString("en")} ${n === 1 ? "row that has" : "rows that have"} it: ${inWords}`;
  return make("figure", { class: "weights chart" }, make("figcaption", { text: inWords }), smallHistogram(data.features.weights[k], label));
}

function featureCard(k) {
  const { counts, shares, agreement, came_back: back, confidence, strength } = data.features;
  const facts = make("dl", { class: "facts" });
  const fact = (name, value) => facts.append(make("div", {}, make("dt", { text: name }), make("dd", { text: value })));
  fact(inAmounts ? "in" : "on in", `${counts[k].toLocaleString("en")} ${counts[k] === 1 ? "row" : "rows"}`);
  fact("strength", said(strength[k], 2)); // in which units, the page says above
  if (agreement) {
    fact("came back", `${back[k]} of ${nRestarts - 1}`);
    fact("agreement", agreement[k].toFixed(2));
  }
  if (confidence) fact("certainty", percent(Math.min(confidence[k], 1 - 1e-9), 1));
  const share = make("span", { class: "track" }, place(make("span", { class: "fill" }), { width: `${100 * shares[k]}%` }));
  return make("li", { class: "card", "data-feature": k },
    make("div", { class: "card-head" }, make("h3", { text: `Feature ${k}` }), make("span", { class: "share", text: percent(shares[k]) })),
    data.image ? picture(`Feature ${k}`, componentOf(k), featureScale(componentOf(k))).canvas : topBars(k),
    share,
    weightChart(k),
    facts
  );
}

const nRestarts = data.restarts ? data.restarts.restarts.length + 1 : 1;

if (nFeatures) {
  const cards = byId("feature-cards"), order = byId("feature-order");
  const direction = byId("feature-direction"), more = byId("more-features");
  let sorted = [], drawn = 0;
  const drawMore = () => {
    const until = Math.min(drawn + (drawn ? PAGE : FIRST_PAGE), sorted.length);
    for (; drawn < until; drawn++) cards.append(featureCard(sorted[drawn]));
    more.hidden = drawn === sorted.length;
    byId("feature-count").textContent = drawn < sorted.length ? `${drawn} of ${sorted.length} features are shown.` : "";
  };
  const sort = () => {
    const key = order.value;
    const values = key === "number" ? null : data.features[key];
    const lowest = direction.getAttribute("aria-pressed") === "true";
    sorted = Array.from({ length: nFeatures }, (_, k) => k);
    if (values) sorted.sort((a, b) => values[b] - values[a] || a - b);
    if (lowest) sorted.reverse();
    drawn = 0;
    cards.replaceChildren();
    drawMore();
  };
  order.addEventListener("change", sort);
  direction.addEventListener("click", () => {
    direction.setAttribute("aria-pressed", String(direction.getAttribute("aria-pressed") !== "true"));
    sort();
  });
  more.addEventListener("click", drawMore);
  sort();
}

if (data.noise && data.image) {
  const noise = floats(data.noise);
  byId("noise-picture").append(picture("Noise of each pixel", noise, { kind: "picture", low: 0, high: largest(noise) }).canvas);
}
