/* side.js - totals at the top, lists on the left, and the time strip. */

const LIST_MOST = 60;

/* The last parts of a model's path. */
function baseName(path) {
  return (path || 'model').split('/').slice(-2).join('/');
}

function pair(label, value) {
  return div('', el('b', null, value), el('span', null, label));
}

function sums(page) {
  const list = [], facts = page.facts;
  if (facts.cost_ns !== undefined) list.push(pair('predicted', timeText(facts.cost_ns)));
  if (page.runNs !== undefined) list.push(pair('a run', timeText(page.runNs)));
  if (facts.measured_ns !== undefined)
    list.push(pair('measured' + ratioText(facts.measured_ns, facts.cost_ns), timeText(facts.measured_ns)));
  for (const [count, one, more] of [[facts.nodes, 'node', 'nodes'], [facts.regions, 'region', 'regions'],
                                    [facts.threads, 'thread', 'threads']])
    if (count !== undefined) list.push(pair(count === 1 ? one : more, '' + count));
  if (facts.policy) list.push(pair('policy', facts.policy));
  if (page.views.length === 2) {
    const counts = new Map();
    for (const n of page.changes) counts.set(n.change, (counts.get(n.change) || 0) + 1);
    for (const kind of ['changed', 'removed', 'added']) list.push(pair(kind, '' + (counts.get(kind) || 0)));
  }
  return list;
}

/* ---------------------------------------------------------------- lists for a session */

function providerRow(page, p) {
  const facts = page.facts, share = facts.cost_ns > 0 ? p.cost_ns / facts.cost_ns : 0;
  const row = go({ title: 'Show or hide', onclick: () => {
    if (!page.hidden.delete(p.name)) page.hidden.add(p.name);
    row.classList.toggle('off', page.hidden.has(p.name));
    for (const view of page.views) view.redraw();
  } }, el('td', { className: 'who' }, chip(providerColour(p.name)), p.name, bar(share, providerColour(p.name))), num('' + p.nodes),
  num(timeText(p.cost_ns)), facts.measured_ns !== undefined ? num(timeText(p.measured_ns)) : null, num((share * 100).toFixed(1) + '%'));
  return row;
}

function providerTable(page) {
  const facts = page.facts, measured = facts.measured_ns !== undefined, offered = (p) => p.offered !== false || p.nodes > 0;
  const rows = facts.providers.filter(offered).map((p) => providerRow(page, p)), others = facts.providers.filter((p) => !offered(p));
  if (facts.copies_ns > 0)
    rows.push(el('tr', null, td(el('span', { className: 'chip of-copies' }), 'copies'), td(),
                 num(timeText(facts.copies_ns)), measured ? td() : null,
                 num((100 * facts.copies_ns / facts.cost_ns).toFixed(1) + '%')));
  return [el('table', null, heads('provider', 'nodes', 'predicted', measured ? 'measured' : null, 'share'), rows),
          others.length ? faint('no offer from ' + others.map((p) => p.name).join(', ')) : null];
}

function providerMemory(facts) {
  const limit = (p) => p.limit_bytes ? ' of ' + bytesText(p.limit_bytes) : '';
  const rows = facts.providers.filter((p) => p.resident_bytes > 0 || p.peak_bytes > 0).map((p) =>
    el('tr', null, td(chip(providerColour(p.name)), p.name), num(bytesText(p.resident_bytes)),
       num(bytesText(p.peak_bytes) + limit(p))));
  return rows.length === 0 ? null
    : [el('h2', null, 'Memory'), el('table', null, heads('provider', 'resident', 'peak'), rows)];
}

function whatIf(facts) {
  const w = facts.what_if;
  if (!w) return null;
  const head = el('b', null, 'what if ' + w.rules.join(', '));
  if (!w.possible) return div('note bad', head, div('', w.reason));
  const change = w.cost_ns - facts.cost_ns;
  return div('note what', head,
             div('', timeText(w.cost_ns) + ', now ' + timeText(facts.cost_ns) + ': ',
                 el('b', { className: change > 0 ? 'up' : 'down' }, changeText(change))),
             w.moves.map((m) => faint(many(m.count, 'node', 'nodes') + ' ' + m.from + ' \u2192 ' + m.to)));
}

/* What each objective would lead to. */
function objectives(facts) {
  if (!facts.objectives) return null;
  const row = (o) => o.possible
    ? [num(timeText(o.cost_ns)), num(o.energy_nj ? joulesText(o.energy_nj) : '-'), num(bytesText(o.kept_bytes)), num('' + o.moved)]
    : [el('td', { colSpan: 4, className: 'faint' }, o.reason)];
  return [el('h2', null, 'Objectives'),
          el('table', { className: 'objectives' }, heads('objective', 'time', 'energy', 'memory', 'nodes that move'),
             facts.objectives.map((o) => el('tr', null, td(o.objective, o.objective === facts.objective ? ' *' : ''), row(o))))];
}

