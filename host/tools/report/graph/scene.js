/* scene.js - converts a graph to items with positions: nodes, folded groups, inputs and outputs, bodies in nodes.
 *
 *   indexGraph(g, list, options)          adds derived data to the JSON of a graph and its bodies
 *   buildScene(main, folded, aspect) -> { things, lines, width, height, thingOf }
 *
 * Nodes are folded in groups: a partition (a stretch of the JSON: consecutive regions of one provider), or a scope: all
 * nodes of a graph whose names begin with the same parts, as a/b of a/b/Conv. folded is a set of partKey() and
 * scopeKey(). A thing is a node, a folded group, an input or an output; a line belongs to a value; a thing with bodies
 * has one frame per body. All coordinates are those of the scene. */

const NODE_W = 150, NODE_H = 38, FOLD_W = 190, FOLD_H = 50, PILL_H = 22, FRAME_PAD = 14, FRAME_HEAD = 20;
const MOST_BOXES = 2048;

/* A node's share of the time of its region, according to the costs of the offers. */
function partOfRegion(node, region) {
  const own = (n) => (n.offers || []).reduce((sum, o) => o.chosen ? (o.cost_ns || 0) / (o.nodes || 1) : sum, 0);
  const all = region.nodes.reduce((sum, i) => sum + own(node.graph.nodes[i]), 0);
  return all > 0 ? own(node) / all : 1 / region.nodes.length;
}

/* The time of a node, and whether it is exact. options.times: node name -> measured time. */
function setTime(node, options) {
  const region = node.within;
  node.ns = 0;
  node.exact = true;
  if (options.times && options.times.has(node.name)) {
    node.ns = options.times.get(node.name);
  } else if (region) {
    const ns = options.measured && region.measured_ns !== undefined ? region.measured_ns : region.cost_ns;
    node.exact = region.nodes.length === 1;
    node.ns = node.exact ? ns : ns * partOfRegion(node, region);
  }
}

/* Adds derived data: the partition of a node, its time and scopes, the producer of a value, the copies of a value. */
function indexGraph(g, list, options, parent) {
  g.parent = parent || null;
  list.push(g);
  for (const key of ['captured', 'regions', 'stretches', 'copies']) g[key] = g[key] || [];
  g.maker = new Array(g.values.length).fill(-1);
  g.readers = g.values.map(() => []);
  g.nodes.forEach((n, i) => {
    n.index = i;
    n.graph = g;
    n.within = g.regions[n.region] || null;
    n.bodies = (n.within ? n.within.bodies : n.bodies) || null;
    n.scopes = scopesOf(n);
    n.stretch = null;
    for (const v of n.outputs) if (v >= 0) g.maker[v] = i;
    for (const v of new Set(readsOf(n))) if (v >= 0) g.readers[v].push(n);
  });
  g.stretches.forEach((s, i) => {
    s.index = i;
    s.members = [];
    for (let r = s.first_region; r < s.first_region + s.regions; r++) {
      for (const n of g.regions[r].nodes) {
        g.nodes[n].stretch = s;
        s.members.push(g.nodes[n]);
      }
    }
  });
  g.nodes.forEach((n) => setTime(n, options));
  for (const s of g.stretches)
    s.ns = options.times ? s.members.reduce((sum, n) => sum + n.ns, 0)
      : options.measured && s.measured_ns !== undefined ? s.measured_ns : s.cost_ns;
  const scoped = g.nodes.filter((n) => n.scopes.length > 0);
  g.rootDepth = 0; /* parts that all scopes begin with */
  while (scoped.length > 0 && g.rootDepth < MOST_DEPTH &&
         scoped.every((n) => n.scopes.length > g.rootDepth && n.scopes[g.rootDepth] === scoped[0].scopes[g.rootDepth]))
    g.rootDepth++;
  g.copiesOf = new Map();
  for (const c of g.copies) {
    if (!g.copiesOf.has(c.value)) g.copiesOf.set(c.value, []);
    g.copiesOf.get(c.value).push(c);
  }
  for (const n of g.nodes)
    for (const attr of Object.keys(n.bodies || {})) {
      n.bodies[attr].attr = attr;
      n.bodies[attr].owner = n;
      indexGraph(n.bodies[attr], list, options, g);
    }
}

function readsOf(node) {
  return node.captures ? node.inputs.concat(node.captures) : node.inputs;
}

/* ---------------------------------------------------------------- groups */

function partKey(g, stretch) {
  return 'part|' + g.path + '|' + stretch.index;
}

function scopeKey(g, scope) {
  return 'scope|' + g.path + '|' + scope;
}

/* The nodes in the order of execution. */
function inOrder(g) {
  return g.stretches.length > 0 ? g.stretches.flatMap((s) => s.members) : g.nodes;
}

