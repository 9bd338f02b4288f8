/* layout.js - a layered layout: items in rows by longest path, few crossings, straight lines where possible.
 *
 *   layered(items, nets, aspect) -> { width, height }
 *
 * items: [{ w, h, pulled }], sorted so that every net leads from an earlier item to later ones; gets x, y (top left).
 * pulled: placed in the row above its first reader (inputs of the graph).
 * nets: [{ from, to: [item indexes] }], one per value; gets segments: [{ points, to }], each a line between two rows;
 * `to` is the item where it ends, or -1 within a bundle. A value with many readers is one bundle that branches.
 * aspect: width / height of the available area. Long graphs are divided into columns. */

const ROW_GAP = 24, ITEM_GAP = 18, LINE_GAP = 9, COLUMN_GAP = 44, MAX_DUMMIES = 40000;

function findRows(items, nets) {
  const row = new Int32Array(items.length), hasMaker = new Uint8Array(items.length);
  const netsFrom = items.map(() => []);
  for (const net of nets) {
    netsFrom[net.from].push(net);
    for (const t of net.to) hasMaker[t] = 1;
  }
  for (let i = 0; i < items.length; i++)
    for (const net of netsFrom[i])
      for (const t of net.to) row[t] = Math.max(row[t], row[i] + 1);
  for (let i = items.length - 1; i >= 0; i--) {
    if (!items[i].pulled && hasMaker[i]) continue;
    let first = Infinity;
    for (const net of netsFrom[i]) for (const t of net.to) first = Math.min(first, row[t]);
    if (first < Infinity) row[i] = Math.max(0, first - 1);
  }
  return row;
}

/* Rows of cells: items, and for each net one cell in every row that it crosses. up and down are cells of adjacent rows. */
function makeCells(items, nets, row) {
  let rows = 0;
  for (const r of row) rows = Math.max(rows, r + 1);
  const layers = Array.from({ length: rows }, () => []);
  const cells = items.map((item, i) => ({ item: i, w: item.w, row: row[i], x: 0, up: [], down: [], at: 0 }));
  cells.forEach((c) => layers[c.row].push(c));
  const spans = nets.map((net) => net.to.reduce((m, t) => Math.max(m, row[t]), row[net.from]) - row[net.from] - 1);
  let budget = MAX_DUMMIES;
  const byLength = nets.map((_, i) => i).sort((a, b) => spans[a] - spans[b]);
  for (const i of byLength) {
    const net = nets[i];
    net.chain = [cells[net.from]];
    net.loose = false;
    if (spans[i] > budget) { /* too long to be routed: drawn as a straight line */
      net.loose = true;
      continue;
    }
    budget -= Math.max(0, spans[i]);
    const byRow = net.to.slice().sort((a, b) => row[a] - row[b]);
    let last = cells[net.from], k = 0;
    for (let r = last.row + 1; k < byRow.length; r++) {
      while (k < byRow.length && row[byRow[k]] === r) {
        last.down.push(cells[byRow[k]]);
        cells[byRow[k]].up.push(last);
        k++;
      }
      if (k === byRow.length) break;
      const dummy = { item: -1, w: 1, row: r, x: 0, up: [last], down: [], at: 0 };
      last.down.push(dummy);
      layers[r].push(dummy);
      net.chain.push(dummy);
      last = dummy;
    }
  }
  return { cells, layers };
}

/* The weighted mean of neighbours: bundles have the largest weight, so that they run straight, then chains of items. */
function mean(self, list, of) {
  let sum = 0, weights = 0;
  for (const c of list) {
    const w = (c.item < 0) !== (self.item < 0) ? 1 : c.item < 0 ? 8 : 4;
    sum += w * of(c);
    weights += w;
  }
  return weights > 0 ? sum / weights : NaN;
}

