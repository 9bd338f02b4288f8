/* words.js - formatting and elements. Texts of models and plugins become text nodes, never markup. */

const FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

function digits(x) {
  return x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0);
}

function timeText(ns) {
  if (ns === undefined) return '-';
  const sign = ns <= -0.5 ? '-' : '', x = Math.abs(ns);
  for (const [unit, name] of [[1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s']])
    if (x / unit >= 0.9995) return sign + digits(x / unit) + ' ' + name;
  return sign + x.toFixed(0) + ' ns';
}

/* Nanojoules, in the steps of timeText(). */
function joulesText(nj) {
  return timeText(nj).replace(/s$/, 'J');
}

function changeText(ns) {
  return (ns >= 0.5 ? '+' : '') + timeText(ns);
}

function ratioText(actual, expected) {
  const ratio = actual / expected;
  return expected > 0 ? ' (' + (ratio < 999 ? digits(ratio) : '>999') + '\u00d7)' : '';
}

function bytesText(bytes) {
  if (bytes < 1024) return bytes + ' B';
  let x = bytes / 1024, unit = 0;
  for (; x >= 1023.95 && unit < 3; unit++) x /= 1024;
  return x.toFixed(x < 99.95 ? 1 : 0) + ' ' + ['KiB', 'MiB', 'GiB', 'TiB'][unit];
}

/* The type of a value; '' if it is unknown. */
function shapeText(v) {
  if (!v.dtype) return '';
  return (v.kind ? v.kind + ' of ' : '') + v.dtype + (v.shape ? '[' + v.shape.join(',') + ']' : '[\u2026]');
}

function many(count, one, more) {
  return count + ' ' + (count === 1 ? one : more);
}

/* Creates an element with properties (on... are listeners) and children; null children are skipped. */
function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (key === 'style') Object.assign(e.style, value);
    else e[key] = value;
  }
  for (const c of children.flat()) if (c !== null && c !== undefined) e.append(c);
  return e;
}

function div(className, ...children) {
  return el('div', { className }, ...children);
}

function faint(text) {
  return div('faint', text);
}

function name(text) {
  return el('span', { className: 'name' }, text);
}

function bar(share, colour) {
  const width = Math.max(0, Math.min(1, share)) * 100 + '%';
  return div('bar', el('i', { style: { width, background: colour } }));
}

function td(...children) {
  return el('td', null, ...children);
}

/* A right-aligned cell: a number, and a fainter line below. */
function num(text, below) {
  return el('td', { className: 'n' }, text, below === undefined ? null : faint(below));
}

/* Column headings; all but the first are above numbers. */
function heads(...texts) {
  return el('tr', null, texts.filter((t) => t !== null).map((t, i) => el('th', { className: i > 0 ? 'n' : '' }, t)));
}

/* A table row that reacts to clicks, and to Enter. */
function go(props, ...cells) {
  const press = (e) => { if (e.key === 'Enter' && e.target === e.currentTarget) e.currentTarget.click(); };
  return el('tr', Object.assign({ className: 'go', tabIndex: 0, onkeydown: press }, props), ...cells);
}
