/* view.js - one graph on a stage: its state, and the handlers of mouse, touch and keys.
 *
 *   makeView(stage, main, options) -> view
 *
 * options: { title, leftOut, panel, folded, hidden, shade, timed, times, measured, onChoose, onFold }; folded and hidden are shared
 * by the views of a page. onChoose(view, thing) is called for a new choice, or null; onFold(view, node) after a change
 * of folded: it rebuilds the views, and chooses what shows the node now. */

function makeView(stage, main, options) {
  const canvas = el('canvas', { className: 'graph', tabIndex: 0 }), tip = div('tip'), note = div('status');
  const graphs = [], folded = options.folded;
  const state = { scene: null, scale: 1, left: 0, top: 0, hovered: null, chosen: null, lit: null, found: new Set(),
                  shade: options.shade, timed: options.timed, moved: false, mostTime: 1, colours: themeColours(),
                  dims: (t) => t.nodes !== undefined && options.hidden.has(t.provider) };
  const view = { canvas, state, graphs, main, hits: [] };
  let frame = 0, fittedTo = '';

  indexGraph(main, graphs, options, null);
  canvas.setAttribute('role', 'application');
  canvas.setAttribute('aria-label', 'Graph' + (options.title ? ' of ' + options.title : '') +
                      '. Arrows move, + and - zoom, n and p go to the next and previous node, Enter folds.');
  note.setAttribute('role', 'status');
  tip.hidden = true;
  stage.append(canvas, note, tip);

  /* ------------------------------------------------------------ drawing */

  view.redraw = () => {
    if (frame === 0) frame = requestAnimationFrame(() => { frame = 0; drawScene(canvas, state); });
  };

  view.rebuild = (keepView) => {
    const aspect = Math.max(0.3, canvas.clientWidth / Math.max(1, canvas.clientHeight));
    const anchor = keepView && state.chosen && state.chosen.nodes ? state.chosen.nodes[0] : null;
    const from = anchor ? state.chosen : null;
    state.scene = buildScene(main, folded, aspect);
    state.mostTime = state.scene.things.reduce((m, t) => t.bodies || !t.nodes ? m : Math.max(m, thingTime(t)), 1);
    state.hovered = null;
    if (anchor) { /* stays where it is on the screen */
      state.chosen = view.find(anchor);
      state.left += state.chosen.x - from.x;
      state.top += state.chosen.y - from.y;
    } else if (state.chosen) {
      state.chosen = state.chosen.nodes ? view.find(state.chosen.nodes[0]) : null;
    }
    state.lit = litBy(state.chosen);
    if (!keepView) view.fit();
    showFound();
    showStatus();
    view.redraw();
  };

  function showStatus() {
    const boxes = state.scene.things.filter((t) => t.kind === 'fold'), all = graphs.reduce((sum, g) => sum + g.nodes.length, 0);
    const inside = boxes.reduce((sum, t) => sum + t.nodes.length, 0);
    note.textContent = many(all, 'node', 'nodes') + (options.leftOut > 0 ? ' (' + options.leftOut + ' more are left out)' : '') +
      (boxes.length > 0 ? ', ' + inside + ' of them in ' + many(boxes.length, 'folded box', 'folded boxes') : '');
  }

  view.fit = () => {
    const w = canvas.clientWidth, h = canvas.clientHeight, pad = 24;
    state.scale = Math.min(1.25, Math.max(1, w - 2 * pad) / Math.max(1, state.scene.width),
                           Math.max(1, h - 2 * pad - 16) / Math.max(1, state.scene.height + 28));
    fittedTo = w + ' ' + h;
    state.moved = false;
    state.left = state.scene.width / 2 - w / 2 / state.scale;
    state.top = state.scene.height / 2 - h / 2 / state.scale;
    view.redraw();
  };

  /* Width and height of the part of the canvas that the panel leaves free: on small screens it lies over the canvas. */
  function freeArea() {
    const own = canvas.getBoundingClientRect(), over = options.panel.getBoundingClientRect();
    const below = over.left <= own.left + 1;
    if (over.width === 0 || over.left >= own.right || over.top >= own.bottom) return [own.width, own.height];
    return [below ? own.width : over.left - own.left, below ? Math.max(over.top - own.top, own.height / 4) : own.height];
  }

  function centre(t) {
    const [w, h] = freeArea();
    state.moved = true;
    state.scale = Math.max(state.scale, 0.8);
    state.left = t.x + t.w / 2 - w / 2 / state.scale;
    state.top = t.y + Math.min(t.h, 300) / 2 - h / 2 / state.scale;
    view.redraw();
  }

  view.recolour = (shade) => {
    state.shade = shade || state.shade;
    state.colours = themeColours();
    view.redraw();
  };

  /* ------------------------------------------------------------ the chosen item */

  /* The item that shows a node: the node, or the folded group that contains it. */
  view.find = (node) => {
    for (let n = node; n; n = n.graph.owner)
      if (state.scene.thingOf.has(n)) return state.scene.thingOf.get(n);
    return null;
  };

  /* The values that an item reads or computes: their lines are highlighted. */
  function litBy(t) {
    if (!t) return null;
    const values = new Set(t.nodes ? [] : [t.value]);
    for (const n of t.nodes || []) for (const v of readsOf(n).concat(n.outputs)) values.add(v);
    return { graph: t.graph, values };
  }

  view.choose = (t, move) => {
    state.chosen = t;
    state.lit = litBy(t);
    state.moved = state.moved || t !== null;
    options.onChoose(view, t);
    if (t && move) centre(t);
    view.redraw();
  };

  /* Marks the counterpart of a node that is chosen in the other view; null: it has none. */
  view.showTwin = (node) => {
    state.chosen = node ? view.find(node) : null;
    state.lit = litBy(state.chosen);
    if (state.chosen) centre(state.chosen);
    view.redraw();
  };

  /* Shows a node itself: unfolds what hides it. */
  view.showNode = (node) => {
    let changed = false;
    for (let n = node; n; n = n.graph.owner) {
      if (n.stretch) changed = folded.delete(partKey(n.graph, n.stretch)) || changed;
      for (const scope of n.scopes) {
        if (!folded.delete(scopeKey(n.graph, scope))) continue;
        changed = true;
        /* The scopes next to it stay folded. */
        for (const other of n.graph.nodes) {
          const apart = other.scopes.includes(scope) ? other.scopes.find((s) => !n.scopes.includes(s)) : undefined;
          if (apart !== undefined) folded.add(scopeKey(n.graph, apart));
        }
      }
    }
    if (changed) options.onFold(view);
    return view.find(node);
  };

  view.goToNode = (node) => view.choose(view.showNode(node), true);

  /* Highlights nodes, or the groups that contain them, and goes to the first. */
  view.showNodes = (nodes) => {
    state.found = new Set(nodes.map(view.find));
    view.choose([...state.found][0] || null, true);
  };

  view.chipOf = (n) => chip(n.change ? CHANGES[n.change].colour : n.provider ? providerColour(n.provider) : familyOf(n)[1]);
  view.timesKnown = (n) => options.times !== undefined && options.times.has(n.name);

  /* ------------------------------------------------------------ folding */

  view.foldPart = (s) => {
    if (s.members.length < 2) return;
    folded.add(partKey(s.members[0].graph, s));
    options.onFold(view, s.members[0]);
  };

  view.foldScope = (n, scope) => {
    folded.add(scopeKey(n.graph, scope));
    options.onFold(view, n);
  };

  /* Unfolds a group; the scopes within it become groups, if there are several. */
  view.unfold = (t) => {
    const group = t.box.group, g = t.graph;
    folded.delete(group.key);
    if (group.scope !== null) {
      const members = g.nodes.filter((n) => n.scopes.includes(group.scope));
      for (let depth = group.scope.split('/').length; ; depth++) {
        const inner = new Set(members.map((n) => n.scopes[depth]));
        if (inner.size === 1 && !inner.has(undefined)) continue; /* one scope with all nodes */
        inner.delete(undefined);
        for (const scope of inner) folded.add(scopeKey(g, scope));
        break;
      }
    }
    options.onFold(view, t.nodes[0]);
  };

  /* Folds the innermost group of a node, or unfolds a group. */
  view.toggle = (t) => {
    if (t && t.kind === 'fold') {
      view.unfold(t);
    } else if (t && t.kind === 'node') {
      const n = t.node;
      if (n.scopes.length > 0) view.foldScope(n, n.scopes[n.scopes.length - 1]);
      else if (n.stretch) view.foldPart(n.stretch);
    }
  };

  /* ------------------------------------------------------------ search */

  view.search = (text) => {
    view.hits = [];
    if (text !== '')
      for (const g of graphs) for (const n of g.nodes)
        if (n.name.toLowerCase().includes(text) || n.op.toLowerCase().includes(text) || n.provider === text ||
            n.change === text || n.outputs.some((v) => v >= 0 && g.values[v].name.toLowerCase().includes(text)))
          view.hits.push(n);
    showFound();
    view.redraw();
  };

  function showFound() {
    state.found = new Set(view.hits.map(view.find).filter((t) => t));
  }

  view.forget = () => {
    view.hits = [];
    state.found = new Set();
    view.choose(null);
  };

  /* ------------------------------------------------------------ mouse and touch */

  function thingAt(x, y) {
    const px = x / state.scale + state.left, py = y / state.scale + state.top;
    let hit = null; /* the innermost: bodies come after their nodes */
    for (const t of state.scene.things) if (px >= t.x && px <= t.x + t.w && py >= t.y && py <= t.y + t.h) hit = t;
    return hit;
  }

  view.zoom = (factor, x, y) => {
    const at = x === undefined ? [canvas.clientWidth / 2, canvas.clientHeight / 2] : [x, y];
    const scale = Math.min(4, Math.max(0.02, state.scale * factor));
    state.moved = true;
    state.left += at[0] / state.scale - at[0] / scale;
    state.top += at[1] / state.scale - at[1] / scale;
    state.scale = scale;
    view.redraw();
  };

  function showTip(t, x, y) {
    tip.hidden = !t;
    if (!t) return;
    tip.replaceChildren(...tipOf(view, t));
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x + 16, canvas.clientWidth - w - 6)) + 'px';
    tip.style.top = (y + 18 + h > canvas.clientHeight ? Math.max(4, y - h - 12) : y + 18) + 'px';
  }

  const fingers = new Map();
  let drag = null;

  function begin() {
    const all = [...fingers.values()], n = all.length;
    const x = all.reduce((s, f) => s + f.x, 0) / n, y = all.reduce((s, f) => s + f.y, 0) / n;
    const far = n > 1 ? Math.hypot(all[0].x - all[1].x, all[0].y - all[1].y) : 0;
    return { x, y, far };
  }

  canvas.addEventListener('pointerdown', (e) => {
    fingers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    drag = Object.assign(begin(), { moved: fingers.size > 1 });
    canvas.setPointerCapture(e.pointerId);
    canvas.focus();
  });
  canvas.addEventListener('pointermove', (e) => {
    if (!drag) {
      const t = thingAt(e.offsetX, e.offsetY);
      showTip(e.pointerType === 'touch' ? null : t, e.offsetX, e.offsetY);
      if (t === state.hovered) return;
      state.hovered = t;
      state.lit = litBy(t || state.chosen);
      canvas.classList.toggle('over', t !== null);
      view.redraw();
      return;
    }
    fingers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    const now = begin();
    if (!drag.moved && Math.hypot(now.x - drag.x, now.y - drag.y) <= 4) return;
    state.left -= (now.x - drag.x) / state.scale;
    state.top -= (now.y - drag.y) / state.scale;
    if (drag.far > 0) view.zoom(now.far / drag.far, now.x, now.y);
    drag = Object.assign(now, { moved: true });
    state.moved = true;
    canvas.classList.add('dragging');
    showTip(null);
    view.redraw();
  });
  function release(e) {
    fingers.delete(e.pointerId);
    const clicked = drag && !drag.moved && e.type === 'pointerup';
    drag = fingers.size > 0 ? Object.assign(begin(), { moved: true }) : null;
    canvas.classList.remove('dragging');
    if (clicked) {
      state.found = new Set();
      view.choose(thingAt(e.offsetX, e.offsetY));
    }
  }
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', () => {
    showTip(null);
    state.hovered = null;
    state.lit = litBy(state.chosen);
    view.redraw();
  });
  canvas.addEventListener('dblclick', (e) => view.toggle(thingAt(e.offsetX, e.offsetY)));
  canvas.addEventListener('wheel', (e) => {
    e.preventDefault();
    if (e.ctrlKey || !e.shiftKey) view.zoom(Math.exp(-e.deltaY * 0.0016), e.offsetX, e.offsetY);
    else { state.left += e.deltaY / state.scale; view.redraw(); }
  }, { passive: false });

  /* ------------------------------------------------------------ keys */

  /* Chooses the item `step` places after the chosen one, in the order of execution. */
  function next(step) {
    const list = state.scene.things, at = list.indexOf(state.chosen);
    view.choose(list[at < 0 ? (step > 0 ? 0 : list.length - 1) : (at + step + list.length) % list.length], true);
  }

  /* Handles a key; false: it has no meaning here. */
  view.key = (key) => {
    const step = 60 / state.scale;
    const keys = { f: view.fit, '+': () => view.zoom(1.25), '=': () => view.zoom(1.25), '-': () => view.zoom(0.8),
                   ArrowLeft: () => { state.left -= step; }, ArrowRight: () => { state.left += step; },
                   ArrowUp: () => { state.top -= step; }, ArrowDown: () => { state.top += step; },
                   n: () => next(1), p: () => next(-1), Enter: () => view.toggle(state.chosen), Escape: view.forget };
    if (!keys[key]) return false;
    keys[key]();
    state.moved = state.moved || key.startsWith('Arrow');
    view.redraw();
    return true;
  };

  new ResizeObserver(() => {
    const t = state.chosen;
    if (!state.moved && fittedTo !== canvas.clientWidth + ' ' + canvas.clientHeight) view.rebuild(false);
    else if (t && (t.x + t.w - state.left) * state.scale > canvas.clientWidth) centre(t); /* the panel has covered it */
    view.redraw();
  }).observe(stage);
  return view;
}
