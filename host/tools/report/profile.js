/* profile.js - the page of `inlay profile --html`: time by operator and by module, a typical run as a timeline, each step
 * compared with the machine's roofline, and a table of all steps. All data come from the JSON in #facts. */

const facts = JSON.parse(document.getElementById('facts').textContent);
const page = document.getElementById('page');
const SVG = 'http://www.w3.org/2000/svg';
const COLOURS = ['#3b78c3', '#d9822b', '#3f9d6b', '#b2539c', '#8a6cc9', '#c44e52', '#5aa6a0', '#a08a3c', '#6b7f93', '#cf6f94'];
const colours = new Map();

function shape(tag, attrs, parent) {
  const e = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attrs)) e.setAttribute(key, value);
  if (parent) parent.append(e);
  return e;
}

function label(parent, x, y, text, anchor) {
  shape('text', { x, y, 'text-anchor': anchor || 'start' }, parent).textContent = text;
}

/* The most expensive operators get the first colours. */
function colourOf(op) {
  if (!colours.has(op)) colours.set(op, COLOURS[colours.size % COLOURS.length]);
  return colours.get(op);
}

/* ---------------------------------------------------------------- tooltips and selection */

const tip = el('div', { id: 'tip' });
document.body.append(tip);

function hint(e, step) {
  const lines = [el('b', {}, step.name), `${step.op} on ${step.provider}, ${timeText(step.ns)}`];
  if (step.flops) lines.push(el('br'), `${(step.flops / 1e6).toFixed(2)} Mflop, ${step.gflops_per_s.toFixed(1)} GFLOP/s`);
  if (step.bytes) lines.push(el('br'), `${bytesText(step.bytes)} moved, ${step.gbytes_per_s.toFixed(1)} GB/s`);
  if (step.roofline >= 0) lines.push(el('br'), `${(step.roofline * 100).toFixed(0)}% of the roofline`);
  tip.replaceChildren(...lines);
  tip.style.display = 'block';
  tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
}

function follow(e, step) {
  e.setAttribute('class', 'hit');
  e.addEventListener('mousemove', (m) => hint(m, step));
  e.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
  e.addEventListener('click', () => pick(step.name));
}

function pick(name) {
  for (const row of document.querySelectorAll('tbody tr')) row.classList.toggle('picked', row.dataset.name === name);
  const row = document.querySelector('tr.picked');
  if (row) row.scrollIntoView({ block: 'center' });
}

/* The graph, with the times of the steps, if the page has one. */
function graph() {
  const viewer = document.getElementById('viewer');
  if (document.getElementById('graph-facts')) page.append(el('h2', {}, 'Graph'), viewer);
  else viewer.remove();
}

/* ---------------------------------------------------------------- sections */

const sums = new Map();
for (const s of facts.steps)
  if (s.leaf)
    sums.set(s.op, (sums.get(s.op) || 0) + s.ns);
for (const s of facts.steps) s.scopes = s.module ? scopesOf(s) : [];
const byTime = [...sums].sort((a, b) => b[1] - a[1]);
for (const [op] of byTime) colourOf(op);

function head() {
  const peak = facts.peak_flops_per_s > 0
    ? ` The machine: ${(facts.peak_flops_per_s / 1e9).toFixed(0)} GFLOP/s, ${(facts.peak_bytes_per_s / 1e9).toFixed(1)} GB/s (measured).` : '';
  page.append(el('h1', {}, facts.model || 'a model'),
              el('p', {}, `A run took ${timeText(facts.run_ns)}, the median of ${facts.runs} on ${facts.threads} thread` +
                          `${facts.threads === 1 ? '' : 's'}. Planned memory ${bytesText(facts.slab_bytes)} ` +
                          `(lower bound ${bytesText(facts.lower_bound_bytes)}).${peak}`));
}

function shares() {
  const svg = shape('svg', { viewBox: '0 0 1000 34', preserveAspectRatio: 'none', height: 34 });
  /* Shares are of the run, as in the text; the kernels of concurrent branches may need more than it. */
  const sum = byTime.reduce((all, [, ns]) => all + ns, 0), run = facts.run_ns || sum || 1, width = Math.max(run, sum);
  const rows = byTime.map(([op, ns]) => [op, ns, colourOf(op)]);
  if (run > sum) rows.push(['outside kernels', run - sum, 'var(--line)']);
  const text = (op, ns) => `${op} ${timeText(ns)} (${(ns / run * 100).toFixed(1)}%)`;
  let x = 0;
  for (const [op, ns, colour] of rows) {
    const r = shape('rect', { x, y: 0, width: Math.max(0, ns / width * 1000 - 0.6), height: 34, fill: colour }, svg);
    shape('title', {}, r).textContent = text(op, ns);
    x += ns / width * 1000;
  }
  const shown = rows.length > 16 ? [...rows.slice(0, 15), rows[rows.length - 1]] : rows;
  page.append(el('h2', {}, 'By operator'), svg,
              el('div', { className: 'legend' }, shown.map(([op, ns, colour]) => {
                const mark = el('i');
                mark.style.background = colour;
                return el('span', {}, mark, text(op, ns));
              })));
}

