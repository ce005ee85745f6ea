// Numbers as colours: from the background towards ink, or blue and orange about it. Of pictures,
// bright is high in both themes, or photographs would look like negatives.
const BRIGHT = [[24, 29, 38], [38, 68, 128], [98, 148, 244], [232, 240, 255]];
const RAMPS = {
  light: {
    picture: BRIGHT,
    sequential: [[246, 247, 250], [178, 199, 240], [72, 115, 210], [20, 44, 108]],
    diverging: [[150, 58, 8], [232, 150, 88], [246, 247, 250], [110, 150, 232], [24, 58, 150]],
  },
  dark: {
    picture: BRIGHT,
    sequential: BRIGHT,
    diverging: [[255, 190, 130], [176, 92, 36], [24, 29, 38], [52, 96, 190], [150, 190, 255]],
  },
};

function ramp(kind) {
  const stops = RAMPS[isDark() ? "dark" : "light"][kind];
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; c++) table[3 * i + c] = stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c]);
  }
  return table;
}

// Fill a canvas with one pixel per value; what is missing stays clear, and hatched by its style.
function paint(canvas, values, width, height, { kind, low, high }) {
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  const table = ramp(kind);
  const span = high - low || 1;
  for (let i = 0; i < width * height; i++) {
    const value = values[i];
    if (!Number.isFinite(value)) continue;
    const at = 3 * Math.max(0, Math.min(255, Math.round((255 * (value - low)) / span)));
    image.data[4 * i] = table[at];
    image.data[4 * i + 1] = table[at + 1];
    image.data[4 * i + 2] = table[at + 2];
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function largest(values) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most || 1;
}

// A picture of what a feature adds: signed ones about zero, the others from zero.
function featureScale(values) {
  const most = largest(values);
  return data.signed ? { kind: "diverging", low: -most, high: most } : { kind: "picture", low: 0, high: most };
}

// Width over height; a very long picture is squeezed, or it would be a thread or a tower.
const LONGEST = 4;
function pictureRatio() {
  return Math.max(1 / LONGEST, Math.min(LONGEST, data.image[1] / data.image[0]));
}

// Repaints every picture that is still on the page when the theme changes.
const pictures = new Set();
whenThemeChanges(() => {
  for (const picture of pictures) {
    if (picture.canvas.isConnected) picture.paint();
    else pictures.delete(picture);
  }
});

function picture(label, values, scale) {
  const [height, width] = data.image;
  const canvas = make("canvas", { class: "picture", role: "img", "aria-label": label });
  if (pictureRatio() !== width / height) place(canvas, { aspectRatio: String(pictureRatio()) });
  const own = {
    canvas,
    paint: () => paint(canvas, own.values, width, height, own.scale),
    update(newValues, newScale) {
      own.values = newValues;
      own.scale = newScale;
      own.paint();
    },
  };
  own.update(values, scale);
  pictures.add(own);
  return own;
}
