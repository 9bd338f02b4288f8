/* page.js - the page around the graph: sums, lists, search, details, zoom; everything from the facts in #facts. */

const FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const facts = JSON.parse(document.getElementById('facts').textContent);
const graphs = [];
const measured = facts.measured_ns !== undefined;
const LIST_MOST = 60;

/* ---------------------------------------------------------------- words */

function timeText(ns) {
  const sign = ns <= -0.5 ? '-' : '', x = Math.abs(ns);
  for (const [unit, name] of [[1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s']])
    if (x / unit >= 0.9995) return sign + (x / unit).toFixed(x / unit < 9.995 ? 2 : x / unit < 99.95 ? 1 : 0) + ' ' + name;
  return sign + x.toFixed(0) + ' ns';
}

function changeText(ns) {
  return (ns >= 0.5 ? '+' : '') + timeText(ns);
}

function bytesText(bytes) {
  if (bytes < 1024) return bytes + ' B';
  let x = bytes / 1024, unit = 0;
  for (; x >= 1023.95 && unit < 3; unit++) x /= 1024;
  return x.toFixed(x < 99.95 ? 1 : 0) + ' ' + ['KiB', 'MiB', 'GiB', 'TiB'][unit];
}

function shapeText(v) {
  return v.dtype + (v.shape ? '[' + v.shape.join(',') + ']' : '[\u2026]');
}

function many(count, one, more) {
  return count + ' ' + (count === 1 ? one : more);
}

/* An element. Texts become text nodes, never markup. */
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

function chip(name) {
  return el('span', { className: 'chip', style: { background: providerColour(name) } });
}

function bar(share, colour) {
  return el('div', { className: 'bar' },
            el('i', { style: { width: Math.max(0, Math.min(1, share)) * 100 + '%', background: colour } }));
}

/* ---------------------------------------------------------------- state */

const canvas = document.getElementById('graph'), tip = document.getElementById('tip');
const folded = new Set(), hidden = new Set();
const state = { scene: null, scale: 1, left: 0, top: 0, hovered: null, chosen: null, lit: null, found: new Set(),
                byTime: false, moved: false, measured, mostTime: 1, colours: null, dims: (t) => hidden.has(t.provider) };
let hits = [], hitAt = -1, frame = 0, fittedTo = '';

function redraw() {
  if (frame === 0) frame = requestAnimationFrame(() => { frame = 0; drawScene(canvas, state); });
}

function rebuild(keepView) {
  const aspect = Math.max(0.3, canvas.clientWidth / Math.max(1, canvas.clientHeight));
  state.scene = buildScene(facts.main, folded, aspect);
  state.mostTime = state.scene.things.reduce((m, t) => t.bodies ? m : Math.max(m, thingTime(t, measured)), 1);
  state.hovered = null;
  if (state.chosen) state.chosen = find(state.chosen.node ? { node: state.chosen.node } : {});
  if (!keepView) fitAll();
  runSearch(false);
  redraw();
}

function fitAll() {
  const w = canvas.clientWidth, h = canvas.clientHeight, pad = 24;
  state.scale = Math.min(1.25, (w - 2 * pad) / Math.max(1, state.scene.width),
                         (h - 2 * pad - 16) / Math.max(1, state.scene.height + 28));
  fittedTo = w + ' ' + h;
  state.left = state.scene.width / 2 - w / 2 / state.scale;
  state.top = state.scene.height / 2 - h / 2 / state.scale;
  redraw();
}

function centre(t, scale) {
  state.moved = true;
  state.scale = Math.max(state.scale, scale || 0.8);
  state.left = t.x + t.w / 2 - canvas.clientWidth / 2 / state.scale;
  state.top = t.y + Math.min(t.h, 300) / 2 - canvas.clientHeight / 2 / state.scale;
  redraw();
}

/* The thing that shows a node: itself, or the folded stretch that it is in. */
function find({ node }) {
  if (!node) return null;
  return state.scene.things.find((t) => t.node === node) ||
         state.scene.things.find((t) => t.kind === 'fold' && t.graph === node.graph &&
                                        t.stretch.index === node.graph.stretchOf[node.region]) || null;
}

function litBy(t) {
  if (!t) return null;
  const values = new Set();
  if (t.kind === 'node') {
    readsOf(t.node).concat(t.node.outputs).forEach((v) => values.add(v));
  } else if (t.kind === 'fold') {
    for (const n of t.graph.nodes)
      if (t.graph.stretchOf[n.region] === t.stretch.index) readsOf(n).concat(n.outputs).forEach((v) => values.add(v));
  } else {
    values.add(t.value);
  }
  return { graph: t.graph, values };
}

function choose(t, move) {
  state.chosen = t;
  state.lit = litBy(t);
  showDetail(t);
  if (t && t.kind === 'node') history.replaceState(null, '', '#node=' + encodeURIComponent(t.node.name));
  if (t && move) centre(t);
  redraw();
}

function goToNode(node) {
  const key = foldKey(node.graph, node.graph.stretchOf[node.region]);
  if (folded.delete(key)) rebuild(true);
  choose(find({ node }), true);
}

/* ---------------------------------------------------------------- the side: sums and lists */

function sums() {
  const pair = (label, value) => el('div', null, el('b', null, value), el('span', null, label));
  const base = (facts.model || 'model').split('/').slice(-2).join('/');
  document.title = base + ' \u00b7 inlay explain';
  document.getElementById('title').textContent = base;
  document.getElementById('title').title = facts.model || '';
  const list = [pair('predicted', timeText(facts.cost_ns))];
  if (measured) list.push(pair('measured (' + (facts.measured_ns / facts.cost_ns).toFixed(2) + '\u00d7)', timeText(facts.measured_ns)));
  list.push(pair(facts.nodes === 1 ? 'node' : 'nodes', '' + facts.nodes), pair(facts.regions === 1 ? 'region' : 'regions', '' + facts.regions),
            pair(facts.threads === 1 ? 'thread' : 'threads', '' + facts.threads), pair('policy', facts.policy));
  document.getElementById('sums').append(...list);
}

function providerTable() {
  const rows = facts.providers.map((p) => {
    const share = facts.cost_ns > 0 ? p.cost_ns / facts.cost_ns : 0;
    const row = el('tr', { className: 'go', title: 'Show or hide', onclick: () => {
      if (!hidden.delete(p.name)) hidden.add(p.name);
      row.classList.toggle('off', hidden.has(p.name));
      redraw();
    } }, el('td', { className: 'who' }, chip(p.name), p.name, bar(share, providerColour(p.name))), el('td', { className: 'n' }, '' + p.nodes),
    el('td', { className: 'n' }, timeText(p.cost_ns)),
    measured ? el('td', { className: 'n' }, timeText(p.measured_ns)) : null,
    el('td', { className: 'n' }, (share * 100).toFixed(1) + '%'));
    return row;
  });
  if (facts.copies_ns > 0)
    rows.push(el('tr', null, el('td', null, el('span', { className: 'chip', style: { background: 'var(--copy)' } }), 'copies'), el('td'),
                 el('td', { className: 'n' }, timeText(facts.copies_ns)), measured ? el('td') : null,
                 el('td', { className: 'n' }, (100 * facts.copies_ns / facts.cost_ns).toFixed(1) + '%')));
  return el('table', null, el('tr', null, el('th', null, 'provider'), el('th', { className: 'n' }, 'nodes'),
                              el('th', { className: 'n' }, 'predicted'),
                              measured ? el('th', { className: 'n' }, 'measured') : null, el('th', { className: 'n' }, 'share')), rows);
}

function providerMemory() {
  const rows = facts.providers.filter((p) => p.resident_bytes > 0 || p.peak_bytes > 0).map((p) =>
    el('tr', null, el('td', null, chip(p.name), p.name), el('td', { className: 'n' }, bytesText(p.resident_bytes)),
       el('td', { className: 'n' }, bytesText(p.peak_bytes) + (p.limit_bytes ? ' of ' + bytesText(p.limit_bytes) : ''))));
  return rows.length === 0 ? null
    : [el('h2', null, 'Memory'), el('table', null, el('tr', null, el('th', null, 'provider'), el('th', { className: 'n' }, 'resident'),
                                                     el('th', { className: 'n' }, 'peak')), rows)];
}

function whatIf() {
  const w = facts.what_if;
  if (!w) return null;
  const head = el('b', null, 'what if ' + w.rules.join(', '));
  if (!w.possible) return el('div', { className: 'note bad' }, head, el('div', null, w.reason));
  const change = w.cost_ns - facts.cost_ns;
  return el('div', { className: 'note what' }, head,
            el('div', null, timeText(w.cost_ns) + ' instead of ' + timeText(facts.cost_ns) + ': ',
               el('b', { className: change > 0 ? 'up' : 'down' }, changeText(change))),
            w.moves.map((m) => el('div', { className: 'faint' }, many(m.count, 'node', 'nodes') + ' ' + m.from + ' \u2192 ' + m.to)));
}

/* A heading, and rows of which the first few show at once. */
function listOf(title, all, row) {
  if (all.length === 0) return null;
  const table = el('table', null, all.slice(0, LIST_MOST).map(row));
  const rest = all.length <= LIST_MOST ? null
    : el('button', { className: 'more', onclick: () => { table.append(...all.slice(LIST_MOST).map(row)); rest.remove(); } },
         (all.length - LIST_MOST) + ' more');
  return [el('h2', null, title), table, rest];
}

function rivalText(r) {
  if (Math.abs(r.extra_ns) < 0.5) return 'a tie with ' + r.provider;
  return 'by ' + r.provider + (r.kind === 'about' ? ' about ' : ' ') + changeText(r.extra_ns);
}

function stretchList() {
  const all = [];
  for (const g of graphs) for (const s of g.stretches) all.push({ g, s });
  const most = all.reduce((m, x) => Math.max(m, x.s.cost_ns), 1);
  all.sort((a, b) => b.s.cost_ns - a.s.cost_ns);
  return listOf('Stretches, dearest first', all, ({ g, s }) => {
    const first = g.nodes[g.regions[s.first_region].nodes[0]], r = s.runner_up;
    return el('tr', { className: 'go', onclick: () => showStretch(g, s), ondblclick: () => foldStretch(g, s) },
              el('td', null, chip(s.provider), el('span', { className: 'name' }, s.nodes === 1 ? first.op + ' ' + first.name : summary(g, s)),
                 el('div', { className: 'faint' }, r ? rivalText(r) : s.provider === 'host' ? 'runs bodies' : 'nobody else'),
                 bar(s.cost_ns / most, providerColour(s.provider))),
              el('td', { className: 'n' }, timeText(s.cost_ns),
                 s.measured_ns !== undefined ? el('div', { className: 'faint' }, timeText(s.measured_ns)) : null));
  });
}

function refusalList() {
  return listOf('Refused', facts.refusals, (r) => el('tr', null, el('td', null, chip(r.provider), r.text,
    r.accepted_if ? el('div', { className: 'faint' }, 'accepted if: ' + r.accepted_if) : null),
    el('td', { className: 'n', title: r.nodes.join(', ') }, many(r.count, 'node', 'nodes'))));
}

function copyList() {
  const all = [];
  for (const g of graphs) for (const c of g.copies) all.push({ g, c });
  all.sort((a, b) => b.c.cost_ns - a.c.cost_ns);
  return listOf('Copies', all, ({ g, c }) => el('tr', { className: 'go', onclick: () => {
    const node = g.nodes.find((n) => n.name === (c.to_node || c.from_node));
    if (node) goToNode(node);
  } }, el('td', null, el('span', { className: 'name' }, c.name), el('div', { className: 'faint' }, c.from + ' \u2192 ' + c.to)),
  el('td', { className: 'n' }, timeText(c.cost_ns), el('div', { className: 'faint' }, bytesText(c.bytes)))));
}

function absentList() {
  const all = facts.not_used.map((x) => [x.provider, x.reason]).concat(facts.not_loaded.map((x) => [x.file, x.reason]));
  return listOf('Not in use', all, ([name, reason]) => el('tr', null, el('td', { className: 'name' }, el('b', null, name),
    el('div', { className: 'faint' }, reason || 'no reason given'))));
}

function side() {
  const parts = [whatIf(), el('h2', null, 'Providers'), providerTable(), providerMemory(), stretchList(), copyList(), refusalList(), absentList()];
  document.getElementById('side').append(...parts.flat().filter((x) => x !== null));
}

function showStretch(g, s) {
  const nodes = new Set();
  for (let r = s.first_region; r < s.first_region + s.regions; r++) g.regions[r].nodes.forEach((n) => nodes.add(g.nodes[n]));
  state.found = new Set(state.scene.things.filter((t) => nodes.has(t.node) || (t.kind === 'fold' && t.graph === g && t.stretch === s)));
  choose([...state.found][0] || null, true);
}

function foldStretch(g, s) {
  const key = foldKey(g, s.index);
  if (s.nodes < 2) return;
  if (!folded.delete(key)) folded.add(key);
  rebuild(true);
}

/* ---------------------------------------------------------------- details */

function valueRow(g, v, of) {
  const value = g.values[v], maker = g.maker[v];
  const ends = of === 'out' ? g.nodes.filter((n) => readsOf(n).includes(v)) : maker >= 0 ? [g.nodes[maker]] : [];
  const copies = g.copiesOf.get(v) || [];
  return el('tr', null, el('td', null, el('div', { className: 'name' }, value.name),
    el('div', { className: 'faint' }, shapeText(value) + (value.constant ? ', constant' : '')),
    ends.slice(0, 6).map((n) => el('div', null, of === 'out' ? '\u2192 ' : '\u2190 ', chip(n.provider),
      el('button', { className: 'link', onclick: () => goToNode(n) }, n.op + ' ' + n.name))),
    ends.length > 6 ? el('div', { className: 'faint' }, 'and ' + (ends.length - 6) + ' more') : null,
    copies.map((c) => el('div', { style: { color: 'var(--copy)' } }, 'copied ' + c.from + ' \u2192 ' + c.to + ', ' + timeText(c.cost_ns)))),
  el('td', { className: 'n' }, bytesText(value.bytes)));
}

function answers(node) {
  const most = node.offers.reduce((m, o) => Math.max(m, o.cost_ns), 1);
  const offers = node.offers.map((o) => el('tr', null, el('td', null, chip(o.provider), o.chosen ? el('b', null, o.provider) : o.provider,
    o.chosen ? el('span', { className: 'faint' }, ' chosen') : null,
    o.nodes ? el('span', { className: 'faint' }, ' for ' + o.nodes + ' nodes') : null,
    bar(o.cost_ns / most, providerColour(o.provider))),
  el('td', { className: 'n' }, timeText(o.cost_ns), el('div', { className: 'faint' }, o.price))));
  const refusals = (node.refused_by || []).map((r) => el('tr', null, el('td', { colSpan: 2 }, chip(r.provider), r.provider + ' refused: ',
    el('span', null, r.text), r.accepted_if ? el('div', { className: 'faint' }, 'accepted if: ' + r.accepted_if) : null)));
  return offers.length + refusals.length === 0 ? null : [el('h2', null, 'Answers'), el('table', null, offers, refusals)];
}

function timesOf(x) {
  const rows = [['predicted', timeText(x.cost_ns) + ' (' + x.price + ')']];
  if (x.measured_ns !== undefined)
    rows.push(['measured', timeText(x.measured_ns) + (x.cost_ns > 0 ? ' (' + (x.measured_ns / x.cost_ns).toFixed(2) + '\u00d7)' : '')]);
  rows.push(['in', bytesText(x.bytes_in)], ['out', bytesText(x.bytes_out)]);
  if (x.resident_bytes > 0) rows.push(['resident', bytesText(x.resident_bytes)]);
  if (x.workspace_bytes > 0) rows.push(['workspace', bytesText(x.workspace_bytes)]);
  return el('table', null, rows.map(([k, v]) => el('tr', null, el('td', { className: 'faint' }, k), el('td', { className: 'n' }, v))));
}

function runnerUp(s) {
  const r = s.runner_up;
  if (!r) return s.provider === 'host' ? null : el('div', { className: 'note' }, 'Nobody else can run ' + (s.nodes === 1 ? 'it.' : 'any of it.'));
  return el('div', { className: 'note' }, 'Runner-up: ', chip(r.provider), r.provider + ', ', el('b', null, changeText(r.extra_ns)),
            r.kind === 'about' ? ' by the offers alone' : ' in all',
            r.nodes < s.nodes ? ' (' + r.nodes + ' of ' + s.nodes + ' nodes could go)' : '');
}

function showDetail(t) {
  const panel = document.getElementById('detail'), was = panel.hidden;
  panel.hidden = !t;
  panel.replaceChildren();
  if (t) {
    const g = t.graph, close = el('button', { className: 'close', title: 'Close', onclick: () => { state.found = new Set(); choose(null); } }, '\u2715');
    if (t.kind === 'node') {
      const n = t.node, s = g.stretches[g.stretchOf[n.region]];
      panel.append(close, el('h3', null, n.op), el('div', { className: 'name' }, n.name),
        el('div', { className: 'faint' }, n.domain + ' ' + n.since_version + ' \u00b7 ' + g.path + ' \u00b7 region ' + n.region),
        el('p', null, chip(n.provider), el('b', null, n.provider)), timesOf(t.region), runnerUp(s), ...(answers(n) || []),
        el('h2', null, 'Inputs'), el('table', null, n.inputs.concat(n.captures || []).filter((v) => v >= 0).map((v) => valueRow(g, v, 'in'))),
        el('h2', null, 'Outputs'), el('table', null, n.outputs.filter((v) => v >= 0).map((v) => valueRow(g, v, 'out'))));
      if (s.nodes > 1) panel.append(el('button', { className: 'more', onclick: () => foldStretch(g, s) }, 'Fold its stretch of ' + s.nodes + ' nodes'));
    } else if (t.kind === 'fold') {
      panel.append(close, el('h3', null, many(t.stretch.nodes, 'node', 'nodes')), el('div', null, summary(g, t.stretch)),
        el('p', null, chip(t.provider), el('b', null, t.provider)), timesOf(t.stretch), runnerUp(t.stretch),
        el('button', { className: 'more', onclick: () => foldStretch(g, t.stretch) }, 'Unfold'));
    } else {
      panel.append(close, el('h3', null, t.kind === 'input' ? 'Input' : 'Output'), el('table', null, valueRow(g, t.value, t.kind === 'input' ? 'out' : 'in')));
    }
  }
  if (was !== panel.hidden) redraw();
}

function showTip(t, x, y) {
  tip.hidden = !t;
  if (!t) return;
  const g = t.graph, lines = [];
  if (t.kind === 'node') {
    lines.push(el('b', null, t.node.op), ' ', el('span', { className: 'name faint' }, t.node.name));
    lines.push(el('div', null, chip(t.provider), t.provider + ' \u00b7 ' + timeText(t.region.cost_ns) +
      (t.region.measured_ns !== undefined ? ', measured ' + timeText(t.region.measured_ns) : '') + (t.region.nodes.length > 1 ? ' for its region' : '')));
    for (const v of t.node.outputs) if (v >= 0) lines.push(el('div', { className: 'faint' }, '\u2192 ' + shapeText(g.values[v]) + ' \u00b7 ' + bytesText(g.values[v].bytes)));
    for (const o of t.node.offers) if (!o.chosen) lines.push(el('div', { className: 'faint' }, o.provider + ' offered ' + timeText(o.cost_ns)));
    for (const r of t.node.refused_by || []) lines.push(el('div', { className: 'faint' }, r.provider + ': ' + r.text));
  } else if (t.kind === 'fold') {
    lines.push(el('b', null, many(t.stretch.nodes, 'node', 'nodes')), el('div', null, chip(t.provider), t.provider + ' \u00b7 ' + timeText(t.stretch.cost_ns)),
               el('div', { className: 'faint' }, summary(g, t.stretch)), el('div', { className: 'faint' }, 'double click unfolds'));
  } else {
    lines.push(el('b', null, t.kind), ' ', el('span', { className: 'name' }, g.values[t.value].name), el('div', { className: 'faint' }, shapeText(g.values[t.value])));
  }
  tip.replaceChildren(...lines);
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 16, canvas.clientWidth - w - 6)) + 'px';
  tip.style.top = (y + 18 + h > canvas.clientHeight ? Math.max(4, y - h - 12) : y + 18) + 'px';
}

/* ---------------------------------------------------------------- the strip of time */

const strip = document.getElementById('time');
let stripParts = [];

function drawStrip() {
  const ctx = strip.getContext('2d'), ratio = window.devicePixelRatio || 1, w = strip.clientWidth, h = strip.clientHeight;
  const g = facts.main, time = (s) => measured && s.measured_ns !== undefined ? s.measured_ns : s.cost_ns;
  const total = g.stretches.reduce((sum, s) => sum + time(s), 0) || 1;
  strip.width = Math.round(w * ratio);
  strip.height = Math.round(h * ratio);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  stripParts = [];
  let x = 0;
  for (const s of g.stretches) {
    const width = time(s) / total * w;
    ctx.fillStyle = providerColour(s.provider);
    ctx.fillRect(x, 0, Math.max(0.3, width - (width > 4 ? 1 : 0)), h);
    stripParts.push({ x, end: x + width, s });
    x += width;
  }
}

strip.addEventListener('click', (e) => {
  const part = stripParts.find((p) => e.offsetX >= p.x && e.offsetX <= p.end);
  if (part) showStretch(facts.main, part.s);
});
strip.addEventListener('mousemove', (e) => {
  const part = stripParts.find((p) => e.offsetX >= p.x && e.offsetX <= p.end);
  strip.title = part ? part.s.provider + ', ' + summary(facts.main, part.s) + ': ' + timeText(part.s.cost_ns) : '';
});

/* ---------------------------------------------------------------- search */

const search = document.getElementById('search');

function runSearch(move) {
  const text = search.value.trim().toLowerCase();
  if (text === '') {
    if (hits.length > 0) state.found = new Set();
    hits = [];
  } else {
    hits = [];
    for (const g of graphs) for (const n of g.nodes)
      if (n.name.toLowerCase().includes(text) || n.op.toLowerCase().includes(text) || n.provider === text) hits.push(n);
    state.found = new Set(hits.map((node) => find({ node })).filter((t) => t));
  }
  if (move) hitAt = -1;
  document.getElementById('hits').textContent = text === '' ? '' : '' + hits.length;
  redraw();
}

search.addEventListener('input', () => runSearch(true));
search.addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && hits.length > 0) {
    hitAt = (hitAt + (e.shiftKey ? hits.length - 1 : 1)) % hits.length;
    goToNode(hits[hitAt]);
    document.getElementById('hits').textContent = (hitAt + 1) + ' of ' + hits.length;
    search.focus();
  } else if (e.key === 'Escape') {
    search.value = '';
    runSearch(true);
    search.blur();
  }
});

