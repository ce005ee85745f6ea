// One row: what was observed, its features, and what they add up to.
const explorer = (() => {
  const body = byId("explorer-body");
  const rows = data.rows;
  const values = floats(rows.values);
  const codes = floats(rows.codes);
  const intercept = floats(data.intercept);
  const mostCodes = floats(data.features.largest_codes);
  const onFrom = inAmounts ? 0 : 0.5;
  const isSwitch = (k) => !inAmounts || (data.features.weights !== null && !data.features.weights[k].varies);
  const hasBase = intercept.some((value) => value !== 0);
  const SHOWN_BARS = 14, MANY = 30;
  let at = 0;
  let amounts = new Float32Array(nFeatures);
  let controls = new Map();
  let pictureTrio = null;

  const codesOf = (i) => codes.slice(i * nFeatures, (i + 1) * nFeatures);
  const observed = () => values.subarray(at * nColumns, (at + 1) * nColumns);

  function reconstruction() {
    const sum = Float64Array.from(intercept);
    for (let k = 0; k < nFeatures; k++) {
      if (amounts[k] === 0) continue;
      const adds = componentOf(k);
      for (let d = 0; d < nColumns; d++) sum[d] += amounts[k] * adds[d];
    }
    return sum;
  }

  function rootMeanSquare(sum) {
    const seen = observed();
    let squares = 0, count = 0;
    for (let d = 0; d < nColumns; d++) {
      if (Number.isNaN(seen[d])) continue;
      squares += (seen[d] - sum[d]) ** 2;
      count++;
    }
    return count ? Math.sqrt(squares / count) : NaN;
  }

  // The controls.
  const select = make("select", { id: "row-select" });
  const search = make("input", { id: "row-search", type: "search", placeholder: "part of a name", autocomplete: "off" });
  const worstRank = new Map(rows.worst.map((row, rank) => [row, rank]));
  const option = (i) => make("option", { value: i, text: rows.names[i] });
  function fillSelect() {
    const wanted = search.value.trim().toLowerCase();
    const matching = rows.numbers.map((_, i) => i).filter((i) => !wanted || rows.names[i].toLowerCase().includes(wanted));
    const worst = matching.filter((i) => worstRank.has(rows.numbers[i]));
    worst.sort((a, b) => worstRank.get(rows.numbers[a]) - worstRank.get(rows.numbers[b]));
    const others = matching.filter((i) => !worstRank.has(rows.numbers[i]));
    select.replaceChildren();
    if (others.length) select.append(make("optgroup", { label: "Rows" }, ...others.map(option)));
    if (worst.length) select.append(make("optgroup", { label: "Explained worst" }, ...worst.map(option)));
    if (!matching.length) select.append(make("option", { value: "", disabled: true, text: "no row has that in its name" }));
    return matching;
  }
  search.addEventListener("input", () => {
    const matching = fillSelect();
    if (matching.length && !matching.includes(at)) open(Number(select.options[0].value));
    else if (matching.length) select.value = String(at);
  });
  select.addEventListener("change", () => open(Number(select.value)));
  const button = (text, action, name) => make("button", { type: "button", text, onclick: action, "aria-label": name });
  const step = (by) => open((at + by + rows.numbers.length) % rows.numbers.length);
  const picker = make("div", { class: "picker" },
    make("span", {}, make("label", { for: "row-select", text: "Row" }), select),
    make("span", {}, make("label", { for: "row-search", text: "Search" }), search),
    button("Previous", () => step(-1), "Previous row"),
    button("Next", () => step(1), "Next row"),
    button("Random", () => open(Math.floor(Math.random() * rows.numbers.length)), "Random row"),
    button("Worst", () => rows.worst.length && open(rows.numbers.indexOf(rows.worst[0])), "Row explained worst")
  );

  // What was observed beside what the features say.
  const scores = make("dl", { class: "scores" });
  const stage = make("div", { class: "stage" });
  const onList = make("ul", { class: "toggles" });
  const offList = make("ul", { class: "toggles many" });
  const offNote = make("summary", {});
  const off = make("details", {}, offNote, offList);
  const faint = make("p", { class: "empty" });
  const reset = make("button", { type: "button", text: "Reset to what the model found", disabled: true, onclick: () => {
    open(at);
    select.focus({ preventScroll: true }); // the button is disabled now, and would lose the focus
  } });
  const sumTitle = make("h3", {});
  body.append(picker, scores, stage, sumTitle, onList, faint, off, make("p", { class: "tools" }, reset));
  if (data.image) body.classList.add("pictures");
  off.hidden = nFeatures === 0;
  reset.hidden = nFeatures === 0;

  const orderSelect = make("select", { id: "bar-order", onchange: () => update() },
    make("option", { value: "values", text: "largest values" }),
    make("option", { value: "errors", text: "largest errors" }),
    make("option", { value: "columns", text: "first columns" })
  );

  function showPictures(sum) {
    const seen = observed();
    const left = seen.map((value, d) => value - sum[d]);
    if (!pictureTrio) {
      let low = Infinity, high = -Infinity;
      for (const value of [...seen, ...sum]) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
      const scale = { kind: "picture", low, high };
      const span = Math.max(largest(left), (high - low) / 4);
      const residual = { kind: "diverging", low: -span, high: span };
      pictureTrio = [
        [picture("Observed", seen, scale), "Observed", scale],
        [picture("Rebuilt", sum, scale), "Rebuilt", scale],
        [picture("What is left", left, residual), "What is left", residual],
      ];
      const figures = pictureTrio.map(([drawn, name]) => make("figure", {}, make("figcaption", { text: name }), drawn.canvas));
      // Not so tall that the switches below would hide behind them.
      const widest = `max(15rem, min(44rem, ${3 * 45 * pictureRatio()}vh))`;
      stage.replaceChildren(place(make("div", { class: "triptych" }, ...figures), { maxWidth: widest }));
    }
    pictureTrio[1][0].update(sum, pictureTrio[1][2]);
    pictureTrio[2][0].update(left, pictureTrio[2][2]);
  }

  function showBars(sum) {
    const seen = observed();
    const key = {
      values: (d) => Math.max(Math.abs(seen[d]) || 0, Math.abs(sum[d])),
      errors: (d) => Math.abs(seen[d] - sum[d]) || 0,
      columns: (d) => -d,
    }[orderSelect.value];
    const chosen = Array.from({ length: nColumns }, (_, d) => d).sort((a, b) => key(b) - key(a)).slice(0, SHOWN_BARS);
    let low = 0, high = 0;
    for (const d of chosen) {
      for (const value of [seen[d], sum[d]]) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    }
    const x = (value) => (100 * (value - low)) / (high - low || 1);
    const list = make("ul", { class: "compare" },
      make("li", { class: "heads" }, make("span", { text: "Column" }), make("span", { class: "wide-only" }), make("span", { class: "number", text: "observed" }), make("span", { class: "number", text: "sum" }), make("span", { class: "number", text: "left" }))
    );
    for (const d of chosen) {
      const missing = Number.isNaN(seen[d]);
      const bar = place(make("span", { class: sum[d] < 0 ? "fill negative" : "fill" }), { left: `${x(Math.min(0, sum[d]))}%`, width: `${Math.abs(x(sum[d]) - x(0))}%`, right: "auto" });
      const track = make("span", { class: "track" }, place(make("span", { class: "zero" }), { left: `${x(0)}%` }), bar,
        missing ? null : place(make("span", { class: "tick" }), { left: `${x(seen[d])}%` }));
      list.append(
        make("li", { class: missing ? "missing" : null },
          make("span", { class: "name", title: data.columns[d], text: data.columns[d] }), track,
          make("span", { class: "number", text: missing ? "missing" : said(seen[d]) }),
          make("span", { class: "number", text: said(sum[d]) }),
          make("span", { class: "number", text: missing ? "–" : said(seen[d] - sum[d]) }))
      );
    }
    stage.replaceChildren(
      make("div", { class: "tools" },
        make("label", { for: "bar-order", text: nColumns > SHOWN_BARS ? `${SHOWN_BARS} of ${nColumns} columns:` : "Columns:" }), orderSelect,
        make("small", {}, make("span", { class: "key" }), " sum of the features  ", make("span", { class: "key tick" }), " observed")),
      list
    );
  }

  function update() {
    const sum = reconstruction();
    const focused = document.activeElement === orderSelect;
    if (data.image) showPictures(sum);
    else showBars(sum);
    if (focused) orderSelect.focus();
    const error = rootMeanSquare(sum);
    const modelCodes = codesOf(at);
    let nOn = 0;
    for (const amount of amounts) nOn += amount > onFrom;
    sumTitle.textContent = titleOf(nOn);
    const changed = amounts.some((amount, k) => amount !== modelCodes[k]);
    scores.replaceChildren();
    const score = (name, value) => scores.append(make("div", {}, make("dt", { text: name }), make("dd", { text: value })));
    score(inAmounts ? "features" : "features on", String(nOn));
    score(data.all_columns ? "error (root mean square)" : `error over the ${nColumns.toLocaleString("en")} columns shown`, said(error));
    if (changed) score("as the model found it", said(rootMeanSquareOf(modelCodes)));
    reset.disabled = !changed;
    for (const [k, control] of controls) {
      const on = amounts[k] > onFrom;
      control.classList.toggle("on", on);
      control.querySelector(".state").textContent = stateText(k, on);
      if (isSwitch(k)) control.setAttribute("aria-pressed", String(on));
      else {
        const slider = control.querySelector("input");
        slider.value = String(amounts[k]);
        slider.setAttribute("aria-valuetext", said(amounts[k], 2));
      }
    }
    Object.assign(body.dataset, { row: rows.numbers[at], error, on: nOn });
  }

  function rootMeanSquareOf(someCodes) {
    const kept = amounts;
    amounts = someCodes;
    const error = rootMeanSquare(reconstruction());
    amounts = kept;
    return error;
  }

  function titleOf(nOn) {
    const parts = `${nOn} ${nOn === 1 ? "feature" : "features"}`;
    if (nFeatures === 0) return "There are no features to switch: every row is the base alone.";
    const none = inAmounts ? "It has no feature" : "No feature is on";
    if (!nOn) return hasBase ? `${none}: this is the base alone` : none;
    if (hasBase) return `The base and ${parts} add up to it`;
    return `${parts} ${nOn === 1 ? "makes" : "make"} it up`;
  }

  function stateText(k, on) {
    if (!isSwitch(k)) return on ? `× ${said(amounts[k], 2)}` : "none";
    if (!on) return "off";
    return data.codes === "probability" ? `× ${said(amounts[k], 2)}` : "on";
  }

  // A switch, or a slider from nothing to the most that any row has.
  function makeControl(k) {
    const head = make("span", { class: "head" }, make("span", { text: data.image ? `${k}` : `Feature ${k}` }), make("span", { class: "state" }));
    const details = data.image
      ? picture(`Feature ${k}`, componentOf(k), featureScale(componentOf(k))).canvas
      : make("span", {}, ...data.features.top[k].slice(0, 2).map((c) => make("span", { class: "muted name", text: data.features.top_names[c] })));
    const control = isSwitch(k)
      ? make("button", { type: "button", class: "toggle", "data-toggle": k, "aria-pressed": "false", onclick: () => flip(k) }, head, details)
      : make("div", { class: "toggle dial" }, head, details,
        make("input", { type: "range", min: 0, max: mostCodes[k], step: "any", "data-slider": k, "aria-label": `How much of feature ${k}`, oninput: (event) => turn(k, Number(event.target.value)) }));
    if (isSwitch(k) && data.image) control.setAttribute("aria-label", `Feature ${k}`);
    controls.set(k, control);
    return make("li", {}, control);
  }

  function turn(k, amount) {
    amounts[k] = amount;
    update();
  }

  function flip(k) {
    const code = codes[at * nFeatures + k];
    turn(k, amounts[k] > onFrom ? 0 : code > onFrom ? code : 1);
  }

  function open(i) {
    at = i;
    amounts = codesOf(i);
    controls = new Map();
    pictureTrio = null;
    if (![...select.options].some((o) => o.value === String(i))) {
      search.value = "";
      fillSelect();
    }
    select.value = String(i);
    const size = (k) => amounts[k] * data.features.strength[k];
    const all = Array.from({ length: nFeatures }, (_, k) => k);
    const on = all.filter((k) => amounts[k] > onFrom).sort((a, b) => size(b) - size(a));
    const others = all.filter((k) => !(amounts[k] > onFrom));
    const base = make("li", {}, make("div", { class: "toggle base" },
      make("span", { class: "head", title: "What every row has before any feature" }, make("span", { text: "Base" })),
      data.image
        ? picture("Base, what every row has", intercept, baseScale()).canvas
        : make("span", { class: "muted", text: "what every row has before any feature" })));
    onList.classList.toggle("many", on.length > MANY);
    onList.replaceChildren(...(hasBase ? [base] : []), ...on.map(makeControl));
    const faintSum = others.reduce((sum, k) => sum + (amounts[k] > 0.005 ? 1 : 0), 0);
    faint.textContent = faintSum ? `${faintSum} more ${faintSum === 1 ? "has" : "have"} a probability below one half, and ${faintSum === 1 ? "adds its" : "add their"} small share.` : "";
    faint.hidden = !faintSum;
    offNote.textContent = `${others.length} ${others.length === 1 ? "feature" : "features"} that it does not have`;
    offList.replaceChildren();
    off.hidden = !others.length;
    const fillOthers = () => {
      if (!off.open || offList.childElementCount) return;
      offList.append(...others.map(makeControl));
      update();
    };
    off.ontoggle = fillOthers;
    fillOthers();
    update();
  }

  function baseScale() {
    let low = 0, high = 0;
    for (const value of intercept) { low = Math.min(low, value); high = Math.max(high, value); }
    return low < 0 ? { kind: "diverging", low: -largest(intercept), high: largest(intercept) } : { kind: "picture", low, high: high || 1 };
  }

  fillSelect();
  open(Math.max(0, rows.numbers.findIndex((row) => !worstRank.has(row))));

  return {
    open(row) {
      const i = rows.numbers.indexOf(row);
      if (i >= 0) open(i);
    },
    toggle: flip,
    row: () => rows.numbers[at],
    codes: () => Array.from(amounts),
    reconstruction: () => Array.from(reconstruction()),
    error: () => rootMeanSquare(reconstruction()),
  };
})();
page.explorer = explorer;
page.columns = data.column_numbers;

for (const link of document.querySelectorAll("[data-open-row]")) {
  link.addEventListener("click", () => {
    explorer.open(Number(link.dataset.openRow));
    byId("explorer").scrollIntoView();
    byId("row-select").focus({ preventScroll: true });
  });
}
