/* scene.js - converts the facts to items with positions: nodes, folded partitions, inputs and outputs, bodies in nodes.
 *
 *   buildScene(main, folded, aspect) -> { things, lines, width, height }
 *
 * A stretch (member `stretches` of the JSON) is what the page calls a partition: consecutive regions of one provider.
 * folded: a set of "path|stretch". A thing is a node, a folded partition, an input or an output; a line belongs to a
 * value; a thing with bodies has one frame per body. All coordinates are those of the scene. */

const NODE_W = 150, NODE_H = 38, FOLD_W = 178, FOLD_H = 50, PILL_H = 22, FRAME_PAD = 14, FRAME_HEAD = 20;

/* Adds derived data: the stretch of a region, the producer of a value, the copies of a value. */
function indexGraph(g, list, parent) {
  g.parent = parent || null;
  list.push(g);
  g.stretchOf = [];
  g.stretches.forEach((s, i) => {
    s.index = i;
    for (let r = s.first_region; r < s.first_region + s.regions; r++) g.stretchOf[r] = i;
  });
  g.maker = new Array(g.values.length).fill(-1);
  g.nodes.forEach((n, i) => {
    n.index = i;
    n.graph = g;
    for (const v of n.outputs) if (v >= 0) g.maker[v] = i;
  });
  g.copiesOf = new Map();
  for (const c of g.copies) {
    if (!g.copiesOf.has(c.value)) g.copiesOf.set(c.value, []);
    g.copiesOf.get(c.value).push(c);
  }
  for (const region of g.regions)
    for (const attr of Object.keys(region.bodies || {})) {
      region.bodies[attr].attr = attr;
      region.bodies[attr].owner = g.nodes[region.nodes[0]];
      indexGraph(region.bodies[attr], list, g);
    }
}

function readsOf(node) {
  return node.captures ? node.inputs.concat(node.captures) : node.inputs;
}

function foldKey(g, stretch) {
  return g.path + '|' + stretch;
}

/* The items of a graph, in the order of execution, and the nets between them. */
function itemsOf(g, folded, aspect) {
  const items = [], nets = new Map(), itemOfNode = new Array(g.nodes.length);
  const maker = new Array(g.values.length).fill(-1);
  const wanted = new Set();
  for (const n of g.nodes) for (const v of readsOf(n)) wanted.add(v);
  for (const v of g.outputs) wanted.add(v);
  for (const v of g.inputs.concat(g.captured)) {
    if (v < 0 || !wanted.has(v) || maker[v] >= 0) continue;
    maker[v] = items.length;
    items.push({ kind: 'input', graph: g, value: v, w: 104, h: PILL_H, pulled: true, provider: 'host' });
  }
  g.stretches.forEach((s, si) => {
    const fold = s.nodes > 1 && folded.has(foldKey(g, si));
    const at = items.length;
    if (fold) items.push({ kind: 'fold', graph: g, stretch: s, w: FOLD_W, h: FOLD_H, provider: s.provider });
    for (let r = s.first_region; r < s.first_region + s.regions; r++) {
      const region = g.regions[r];
      for (const ni of region.nodes) {
        itemOfNode[ni] = fold ? at : items.length;
        for (const v of g.nodes[ni].outputs) if (v >= 0) maker[v] = itemOfNode[ni];
        if (!fold) items.push(nodeItem(g, ni, region, folded, aspect));
      }
    }
  });
  const connect = (v, item) => {
    const from = v < 0 ? -1 : maker[v];
    if (from < 0 || from === item) return;
    if (!nets.has(v)) nets.set(v, { value: v, graph: g, from, to: [] });
    const to = nets.get(v).to;
    if (!to.includes(item)) to.push(item);
  };
  g.nodes.forEach((n, i) => { for (const v of readsOf(n)) connect(v, itemOfNode[i]); });
  g.outputs.forEach((v) => {
    if (v < 0 || maker[v] < 0) return;
    const at = items.length;
    items.push({ kind: 'output', graph: g, value: v, w: 104, h: PILL_H, provider: 'host' });
    connect(v, at);
  });
  return { items, nets: [...nets.values()] };
}

function nodeItem(g, index, region, folded, aspect) {
  const item = { kind: 'node', graph: g, node: g.nodes[index], region, w: NODE_W, h: NODE_H,
                 provider: region.provider };
  if (!region.bodies) return item;
  item.bodies = Object.keys(region.bodies).map((attr) => layoutGraph(region.bodies[attr], folded, aspect));
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
  const box = layoutGraph(main, folded, aspect), scene = { things: [], lines: [] };
  flatten(box, 0, 0, scene);
  scene.width = box.width;
  scene.height = box.height;
  for (const line of scene.lines) {
    const xs = line.points.filter((_, i) => i % 2 === 0), ys = line.points.filter((_, i) => i % 2 === 1);
    line.box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  }
  return scene;
}
