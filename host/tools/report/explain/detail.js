/* detail.js - the panel of the selected item, and the tooltip. */

const END_MOST = 6;

/* A row for an input of a node (out: for an output): the value, and the nodes at its other end. */
function valueRow(g, v, out) {
  const value = g.values[v], maker = g.maker[v];
  const ends = out ? g.nodes.filter((n) => readsOf(n).includes(v)) : maker >= 0 ? [g.nodes[maker]] : [];
  const end = (n) => div('', out ? '\u2192 ' : '\u2190 ', chip(n.provider),
                         el('button', { className: 'link', onclick: () => goToNode(n) }, n.op + ' ' + n.name));
  const copy = (c) => div('copied', 'copied ' + c.from + ' \u2192 ' + c.to + ', ' + timeText(c.cost_ns));
  return el('tr', null, td(div('name', value.name), faint(shapeText(value) + (value.constant ? ', constant' : '')),
                           ends.slice(0, END_MOST).map(end),
                           ends.length > END_MOST ? faint('and ' + (ends.length - END_MOST) + ' more') : null,
                           (g.copiesOf.get(v) || []).map(copy)), num(bytesText(value.bytes)));
}

/* The offers of all providers for a node, and their refusals. */
function answers(node) {
  const most = node.offers.reduce((m, o) => Math.max(m, o.cost_ns), 1);
  const offer = (o) => el('tr', null, td(chip(o.provider), o.chosen ? el('b', null, o.provider) : o.provider,
    el('span', { className: 'faint' }, (o.chosen ? ' chosen' : '') + (o.nodes ? ' for ' + o.nodes + ' nodes' : '')),
    bar(o.cost_ns / most, providerColour(o.provider))), num(timeText(o.cost_ns), o.price));
  const refusal = (r) => el('tr', null, el('td', { colSpan: 2 }, chip(r.provider), r.provider + ' refused: ' + r.text,
    r.accepted_if ? faint('accepted if: ' + r.accepted_if) : null));
  const rows = node.offers.map(offer).concat((node.refused_by || []).map(refusal));
  return rows.length === 0 ? [] : [el('h2', null, 'Answers of the providers'), el('table', null, rows)];
}

function timesOf(x) {
  const rows = [['predicted', timeText(x.cost_ns) + ' (' + x.price + ')']];
  if (x.measured_ns !== undefined)
    rows.push(['measured', timeText(x.measured_ns) + ratioText(x.measured_ns, x.cost_ns)]);
  rows.push(['in', bytesText(x.bytes_in)], ['out', bytesText(x.bytes_out)]);
  if (x.resident_bytes > 0) rows.push(['resident', bytesText(x.resident_bytes)]);
  if (x.workspace_bytes > 0) rows.push(['workspace', bytesText(x.workspace_bytes)]);
  return el('table', null, rows.map(([k, v]) => el('tr', null, el('td', { className: 'faint' }, k), num(v))));
}

function kernelOf(n) {
  const k = n.kernel;
  if (!k) return null;
  const next = k.runner_up ? ', next ' + k.runner_up + (k.runner_up_ns !== undefined ? ' ' + timeText(k.runner_up_ns) : '') : '';
  return div('note', 'Kernel ', el('b', null, k.name), (k.ns !== undefined ? ' ' + timeText(k.ns) : '') + ' (' + k.by + ')' + next + (k.error ? ', error ' + k.error.toExponential(1) : ''),
             k.why ? faint(k.why) : null);
}

/* The next best provider of a stretch, and the change of the predicted time. */
function runnerUp(s) {
  const r = s.runner_up;
  if (!r && s.provider === 'host') return null;
  if (!r) return div('note', 'No other provider can run ' + (s.nodes === 1 ? 'it.' : 'any part of it.'));
  return div('note', 'Runner-up: ', chip(r.provider), r.provider + ', ', el('b', null, changeText(r.extra_ns)),
             r.kind === 'about' ? ' (offers only)' : ' (total)',
             r.nodes < s.nodes ? ' (' + r.nodes + ' of ' + s.nodes + ' nodes)' : '',
             r.why ? faint('not chosen: ' + r.why) : null);
}

