/* page.js - reads the JSON, makes the views, and connects search, buttons and panels.
 *
 * #facts is the JSON of `inlay explain`, of one model file, or of two as { a, b }. On the page of `inlay profile` it is
 * the profile, whose times the graph shows, and #graph-facts is the JSON of `inlay explain`. */

const MANY_NODES = 250, FEW_BOXES = 160;

function readJson(id) {
  const e = document.getElementById(id);
  return e ? JSON.parse(e.textContent) : null;
}

/* The times of an `inlay profile`, by node. */
function timesOfSteps(steps) {
  const times = new Map();
  for (const s of steps) if (s.leaf) times.set(s.name, (times.get(s.name) || 0) + s.ns);
  return times;
}

/* The depths of scopes that give different sets of boxes, with the number of boxes and nodes that remain. */
function scopeLevels(g) {
  const levels = [];
  for (let depth = 1; depth <= MOST_DEPTH; depth++) {
    const scopes = new Set(), deep = g.nodes.filter((n) => n.scopes.length >= depth);
    if (deep.length === 0) break;
    for (const n of deep) scopes.add(n.scopes[depth - 1]);
    const boxes = scopes.size + g.nodes.length - deep.length;
    if (scopes.size > 1 && boxes < g.nodes.length * 0.9) levels.push({ depth, boxes });
  }
  return levels;
}

