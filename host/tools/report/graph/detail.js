/* detail.js - the panel of the selected item, and the tooltip. */

const END_MOST = 6;

/* A bar for each bin of a constant's histogram. */
function histogram(d) {
  const most = Math.max(...d.bins);
  return el('div', { className: 'bins', title: d.sampled < d.count ? 'of ' + d.sampled + ' evenly spaced elements' : 'of all elements' },
            d.bins.map((n) => el('i', { style: { height: Math.max(n > 0 ? 4 : 0, n / most * 100) + '%' } })));
}

/* The contents of a constant, as far as the JSON has them. */
function contents(d) {
  const number = (x) => +x.toPrecision(4) + '';
  if (!d) return null;
  return [faint(d.first + (d.count > 8 ? ', \u2026' : '')),
          d.bins ? histogram(d) : null,
          d.bins ? faint(number(d.low) + ' to ' + number(d.high) + ', mean ' + number(d.mean) +
                         (d.sampled < d.count ? ' (sampled)' : '')) : null];
}

/* A row for an input of a node (out: for an output): the value, and the nodes at its other end. */
function valueRow(view, g, v, out) {
  const value = g.values[v], maker = g.maker[v];
  const ends = out ? g.readers[v] : maker >= 0 ? [g.nodes[maker]] : [];
  const end = (n) => div('end', out ? '\u2192' : '\u2190', view.chipOf(n),
                         el('button', { className: 'link', onclick: () => view.goToNode(n) }, n.op + ' ' + n.name));
  const copy = (c) => div('copied', 'copied ' + c.from + ' \u2192 ' + c.to + ', ' + timeText(c.cost_ns));
  return el('tr', null, td(div('name', value.name), faint(shapeText(value) + (value.constant ? ', constant' : '')),
                           contents(value.data), ends.slice(0, END_MOST).map(end),
                           ends.length > END_MOST ? faint('and ' + (ends.length - END_MOST) + ' more') : null,
                           (g.copiesOf.get(v) || []).map(copy)),
            num(value.bytes === undefined ? '' : bytesText(value.bytes)));
}

/* The offers of all providers for a node, and their refusals. */
function answers(node) {
  const offers = node.offers || [], most = offers.reduce((m, o) => Math.max(m, o.cost_ns || 0), 1);
  const mark = (p) => chip(providerColour(p));
  const offer = (o) => el('tr', null, td(mark(o.provider), o.chosen ? el('b', null, o.provider) : o.provider,
    el('span', { className: 'faint' }, (o.chosen ? ' chosen' : '') + (o.nodes ? ' for ' + o.nodes + ' nodes' : '')),
    bar((o.cost_ns || 0) / most, providerColour(o.provider))), num(timeText(o.cost_ns), o.price));
  const refusal = (r) => el('tr', null, el('td', { colSpan: 2 }, mark(r.provider), r.provider + ' refused: ' + r.text,
    r.accepted_if ? faint('accepted if: ' + r.accepted_if) : null));
  const rows = offers.map(offer).concat((node.refused_by || []).map(refusal));
  return rows.length === 0 ? [] : [el('h2', null, 'Answers of the providers'), el('table', null, rows)];
}

function pairs(rows) {
  return el('table', null, rows.map(([k, v]) => el('tr', null, el('td', { className: 'faint' }, k), num(v))));
}

function timesOf(x) {
  const rows = [['predicted', timeText(x.cost_ns) + ' (' + x.price + ')']];
  if (x.measured_ns !== undefined)
    rows.push(['measured', timeText(x.measured_ns) + ratioText(x.measured_ns, x.cost_ns)]);
  rows.push(['in', bytesText(x.bytes_in)], ['out', bytesText(x.bytes_out)]);
  if (x.resident_bytes > 0) rows.push(['resident', bytesText(x.resident_bytes)]);
  if (x.workspace_bytes > 0) rows.push(['workspace', bytesText(x.workspace_bytes)]);
  return pairs(rows);
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
  if (r.extra_ns === undefined) return div('note', 'Runner-up: ', chip(providerColour(r.provider)), r.provider + ', without a price');
  return div('note', 'Runner-up: ', chip(providerColour(r.provider)), r.provider + ', ', el('b', null, changeText(r.extra_ns)),
             r.kind === 'about' ? ' (offers only)' : ' (total)',
             r.nodes < s.nodes ? ' (' + r.nodes + ' of ' + s.nodes + ' nodes)' : '',
             r.why ? faint('not chosen: ' + r.why) : null);
}

/* The scopes of a node; each folds at a click. */
function scopeTrail(view, n) {
  if (n.scopes.length === 0) return null;
  return div('trail', 'Fold scope: ', n.scopes.map((scope) => el('button', { className: 'link',
    title: 'Show ' + scope + ' as one box', onclick: () => view.foldScope(n, scope) }, scope.split('/').pop())));
}