function aboutNode(t) {
  const g = t.graph, n = t.node, s = g.stretches[g.stretchOf[n.region]];
  const inputs = readsOf(n).filter((v) => v >= 0), outputs = n.outputs.filter((v) => v >= 0);
  const fold = s.nodes < 2 ? null
    : el('button', { className: 'more', onclick: () => foldStretch(g, s) }, 'Fold its partition (' + s.nodes + ' nodes)');
  return [el('h3', null, n.op), div('name', n.name),
          faint(n.domain + ' ' + n.since_version + ' \u00b7 ' + g.path + ' \u00b7 region ' + n.region),
          el('p', null, chip(n.provider), el('b', null, n.provider)), timesOf(t.region), kernelOf(n), runnerUp(s), ...answers(n),
          el('h2', null, 'Inputs'), el('table', null, inputs.map((v) => valueRow(g, v, false))),
          el('h2', null, 'Outputs'), el('table', null, outputs.map((v) => valueRow(g, v, true))), fold];
}

function aboutFold(t) {
  const unfold = () => foldStretch(t.graph, t.stretch);
  return [el('h3', null, many(t.stretch.nodes, 'node', 'nodes')), div('', summary(t.graph, t.stretch)),
          el('p', null, chip(t.provider), el('b', null, t.provider)), timesOf(t.stretch), runnerUp(t.stretch),
          el('button', { className: 'more', onclick: unfold }, 'Unfold')];
}

function showDetail(t) {
  const panel = document.getElementById('detail'), was = panel.hidden;
  const leave = () => { state.found = new Set(); choose(null); };
  panel.hidden = !t;
  panel.replaceChildren();
  if (t) {
    const about = t.kind === 'node' ? aboutNode(t) : t.kind === 'fold' ? aboutFold(t)
      : [el('h3', null, t.kind === 'input' ? 'Input' : 'Output'),
         el('table', null, valueRow(t.graph, t.value, t.kind === 'input'))];
    panel.append(el('button', { className: 'close', title: 'Close', onclick: leave }, '\u2715'),
                 ...about.filter((x) => x !== null));
  }
  if (was !== panel.hidden) redraw();
}

function tipOfNode(t) {
  const g = t.graph, n = t.node, r = t.region;
  const time = timeText(r.cost_ns) + (r.measured_ns !== undefined ? ', measured ' + timeText(r.measured_ns) : '');
  const lines = [el('b', null, n.op), ' ', name(n.name),
                 div('', chip(t.provider), t.provider + ' \u00b7 ' + time,
                     r.nodes.length > 1 ? ' for its region' : '')];
  if (n.kernel) lines.push(kernelOf(n));
  for (const v of n.outputs)
    if (v >= 0) lines.push(faint('\u2192 ' + shapeText(g.values[v]) + ' \u00b7 ' + bytesText(g.values[v].bytes)));
  for (const o of n.offers) if (!o.chosen) lines.push(faint(o.provider + ' offered ' + timeText(o.cost_ns)));
  for (const x of n.refused_by || []) lines.push(faint(x.provider + ': ' + x.text));
  return lines;
}

function showTip(t, x, y) {
  tip.hidden = !t;
  if (!t) return;
  const g = t.graph;
  if (t.kind === 'node')
    tip.replaceChildren(...tipOfNode(t));
  else if (t.kind === 'fold')
    tip.replaceChildren(el('b', null, many(t.stretch.nodes, 'node', 'nodes')),
                        div('', chip(t.provider), t.provider + ' \u00b7 ' + timeText(t.stretch.cost_ns)),
                        faint(summary(g, t.stretch)), faint('double-click to unfold'));
  else
    tip.replaceChildren(el('b', null, t.kind), ' ', name(g.values[t.value].name), faint(shapeText(g.values[t.value])));
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 16, canvas.clientWidth - w - 6)) + 'px';
  tip.style.top = (y + 18 + h > canvas.clientHeight ? Math.max(4, y - h - 12) : y + 18) + 'px';
}