/* ---------------------------------------------------------------- mouse, keys, buttons */

function thingAt(x, y) {
  const px = x / state.scale + state.left, py = y / state.scale + state.top;
  let hit = null; /* the innermost: bodies come after what holds them */
  for (const t of state.scene.things) if (px >= t.x && px <= t.x + t.w && py >= t.y && py <= t.y + t.h) hit = t;
  return hit;
}

function zoom(factor, x, y) {
  state.moved = true;
  const scale = Math.min(4, Math.max(0.02, state.scale * factor));
  state.left += x / state.scale - x / scale;
  state.top += y / state.scale - y / scale;
  state.scale = scale;
  redraw();
}

let drag = null;
canvas.addEventListener('pointerdown', (e) => {
  drag = { x: e.offsetX, y: e.offsetY, left: state.left, top: state.top, moved: false };
  canvas.setPointerCapture(e.pointerId);
});
canvas.addEventListener('pointermove', (e) => {
  if (drag) {
    const dx = e.offsetX - drag.x, dy = e.offsetY - drag.y;
    drag.moved = drag.moved || Math.hypot(dx, dy) > 4;
    state.moved = state.moved || drag.moved;
    state.left = drag.left - dx / state.scale;
    state.top = drag.top - dy / state.scale;
    canvas.classList.toggle('dragging', drag.moved);
    if (drag.moved) { showTip(null); redraw(); }
    return;
  }
  const t = thingAt(e.offsetX, e.offsetY);
  showTip(t, e.offsetX, e.offsetY);
  if (t === state.hovered) return;
  state.hovered = t;
  state.lit = litBy(t || state.chosen);
  canvas.classList.toggle('over', t !== null);
  redraw();
});
canvas.addEventListener('pointerup', (e) => {
  if (drag && !drag.moved) {
    state.found = new Set();
    choose(thingAt(e.offsetX, e.offsetY));
  }
  drag = null;
  canvas.classList.remove('dragging');
});
canvas.addEventListener('pointerleave', () => {
  showTip(null);
  state.hovered = null;
  state.lit = litBy(state.chosen);
  redraw();
});
canvas.addEventListener('dblclick', (e) => {
  const t = thingAt(e.offsetX, e.offsetY);
  if (t && t.kind === 'fold') foldStretch(t.graph, t.stretch);
  else if (t && t.kind === 'node') foldStretch(t.graph, t.graph.stretches[t.graph.stretchOf[t.node.region]]);
});
canvas.addEventListener('wheel', (e) => {
  e.preventDefault();
  if (e.ctrlKey || !e.shiftKey) zoom(Math.exp(-e.deltaY * 0.0016), e.offsetX, e.offsetY);
  else { state.left += e.deltaY / state.scale; redraw(); }
}, { passive: false });

