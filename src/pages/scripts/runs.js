/* runs.js - the page of all runs: sorts the table, draws the curves of the ticked runs over one another, and lists the keys in
 * which their recipes differ. A point of a curve is [x, y], or [x, mean, least, greatest] of many steps. */
const runs = JSON.parse(document.getElementById('runs').textContent);
const by = id => document.getElementById(id);
const table = by('table'), metric = by('metric'), smooth = by('smooth'), log = by('log'), plot = by('plot'), legend = by('legend');
const COLORS = ['blue', 'red', 'teal', 'violet', 'amber', 'brown', 'moss', 'sky'];
const color = i => 'var(--c-' + COLORS[i % COLORS.length] + ')';
const dash = i => ['', '6 3', '2 2', '8 3 2 3'][Math.floor(i / COLORS.length) % 4];
const rows = Array.from(table.tBodies[0].rows);
const ticked = () => rows.filter(r => r.querySelector('input').checked).map(r => +r.dataset.run).sort((a, b) => a - b);
function svg(name, attributes, text) {
  const e = document.createElementNS('http:' + '//www.w3.org/2000/svg', name);
  for (const a in attributes)
    e.setAttribute(a, attributes[a]);
  if (text !== undefined)
    e.textContent = text;
  return e;
}

/* the table */
const headings = Array.from(table.tHead.rows[0].cells);
headings.forEach((th, column) => th.querySelector('button').addEventListener('click', () => {
  const up = th.getAttribute('aria-sort') !== 'ascending';
  headings.forEach(h => h.removeAttribute('aria-sort'));
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const value = row => {
    const cell = row.cells[column];
    return !cell ? '' : cell.dataset.v !== undefined ? +cell.dataset.v : cell.textContent.trim();
  };
  const order = rows.map(row => [value(row), row]).sort(([a], [b]) => {
    if (a === '' || b === '')
      return (a === '') - (b === ''); /* rows without a value stay at the end */
    const sign = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
    return up ? sign : -sign;
  });
  table.tBodies[0].append(...order.map(o => o[1]));
}));

/* curves */
const names = [];
runs.forEach(r => Object.keys(r.curves).forEach(n => names.includes(n) || names.push(n)));
names.forEach(n => metric.append(new Option(n, n)));

/* As TensorBoard: a mean whose weights fall by the factor `w` from step to step, of which none is lost at the beginning. */
function smoothed(at, w) {
  let sum = 0, weight = 0;
  return at.map(p => {
    sum = sum * w + p[1] * (1 - w);
    weight = weight * w + (1 - w);
    return [p[0], sum / weight];
  });
}
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw)), m = raw / power;
  const step = power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10), out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    out.push(v);
  return out;
}
/* The range without the most extreme half percent of the numbers, so that one wild step does not flatten a curve. */
function range(values) {
  const sorted = values.sort((a, b) => a - b), cut = Math.floor(sorted.length / 200);
  return [sorted[cut], sorted[sorted.length - 1 - cut]];
}
const number = v => String(+v.toPrecision(5));
let cursor, frame, lines = [];