/* The outermost folded group of a node, or null. */
function groupOf(n, folded) {
  if (n.stretch && folded.has(partKey(n.graph, n.stretch)))
    return { key: partKey(n.graph, n.stretch), stretch: n.stretch, scope: null };
  for (const scope of n.scopes) {
    const key = scopeKey(n.graph, scope);
    if (folded.has(key)) return { key, stretch: null, scope };
  }
  return null;
}

/* Divides the nodes of folded groups into boxes, so that the graph of boxes has no cycle: a node joins the newest box of
 * its group unless a path leads from that box through other nodes to it. For each node, `above` are the boxes that it
 * depends on; for each box, `closed` are all of these and those that they depend on. Returns node -> box. */
function assignBoxes(g, folded) {
  const boxOf = new Map(), newest = new Map(), boxes = [], words = MOST_BOXES / 32;
  if (folded.size === 0) return boxOf;
  const has = (set, i) => (set[i >> 5] >>> (i & 31) & 1) === 1;
  const merge = (into, from) => { for (let w = 0; w < words; w++) into[w] |= from[w]; };
  const above = new Map(), nothing = new Uint32Array(words);
  for (const n of inOrder(g)) {
    const group = groupOf(n, folded), all = new Uint32Array(words);
    let box = group ? newest.get(group.key) : undefined;
    for (const v of readsOf(n)) {
      const maker = v < 0 || g.maker[v] < 0 ? null : g.nodes[g.maker[v]];
      const from = maker ? boxOf.get(maker) : undefined;
      if (from && from !== box) {
        all[from.id >> 5] |= 1 << (from.id & 31);
        merge(all, from.closed);
      } else if (maker && !from) {
        const set = above.get(maker) || nothing;
        for (const b of boxes) if (has(set, b.id)) merge(all, b.closed);
        merge(all, set);
      }
    }
    const blocked = box !== undefined && has(all, box.id);
    if (blocked) { /* also depends on the box that it does not join */
      merge(all, box.closed);
      box = undefined;
    }
    if (group && !box && boxes.length < MOST_BOXES) {
      box = { id: boxes.length, group, nodes: [], closed: new Uint32Array(words) };
      boxes.push(box);
      newest.set(group.key, box);
    }
    if (group && box) {
      boxOf.set(n, box);
      box.nodes.push(n);
      merge(box.closed, all);
      for (const b of boxes) if (has(b.closed, box.id)) merge(b.closed, box.closed);
    } else {
      above.set(n, all);
    }
  }
  const pieces = new Map();
  for (const b of boxes) {
    if (b.nodes.length < 2) {
      boxOf.delete(b.nodes[0]);
      continue;
    }
    pieces.set(b.group.key, (pieces.get(b.group.key) || 0) + 1);
    b.piece = pieces.get(b.group.key);
  }
  for (const b of boxes) b.pieces = pieces.get(b.group.key);
  return boxOf;
}

