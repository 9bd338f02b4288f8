/* side.js - totals at the top, lists on the left, and the time strip. */

const LIST_MOST = 60;

function sums() {
  const pair = (label, value) => div('', el('b', null, value), el('span', null, label));
  const base = (facts.model || 'model').split('/').slice(-2).join('/'), title = document.getElementById('title');
  const list = [pair('predicted', timeText(facts.cost_ns))];

  document.title = base + ' \u00b7 inlay explain';
  title.textContent = base;
  title.title = facts.model || '';
  if (measured)
    list.push(pair('measured' + ratioText(facts.measured_ns, facts.cost_ns), timeText(facts.measured_ns)));
  for (const [count, one, more] of [[facts.nodes, 'node', 'nodes'], [facts.regions, 'region', 'regions'],
                                    [facts.threads, 'thread', 'threads']])
    list.push(pair(count === 1 ? one : more, '' + count));
  list.push(pair('policy', facts.policy));
  document.getElementById('sums').append(...list);
}

function providerRow(p) {
  const share = facts.cost_ns > 0 ? p.cost_ns / facts.cost_ns : 0;
  const row = go({ title: 'Show or hide', onclick: () => {
    if (!hidden.delete(p.name)) hidden.add(p.name);
    row.classList.toggle('off', hidden.has(p.name));
    redraw();
  } }, el('td', { className: 'who' }, chip(p.name), p.name, bar(share, providerColour(p.name))), num('' + p.nodes),
  num(timeText(p.cost_ns)), measured ? num(timeText(p.measured_ns)) : null, num((share * 100).toFixed(1) + '%'));
  return row;
}

function providerTable() {
  const rows = facts.providers.map(providerRow);
  if (facts.copies_ns > 0)
    rows.push(el('tr', null, td(el('span', { className: 'chip of-copies' }), 'copies'), td(),
                 num(timeText(facts.copies_ns)), measured ? td() : null,
                 num((100 * facts.copies_ns / facts.cost_ns).toFixed(1) + '%')));
  return el('table', null, heads('provider', 'nodes', 'predicted', measured ? 'measured' : null, 'share'), rows);
}

function providerMemory() {
  const limit = (p) => p.limit_bytes ? ' of ' + bytesText(p.limit_bytes) : '';
  const rows = facts.providers.filter((p) => p.resident_bytes > 0 || p.peak_bytes > 0).map((p) =>
    el('tr', null, td(chip(p.name), p.name), num(bytesText(p.resident_bytes)),
       num(bytesText(p.peak_bytes) + limit(p))));
  return rows.length === 0 ? null
    : [el('h2', null, 'Memory'), el('table', null, heads('provider', 'resident', 'peak'), rows)];
}

function whatIf() {
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
  if (Math.abs(r.extra_ns) < 0.5) return 'same cost on ' + r.provider;
  return 'on ' + r.provider + (r.kind === 'about' ? ' about ' : ' ') + changeText(r.extra_ns) +
    (r.why ? ', not chosen: ' + r.why : '');
}

function stretchList() {
  const all = [];
  for (const g of graphs) for (const s of g.stretches) all.push({ g, s });
  const most = all.reduce((m, x) => Math.max(m, x.s.cost_ns), 1);
  all.sort((a, b) => b.s.cost_ns - a.s.cost_ns);
  return listOf('Partitions, most expensive first', all, ({ g, s }) => {
    const first = g.nodes[g.regions[s.first_region].nodes[0]];
    return go({ onclick: () => showStretch(g, s), ondblclick: () => foldStretch(g, s) },
              td(chip(s.provider), name(s.nodes === 1 ? first.op + ' ' + first.name : summary(g, s)),
                 faint(rivalText(s)), bar(s.cost_ns / most, providerColour(s.provider))),
              num(timeText(s.cost_ns), s.measured_ns !== undefined ? timeText(s.measured_ns) : undefined));
  });
}

