/* page.js - the state of the page, and the handlers of mouse, keys and buttons. All data come from #facts. */

const facts = JSON.parse(document.getElementById('facts').textContent);
const graphs = [];
const measured = facts.measured_ns !== undefined;

/* ---------------------------------------------------------------- state */

const canvas = document.getElementById('graph'), tip = document.getElementById('tip');
const folded = new Set(), hidden = new Set();
const state = { scene: null, scale: 1, left: 0, top: 0, hovered: null, chosen: null, lit: null, found: new Set(),
                byTime: false, moved: false, measured, mostTime: 1, colours: null,
                dims: (t) => hidden.has(t.provider) };
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

/* The item that shows a node: the node, or the folded partition that contains it. */
function find({ node }) {
  if (!node) return null;
  return state.scene.things.find((t) => t.node === node) ||
         state.scene.things.find((t) => t.kind === 'fold' && t.graph === node.graph &&
                                        t.stretch.index === node.graph.stretchOf[node.region]) || null;
}

/* The values that an item reads or computes: their lines are highlighted. */
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

function showStretch(g, s) {
  state.found = new Set(state.scene.things.filter((t) => t.graph === g &&
    (t.kind === 'fold' ? t.stretch === s : t.kind === 'node' && g.stretchOf[t.node.region] === s.index)));
  choose([...state.found][0] || null, true);
}

/* Folds or unfolds a stretch. */
function foldStretch(g, s) {
  const key = foldKey(g, s.index);
  if (s.nodes < 2) return;
  if (!folded.delete(key)) folded.add(key);
  rebuild(true);
}

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
  let hit = null; /* the innermost: bodies come after their nodes */
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
  const root = document.documentElement, dark = getComputedStyle(root).colorScheme === 'dark';
  root.dataset.theme = dark ? 'light' : 'dark';
  recolour();
});
document.getElementById('shade').addEventListener('change', (e) => {
  state.byTime = e.target.value === 'time';
  redraw();
});
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);

function recolour() {
  state.colours = themeColours();
  redraw();
}

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

/* ---------------------------------------------------------------- start */

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
