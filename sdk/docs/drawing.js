/* drawing.js - what a page with a graph shows, as a list of shapes: rectangles, texts and paths, with the rectangle that
 * clips each. drawing.py runs it in the page. */
(async () => {
  let shapes = [];
  const round = (x) => Math.round(x * 10) / 10;
  const seen = (colour) => !/^rgba\(.*, 0\)$|^transparent$/.test(colour);

  /* A canvas context that adds shapes to a list instead of painting. Its transforms scale and move only. */
  function recorder(canvas, list) {
    const at = canvas.getBoundingClientRect(), measure = document.createElement('canvas').getContext('2d');
    let scale = 1, left = at.x, top = at.y, rect = null, path = '', here = [0, 0], dash = [];
    const point = (x, y) => round(x * scale + left) + ' ' + round(y * scale + top);
    const add = (shape) => list.push({ alpha: ctx.globalAlpha, ...shape });
    const box = (x, y, w, h, r) =>
      ({ kind: 'rect', x: x * scale + left, y: y * scale + top, w: w * scale, h: h * scale, r: r * scale });
    const outline = () => rect || { kind: 'path', d: path };
    const ctx = {
      globalAlpha: 1, font: '', fillStyle: '', strokeStyle: '', lineWidth: 1, textAlign: 'left',
      setTransform(a, b, c, d, e, f) { [scale, left, top] = [a, at.x + e, at.y + f]; },
      setLineDash(lengths) { dash = lengths.map((x) => round(x * scale)); },
      measureText(text) { measure.font = ctx.font; return measure.measureText(text); },
      beginPath() { rect = null; path = ''; },
      roundRect(x, y, w, h, r) { rect = box(x, y, w, h, r); },
      moveTo(x, y) { path += 'M' + point(x, y); here = [x, y]; },
      lineTo(x, y) { path += 'L' + point(x, y); here = [x, y]; },
      bezierCurveTo(a, b, c, d, x, y) {
        path += 'C' + point(a, b) + ' ' + point(c, d) + ' ' + point(x, y);
        here = [x, y];
      },
      /* A corner between vertical and horizontal lines, as all are: its arc begins and ends r before and behind it. */
      arcTo(x, y, toX, toY, r) {
        const towards = (a, b) => Math.sign(Math.round(a - b)) * r;
        ctx.lineTo(x + towards(here[0], x), y + towards(here[1], y));
        here = [x + towards(toX, x), y + towards(toY, y)];
        path += 'Q' + point(x, y) + ' ' + point(...here);
      },
      fill() { add({ ...outline(), fill: ctx.fillStyle }); },
      stroke() {
        const last = list[list.length - 1], drawn = outline();
        const pen = { stroke: ctx.strokeStyle, width: ctx.lineWidth * scale, dash };
        if (drawn.d === '') return;
        if (rect !== null && last.kind === 'rect' && ['x', 'y', 'w', 'h'].every((k) => last[k] === rect[k]))
          Object.assign(last, pen);
        else add({ ...drawn, ...pen });
      },
      fillRect(x, y, w, h) { add({ ...box(x, y, w, h, 0), fill: ctx.fillStyle }); },
      fillText(text, x, y) {
        const [, bold, px] = /^(\d+ )?([\d.]+)px/.exec(ctx.font), w = ctx.measureText(text).width * scale;
        const start = x * scale + left - { left: 0, center: w / 2, right: w }[ctx.textAlign];
        if (text === '') return;
        add({ kind: 'text', text, x: start, y: y * scale + top, w, px: px * scale, bold: !!bold, fill: ctx.fillStyle });
      },
    };
    return ctx;
  }

  const boxes = (e) => { const r = e.getBoundingClientRect(); return { x: r.x, y: r.y, w: r.width, h: r.height }; };

  /* The ground and the borders of an element. */
  function addBox(e, style, clip) {
    const b = boxes(e), r = Math.min(parseFloat(style.borderTopLeftRadius) || 0, b.h / 2);
    const borders = ['Top', 'Right', 'Bottom', 'Left'].map((side) => ({
      side, width: parseFloat(style[`border${side}Width`]), colour: style[`border${side}Color`],
    }));
    const all = borders.every(({ width }) => width > 0), half = all ? borders[0].width / 2 : 0;
    const shape = { kind: 'rect', clip, x: b.x + half, y: b.y + half, w: b.w - 2 * half, h: b.h - 2 * half, r };
    if (seen(style.backgroundColor)) shape.fill = style.backgroundColor;
    if (all) Object.assign(shape, { stroke: borders[0].colour, width: borders[0].width });
    if (b.w > 0 && b.h > 0 && (shape.fill || all)) shapes.push(shape);
    if (all) return;
    for (const { side, width, colour } of borders) {
      if (width === 0) continue;
      const line = { Top: { h: width }, Bottom: { h: width, y: b.y + b.h - width }, Left: { w: width },
                     Right: { w: width, x: b.x + b.w - width } }[side];
      shapes.push({ kind: 'rect', clip, r: 0, fill: colour, ...b, ...line });
    }
  }

  /* The lines of a text. */
  function addText(node, style, clip) {
    const range = document.createRange(), measure = document.createElement('canvas').getContext('2d');
    const lines = [];
    for (let i = 0; i < node.data.length; i++) {
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const r = range.getClientRects()[0], line = lines[lines.length - 1];
      if (!r || r.width === 0) continue;
      const same = line && Math.abs(line.top - r.y) < 2, space = /\s/.test(node.data[i]);
      if (same && space) line.gap += ' ';
      else if (same) Object.assign(line, { text: line.text + line.gap + node.data[i], end: r.right, gap: '' });
      else if (!space) lines.push({ text: node.data[i], x: r.x, top: r.y, end: r.right, gap: '' });
    }
    measure.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    for (const { text, x, top, end } of lines)
      shapes.push({ kind: 'text', clip, text: style.textTransform === 'uppercase' ? text.toUpperCase() : text, x, w: end - x,
                    y: top + measure.measureText('x').fontBoundingBoxAscent, fill: style.color, px: parseFloat(style.fontSize),
                    bold: style.fontWeight >= 600 });
  }

  function within(a, b) {
    const x = Math.max(a.x, b.x), y = Math.max(a.y, b.y);
    return { x, y, w: Math.min(a.x + a.w, b.x + b.w) - x, h: Math.min(a.y + a.h, b.y + b.h) - y };
  }

  const layers = []; /* elements that are above the others */
  function walk(e, clip) {
    const style = getComputedStyle(e);
    if (!e.checkVisibility()) return;
    if (recorded.has(e)) {
      const inside = within(clip, boxes(e));
      shapes = shapes.concat(recorded.get(e).map((shape) => ({ clip: inside, ...shape })));
      return;
    }
    addBox(e, style, clip);
    const inner = style.overflow === 'visible' ? clip : within(clip, boxes(e));
    for (const child of e.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) addText(child, style, inner);
      else if (child.nodeType === Node.ELEMENT_NODE && getComputedStyle(child).zIndex > 0) layers.push([child, inner]);
      else if (child.nodeType === Node.ELEMENT_NODE) walk(child, inner);
    }
  }

  /* The page draws its canvases once more, each on a recorder. */
  const recorded = new Map();
  for (const canvas of document.querySelectorAll('canvas')) {
    recorded.set(canvas, []);
    const ctx = recorder(canvas, recorded.get(canvas));
    canvas.getContext = () => ctx;
  }
  document.getElementById('shade').dispatchEvent(new Event('change'));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (const canvas of recorded.keys()) delete canvas.getContext;
  walk(document.body, { x: 0, y: 0, w: innerWidth, h: innerHeight });
  for (const [e, clip] of layers) walk(e, clip);
  return shapes.filter(({ clip }) => clip.w > 0 && clip.h > 0);
})()
