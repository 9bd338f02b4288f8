/* draw.js - draws the visible part of the scene on a canvas, with as much text as fits. */

/* Colours of providers and families of operators: distinct in hue, and with a contrast of at least 3 to the grounds of
 * both themes. */
const HUES = ['#3b7dd8', '#c9662a', '#218a5f', '#a65fc9', '#d9485f', '#1a93a6', '#9c7a18', '#7a6ff0'];
const SMALL = 0.75; /* the scale below which a box shows its operator only */
const OTHER_COLOUR = '#7a818c';

/* The first family with a part of the operator's name; control flow is known by its bodies. */
const FAMILIES = [
  ['matrix', HUES[0], ['Conv', 'Gemm', 'MatMul', 'LSTM', 'GRU', 'RNN', 'Attention', 'Einsum']],
  ['quantization', HUES[4], ['Quantize', 'QLinear']],
  ['pooling', HUES[2], ['Pool', 'Reduce', 'ArgM', 'TopK']],
  ['normalization', HUES[3], ['Norm', 'Softmax', 'LRN']],
  ['shape', HUES[6], ['Reshape', 'Transpose', 'queeze', 'Concat', 'Split', 'Slice', 'Gather', 'Shape', 'Cast', 'Flatten',
                      'Expand', 'Tile', 'Pad', 'Size', 'Identity', 'Scatter', 'Resize', 'Range']],
];
const CONTROL = ['control flow', HUES[1]], ELEMENTWISE = ['elementwise', HUES[5]];

/* What a comparison of two models says about a node; the mark says the same without colour. */
const CHANGES = {
  same: { colour: OTHER_COLOUR, mark: '', text: 'the same in both models' },
  changed: { colour: HUES[6], mark: '~ ', text: 'changed' },
  removed: { colour: HUES[4], mark: '\u2212 ', text: 'only in A' },
  added: { colour: HUES[2], mark: '+ ', text: 'only in B' },
};

const colourOf = new Map();
function providerColour(name) {
  return colourOf.get(name) || OTHER_COLOUR;
}

function familyOf(node) {
  if (node.bodies) return CONTROL;
  return FAMILIES.find(([, , parts]) => parts.some((p) => node.op.includes(p))) || ELEMENTWISE;
}

function chip(colour) {
  return el('span', { className: 'chip', style: { background: colour } });
}

function channels(hex) {
  const x = parseInt(hex.slice(1), 16);
  return [x >> 16 & 255, x >> 8 & 255, x & 255];
}

/* Results of functions of colours: each is needed for every box of every frame. */
const computed = new Map();
function once(key, compute) {
  if (!computed.has(key)) computed.set(key, compute());
  return computed.get(key);
}

/* `share` of b in a. */
function mix(a, b, share) {
  return once(a + b + share, () => mixed(a, b, share));
}

function mixed(a, b, share) {
  const y = channels(b);
  return '#' + channels(a).map((c, i) => Math.round(c * (1 - share) + y[i] * share).toString(16).padStart(2, '0')).join('');
}

/* Black or white, whichever has more contrast to a colour. */
function inkOn(colour) {
  return once(colour, () => {
    const [r, g, b] = channels(colour).map((c) => ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#000000' : '#ffffff';
  });
}

/* A colour for a time, from cold to hot; share is in [0, 1]. */
function heatColour(share) {
  const stops = ['#5f8fb8', '#b5850f', '#d1493f'], at = Math.min(0.9999, Math.max(0, share)) * 2;
  return mix(stops[Math.floor(at)], stops[Math.floor(at) + 1], at - Math.floor(at));
}

function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  const colours = { ground: get('--ground'), paper: get('--paper'), ink: get('--ink'), faint: get('--faint'),
                    line: get('--line'), accent: get('--accent'), copy: get('--copy') };
  colours.soft = mix(colours.ink, colours.paper, 0.15); /* text on a tinted box */
  return colours;
}

function thingTime(thing) {
  if (thing.stretch && thing.box.pieces === 1) return thing.stretch.ns;
  return (thing.nodes || []).reduce((sum, n) => sum + n.ns, 0);
}

