// Data, elements and numbers. Text of the data only ever becomes textContent.
const data = JSON.parse(document.getElementById("report-data").textContent);
const page = {};
window.ibpReport = page;

function byId(id) {
  return document.getElementById(id);
}

function floats(packed) {
  const double = packed.startsWith("double:");
  const text = atob(double ? packed.slice(7) : packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return double ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function make(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function place(node, styles) {
  Object.assign(node.style, styles);
  return node;
}

function said(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 10 ** Math.max(7, digits + 3) || size < 1e-3) return value.toExponential(Math.max(digits - 1, 1));
  const places = Math.max(digits - 1 - Math.floor(Math.log10(size)), 0);
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(places, 10) });
}

function percent(share, digits = 0) {
  if (share === null || !Number.isFinite(share)) return "–";
  const text = (100 * share).toFixed(digits);
  const least = 10 ** -digits;
  if (share > 0 && Number(text) === 0) return `<${least.toFixed(digits)} %`;
  if (share < 1 && Number(text) === 100) return `>${(100 - least).toFixed(digits)} %`;
  return `${text} %`;
}