function startGraphs(root, first) {
  const at = (id) => document.getElementById(id);
  const facts = first.main || first.a ? first : readJson('graph-facts');
  const sources = facts.a ? [facts.a, facts.b] : [facts];
  const page = { facts, views: [], hidden: new Set(), folded: new Set(), changes: [], levels: [], find: null,
                 runNs: first.run_ns };
  const times = first.steps ? timesOfSteps(first.steps) : undefined, timed = facts.cost_ns !== undefined;
  const shades = facts.a ? ['difference', 'operator'] : timed ? ['provider', 'time', 'operator'] : ['operator'];
  const search = at('search'), hits = at('hits'), fold = at('fold'), shade = at('shade');
  let active = null, hitAt = -1, drawStrip = () => {};

  for (const p of facts.providers || []) colourOf.set(p.name, HUES[colourOf.size % HUES.length]);

  /* ------------------------------------------------------------ panels */

  function showDetail(view, t) {
    const panel = at('detail');
    panel.hidden = !t;
    panel.replaceChildren();
    if (t) panel.append(el('button', { className: 'close', title: 'Close', onclick: () => view.forget() }, '\u2715'), ...aboutThing(view, t));
  }

  function onChoose(view, t) {
    active = view;
    showDetail(view, t);
    if (t && t.kind === 'node') history.replaceState(null, '', '#node=' + encodeURIComponent(t.node.name));
    for (const other of page.views) {
      if (other === view) continue;
      const twin = t && t.nodes ? t.nodes.map((n) => n.twin).find((n) => n) : null;
      other.showTwin(twin || null);
    }
  }

  function onFold(view, node) {
    for (const v of page.views) v.rebuild(true);
    if (node) view.choose(view.find(node));
  }

  sources.forEach((source, i) => {
    const stage = div('stage');
    const title = facts.a ? 'AB'[i] + ': ' + baseName(source.model) : '';
    if (title) stage.append(el('h2', { className: 'which', title: source.model }, title));
    at('stages').append(stage);
    page.views.push(makeView(stage, source.main, { title, leftOut: source.left_out, panel: at('detail'), folded: page.folded, hidden: page.hidden,
                                                   shade: times ? 'time' : shades[0], timed, times,
                                                   measured: facts.measured_ns !== undefined, onChoose, onFold }));
  });
  if (facts.a) {
    compareGraphs(page.views[0].graphs, page.views[1].graphs);
    page.changes = page.views[0].graphs.flatMap((g) => g.nodes).filter((n) => n.change !== 'same')
      .concat(page.views[1].graphs.flatMap((g) => g.nodes).filter((n) => n.change === 'added'));
  }
  active = page.views[0];

  /* ------------------------------------------------------------ folding */

  page.levels = scopeLevels(page.views[0].main);
  function foldTo(what) {
    page.folded.clear();
    for (const view of page.views)
      for (const g of view.graphs) {
        if (what === 'part') for (const s of g.stretches) page.folded.add(partKey(g, s));
        else for (const n of g.nodes) if (n.scopes.length >= +what) page.folded.add(scopeKey(g, n.scopes[what - 1]));
      }
  }
  const choices = [['none', 'fold: nothing']];
  if (page.views.some((view) => view.graphs.some((g) => g.stretches.length > 0))) choices.push(['part', 'fold: partitions']);
  page.levels.forEach(({ depth, boxes }, i) => choices.push([depth + '', 'fold: scopes ' + (i + 1) + ' (' + boxes + ' boxes)']));
  fold.append(...choices.map(([value, text]) => el('option', { value }, text)));
  fold.addEventListener('change', () => {
    if (fold.value === 'none') page.folded.clear();
    else foldTo(fold.value);
    for (const view of page.views) view.rebuild(false);
  });
  const few = page.levels.filter((level) => level.boxes <= FEW_BOXES);
  if (page.views[0].main.nodes.length > MANY_NODES && page.levels.length > 0) {
    fold.value = (few.length > 0 ? few[few.length - 1] : page.levels[0]).depth;
    foldTo(fold.value);
  }

  /* ------------------------------------------------------------ search */

  const found = () => page.views.flatMap((view) => view.hits.map((node) => ({ view, node })));
  function runSearch() {
    const text = search.value.trim().toLowerCase();
    for (const view of page.views) view.search(text);
    hitAt = -1;
    hits.textContent = text === '' ? '' : '' + found().length;
  }
  page.find = (text) => {
    search.value = text;
    runSearch();
    search.focus();
  };
  search.addEventListener('input', runSearch);
  search.addEventListener('keydown', (e) => {
    const list = found();
    if (e.key === 'Enter' && list.length > 0) {
      hitAt = (hitAt < 0 ? (e.shiftKey ? list.length - 1 : 0) : hitAt + (e.shiftKey ? list.length - 1 : 1)) % list.length;
      list[hitAt].view.goToNode(list[hitAt].node);
      hits.textContent = (hitAt + 1) + ' of ' + list.length;
      search.focus();
    } else if (e.key === 'Escape') {
      search.value = '';
      runSearch();
      search.blur();
    }
  });

  /* ------------------------------------------------------------ keys and buttons */

  root.addEventListener('focusin', (e) => { active = page.views.find((view) => view.canvas === e.target) || active; });
  document.addEventListener('keydown', (e) => {
    if (['INPUT', 'SELECT'].includes(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'Enter' && e.target !== active.canvas && e.target !== document.body) return; /* it presses a button */
    if (page.views.length === 0 || (times && !root.contains(e.target))) return; /* the page has more than a graph */
    if (e.key === '/') search.focus();
    else if (!active.key(e.key)) return;
    e.preventDefault();
  });
  const onClick = (id, what) => at(id).addEventListener('click', what);
  onClick('fit', () => { for (const view of page.views) view.fit(); });
  onClick('nearer', () => active.zoom(1.25));
  onClick('farther', () => active.zoom(0.8));
  onClick('lists', () => root.classList.toggle('with-lists'));
  function recolour() {
    for (const view of page.views) view.recolour(shade.value);
    drawStrip();
  }
  onClick('theme', () => {
    const theme = document.documentElement;
    theme.dataset.theme = getComputedStyle(theme).colorScheme === 'dark' ? 'light' : 'dark';
    recolour();
  });
  shade.append(...shades.map((value) => el('option', { value }, 'colour: ' + value)));
  shade.value = page.views[0].state.shade;
  shade.addEventListener('change', recolour);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);

  function followHash() {
    const match = /^#node=(.*)$/.exec(location.hash);
    if (!match) return;
    let wanted;
    try { wanted = decodeURIComponent(match[1]); } catch { return; }
    for (const view of page.views)
      for (const g of view.graphs) {
        const node = g.nodes.find((n) => n.name === wanted);
        if (node) { view.goToNode(node); return; }
      }
  }
  window.addEventListener('hashchange', followHash);

  /* ------------------------------------------------------------ start */

  const title = sources.map((source) => baseName(source.model)).join(' \u2194 ');
  at('title').textContent = title;
  at('title').title = sources.map((source) => source.model || '').join(' \u2194 ');
  if (!times) document.title = title + ' \u00b7 inlay';
  at('sums').append(...sums(page));
  at('side').append(...side(page));
  at('strip').hidden = !timed;
  if (timed) {
    drawStrip = makeStrip(at('time'), page.views[0]);
    new ResizeObserver(drawStrip).observe(at('strip'));
  }
  for (const view of page.views) view.rebuild(false);
  followHash();
}

const viewer = document.getElementById('viewer');
if (viewer) startGraphs(viewer, readJson('facts'));
