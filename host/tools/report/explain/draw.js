/* draw.js - draws the visible part of the scene on a canvas, with as much text as fits. */

/* Colours by provider: distinct in hue and lightness, also for colour-blind readers, on light and dark grounds. */
const HUES = ['#3b7dd8', '#e07b39', '#2a9d6f', '#a65fc9', '#d9485f', '#1fa3b8', '#b08a1e', '#7a6ff0'];
const HOST_COLOUR = '#8a8f98';

const colourOf = new Map();
function providerColour(name) {
  return colourOf.get(name) || HOST_COLOUR;
}

function chip(provider) {
  return el('span', { className: 'chip', style: { background: providerColour(provider) } });
}

function mix(a, b, share) {
  const x = parseInt(a.slice(1), 16), y = parseInt(b.slice(1), 16);
  const part = (shift) => Math.round(((x >> shift) & 255) * (1 - share) + ((y >> shift) & 255) * share);
  return `rgb(${part(16)},${part(8)},${part(0)})`;
}

/* A colour for a time, from cold to hot; share is in [0, 1]. */
function heatColour(share) {
  const stops = ['#7fa8c9', '#e3c15b', '#d1493f'], at = Math.min(0.9999, Math.max(0, share)) * 2;
  const hex = (rgb) => '#' + rgb.match(/\d+/g).map((n) => (+n).toString(16).padStart(2, '0')).join('');
  return hex(mix(stops[Math.floor(at)], stops[Math.floor(at) + 1], at - Math.floor(at)));
}

function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return { ground: get('--ground'), paper: get('--paper'), ink: get('--ink'), faint: get('--faint'),
           line: get('--line'), accent: get('--accent'), copy: get('--copy') };
}

/* A node's share of the time of its region, according to the costs of the offers. */
function partOfRegion(node, region) {
  const own = (n) => n.offers.reduce((sum, o) => o.chosen ? o.cost_ns / (o.nodes || 1) : sum, 0);
  const all = region.nodes.reduce((sum, i) => sum + own(node.graph.nodes[i]), 0);
  return all > 0 ? own(node) / all : 1 / region.nodes.length;
}

function thingTime(thing, measured) {
  const source = thing.kind === 'fold' ? thing.stretch : thing.region;
  if (!source) return 0;
  const ns = measured && source.measured_ns !== undefined ? source.measured_ns : source.cost_ns;
  return thing.kind === 'node' && source.nodes.length > 1 ? ns * partOfRegion(thing.node, source) : ns;
}

function thingName(thing) {
  if (thing.kind === 'node') return thing.node.name;
  if (thing.kind === 'fold') return summary(thing.graph, thing.stretch);
  return thing.graph.values[thing.value].name;
}

