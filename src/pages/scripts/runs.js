/* runs.js - the page of all runs: sorts and searches the table, draws the curves of the ticked runs over one another, and shows the
 * parts of the tables that are theirs. */
const { runs, metrics } = dataOf('data');
const runsTable = document.getElementById('table'), recipes = document.getElementById('recipes'), rows = [...runsTable.tBodies[0].rows];
const COLORS = ['blue', 'red', 'teal', 'violet', 'amber', 'brown', 'moss', 'sky'];
const color = i => 'var(--c-' + COLORS[i % COLORS.length] + ')';

/* ---- the table: a box and a swatch for each run, headings that sort, a search */

const boxes = rows.map(r => {
  const i = +r.dataset.run, box = h('input', { type: 'checkbox', checked: r.dataset.ticked !== undefined });
  box.addEventListener('change', show);
  r.cells[0].replaceChildren(h('label', {}, box, h('i', { className: 'swatch', style: 'background:' + color(i) }), ...r.cells[0].childNodes));
  return box;
});
const ticked = () => rows.filter((r, k) => boxes[k].checked && !r.hidden).map(r => +r.dataset.run).sort((a, b) => a - b);

const headings = sortable(runsTable);

const find = h('input', { type: 'search', id: 'find', placeholder: 'name or state', attributes: { autocomplete: 'off', spellcheck: 'false' } });
const found = h('span', { className: 'note', attributes: { role: 'status' } });
find.addEventListener('input', () => {
  const words = find.value.toLowerCase().split(/\s+/);
  rows.forEach(r => { r.hidden = !words.every(w => (r.cells[0].textContent + ' ' + r.cells[2].textContent).toLowerCase().includes(w)); });
  found.textContent = find.value.trim() ? `${rows.filter(r => !r.hidden).length} of ${rows.length} runs` : '';
  show();
});
const tick = (text, on) => h('button', { type: 'button', onclick: () => { rows.forEach((r, k) => { if (!r.hidden) boxes[k].checked = on; }); show(); } }, text);
runsTable.parentNode.before(h('div', { className: 'tools' }, h('label', { htmlFor: 'find' }, 'Search'), find, tick('tick all', true), tick('tick none', false), found));

/* ---- curves */

const metric = h('select', { id: 'metric' }, metrics.map(m => new Option(m.name, m.name)));
const smooth = h('input', { type: 'range', min: 0, max: 0.99, step: 0.01, value: 0 }), log = h('input', { type: 'checkbox' });
const plot = h('div', { className: 'plot' }), legend = h('p', { className: 'keys' }), figure = document.querySelector('figure.chart'), chart = new Chart(plot, legend);
figure.before(h('p', { className: 'controls' }, h('label', {}, 'metric ', metric), h('label', {}, 'smoothing ', smooth), h('label', {}, log, ' logarithmic')));
figure.prepend(plot, legend);

/* As TensorBoard: a mean whose weights fall by the factor `w` from step to step, of which none is lost at the beginning. */
function smoothed(points, w) {
  let sum = 0, weight = 0;
  return points.map(p => {
    if (p[1] === null)
      return p;
    sum = sum * w + p[1] * (1 - w);
    weight = weight * w + (1 - w);
    return [p[0], sum / weight];
  });
}
function drawCurves() {
  const { name, unit } = metrics[metric.selectedIndex] || { name: '', unit: '' }, w = +smooth.value;
  const series = ticked().map(i => {
    const points = (Object.hasOwn(runs[i].curves, name) ? runs[i].curves[name] : []).filter(p => p[1] === null || !log.checked || p[1] > 0);
    return { name: runs[i].name, number: i, color: color(i), dots: points.length < 60, points, smooth: w > 0 ? smoothed(points, w) : null };
  }).filter(s => s.points.some(p => p[1] !== null));
  chart.set(series.length ? { title: name + ' of the ticked runs', x: 'step', unit, height: 400, log: log.checked, series } : null,
    metrics.length ? `No ticked run has numbers of ${name}.` : 'No run has numbers yet.');
}
/* Of the tables under the curves that of the metric, with the ticked runs. */
function showNumbers() {
  const names = new Set(ticked().map(i => runs[i].name));
  figure.querySelectorAll('.metric').forEach(m => {
    m.hidden = m.querySelector('h3').textContent !== metric.value;
    [...m.querySelector('tbody').rows].forEach(r => { r.hidden = !names.has(r.cells[0].textContent); });
  });
}

/* ---- recipes: the columns of the ticked runs, and the keys in which these differ */

const none = h('p', { className: 'note' });
recipes.parentNode.after(none);
function showRecipes() {
  const of = new Set(ticked().map(String)), shown = cells => cells.filter(c => !c.hidden && c.dataset.run);
  for (const r of recipes.rows) {
    const cells = [...r.cells];
    cells.forEach(c => { c.hidden = c.dataset.run !== undefined && !of.has(c.dataset.run); });
    r.hidden = r.parentNode.tagName === 'TBODY' && new Set(shown(cells).map(c => c.textContent)).size < 2;
  }
  const some = [...recipes.tBodies[0].rows].some(r => !r.hidden);
  recipes.parentNode.hidden = !some;
  none.textContent = some ? '' : shown([...recipes.tHead.rows[0].cells]).length > 1 ? 'The recipes of these runs are the same.' : 'Tick two runs with a recipe.';
}

function show() {
  drawCurves();
  showNumbers();
  showRecipes();
}
[metric, smooth, log].forEach(e => e.addEventListener('input', () => { drawCurves(); showNumbers(); }));
show();