/* A heading and rows; the first rows are shown at once, the others on request. */
function listOf(title, all, row) {
  if (all.length === 0) return null;
  const table = el('table', null, all.slice(0, LIST_MOST).map(row));
  const showRest = () => {
    table.append(...all.slice(LIST_MOST).map(row));
    rest.remove();
  };
  const rest = all.length <= LIST_MOST ? null
    : el('button', { className: 'more', onclick: showRest }, (all.length - LIST_MOST) + ' more');
  return [el('h2', null, title), table, rest];
}

function rivalText(s) {
  const r = s.runner_up;
  if (!r) return s.provider === 'host' ? 'runs bodies' : 'no other provider';
  if (r.extra_ns === undefined) return r.provider + ', without a price';
  if (Math.abs(r.extra_ns) < 0.5) return 'same cost on ' + r.provider;
  return 'on ' + r.provider + (r.kind === 'about' ? ' about ' : ' ') + changeText(r.extra_ns) +
    (r.why ? ', not chosen: ' + r.why : '');
}

function stretchList(view) {
  const all = view.graphs.flatMap((g) => g.stretches);
  const most = all.reduce((m, s) => Math.max(m, s.cost_ns), 1);
  all.sort((a, b) => b.cost_ns - a.cost_ns);
  return listOf('Partitions, most expensive first', all, (s) => go({ onclick: () => view.showNodes(s.members),
                                                                     ondblclick: () => view.foldPart(s) },
    td(chip(providerColour(s.provider)), name(s.nodes === 1 ? s.members[0].op + ' ' + s.members[0].name : summary(s.members)),
       faint(rivalText(s)), bar(s.cost_ns / most, providerColour(s.provider))),
    num(timeText(s.cost_ns), s.measured_ns !== undefined ? timeText(s.measured_ns) : undefined)));
}

/* The regions of partitions with several regions. */
function regionList(view) {
  const all = [], time = (r) => r.measured_ns !== undefined ? r.measured_ns : r.cost_ns;
  for (const g of view.graphs) {
    if (g.stretches.length === g.regions.length) continue;
    for (const r of g.regions) if (!r.bodies) all.push({ g, r });
  }
  const most = all.reduce((m, x) => Math.max(m, time(x.r)), 1);
  all.sort((a, b) => time(b.r) - time(a.r));
  return listOf('Regions, most expensive first', all, ({ g, r }) => {
    const node = g.nodes[r.nodes[0]], more = r.nodes.length > 1 ? ' and ' + (r.nodes.length - 1) + ' more' : '';
    return go({ onclick: () => view.goToNode(node) },
              td(chip(providerColour(r.provider)), name(node.op + ' ' + node.name + more),
                 bar(time(r) / most, providerColour(r.provider))),
              num(timeText(r.cost_ns), r.measured_ns !== undefined ? timeText(r.measured_ns) : undefined));
  });
}

/* Refusals by providers that could have run the nodes; the others are counted. */
function refusalList(facts) {
  const named = facts.refusals.filter((r) => r.could_run);
  const others = facts.refusals.filter((r) => !r.could_run).reduce((sum, r) => sum + r.count, 0);
  const list = listOf('Refused', named, (r) => el('tr', { title: r.nodes.join(', ') },
    td(chip(providerColour(r.provider)), r.text, r.accepted_if ? faint('accepted if: ' + r.accepted_if) : null),
    num(many(r.count, 'node', 'nodes'))));
  if (others === 0) return list;
  return (list || [el('h2', null, 'Refused')]).concat(
    faint(many(others, 'refusal', 'refusals') + ' by providers that could not have run the nodes'));
}

function copyList(view) {
  const all = [];
  for (const g of view.graphs) for (const c of g.copies) all.push({ g, c });
  all.sort((a, b) => b.c.cost_ns - a.c.cost_ns);
  return listOf('Copies', all, ({ g, c }) => {
    const node = g.nodes.find((n) => n.name === (c.to_node || c.from_node));
    return go({ onclick: () => { if (node) view.goToNode(node); } },
              td(name(c.name), faint(c.from + ' \u2192 ' + c.to)), num(timeText(c.cost_ns), bytesText(c.bytes)));
  });
}

function absentList(facts) {
  const all = facts.not_used.map((x) => [x.provider, x.reason]).concat(facts.not_loaded.map((x) => [x.file, x.reason]));
  return listOf('Unused', all, ([who, reason]) => el('tr', null,
    td(el('b', { className: 'name' }, who), faint(reason || 'no reason given'))));
}

function assumed(facts) {
  const sizes = facts.assumed.map((a) => a.name + '=' + a.size);
  const more = sizes.length > 8 ? ', \u2026' : '';
  return sizes.length === 0 ? null : div('faint name', 'assumed sizes: ' + sizes.slice(0, 8).join(', ') + more);
}

/* ---------------------------------------------------------------- lists for every model */