/* The provider of most of the nodes. */
function mainProvider(nodes) {
  const counts = new Map();
  for (const n of nodes) counts.set(n.provider, (counts.get(n.provider) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0][0];
}

/* ---------------------------------------------------------------- items */

/* Sorts the items of nodes so that each comes after those that it reads from; keeps the order otherwise. */
function sortItems(items, readsFrom) {
  const order = [], done = new Uint8Array(items.length);
  for (let first = 0; first < items.length; first++) {
    const stack = [first];
    while (stack.length > 0) {
      const i = stack[stack.length - 1];
      if (done[i] === 0) {
        done[i] = 1;
        for (const from of readsFrom[i]) if (done[from] === 0) stack.push(from);
        if (stack[stack.length - 1] !== i) continue;
      }
      stack.pop();
      if (done[i] === 1) { done[i] = 2; order.push(i); }
    }
  }
  return order.map((i) => items[i]);
}

/* The items of a graph, each after those that it reads from, and the nets between them. */
function itemsOf(g, folded, aspect) {
  const boxOf = assignBoxes(g, folded), itemOf = new Map(), inner = [];
  for (const n of inOrder(g)) {
    const box = boxOf.get(n);
    if (!box) {
      itemOf.set(n, inner.length);
      inner.push(nodeItem(n, folded, aspect));
    } else {
      if (box.item === undefined) {
        box.item = inner.length;
        inner.push({ kind: 'fold', graph: g, box, nodes: box.nodes, stretch: box.group.stretch, w: FOLD_W, h: FOLD_H,
                     provider: mainProvider(box.nodes) });
      }
      itemOf.set(n, box.item);
    }
  }
  const readsFrom = inner.map(() => []);
  for (const n of g.nodes)
    for (const v of readsOf(n)) {
      const from = v < 0 || g.maker[v] < 0 ? -1 : itemOf.get(g.nodes[g.maker[v]]);
      if (from >= 0 && from !== itemOf.get(n)) readsFrom[itemOf.get(n)].push(from);
    }
  const items = [], maker = new Array(g.values.length).fill(-1);
  for (const v of g.inputs.concat(g.captured)) {
    if (v < 0 || maker[v] >= 0 || (g.readers[v].length === 0 && !g.outputs.includes(v))) continue;
    maker[v] = items.length;
    items.push({ kind: 'input', graph: g, value: v, w: 104, h: PILL_H, pulled: true, provider: 'host' });
  }
  items.push(...sortItems(inner, readsFrom));
  const at = new Map(items.map((item, i) => [item, i])), nets = new Map();
  const placeOf = (n) => at.get(inner[itemOf.get(n)]);
  for (const n of g.nodes) for (const v of n.outputs) if (v >= 0) maker[v] = placeOf(n);
  const connect = (v, item) => {
    const from = v < 0 ? -1 : maker[v];
    if (from < 0 || from === item) return;
    if (!nets.has(v)) nets.set(v, { value: v, graph: g, from, to: new Set() });
    nets.get(v).to.add(item);
  };
  for (const n of g.nodes) for (const v of readsOf(n)) connect(v, placeOf(n));
  for (const v of g.outputs) {
    if (v < 0 || maker[v] < 0) continue;
    items.push({ kind: 'output', graph: g, value: v, w: 104, h: PILL_H, provider: 'host' });
    connect(v, items.length - 1);
  }
  return { items, nets: [...nets.values()].map((net) => ({ ...net, to: [...net.to] })) };
}

function nodeItem(n, folded, aspect) {
  const item = { kind: 'node', graph: n.graph, node: n, nodes: [n], w: NODE_W, h: NODE_H, provider: n.provider };
  if (!n.bodies) return item;
  item.bodies = Object.keys(n.bodies).map((attr) => layoutGraph(n.bodies[attr], folded, aspect));
  let w = FRAME_PAD, h = 0;
  for (const body of item.bodies) {
    body.offset = w;
    w += body.width + 2 * FRAME_PAD + FRAME_PAD;
    h = Math.max(h, body.height);
  }
  item.w = Math.max(NODE_W, w);
  item.h = NODE_H + FRAME_HEAD + h + 2 * FRAME_PAD + FRAME_PAD;
  return item;
}

function layoutGraph(g, folded, aspect) {
  const { items, nets } = itemsOf(g, folded, aspect);
  const size = layered(items, nets, g.parent ? 1.3 : aspect);
  return { graph: g, items, nets, width: Math.max(size.width, 90), height: size.height };
}

/* Moves a graph with a layout to its position, and collects its items. */
function flatten(box, x, y, scene) {
  for (const item of box.items) {
    item.x += x;
    item.y += y;
    scene.things.push(item);
    for (const n of item.nodes || []) scene.thingOf.set(n, item);
    for (const body of item.bodies || []) {
      const frame = { x: item.x + body.offset, y: item.y + NODE_H, w: body.width + 2 * FRAME_PAD,
                      h: item.h - NODE_H - FRAME_PAD, graph: body.graph };
      (item.frames = item.frames || []).push(frame);
      flatten(body, frame.x + FRAME_PAD, frame.y + FRAME_HEAD + FRAME_PAD, scene);
    }
  }
  for (const net of box.nets) {
    const copied = net.graph.copiesOf.has(net.value), from = box.items[net.from];
    for (const s of net.segments) {
      const to = s.to >= 0 ? box.items[s.to] : null;
      const points = s.points.map((p, i) => p + (i % 2 === 0 ? x : y));
      scene.lines.push({ points, value: net.value, graph: net.graph, from, to, loose: s.loose === true,
                         copy: copied && (to === null || to.provider !== from.provider) });
    }
  }
}

function buildScene(main, folded, aspect) {
  const box = layoutGraph(main, folded, aspect), scene = { things: [], lines: [], thingOf: new Map() };
  flatten(box, 0, 0, scene);
  scene.width = box.width;
  scene.height = box.height;
  for (const line of scene.lines) {
    const p = line.points, b = [p[0], p[1], p[0], p[1]];
    for (let i = 2; i < p.length; i += 2) {
      b[0] = Math.min(b[0], p[i]);
      b[1] = Math.min(b[1], p[i + 1]);
      b[2] = Math.max(b[2], p[i]);
      b[3] = Math.max(b[3], p[i + 1]);
    }
    line.box = b;
  }
  return scene;
}