/* Sorts every row by the means of its neighbours, down and up several times. */
function orderCells(layers) {
  const number = (layer) => layer.forEach((c, i) => { c.at = i; });
  const sweep = (layer, side) => {
    for (const c of layer) {
      const m = mean(c, c[side], (n) => n.at);
      c.key = isNaN(m) ? c.at : m;
    }
    layer.sort((a, b) => a.key - b.key || a.at - b.at);
    number(layer);
  };
  layers.forEach(number);
  for (let round = 0; round < 6; round++) {
    for (let r = 1; r < layers.length; r++) sweep(layers[r], 'up');
    for (let r = layers.length - 2; r >= 0; r--) sweep(layers[r], 'down');
  }
  for (let r = 1; r < layers.length; r++) sweep(layers[r], 'up');
}

function spaceBetween(a, b) {
  const gap = a.item >= 0 && b.item >= 0 ? ITEM_GAP : LINE_GAP;
  return (a.w + b.w) / 2 + gap;
}

/* Finds lines that would cross a bundle: the bundle stays straight, so these are not aligned (conflicts of type 1 in
 * Brandes and Koepf, 2001). */
function findConflicts(layers) {
  for (const layer of layers) for (const c of layer) c.avoids = null;
  for (let r = 1; r < layers.length; r++) {
    const layer = layers[r], above = layers[r - 1].length;
    let low = 0, from = 0;
    layer.forEach((c, i) => {
      const inner = c.item < 0 && c.up.length > 0 && c.up[0].item < 0 ? c.up[0] : null;
      if (inner === null && i < layer.length - 1) return;
      const high = inner ? inner.at : above;
      for (; from <= i; from++)
        for (const u of layer[from].up)
          if ((u.at < low || u.at > high) && !(u.item < 0 && layer[from].item < 0))
            (layer[from].avoids = layer[from].avoids || new Set()).add(u);
      low = high;
    });
  }
}

/* The median of a cell's neighbours on one side; items take precedence over lines. */
function middleOf(list) {
  const items = list.filter((c) => c.item >= 0), from = items.length > 0 ? items : list;
  return from.slice().sort((a, b) => a.at - b.at)[Math.floor((from.length - 1) / 2)];
}

/* Joins cells of adjacent rows that are each other's median neighbour into vertical blocks, unless that would cross a
 * bundle or another such pair. Sets c.root. */
function alignCells(layers) {
  for (const layer of layers) for (const c of layer) c.root = c;
  for (let r = 1; r < layers.length; r++) {
    let limit = -1;
    for (const c of layers[r]) {
      const u = c.up.length > 0 ? middleOf(c.up) : null;
      const bundle = u !== null && c.item < 0 && u.item < 0;
      if (u === null || u.at <= limit || (c.avoids && c.avoids.has(u)) || (!bundle && middleOf(u.down) !== c)) continue;
      c.root = u.root;
      limit = u.at;
    }
  }
}

/* Packs the blocks to one side: each as far as its predecessors allow, then back towards its neighbours. */
function packBlocks(layers, flip) {
  const roots = [], right = new Map(), waits = new Map();
  for (const layer of layers) {
    for (let i = 0; i < layer.length; i++) {
      const c = layer[i];
      if (!right.has(c.root)) { right.set(c.root, new Map()); waits.set(c.root, 0); roots.push(c.root); }
      if (i === 0) continue;
      const before = layer[i - 1].root, space = spaceBetween(layer[i - 1], c);
      if (!right.has(before)) { right.set(before, new Map()); waits.set(before, 0); roots.push(before); }
      right.get(before).set(c.root, Math.max(space, right.get(before).get(c.root) || 0));
    }
  }
  const left = new Map(roots.map((b) => [b, []]));
  for (const [b, next] of right) for (const [n, space] of next) left.get(n).push([b, space]);
  for (const b of roots) waits.set(b, left.get(b).length);
  const order = roots.filter((b) => waits.get(b) === 0);
  for (let k = 0; k < order.length; k++)
    for (const n of right.get(order[k]).keys()) {
      waits.set(n, waits.get(n) - 1);
      if (waits.get(n) === 0) order.push(n);
    }
  const x = new Map();
  const atMost = (b) => [...right.get(b)].reduce((m, [n, space]) => Math.min(m, x.get(n) - space), Infinity);
  const atLeast = (b) => left.get(b).reduce((m, [n, space]) => Math.max(m, x.get(n) + space), -Infinity);
  const back = order.slice().reverse();
  if (!flip) {
    for (const b of order) x.set(b, Math.max(0, atLeast(b)));
    for (const b of back) if (atMost(b) < Infinity) x.set(b, Math.max(x.get(b), atMost(b)));
  } else {
    for (const b of back) x.set(b, Math.min(0, atMost(b)));
    for (const b of order) if (atLeast(b) > -Infinity) x.set(b, Math.min(x.get(b), atLeast(b)));
  }
  return x;
}

