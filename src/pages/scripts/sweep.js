/* sweep.js - parallel coordinates: an axis for each key of the sweep and one for the metric, and a line for each run through its values.
 * The pointer, the arrow keys and the rows of the table choose a run. */
const sweep = dataOf('data'), sweepTable = document.getElementById('table'), figure = document.querySelector('figure.chart');
const plot = h('div', { className: 'plot', tabIndex: 0, attributes: { role: 'img', 'aria-label': 'values and metric of the runs, a drawing. Left and right: one run after the other.' } });
const tip = h('div', { className: 'tip', attributes: { role: 'status', 'aria-live': 'polite' } });
const drawn = sweep.runs.map((r, i) => ({ ...r, i })).filter(r => r.best !== null);
figure.prepend(plot);
sortable(sweepTable);

const show1 = v => sweep.unit === 'percent' ? (100 * v).toFixed(2) + ' %' : number(v);
/* Where the values of an axis stand, from 0 at its lower end to 1, and its ticks. Numbers that span a power of ten stand on a logarithmic
 * axis; other values than numbers have the same distance. */
function axisOf(name, values, text) {
  const all = [...new Set(values)], numbers = all.map(Number);
  if (numbers.some(v => !Number.isFinite(v)) || all.includes('')) {
    const at = v => all.length > 1 ? all.indexOf(v) / (all.length - 1) : 0.5;
    return { name, at, ticks: all.map(v => [at(v), v]) };
  }
  const low = Math.min(...numbers), high = Math.max(...numbers), log = low > 0 && high >= 10 * low, scale = v => log ? Math.log10(v) : v;
  const at = v => high > low ? (scale(+v) - scale(low)) / (scale(high) - scale(low)) : 0.5;
  const marks = all.length <= 8 ? numbers : [0, 1, 2, 3, 4].map(k => log ? low * (high / low) ** (k / 4) : low + (high - low) * k / 4);
  return { name, at, ticks: marks.map(v => [at(v), text(v)]) };
}
const axes = sweep.keys.map((k, c) => axisOf(k, drawn.map(r => r.values[c]), v => number(v)));
axes.push(axisOf(sweep.metric, drawn.map(r => r.best), show1));
/* the best value stands at the top, and has the strongest colour */
const metricAxis = axes[axes.length - 1];
if (!sweep.highest) {
  const up = metricAxis.at;
  metricAxis.at = v => 1 - up(v);
  metricAxis.ticks.forEach(t => { t[0] = 1 - t[0]; });
}
const valueOf = (r, c) => c < sweep.keys.length ? r.values[c] : r.best;
const textOf = r => [...sweep.keys.map((k, c) => `${k}  ${r.values[c]}`), `${sweep.metric}  ${show1(r.best)}`].join('\n');

let chosen = -1, lines = [], frame = null;
function choose(k) {
  chosen = k;
  lines.forEach((l, i) => l.setAttribute('stroke-width', i === k ? 4 : 1.6));
  tip.textContent = k < 0 ? '' : textOf(drawn[k]);
  [...sweepTable.tBodies[0].rows].forEach(r => r.classList.toggle('chosen', k >= 0 && +r.dataset.run === drawn[k].i));
}
function draw() {
  plot.replaceChildren(tip);
  lines = [];
  if (!drawn.length) {
    plot.prepend(h('p', { className: 'note' }, 'No run has a value of the metric yet.'));
    return;
  }
  if (!plot.clientWidth)
    return;
  const width = Math.max(280, plot.clientWidth), narrow = width < 600, height = narrow ? 300 : 360, top = narrow ? 42 : 34, bottom = height - 14;
  const left = 14, right = width - (narrow ? 62 : 84), x = c => left + (right - left) * c / (axes.length - 1), y = p => bottom - p * (bottom - top);
  const room = Math.floor((right - left) / (axes.length - 1) / 7.2), cut = t => t.length > room ? '\u2026' + t.slice(1 - room) : t;
  frame = { width, x, y };
  const out = axes.flatMap((a, c) => {
    let last = -Infinity;
    const ticks = a.ticks.slice().sort((p, q) => q[0] - p[0]).filter(([p]) => y(p) - last >= 13 && (last = y(p), true));
    return [svg('line', { class: 'edge', x1: x(c), x2: x(c), y1: top, y2: bottom }),
      svg('text', { class: 'name', x: c ? x(c) : 2, y: 14 + (narrow && c % 2 ? 13 : 0), 'text-anchor': c ? 'middle' : 'start' }, cut(a.name)),
      ...ticks.map(([p, t]) => svg('text', { class: 'tick', x: x(c) + 5, y: y(p) + 4, 'paint-order': 'stroke', stroke: 'var(--card)', 'stroke-width': 4 }, String(t).length > 11 ? String(t).slice(0, 10) + '\u2026' : t))];
  });
  lines = drawn.map((r, i) => {
    const good = metricAxis.at(r.best);
    return svg('path', { class: 'curve', fill: 'none', 'stroke-width': 1.6, stroke: good >= 0.75 ? 'var(--c-blue)' : good >= 0.4 ? 'var(--c-sky)' : 'var(--c-gray)',
      opacity: 0.35 + 0.6 * good, d: 'M' + axes.map((a, c) => x(c).toFixed(1) + ' ' + y(a.at(valueOf(r, c))).toFixed(1)).join('L') });
  });
  plot.prepend(svg('svg', { viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' }, ...lines.slice().reverse(), ...out));
  choose(chosen);
}
/* The run whose line is nearest to the pointer, between the two axes beside it. */
plot.addEventListener('pointermove', e => {
  if (!frame || !drawn.length)
    return;
  const box = plot.getBoundingClientRect(), u = e.clientX - box.left, v = e.clientY - box.top, step = frame.x(1) - frame.x(0);
  const c = Math.max(0, Math.min(axes.length - 2, Math.floor((u - frame.x(0)) / step))), t = Math.max(0, Math.min(1, (u - frame.x(c)) / step));
  const far = r => Math.abs(frame.y(axes[c].at(valueOf(r, c))) * (1 - t) + frame.y(axes[c + 1].at(valueOf(r, c + 1))) * t - v);
  choose(drawn.reduce((best, r, k) => far(r) < far(drawn[best]) ? k : best, 0));
  const rightHalf = u > frame.width / 2;
  tip.style.left = rightHalf ? '0' : 'auto';
  tip.style.right = rightHalf ? 'auto' : '0';
});
plot.addEventListener('pointerleave', () => choose(-1));
plot.addEventListener('blur', () => choose(-1));
plot.addEventListener('keydown', e => {
  const by = { ArrowLeft: -1, ArrowRight: 1, Home: -drawn.length, End: drawn.length }[e.key];
  if (by === undefined || e.ctrlKey || e.metaKey || e.altKey || !drawn.length)
    return;
  e.preventDefault();
  choose(Math.max(0, Math.min(drawn.length - 1, chosen + by)));
});
sweepTable.tBodies[0].addEventListener('pointerover', e => {
  const r = e.target.closest('tr');
  if (r)
    choose(drawn.findIndex(d => d.i === +r.dataset.run));
});
onRedraw.push(draw);
new ResizeObserver(() => { if (!frame || plot.clientWidth !== frame.width) draw(); }).observe(plot);
draw();