/* The regions of partitions with several regions. */
function regionList() {
  const all = [], time = (r) => r.measured_ns !== undefined ? r.measured_ns : r.cost_ns;
  for (const g of graphs) {
    if (g.stretches.length === g.regions.length) continue;
    for (const r of g.regions) if (!r.bodies) all.push({ g, r });
  }
  const most = all.reduce((m, x) => Math.max(m, time(x.r)), 1);
  all.sort((a, b) => time(b.r) - time(a.r));
  return listOf('Regions, most expensive first', all, ({ g, r }) => {
    const node = g.nodes[r.nodes[0]], more = r.nodes.length > 1 ? ' and ' + (r.nodes.length - 1) + ' more' : '';
    return go({ onclick: () => goToNode(node) },
              td(chip(r.provider), name(node.op + ' ' + node.name + more),
                 bar(time(r) / most, providerColour(r.provider))),
              num(timeText(r.cost_ns), r.measured_ns !== undefined ? timeText(r.measured_ns) : undefined));
  });
}

/* Refusals by providers that could have run the nodes; the others are counted. */
function refusalList() {
  const named = facts.refusals.filter((r) => r.could_run);
  const others = facts.refusals.filter((r) => !r.could_run).reduce((sum, r) => sum + r.count, 0);
  const list = listOf('Refused', named, (r) => el('tr', { title: r.nodes.join(', ') },
    td(chip(r.provider), r.text, r.accepted_if ? faint('accepted if: ' + r.accepted_if) : null),
    num(many(r.count, 'node', 'nodes'))));
  if (others === 0) return list;
  return (list || [el('h2', null, 'Refused')]).concat(
    faint(many(others, 'refusal', 'refusals') + ' by providers that could not have run the nodes'));
}

function copyList() {
  const all = [];
  for (const g of graphs) for (const c of g.copies) all.push({ g, c });
  all.sort((a, b) => b.c.cost_ns - a.c.cost_ns);
  return listOf('Copies', all, ({ g, c }) => {
    const node = g.nodes.find((n) => n.name === (c.to_node || c.from_node));
    return go({ onclick: () => { if (node) goToNode(node); } },
              td(name(c.name), faint(c.from + ' \u2192 ' + c.to)), num(timeText(c.cost_ns), bytesText(c.bytes)));
  });
}

function absentList() {
  const all = facts.not_used.map((x) => [x.provider, x.reason]).concat(facts.not_loaded.map((x) => [x.file, x.reason]));
  return listOf('Unused', all, ([who, reason]) => el('tr', null,
    td(el('b', { className: 'name' }, who), faint(reason || 'no reason given'))));
}

function assumed() {
  const sizes = facts.assumed.map((a) => a.name + '=' + a.size);
  const more = sizes.length > 8 ? ', \u2026' : '';
  return sizes.length === 0 ? null : div('faint name', 'assumed sizes: ' + sizes.slice(0, 8).join(', ') + more);
}

function side() {
  const parts = [whatIf(), el('h2', null, 'Providers'), providerTable(), assumed(), providerMemory(), stretchList(),
                 copyList(), refusalList(), absentList(), regionList()];
  document.getElementById('side').append(...parts.flat().filter((x) => x !== null));
}

/* ---------------------------------------------------------------- time strip: order of execution, widths are times */

const strip = document.getElementById('time');
let stripParts = [];

function drawStrip() {
  const ctx = strip.getContext('2d'), ratio = window.devicePixelRatio || 1;
  const w = strip.clientWidth, h = strip.clientHeight, g = facts.main;
  const time = (s) => measured && s.measured_ns !== undefined ? s.measured_ns : s.cost_ns;
  const total = g.stretches.reduce((sum, s) => sum + time(s), 0) || 1;
  strip.width = Math.round(w * ratio);
  strip.height = Math.round(h * ratio);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  stripParts = [];
  let x = 0;
  for (const s of g.stretches) {
    const width = time(s) / total * w;
    ctx.fillStyle = providerColour(s.provider);
    ctx.fillRect(x, 0, Math.max(0.3, width - (width > 4 ? 1 : 0)), h);
    stripParts.push({ x, end: x + width, s });
    x += width;
  }
}

function stripPart(e) {
  return stripParts.find((p) => e.offsetX >= p.x && e.offsetX <= p.end);
}

strip.addEventListener('click', (e) => {
  const part = stripPart(e);
  if (part) showStretch(facts.main, part.s);
});
strip.addEventListener('mousemove', (e) => {
  const part = stripPart(e);
  strip.title = part ? part.s.provider + ', ' + summary(facts.main, part.s) + ': ' + timeText(part.s.cost_ns) : '';
});