/* The lines that differ between a node and its counterpart. */
function differences(n) {
  const change = CHANGES[n.change];
  if (n.change === undefined) return null;
  const rows = (n.differs || []).map(([what, a, b]) => el('tr', null, td(faint(what), div('gone name', '\u2212 ' + a),
                                                                          div('come name', '+ ' + b))));
  return div('note', chip(change.colour), el('b', null, change.text), rows.length > 0 ? el('table', null, rows) : null);
}

function aboutNode(view, t) {
  const g = t.graph, n = t.node, s = n.stretch;
  const inputs = readsOf(n).filter((v) => v >= 0), outputs = n.outputs.filter((v) => v >= 0);
  const fold = !s || s.nodes < 2 ? null
    : el('button', { className: 'more', onclick: () => view.foldPart(s) }, 'Fold its partition (' + s.nodes + ' nodes)');
  const domain = (n.domain + ' ' + (n.since_version || '')).trim();
  return [el('h3', null, n.op), div('name', n.name), scopeTrail(view, n),
          faint(domain + ' \u00b7 ' + g.path + (n.within ? ' \u00b7 region ' + n.region : '')),
          n.provider ? el('p', null, view.chipOf(n), el('b', null, n.provider)) : null,
          view.timesKnown(n) ? pairs([['profiled', timeText(n.ns)]]) : null,
          n.within ? timesOf(n.within) : null, differences(n), kernelOf(n), s ? runnerUp(s) : null, ...answers(n),
          n.attributes ? [el('h2', null, 'Attributes'), div('name', n.attributes)] : null,
          el('h2', null, 'Inputs'), el('table', null, inputs.map((v) => valueRow(view, g, v, false))),
          el('h2', null, 'Outputs'), el('table', null, outputs.map((v) => valueRow(view, g, v, true))), fold];
}

function aboutFold(view, t) {
  const open = el('button', { className: 'more', onclick: () => view.unfold(t) }, 'Unfold');
  const changed = t.nodes.filter((n) => n.change && n.change !== 'same').length;
  return [el('h3', null, many(t.nodes.length, 'node', 'nodes')), t.stretch ? null : div('name', thingTitle(t)),
          div('', summary(t.nodes)),
          t.provider ? el('p', null, chip(providerColour(t.provider)), el('b', null, t.provider)) : null,
          view.state.timed ? pairs([['time', timeText(thingTime(t))]]) : null,
          changed > 0 ? div('note', many(changed, 'node differs', 'nodes differ') + ' from the other model') : null,
          t.stretch && t.box.pieces === 1 ? [timesOf(t.stretch), runnerUp(t.stretch)] : null, open,
          el('h2', null, 'Nodes'), el('table', null, t.nodes.slice(0, 200).map((n) =>
            go({ onclick: () => view.goToNode(n) }, td(view.chipOf(n), name(n.op + ' ' + n.name))))),
          t.nodes.length > 200 ? faint('and ' + (t.nodes.length - 200) + ' more') : null];
}

function aboutThing(view, t) {
  const about = t.kind === 'node' ? aboutNode(view, t) : t.kind === 'fold' ? aboutFold(view, t)
    : [el('h3', null, t.kind === 'input' ? 'Input' : 'Output'),
       el('table', null, valueRow(view, t.graph, t.value, t.kind === 'input'))];
  return about.flat().filter((x) => x !== null);
}

function tipOfNode(view, t) {
  const g = t.graph, n = t.node, r = n.within;
  const lines = [el('b', null, n.op), ' ', name(n.name)];
  if (r) {
    const time = timeText(r.cost_ns) + (r.measured_ns !== undefined ? ', measured ' + timeText(r.measured_ns) : '');
    lines.push(div('', view.chipOf(n), n.provider + ' \u00b7 ' + time, r.nodes.length > 1 ? ' for its region' : ''));
  }
  if (n.change) lines.push(div('', chip(CHANGES[n.change].colour), CHANGES[n.change].text));
  if (n.attributes) lines.push(faint(n.attributes.slice(0, 300)));
  if (n.kernel) lines.push(kernelOf(n));
  for (const v of n.outputs)
    if (v >= 0) lines.push(faint('\u2192 ' + shapeText(g.values[v]) +
                                 (g.values[v].bytes === undefined ? '' : ' \u00b7 ' + bytesText(g.values[v].bytes))));
  for (const o of n.offers || []) if (!o.chosen) lines.push(faint(o.provider + ' offered ' + timeText(o.cost_ns)));
  for (const x of n.refused_by || []) lines.push(faint(x.provider + ': ' + x.text));
  return lines;
}

function tipOf(view, t) {
  const g = t.graph;
  if (t.kind === 'node') return tipOfNode(view, t);
  if (t.kind === 'fold')
    return [el('b', null, thingTitle(t)), view.state.timed ? div('', timeText(thingTime(t))) : '', faint(summary(t.nodes)),
            faint('double-click to unfold')];
  return [el('b', null, t.kind), ' ', name(g.values[t.value].name), faint(shapeText(g.values[t.value]))];
}