/* Moves each block to the mean of its neighbours, as far as the adjacent blocks allow; repeated until it converges. */
function relaxBlocks(layers, x) {
  const blocks = new Map();
  for (const layer of layers)
    layer.forEach((c, i) => {
      if (!blocks.has(c.root)) blocks.set(c.root, { near: [], left: [], right: [] });
      const b = blocks.get(c.root);
      for (const n of c.up.concat(c.down))
        if (n.root !== c.root && n.column === c.column) b.near.push([n.root, (c.item < 0) !== (n.item < 0) ? 1 : 3]);
      if (i > 0) b.left.push([layer[i - 1].root, spaceBetween(layer[i - 1], c)]);
      if (i + 1 < layer.length) b.right.push([layer[i + 1].root, spaceBetween(c, layer[i + 1])]);
    });
  const order = [...blocks.keys()];
  for (let round = 0; round < 40; round++) {
    let moved = 0;
    for (const root of round % 2 === 0 ? order : order.slice().reverse()) {
      const b = blocks.get(root);
      if (b.near.length === 0) continue;
      let sum = 0, weights = 0, low = -Infinity, high = Infinity;
      for (const [n, w] of b.near) { sum += w * x.get(n); weights += w; }
      for (const [n, space] of b.left) low = Math.max(low, x.get(n) + space);
      for (const [n, space] of b.right) high = Math.min(high, x.get(n) - space);
      const at = Math.max(low, Math.min(high, sum / weights));
      moved = Math.max(moved, Math.abs(at - x.get(root)));
      x.set(root, at);
    }
    if (moved < 0.5) break;
  }
}

/* Places vertical blocks: first halfway between the two packings, then relaxed. */
function placeCells(layers) {
  findConflicts(layers);
  alignCells(layers);
  const left = packBlocks(layers, false), right = packBlocks(layers, true), x = new Map();
  for (const [root, at] of left) x.set(root, (at + right.get(root)) / 2);
  relaxBlocks(layers, x);
  for (const layer of layers) for (const c of layer) c.x = x.get(c.root);
}

/* Divides the rows into columns of about the given height, at rows that few lines cross. */
function cutColumns(layers, heights, limit) {
  const columns = [];
  let first = 0;
  while (first < layers.length) {
    let end = first, height = 0;
    while (end < layers.length && (end === first || height + heights[end] <= limit)) height += heights[end++];
    if (end < layers.length) {
      let best = end, fewest = Infinity, h = height;
      for (let cut = end; cut > first && h > 0.85 * height; h -= heights[--cut]) {
        let lines = 0;
        for (const c of layers[cut]) lines += c.up.length;
        if (lines < fewest) { fewest = lines; best = cut; }
      }
      end = best;
    }
    columns.push({ first, end });
    first = end;
  }
  return columns;
}

/* The minimum width of a row. */
function rowWidth(layer) {
  return layer.reduce((w, c, i) => i === 0 ? c.w : w + spaceBetween(layer[i - 1], c) + (c.w - layer[i - 1].w) / 2, 0);
}

/* The total size; widthOf: width of a column. */
function measureColumns(columns, heights, widthOf) {
  let width = -COLUMN_GAP, height = 0;
  for (const col of columns) {
    let h = -ROW_GAP;
    for (let r = col.first; r < col.end; r++) h += heights[r];
    height = Math.max(height, h);
    width += widthOf(col) + COLUMN_GAP;
  }
  return { width, height };
}