/* "12 Conv, 11 Relu" */
function summary(g, stretch) {
  const counts = new Map();
  for (let r = stretch.first_region; r < stretch.first_region + stretch.regions; r++)
    for (const n of g.regions[r].nodes) counts.set(g.nodes[n].op, (counts.get(g.nodes[n].op) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([op, n]) => (n > 1 ? n + ' ' : '') + op).join(', ');
}

/* Truncates a text to a width; keepEnd: at its beginning, since the end of a name is more specific. */
const fitted = new Map();
function fit(ctx, text, width, keepEnd) {
  const key = ctx.font + '|' + Math.round(width) + keepEnd + text;
  if (fitted.has(key)) return fitted.get(key);
  const cut = (room) => keepEnd ? '\u2026' + text.slice(-room) : text.slice(0, room) + '\u2026';
  let result = text, room = Math.min(text.length, 400);
  while (room > 1 && ctx.measureText(result).width > width) {
    room = Math.min(room - 1, Math.ceil(room * width / ctx.measureText(result).width));
    result = cut(room);
  }
  if (fitted.size > 20000) fitted.clear();
  fitted.set(key, result);
  return result;
}

function roundRect(ctx, x, y, w, h, r) {
  ctx.beginPath();
  ctx.moveTo(x + r, y);
  ctx.arcTo(x + w, y, x + w, y + h, r);
  ctx.arcTo(x + w, y + h, x, y + h, r);
  ctx.arcTo(x, y + h, x, y, r);
  ctx.arcTo(x, y, x + w, y, r);
  ctx.closePath();
}

/* Adds a line to the open path. */
function trace(ctx, p) {
  ctx.moveTo(p[0], p[1]);
  if (p.length > 4) { /* around the corner of a column */
    for (let i = 2; i < p.length - 2; i += 2) {
      const r = Math.min(10, Math.hypot(p[i] - p[i - 2], p[i + 1] - p[i - 1]) / 2,
                         Math.hypot(p[i + 2] - p[i], p[i + 3] - p[i + 1]) / 2);
      ctx.arcTo(p[i], p[i + 1], p[i + 2], p[i + 3], r);
    }
    ctx.lineTo(p[p.length - 2], p[p.length - 1]);
  } else if (Math.abs(p[0] - p[2]) < 0.5) {
    ctx.lineTo(p[2], p[3]);
  } else {
    const bend = Math.max(10, (p[3] - p[1]) * 0.5);
    ctx.bezierCurveTo(p[0], p[1] + bend, p[2], p[3] - bend, p[2], p[3]);
  }
}

function inView(box, view) {
  return box[0] <= view.right && box[2] >= view.left && box[1] <= view.bottom && box[3] >= view.top;
}

function drawLines(ctx, state, view, colours) {
  const sets = { plain: [], loose: [], copy: [], lit: [] };
  for (const line of state.scene.lines) {
    if (!inView(line.box, view)) continue;
    const lit = state.lit !== null && state.lit.graph === line.graph && state.lit.values.has(line.value);
    sets[lit ? 'lit' : line.copy ? 'copy' : line.loose ? 'loose' : 'plain'].push(line);
  }
  const thin = 1 / Math.max(state.scale, 0.2);
  const stroke = (lines, colour, width, alpha, dash) => {
    ctx.beginPath();
    for (const line of lines) trace(ctx, line.points);
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.globalAlpha = alpha;
    ctx.setLineDash(dash);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
  };
  const dim = state.lit !== null ? 0.45 : 1;
  stroke(sets.loose, colours.line, thin * 0.8, 0.25 * dim, []);
  stroke(sets.plain, colours.line, Math.max(1.3, thin * 0.7), 0.9 * dim, []);
  stroke(sets.copy, colours.copy, Math.max(2.2, thin * 1.4), 1, [6, 4]);
  stroke(sets.lit, colours.accent, Math.max(2.4, thin * 1.6), 1, []);
  if (state.scale > 0.55) labelCopies(ctx, sets.copy.concat(sets.lit), colours);
}

/* Labels copies at the end of their lines. */
function labelCopies(ctx, lines, colours) {
  ctx.font = '10px ' + FONT;
  ctx.textAlign = 'left';
  for (const line of lines) {
    if (line.to === null || !line.copy) continue;
    const copy = line.graph.copiesOf.get(line.value)[0], p = line.points;
    const text = bytesText(copy.bytes) + ' \u00b7 ' + timeText(copy.cost_ns);
    const x = p[p.length - 2] + 7, y = p[p.length - 1] - 7, w = ctx.measureText(text).width;
    ctx.fillStyle = colours.ground;
    ctx.globalAlpha = 0.8;
    ctx.fillRect(x - 2, y - 9, w + 4, 12);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colours.copy;
    ctx.fillText(text, x, y);
  }
}

function drawFrames(ctx, frames, state, colours) {
  for (const f of frames) {
    roundRect(ctx, f.x, f.y, f.w, f.h, 6);
    ctx.fillStyle = colours.ground;
    ctx.globalAlpha = f.graph.times === 0 ? 0.55 : 0.85;
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colours.line;
    ctx.lineWidth = 1;
    ctx.setLineDash(f.graph.times === 0 ? [4, 4] : []);
    ctx.stroke();
    ctx.setLineDash([]);
    if (state.scale < 0.3) continue;
    ctx.font = '11px ' + FONT;
    ctx.textAlign = 'left';
    ctx.fillStyle = colours.faint;
    ctx.fillText(fit(ctx, f.graph.attr + ' \u00b7 ' + timesText(f.graph), f.w - 16, false), f.x + 8, f.y + 15);
  }
}

function timesText(g) {
  if (g.times === 0) return 'not taken';
  return timeText(g.cost_ns) + (g.times_known ? (g.times === 1 ? '' : ' \u00d7 ' + +g.times.toPrecision(3))
                                              : ' \u00d7 depends on data');
}

function drawThing(ctx, t, state, colours) {
  const colour = state.byTime && t.kind !== 'input' && t.kind !== 'output'
    ? heatColour(Math.sqrt(thingTime(t, state.measured) / state.mostTime)) : providerColour(t.provider);
  const pill = t.kind === 'input' || t.kind === 'output';
  const small = state.scale < 0.5, dimmed = state.dims(t);

  ctx.globalAlpha = dimmed ? 0.18 : 1;
  roundRect(ctx, t.x, t.y, t.w, t.h, pill ? t.h / 2 : 6);
  ctx.fillStyle = pill ? colours.paper
    : small && !t.bodies ? colour : mixed(colour, colours.paper, t.bodies ? 0.9 : state.byTime ? 0.55 : 0.8);
  ctx.fill();
  ctx.lineWidth = t === state.chosen ? 3 : t === state.hovered ? 2.2 : t.kind === 'fold' ? 2 : 1.2;
  ctx.strokeStyle = t === state.chosen || t === state.hovered ? colours.accent : pill ? colours.line : colour;
  ctx.stroke();
  if (state.found.has(t)) {
    roundRect(ctx, t.x - 4, t.y - 4, t.w + 8, t.h + 8, 9);
    ctx.lineWidth = 3;
    ctx.strokeStyle = colours.accent;
    ctx.stroke();
  }
  if (pill) drawPill(ctx, t, state, colours);
  else if (small) drawSmall(ctx, t, state, colours);
  else drawFull(ctx, t, state, colours, colour);
  ctx.globalAlpha = 1;
}

const mixes = new Map();
function mixed(colour, paper, share) {
  const key = colour + paper + share;
  if (!mixes.has(key)) mixes.set(key, mix(colour, paper, share));
  return mixes.get(key);
}

function drawPill(ctx, t, state, colours) {
  if (state.scale < 0.4) return;
  ctx.font = '11px ' + FONT;
  ctx.textAlign = 'center';
  ctx.fillStyle = colours.faint;
  ctx.fillText(fit(ctx, thingName(t), t.w - 16, true), t.x + t.w / 2, t.y + 15);
}

/* Small scale: only the operator, as large as the box allows. */
function drawSmall(ctx, t, state, colours) {
  const h = t.bodies ? NODE_H : t.h, px = Math.min(10 / state.scale, h * 0.62);
  if (px * state.scale < 6) return;
  ctx.font = `600 ${px}px ${FONT}`;
  ctx.textAlign = 'center';
  ctx.fillStyle = t.bodies ? colours.ink : '#ffffff';
  const text = t.kind === 'fold' ? t.stretch.nodes + ' nodes' : t.node.op;
  ctx.fillText(fit(ctx, text, t.w - 8, false), t.x + t.w / 2, t.y + h / 2 + px * 0.36);
}

function drawFull(ctx, t, state, colours, colour) {
  const ns = thingTime(t, state.measured), fold = t.kind === 'fold';
  const time = (!fold && t.region.nodes.length > 1 ? '~' : '') + timeText(ns);
  const share = state.mostTime > 0 ? ns / state.mostTime : 0;

  ctx.textAlign = 'right';
  ctx.font = '11px ' + FONT;
  ctx.fillStyle = colours.faint;
  const timeWidth = ctx.measureText(time).width;
  ctx.fillText(time, t.x + t.w - 8, t.y + 15);
  ctx.textAlign = 'left';
  ctx.font = '600 12px ' + FONT;
  ctx.fillStyle = colours.ink;
  const title = fold ? t.stretch.nodes + ' nodes \u00b7 ' + t.provider : t.node.op;
  ctx.fillText(fit(ctx, title, t.w - 24 - timeWidth, false), t.x + 9, t.y + 16);
  ctx.font = '10px ' + FONT;
  ctx.fillStyle = colours.faint;
  ctx.fillText(fit(ctx, thingName(t), t.w - 18, !fold), t.x + 9, t.y + (fold ? 33 : 29));
  /* The time relative to that of the most expensive node. */
  ctx.fillStyle = colour;
  if (share > 0.004 && !t.bodies) ctx.fillRect(t.x + 7, t.y + (fold ? 41 : 32.5), Math.max(2, (t.w - 14) * share), 3);
}

/* state: { scene, scale, left, top, hovered, chosen, lit, found, dims, byTime, measured, mostTime } */
function drawScene(canvas, state) {
  const ctx = canvas.getContext('2d'), ratio = window.devicePixelRatio || 1, colours = state.colours;
  const w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = colours.ground;
  ctx.fillRect(0, 0, w, h);
  ctx.setTransform(ratio * state.scale, 0, 0, ratio * state.scale, -state.left * ratio * state.scale,
                   -state.top * ratio * state.scale);
  const view = { left: state.left, top: state.top, right: state.left + w / state.scale,
                 bottom: state.top + h / state.scale };
  const visible = state.scene.things.filter((t) => inView([t.x, t.y, t.x + t.w, t.y + t.h], view));
  /* Items with bodies are drawn first, so that the lines within the bodies are drawn over them. */
  for (const t of visible) {
    if (!t.bodies) continue;
    drawThing(ctx, t, state, colours);
    drawFrames(ctx, t.frames || [], state, colours);
  }
  drawLines(ctx, state, view, colours);
  for (const t of visible) if (!t.bodies) drawThing(ctx, t, state, colours);
}