let showSteps = () => {}; /* those whose name, operator or module contains a text */

/* The modules that the model was exported from, if the file names them; a click shows their steps. */
function modules() {
  const items = facts.steps.filter((s) => s.leaf).map((s) => ({ scopes: s.scopes.length > 0 ? s.scopes : ['(no module)'], ns: s.ns }));
  const share = (m) => facts.run_ns > 0 ? (m.ns / facts.run_ns * 100).toFixed(1) + '%' : '';
  const table = moduleTable(items, ['steps', 'time', 'share'], (m) => [num('' + m.items.length), num(timeText(m.ns)), num(share(m))],
                            (m) => showSteps(m.scope + '/'));
  if (table) page.append(el('h2', {}, 'By module'), div('wide', table));
}

/* The width of drawings: that of the page, so that their text has the size of the other text. */
function drawingWidth() {
  return Math.max(300, Math.min(1400, page.clientWidth - parseFloat(getComputedStyle(page).paddingLeft) * 2));
}

/* The run that is nearest to the median: a row for each provider and nesting depth. */
function timeline() {
  const events = facts.timeline, end = Math.max(...events.map((e) => e.begin_ns + e.ns), 1);
  const rows = [...new Set(events.map((e) => e.provider + (e.depth ? ' \u2193' + e.depth : '')))];
  const left = 110, width = drawingWidth(), line = 30, height = rows.length * line + 28;
  const ticks = Math.max(1, Math.min(8, Math.floor((width - left) / 90)));
  const svg = shape('svg', { viewBox: `0 0 ${width} ${height}` });
  const scale = (width - left - 12) / end, detail = new Map(facts.steps.map((s) => [s.name, s]));
  rows.forEach((name, i) => label(svg, left - 8, i * line + 22, name, 'end'));
  for (let k = 0; k <= ticks; k++) {
    const x = left + (width - left - 12) * k / ticks;
    shape('line', { class: 'axis', x1: x, x2: x, y1: 4, y2: height - 18 }, svg);
    label(svg, x, height - 5, timeText(end * k / ticks), k === ticks ? 'end' : k ? 'middle' : 'start');
  }
  for (const e of events) {
    const row = rows.indexOf(e.provider + (e.depth ? ' \u2193' + e.depth : ''));
    const r = shape('rect', { x: left + e.begin_ns * scale, y: row * line + 7, width: Math.max(0.4, e.ns * scale),
                              height: line - 9, fill: colourOf(e.op) }, svg);
    follow(r, { ...detail.get(e.name), ...e });
  }
  page.append(el('h2', {}, 'A typical run'), svg);
}

/* The viewer goes to the node of its page's address: of a step with several nodes, 'first .. last (N nodes)', the first. */
function showInGraph(name) {
  const viewer = document.getElementById('viewer');
  if (!viewer) return;
  location.hash = 'node=' + encodeURIComponent(name.replace(/ \.\. .* \(\d+ nodes\)$/, ''));
  viewer.scrollIntoView({ block: 'nearest' });
}

