/* compare.js - pairs the nodes of two models, for the page of `inlay diff`.
 *
 * Nodes of graphs with the same path are a pair if they compute a value of the same name, or else have the same name.
 * Sets change (a key of CHANGES), twin, and differs: [[what, text in A, text in B]]. */

/* What is compared, as text. A constant is compared by its contents. */
function traitsOf(n) {
  const g = n.graph, value = (v) => v < 0 ? '_' : g.values[v].name;
  const type = (v) => v < 0 ? '' : shapeText(g.values[v]);
  const weights = n.inputs.filter((v) => v >= 0 && g.values[v].data).map((v) =>
    value(v) + ': ' + type(v) + ' ' + (g.values[v].data.hash ? '#' + g.values[v].data.hash : g.values[v].data.first));
  return [['operator', (n.domain + ' ' + n.op).trim()], ['name', n.name], ['attributes', n.attributes || ''],
          ['inputs', readsOf(n).map(value).join(', ')], ['outputs', n.outputs.map(value).join(', ')],
          ['weights', weights.join(', ')], ['types', n.outputs.map(type).join(', ')]];
}

function pairNodes(a, b) {
  const byOutput = new Map(), byName = new Map();
  const pair = (n, m) => { n.twin = m; m.twin = n; };
  const output = (n) => n.outputs.length > 0 && n.outputs[0] >= 0 ? n.graph.values[n.outputs[0]].name : '';
  for (const m of b.nodes) byOutput.set(output(m), m);
  for (const n of a.nodes) {
    const m = output(n) === '' ? undefined : byOutput.get(output(n));
    if (m && !m.twin) pair(n, m);
  }
  for (const m of b.nodes) if (!m.twin) byName.set(m.name, m);
  for (const n of a.nodes) {
    const m = n.twin || n.name === '' ? undefined : byName.get(n.name);
    if (m && !m.twin) pair(n, m);
  }
}

function compareGraphs(graphsA, graphsB) {
  const others = new Map(graphsB.map((g) => [g.path, g]));
  for (const g of graphsA) if (others.has(g.path)) pairNodes(g, others.get(g.path));
  for (const g of graphsB) for (const n of g.nodes) if (!n.twin) n.change = 'added';
  for (const g of graphsA)
    for (const n of g.nodes) {
      if (!n.twin) {
        n.change = 'removed';
        continue;
      }
      const other = traitsOf(n.twin);
      n.differs = traitsOf(n).map(([what, text], i) => [what, text, other[i][1]]).filter(([, x, y]) => x !== y);
      n.change = n.differs.length > 0 ? 'changed' : 'same';
      n.twin.change = n.change;
      n.twin.differs = n.differs;
    }
  /* A node differs if one of its bodies does; inner graphs come later in the lists. */
  for (const g of graphsA.slice().reverse().concat(graphsB.slice().reverse()))
    if (g.owner && g.owner.change === 'same' && g.nodes.some((n) => n.change !== 'same')) {
      g.owner.change = 'changed';
      if (g.owner.twin) g.owner.twin.change = 'changed';
    }
}