function thingName(thing) {
  if (thing.kind === 'node') return thing.node.name;
  if (thing.kind === 'fold') return summary(thing.nodes);
  return thing.graph.values[thing.value].name;
}

/* A scope without the parts that all have. */
function shortScope(g, scope) {
  const parts = scope.split('/');
  return parts.slice(Math.min(g.rootDepth, parts.length - 1)).join('/');
}

/* What stands in the first line of a box. */
function thingTitle(thing) {
  if (thing.kind === 'node') return thing.node.op;
  const piece = thing.box.pieces > 1 ? ' (' + thing.box.piece + ' of ' + thing.box.pieces + ')' : '';
  return (thing.stretch ? thing.nodes.length + ' nodes \u00b7 ' + thing.provider : shortScope(thing.graph, thing.box.group.scope)) + piece;
}

/* "12 Conv, 11 Relu" */
function summary(nodes) {
  const counts = new Map();
  for (const n of nodes) counts.set(n.op, (counts.get(n.op) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([op, n]) => (n > 1 ? n + ' ' : '') + op).join(', ');
}

/* The difference to the other model that a box shows; of a group, whether there is any. */
function changeOf(thing) {
  if (!thing.nodes) return 'same';
  const all = new Set(thing.nodes.map((n) => n.change));
  return all.size === 1 ? [...all][0] : 'changed';
}

/* The colour of a box, by what the page shows: providers, times, operators or differences. */
function thingColour(thing, state) {
  if (!thing.nodes) return OTHER_COLOUR;
  if (thing.shade !== state.shade) {
    thing.shade = state.shade;
    thing.colour = shadeColour(thing, state);
  }
  return thing.colour;
}

function shadeColour(thing, state) {
  if (state.shade === 'time') return heatColour(Math.sqrt(thingTime(thing) / state.mostTime));
  if (state.shade === 'provider') return providerColour(thing.provider);
  if (state.shade === 'difference') return CHANGES[changeOf(thing)].colour;
  const families = new Map();
  for (const n of thing.nodes) families.set(familyOf(n)[1], (families.get(familyOf(n)[1]) || 0) + 1);
  return [...families].sort((a, b) => b[1] - a[1])[0][0];
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
  ctx.roundRect(x, y, w, h, r);
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
    ctx.fillRect(x - 2, y - 9, w + 4, 12);
    ctx.fillStyle = colours.copy;
    ctx.fillText(text, x, y);
  }
}

function drawFrames(ctx, frames, state, colours) {
  for (const f of frames) {
    roundRect(ctx, f.x, f.y, f.w, f.h, 6);
    ctx.fillStyle = colours.ground;
    ctx.fill();
    ctx.strokeStyle = colours.line;
    ctx.lineWidth = 1;
    ctx.setLineDash(f.graph.times === 0 ? [4, 4] : []);
    ctx.stroke();
    ctx.setLineDash([]);
    const px = textSize(11, FRAME_HEAD * 0.7, state.scale);
    if (px === 0) continue;
    ctx.font = px + 'px ' + FONT;
    ctx.textAlign = 'left';
    ctx.fillStyle = colours.faint;
    ctx.fillText(fit(ctx, f.graph.attr + timesText(f.graph), f.w - 16, false), f.x + 8, f.y + 15);
  }
}

/* The size of a text that is `usual` pixels at scale 1: larger if the scene is small, as far as there is room. 0: it
 * would be too small to read. */
function textSize(usual, room, scale) {
  const px = Math.max(usual, Math.min(10 / scale, room));
  return px * scale < 7 ? 0 : px;
}

function timesText(g) {
  if (g.times === undefined) return '';
  if (g.times === 0) return ' \u00b7 not taken';
  return ' \u00b7 ' + timeText(g.cost_ns) + (g.times_known ? (g.times === 1 ? '' : ' \u00d7 ' + +g.times.toPrecision(3))
                                              : ' \u00d7 depends on data');
}