/* Selects the columns that give the largest scale. looser: ratio of a column's width to that of its widest row. */
function chooseColumns(layers, heights, aspect, looser) {
  const total = heights.reduce((a, b) => a + b, 0), widths = layers.map(rowWidth);
  const widest = (col) => {
    let w = 0;
    for (let r = col.first; r < col.end; r++) w = Math.max(w, widths[r]);
    return w * looser;
  };
  let best = null;
  for (let n = 1; n <= 64 && n <= layers.length; n = n < 12 ? n + 1 : Math.ceil(n * 1.15)) {
    const columns = cutColumns(layers, heights, total / n + 1);
    const size = measureColumns(columns, heights, widest);
    const scale = Math.min(aspect / size.width, 1 / size.height);
    /* Another column must pay off: a break interrupts reading. */
    if (best === null || scale > best.scale * 1.08) best = { columns, scale, width: size.width };
  }
  return best;
}

/* Places the cells of each column, and the columns next to each other. */
function placeColumns(layers, columns) {
  let x = 0;
  columns.forEach((col, k) => {
    const own = layers.slice(col.first, col.end);
    for (const layer of own) for (const c of layer) c.column = k;
    placeCells(own);
    let left = Infinity, right = -Infinity;
    for (const layer of own)
      for (const c of layer) {
        left = Math.min(left, c.x - c.w / 2);
        right = Math.max(right, c.x + c.w / 2);
      }
    col.left = left;
    col.width = right - left;
    col.x = x;
    x += col.width + COLUMN_GAP;
  });
}

function layered(items, nets, aspect) {
  if (items.length === 0) return { width: 0, height: 0 };
  const row = findRows(items, nets);
  const { cells, layers } = makeCells(items, nets, row);
  orderCells(layers);
  const tall = layers.map((layer) => layer.reduce((h, c) => Math.max(h, c.item < 0 ? 0 : items[c.item].h), 8));
  const heights = tall.map((h) => h + ROW_GAP);
  const guess = chooseColumns(layers, heights, aspect, 1);
  placeColumns(layers, guess.columns);
  const actual = measureColumns(guess.columns, heights, (col) => col.width).width;
  let columns = chooseColumns(layers, heights, aspect, Math.max(1, actual / guess.width)).columns;
  if (columns.length === guess.columns.length && columns.every((col, k) => col.end === guess.columns[k].end))
    columns = guess.columns; /* placed already */
  else
    placeColumns(layers, columns);
  columns.forEach((col) => {
    let y = 0;
    for (let r = col.first; r < col.end; r++) {
      for (const c of layers[r]) {
        c.px = c.x - col.left + col.x;
        c.top = y;
        c.bottom = y + tall[r];
        if (c.item < 0) continue;
        const item = items[c.item];
        item.x = c.px - item.w / 2;
        item.y = y + (tall[r] - item.h) / 2;
        c.top = item.y;
        c.bottom = item.y + item.h;
      }
      y += heights[r];
    }
    col.bottom = y - ROW_GAP;
  });
  for (const net of nets) net.segments = segmentsOf(net, cells, columns);
  return measureColumns(columns, heights, (col) => col.width);
}

/* The line between cells of adjacent rows; around the gap if these are in different columns. */
function lineBetween(a, b, columns) {
  if (a.column === b.column) return [a.px, a.bottom, b.px, b.top];
  const from = columns[a.column], gutter = from.x + from.width + COLUMN_GAP / 2;
  const low = Math.max(from.bottom, a.bottom) + 12;
  return [a.px, a.bottom, a.px, low, gutter, low, gutter, -14, b.px, -14, b.px, b.top];
}

function segmentsOf(net, cells, columns) {
  const segments = [];
  if (net.loose) {
    for (const t of net.to)
      segments.push({ points: [cells[net.from].px, cells[net.from].bottom, cells[t].px, cells[t].top], to: t,
                      loose: true });
    return segments;
  }
  const targets = new Set(net.to);
  net.chain.forEach((cell, k) => {
    if (cell.item < 0) segments.push({ points: [cell.px, cell.top, cell.px, cell.bottom], to: -1 });
    for (const d of cell.down) {
      const mine = d === net.chain[k + 1] || (d.item >= 0 && targets.has(d.item));
      if (mine) segments.push({ points: lineBetween(cell, d, columns), to: d.item });
    }
  });
  return segments;
}
