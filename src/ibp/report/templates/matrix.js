// A matrix of coloured cells with a read-out under the pointer, a tap or the arrow keys.
const MOST_WIDTH = 600;

function matrix(box, { values, rows, columns, scale, label, say, ends, acrossNames, downNames }) {
  const readout = make("p", { class: "readout", "aria-live": "polite", text: "Point at a cell, or move with the arrow keys." });
  const canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": label });
  const legend = make("canvas", { role: "img", "aria-label": `Colours from ${ends[0]} to ${ends[1]}` });
  const across = make("div", { class: "marks across", "aria-hidden": "true" }, ...acrossNames.map((name) => make("span", { text: name })));
  const down = make("div", { class: "marks down", "aria-hidden": "true" }, ...downNames.map((name) => make("span", { text: name })));
  box.append(
    make("div", { class: "frame" }, across, down, canvas),
    make("div", { class: "scale" }, make("span", { text: ends[0] }), legend, make("span", { text: ends[1] })),
    readout
  );
  const steps = Array.from({ length: 64 }, (_, i) => scale.low + ((scale.high - scale.low) * i) / 63);
  const repaint = () => {
    paint(canvas, values, columns, rows, scale);
    paint(legend, steps, 64, 1, scale);
  };
  repaint();
  whenThemeChanges(repaint);
  whenSized(box, (width) => {
    const side = Math.max(6, Math.min(34, Math.floor((Math.min(width, MOST_WIDTH) - 32) / columns)));
    // Numbers beside the cells, where there is room for them.
    const tall = rows < columns ? Math.max(side, 16) : side;
    across.hidden = side < 18;
    down.hidden = tall < 12;
    for (const mark of across.children) place(mark, { width: `${side}px`, height: "1.1rem" });
    for (const mark of down.children) place(mark, { height: `${tall}px` });
    place(canvas, { width: `${columns * side}px`, height: `${rows * tall}px` });
  });
  let at = [0, 0];
  const show = (row, column) => {
    at = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    readout.textContent = say(at[0], at[1]);
  };
  const underPointer = (event) => {
    const frame = canvas.getBoundingClientRect();
    show(
      Math.floor(((event.clientY - frame.top) / frame.height) * rows),
      Math.floor(((event.clientX - frame.left) / frame.width) * columns)
    );
  };
  canvas.addEventListener("pointermove", underPointer);
  canvas.addEventListener("pointerdown", underPointer);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    show(at[0] + move[0], at[1] + move[1]);
  });
}