/* Operations per byte against operations per second, both logarithmic, with the machine's roofline. */
function roofline() {
  const steps = facts.steps.filter((s) => s.leaf && s.flops > 0 && s.bytes > 0 && s.ns > 0);
  if (!steps.length || !(facts.peak_flops_per_s > 0)) return;
  const width = drawingWidth(), height = 420, left = 62, bottom = 34, peak = facts.peak_flops_per_s / 1e9, band = facts.peak_bytes_per_s / 1e9;
  const xs = steps.map((s) => s.flops / s.bytes), ys = steps.map((s) => s.gflops_per_s);
  const range = (list, ...more) => [Math.floor(Math.log10(Math.min(...list, ...more))), Math.ceil(Math.log10(Math.max(...list, ...more)))];
  const [x0, x1] = range(xs, peak / band, 0.1), [y0, y1] = range(ys.filter((y) => y > 0), peak);
  const low = Math.max(y0, -3), px = (v) => left + (Math.log10(v) - x0) / (x1 - x0) * (width - left - 14);
  const py = (v) => 10 + (y1 - Math.max(Math.log10(v), low)) / (y1 - low) * (height - bottom - 10);
  const svg = shape('svg', { viewBox: `0 0 ${width} ${height}` });
  for (let d = x0; d <= x1; d++) {
    shape('line', { class: 'axis', x1: px(10 ** d), x2: px(10 ** d), y1: 10, y2: height - bottom }, svg);
    label(svg, px(10 ** d), height - bottom + 15, String(10 ** d), 'middle');
  }
  for (let d = low; d <= y1; d++) {
    shape('line', { class: 'axis', x1: left, x2: width - 14, y1: py(10 ** d), y2: py(10 ** d) }, svg);
    label(svg, left - 6, py(10 ** d) + 4, String(10 ** d), 'end');
  }
  label(svg, width / 2, height - 4, 'operations per byte', 'middle');
  label(svg, left + 6, 22, 'GFLOP/s');
  shape('path', { class: 'roof', d: `M${px(10 ** x0)},${py(band * 10 ** x0)}L${px(peak / band)},${py(peak)}L${px(10 ** x1)},${py(peak)}` }, svg);
  const slowest = Math.max(...steps.map((s) => s.ns));
  for (const s of [...steps].sort((a, b) => b.ns - a.ns)) {
    const c = shape('circle', { cx: px(s.flops / s.bytes), cy: py(s.gflops_per_s), r: 3 + 15 * Math.sqrt(s.ns / slowest),
                                fill: colourOf(s.op), 'fill-opacity': 0.6 }, svg);
    follow(c, s);
  }
  page.append(el('h2', {}, 'Roofline'), el('p', {}, 'The area of a circle is its share of the time; the dashed line is the limit of the machine. Points above it: kernels that compute fewer operations than the operator has (Winograd), and data in a cache.'), svg);
}

function table() {
  const columns = [
    ['step', (s) => s.name, (s) => s.name], ['operator', (s) => s.op, (s) => s.op], ['provider', (s) => s.provider, (s) => s.provider],
    ['calls', (s) => s.calls, (s) => +s.calls.toFixed(1)], ['time', (s) => s.ns, (s) => timeText(s.ns)],
    ['share', (s) => s.share, (s) => (s.share * 100).toFixed(1) + '%'],
    ['predicted', (s) => s.predicted_ns, (s) => s.predicted_ns ? timeText(s.predicted_ns) : ''],
    ['GFLOP/s', (s) => s.gflops_per_s, (s) => s.gflops_per_s ? s.gflops_per_s.toFixed(1) : ''],
    ['GB/s', (s) => s.gbytes_per_s, (s) => s.gbytes_per_s ? s.gbytes_per_s.toFixed(1) : ''],
    ['roofline', (s) => s.roofline, (s) => s.roofline >= 0 ? (s.roofline * 100).toFixed(0) + '%' : ''],
    ['memory', (s) => s.live_bytes, (s) => bytesText(s.live_bytes)],
  ];
  const body = el('tbody'), search = el('input', { placeholder: 'name, operator or module', oninput: () => fill() });
  let sortBy = 4, down = true;
  function fill() {
    const wanted = search.value.toLowerCase(), key = columns[sortBy][1];
    const list = facts.steps.filter((s) => (s.name + ' ' + s.op + ' ' + (s.scopes[s.scopes.length - 1] || '(no module)') + '/').toLowerCase().includes(wanted));
    list.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down ? -1 : 1));
    body.replaceChildren(...list.slice(0, 2000).map((s) => {
      const row = el('tr', { onclick: () => showInGraph(s.name) }, columns.map(([, , text]) => el('td', { title: String(text(s)) }, String(text(s)))));
      row.dataset.name = s.name;
      return row;
    }));
  }
  page.append(el('h2', {}, 'Steps'), search,
              div('wide', el('table', {}, el('thead', {}, el('tr', {}, columns.map(([name], i) => el('th', {
                onclick: () => { down = sortBy === i ? !down : true; sortBy = i; fill(); } }, name)))), body)));
  showSteps = (text) => {
    search.value = text;
    fill();
    search.scrollIntoView({ block: 'center' });
  };
  fill();
}

head();
shares();
modules();
timeline();
graph();
roofline();
table();