document.addEventListener('keydown', (e) => {
  if (e.target.tagName === 'INPUT' || e.ctrlKey || e.metaKey || e.altKey) return;
  const step = 60 / state.scale, mid = [canvas.clientWidth / 2, canvas.clientHeight / 2];
  const keys = { f: fitAll, '+': () => zoom(1.25, ...mid), '=': () => zoom(1.25, ...mid), '-': () => zoom(0.8, ...mid),
                 ArrowLeft: () => { state.left -= step; }, ArrowRight: () => { state.left += step; },
                 ArrowUp: () => { state.top -= step; }, ArrowDown: () => { state.top += step; },
                 Escape: () => { state.found = new Set(); choose(null); }, '/': () => search.focus() };
  if (!keys[e.key]) return;
  e.preventDefault();
  keys[e.key]();
  redraw();
});

function onClick(id, what) {
  document.getElementById(id).addEventListener('click', what);
}
onClick('fit', fitAll);
onClick('fold', () => {
  for (const g of graphs) g.stretches.forEach((s, i) => { if (s.nodes > 1) folded.add(foldKey(g, i)); });
  rebuild(false);
});
onClick('unfold', () => { folded.clear(); rebuild(false); });
onClick('theme', () => {
  const root = document.documentElement, dark = getComputedStyle(root).getPropertyValue('--ground').trim() === '#14171c';
  root.dataset.theme = dark ? 'light' : 'dark';
  state.colours = themeColours();
  redraw();
});
document.getElementById('shade').addEventListener('change', (e) => { state.byTime = e.target.value === 'time'; redraw(); });
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { state.colours = themeColours(); redraw(); });

function followHash() {
  const match = /^#node=(.*)$/.exec(location.hash);
  if (!match) return;
  let name;
  try { name = decodeURIComponent(match[1]); } catch { return; }
  for (const g of graphs) {
    const node = g.nodes.find((n) => n.name === name);
    if (node) { goToNode(node); return; }
  }
}
window.addEventListener('hashchange', followHash);

/* ---------------------------------------------------------------- the beginning */

facts.providers.forEach((p, i) => colourOf.set(p.name, HUES[i % HUES.length]));
indexGraph(facts.main, graphs, null);
state.colours = themeColours();
sums();
side();
new ResizeObserver(() => {
  drawStrip();
  if (!state.moved && fittedTo !== canvas.clientWidth + ' ' + canvas.clientHeight) rebuild(false);
  redraw();
}).observe(document.getElementById('stage'));
rebuild(false);
followHash();