/* The operators; a click finds their nodes. */
function operatorList(page) {
  const counts = new Map();
  for (const view of page.views)
    for (const g of view.graphs) for (const n of g.nodes) {
      if (!counts.has(n.op)) counts.set(n.op, { count: 0, colour: familyOf(n)[1] });
      counts.get(n.op).count++;
    }
  const all = [...counts].sort((a, b) => b[1].count - a[1].count || (a[0] < b[0] ? -1 : 1));
  return listOf('Operators', all, ([op, { count, colour }]) => go({ onclick: () => page.find(op) },
                                                                  td(chip(colour), name(op)), num('' + count)));
}

/* The modules of the nodes; a click shows their nodes. */
function moduleList(page) {
  const view = page.views[0], timed = view.state.timed;
  const table = moduleTable(view.main.nodes, ['nodes', timed ? 'time' : null],
                            (m) => [num('' + m.items.length), timed ? num(timeText(m.ns)) : null], (m) => view.showNodes(m.items));
  return table ? [el('h2', null, timed ? 'Modules, most expensive first' : 'Modules'), table] : null;
}

function weightList(view) {
  const all = [];
  for (const g of view.graphs)
    g.values.forEach((v, i) => { if (v.constant && v.bytes > 1024 && g.readers[i].length > 0) all.push({ g, v, i }); });
  all.sort((a, b) => b.v.bytes - a.v.bytes);
  return listOf('Weights, largest first', all, ({ g, v, i }) => go({ onclick: () => view.goToNode(g.readers[i][0]) },
    td(name(v.name), faint(shapeText(v))), num(bytesText(v.bytes))));
}

/* Inputs and outputs that only one model has, or with another type. */
function interfaceChanges(page) {
  const list = [];
  for (const kind of ['inputs', 'outputs']) {
    const [a, b] = page.views.map((view) => new Map(view.main[kind].filter((v) => v >= 0).map((v) =>
      [view.main.values[v].name, shapeText(view.main.values[v])])));
    for (const key of new Set([...a.keys(), ...b.keys()]))
      if (a.get(key) !== b.get(key)) list.push([kind.slice(0, -1), key, a.get(key), b.get(key)]);
  }
  return listOf('Inputs and outputs', list, ([kind, key, a, b]) => el('tr', null, td(name(kind + ' ' + key),
    a === undefined ? null : div('gone name', '\u2212 ' + a), b === undefined ? null : div('come name', '+ ' + b))));
}

function changeList(page) {
  if (page.changes.length === 0) return div('note', 'The nodes and weights of both models are equal.');
  return listOf('Differences', page.changes, (n) => {
    const what = (n.differs || []).map(([w]) => w).join(', ');
    return go({ onclick: () => page.views[n.change === 'added' ? 1 : 0].goToNode(n) },
              td(chip(CHANGES[n.change].colour), name(CHANGES[n.change].mark + n.op + ' ' + n.name),
                 faint(CHANGES[n.change].text + (what ? ': ' + what : ''))));
  });
}

function keyList() {
  const keys = [['/', 'find'], ['Enter', 'next found, or fold and unfold'], ['n p', 'next and previous node'], ['+ \u2212 f', 'zoom, fit'],
                ['arrows', 'move'], ['Esc', 'clear']];
  return [el('h2', null, 'Keys'), el('table', null, keys.map(([key, what]) => el('tr', null, el('td', null, el('kbd', null, key)), td(what))))];
}

function side(page) {
  const facts = page.facts, view = page.views[0];
  const parts = facts.providers
    ? [whatIf(facts), el('h2', null, 'Providers'), providerTable(page), assumed(facts), providerMemory(facts), objectives(facts), stretchList(view),
       moduleList(page), copyList(view), refusalList(facts), absentList(facts), regionList(view), keyList()]
    : page.views.length === 2 ? [interfaceChanges(page), changeList(page), operatorList(page), keyList()]
      : [operatorList(page), moduleList(page), weightList(view), keyList()];
  return parts.flat().filter((x) => x !== null);
}

/* ---------------------------------------------------------------- time strip: order of execution, widths are times */

/* Draws the strip; its parts react to the mouse. */
function makeStrip(strip, view) {
  let parts = [];
  const at = (e) => parts.find((p) => e.offsetX >= p.x && e.offsetX <= p.end);
  strip.addEventListener('click', (e) => { if (at(e)) view.showNodes(at(e).s.members); });
  strip.addEventListener('mousemove', (e) => {
    const part = at(e);
    strip.title = part ? part.s.provider + ', ' + summary(part.s.members) + ': ' + timeText(part.s.ns) : '';
  });
  return () => {
    const ctx = strip.getContext('2d'), ratio = window.devicePixelRatio || 1, w = strip.clientWidth, h = strip.clientHeight;
    const list = view.main.stretches, total = list.reduce((sum, s) => sum + s.ns, 0) || 1;
    strip.width = Math.round(w * ratio);
    strip.height = Math.round(h * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    parts = [];
    let x = 0;
    for (const s of list) {
      const width = s.ns / total * w;
      ctx.fillStyle = providerColour(s.provider);
      ctx.fillRect(x, 0, Math.max(0.3, width - (width > 4 ? 1 : 0)), h);
      parts.push({ x, end: x + width, s });
      x += width;
    }
  };
}