function drawThing(ctx, t, state, colours) {
  const colour = thingColour(t, state), pill = !t.nodes, small = state.scale < SMALL;
  const fill = pill ? colours.paper : small && !t.bodies ? colour : mix(colour, colours.paper, t.bodies ? 0.92 : 0.85);

  ctx.globalAlpha = state.dims(t) ? 0.18 : 1;
  roundRect(ctx, t.x, t.y, t.w, t.h, pill ? t.h / 2 : 6);
  ctx.fillStyle = fill;
  ctx.fill();
  ctx.lineWidth = t === state.chosen ? 3 : t === state.hovered ? 2.2 : t.kind === 'fold' ? 2.4 : 1.2;
  ctx.strokeStyle = t === state.chosen || t === state.hovered ? colours.accent : pill ? colours.line : colour;
  ctx.stroke();
  if (state.found.has(t)) {
    roundRect(ctx, t.x - 4, t.y - 4, t.w + 8, t.h + 8, 9);
    ctx.lineWidth = 3;
    ctx.strokeStyle = colours.accent;
    ctx.stroke();
  }
  if (pill) drawPill(ctx, t, state, colours);
  else if (small) drawSmall(ctx, t, state, t.bodies ? colours.ink : inkOn(fill));
  else drawFull(ctx, t, state, colours, colour);
  ctx.globalAlpha = 1;
}

function drawPill(ctx, t, state, colours) {
  const px = textSize(11, PILL_H * 0.65, state.scale);
  if (px === 0) return;
  ctx.font = px + 'px ' + FONT;
  ctx.textAlign = 'center';
  ctx.fillStyle = colours.soft;
  ctx.fillText(fit(ctx, thingName(t), t.w - 12, true), t.x + t.w / 2, t.y + PILL_H / 2 + px * 0.36);
}

function markOf(t, state) {
  return state.shade === 'difference' ? CHANGES[changeOf(t)].mark : '';
}

/* Small scale: only the operator, as large as the box allows. */
function drawSmall(ctx, t, state, ink) {
  const h = t.bodies ? NODE_H : t.h, px = textSize(0, h * 0.62, state.scale);
  if (px === 0) return;
  ctx.font = `600 ${px}px ${FONT}`;
  ctx.textAlign = 'center';
  ctx.fillStyle = ink;
  ctx.fillText(fit(ctx, markOf(t, state) + thingTitle(t), t.w - 8, t.kind === 'fold'), t.x + t.w / 2,
               t.y + h / 2 + px * 0.36);
}

function drawFull(ctx, t, state, colours, colour) {
  const ns = thingTime(t), fold = t.kind === 'fold', share = state.mostTime > 0 ? ns / state.mostTime : 0;
  const right = !state.timed ? fold ? t.nodes.length + '' : '' : (t.nodes.every((n) => n.exact) ? '' : '~') + timeText(ns);

  ctx.textAlign = 'right';
  ctx.font = '11px ' + FONT;
  ctx.fillStyle = colours.soft;
  const rightWidth = ctx.measureText(right).width;
  ctx.fillText(right, t.x + t.w - 8, t.y + 15);
  ctx.textAlign = 'left';
  ctx.font = '600 12px ' + FONT;
  ctx.fillStyle = colours.ink;
  ctx.fillText(fit(ctx, markOf(t, state) + thingTitle(t), t.w - 24 - rightWidth, fold && !t.stretch), t.x + 9, t.y + 16);
  ctx.font = '10px ' + FONT;
  ctx.fillStyle = colours.soft;
  ctx.fillText(fit(ctx, thingName(t), t.w - 18, !fold), t.x + 9, t.y + (fold ? 33 : 29));
  /* The time relative to that of the most expensive box. */
  ctx.fillStyle = colour;
  if (state.timed && share > 0.004 && !t.bodies)
    ctx.fillRect(t.x + 7, t.y + (fold ? 41 : 32.5), Math.max(2, (t.w - 14) * Math.min(1, share)), 3);
}

/* state: { scene, scale, left, top, hovered, chosen, lit, found, dims, shade, timed, mostTime, colours } */
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