function draw() {
  const name = metric.value, w = +smooth.value, isLog = log.checked;
  const width = Math.max(260, plot.clientWidth), height = width < 600 ? 280 : 400, left = 62, right = 12, top = 10, bottom = 36;
  plot.replaceChildren();
  legend.replaceChildren();
  lines = ticked().map(i => ({ i, at: (runs[i].curves[name] || []).filter(p => !isLog || p[1] > 0) })).filter(l => l.at.length);
  frame = null;
  if (!lines.length) {
    const p = plot.appendChild(document.createElement('p'));
    p.className = 'note';
    p.textContent = names.length ? 'No ticked run has numbers of ' + name + '.' : 'No run has numbers yet.';
    return;
  }
  lines.forEach(l => { l.smooth = w > 0 ? smoothed(l.at, w) : l.at; });
  const x = range(lines.flatMap(l => [l.at[0][0], l.at[l.at.length - 1][0]]));
  let [y0, y1] = range(lines.flatMap(l => l.at.map(p => p[1])));
  const scale = v => isLog ? Math.log10(v) : v;
  y0 = scale(y0);
  y1 = scale(y1);
  const margin = y1 > y0 ? 0.05 * (y1 - y0) : Math.max(1e-12, 0.1 * Math.abs(y0));
  y0 -= margin;
  y1 += margin;
  const x0 = Math.min(0, x[0]), x1 = x[1] > x0 ? x[1] : x0 + 1;
  const px = v => left + (v - x0) / (x1 - x0) * (width - left - right);
  const py = v => height - bottom - (scale(v) - y0) / (y1 - y0) * (height - top - bottom);
  const point = (a, b) => px(a).toFixed(1) + ' ' + Math.max(-9999, Math.min(9999, py(b))).toFixed(1);
  const root = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}` });
  for (const v of ticks(y0, y1, 5)) {
    const y = height - bottom - (v - y0) / (y1 - y0) * (height - top - bottom);
    root.append(svg('line', { class: 'grid', x1: left, x2: width - right, y1: y, y2: y }),
                svg('text', { class: 'tick', x: left - 8, y: y + 4, 'text-anchor': 'end' }, isLog ? (10 ** v).toPrecision(2) : number(v)));
  }
  for (const v of ticks(x0, x1, width < 600 ? 4 : 9))
    root.append(svg('text', { class: 'tick', x: px(v), y: height - bottom + 18, 'text-anchor': 'middle' }, number(v)));
  root.append(svg('text', { class: 'tick', x: width - right, y: height - 4, 'text-anchor': 'end' }, 'step'));
  const inside = svg('svg', { x: left, y: top, width: width - left - right, height: height - top - bottom,
                              viewBox: `${left} ${top} ${width - left - right} ${height - top - bottom}` });
  for (const l of lines) {
    const band = l.at.filter(p => p.length > 2);
    if (band.length > 1)
      inside.append(svg('path', { fill: color(l.i), opacity: 0.16, d: 'M' + band.map(p => point(p[0], p[3])).join('L') + 'L' +
        band.slice().reverse().map(p => point(p[0], isLog ? Math.max(p[2], 10 ** y0) : p[2])).join('L') + 'Z' }));
    else if (w > 0)
      inside.append(svg('path', { fill: 'none', stroke: color(l.i), opacity: 0.3, d: 'M' + l.at.map(p => point(p[0], p[1])).join('L') }));
    inside.append(svg('path', { fill: 'none', stroke: color(l.i), 'stroke-width': 2, 'stroke-dasharray': dash(l.i), 'stroke-linejoin': 'round',
                                class: 'curve', d: 'M' + l.smooth.map(p => point(p[0], p[1])).join('L') }));
    if (l.at.length < 60)
      l.at.forEach(p => inside.append(svg('circle', { r: 3, fill: color(l.i), cx: px(p[0]), cy: py(p[1]) })));
    const key = legend.appendChild(document.createElement('span')), swatch = key.appendChild(document.createElement('i'));
    key.className = 'key';
    swatch.style.background = color(l.i);
    key.append(runs[l.i].name);
  }
  cursor = svg('line', { class: 'cursor', y1: top, y2: height - bottom });
  root.append(inside, cursor);
  plot.append(root, tip);
  frame = { left, right: width - right, x0, x1, px, width };
}
const tip = document.createElement('div');
tip.className = 'tip';
const hide = () => { tip.style.visibility = 'hidden'; if (cursor) cursor.style.visibility = 'hidden'; };
let place = 0.5; /* of the cursor, from 0 at the left end to 1 */
function show() {
  if (!frame)
    return;
  const x = frame.x0 + place * (frame.x1 - frame.x0), u = frame.px(x);
  const near = at => at.reduce((best, p) => Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best, at[0]);
  const room = frame.width < 600 ? 16 : 32;
  tip.textContent = lines.slice(0, 16).map(l => {
    const p = near(l.smooth), name = runs[l.i].name;
    return (name.length > room ? name.slice(0, room - 1) + '\u2026' : name) + '  ' + number(p[1]) + '  (step ' + p[0] + ')';
  }).join('\n');
  cursor.setAttribute('x1', u);
  cursor.setAttribute('x2', u);
  cursor.style.visibility = tip.style.visibility = 'visible';
  tip.style.top = '18px';
  const narrow = frame.width < 600; /* there it has no room beside the cursor */
  tip.style.left = narrow ? '0' : place > 0.5 ? 'auto' : u + 26 + 'px';
  tip.style.right = narrow || place <= 0.5 ? 'auto' : frame.width - u + 26 + 'px';
}
plot.addEventListener('pointermove', e => {
  if (!frame)
    return;
  place = (e.clientX - plot.getBoundingClientRect().left - frame.left) / (frame.right - frame.left);
  return place < 0 || place > 1 ? hide() : show();
});
plot.addEventListener('pointerleave', hide);
plot.addEventListener('blur', hide);
plot.addEventListener('keydown', e => {
  const by = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 }[e.key];
  if (by === undefined)
    return;
  e.preventDefault();
  place = Math.max(0, Math.min(1, place + by));
  show();
});

/* recipes */
function differences() {
  const shown = ticked().filter(i => Object.keys(runs[i].recipe).length), keys = [];
  shown.forEach(i => Object.keys(runs[i].recipe).forEach(k => k === 'run.name' || keys.includes(k) || keys.push(k)));
  const differ = keys.filter(k => shown.some(i => runs[i].recipe[k] !== runs[shown[0]].recipe[k]));
  const out = by('recipes'), head = document.createElement('thead'), body = document.createElement('tbody');
  const row = (to, cells, kind) => {
    const tr = to.appendChild(document.createElement('tr'));
    cells.forEach(text => { tr.appendChild(document.createElement(kind)).textContent = text; });
  };
  row(head, ['key', ...shown.map(i => runs[i].name)], 'th');
  differ.forEach(k => row(body, [k, ...shown.map(i => runs[i].recipe[k] === undefined ? '\u2013' : runs[i].recipe[k])], 'td'));
  if (!differ.length)
    row(body, [shown.length > 1 ? 'The recipes of these runs are the same.' : 'Tick two runs with a recipe.'], 'td');
  out.replaceChildren(head, body);
}

/* the swatch of a ticked run stands beside its name, too */
rows.forEach(r => {
  const swatch = document.createElement('i');
  swatch.className = 'swatch';
  swatch.style.background = color(+r.dataset.run);
  r.querySelector('input').after(swatch);
  r.querySelector('input').addEventListener('change', () => { draw(); differences(); });
});
[metric, smooth, log].forEach(e => e.addEventListener('input', draw));
addEventListener('resize', draw);
draw();
differences();
