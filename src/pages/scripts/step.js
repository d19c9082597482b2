/* step.js - the page of a step, or of several layouts of one: the drawings (lanes.js), what is chosen in them, the filter. C wrote the
 * words and the tables. */
const views = dataOf('data'), steps = views.map(readStep), figures = [...document.querySelectorAll('.panel>figure')];
const several = document.querySelector('.panels') !== null;
const all = Math.max(...steps.map(s => s.length));
const group = { t0: 0, t1: all, all, filter: '', bytes: 1.06 * Math.max(...steps.map(s => s.bytes[s.peak])) };
const secondsOf = step => step.view.programs.reduce((sum, p) => sum + p.runs * p.seconds, 0);

/* ---- the details of one operation or collective */

const facts = h('dl', { className: 'facts', attributes: { 'aria-live': 'polite' } });
const fact = (name, value) => value ? h('div', {}, h('dt', {}, name), h('dd', {}, value)) : null;
const placed = o => o.placement ? ' {' + Object.entries(o.placement).map(([axis, p]) => axis + ': ' + p).join(', ') + '}' : '';
const computes = (node, step) => fact('computes', step.view.kinds[node.op]);
const typed = o => o ? o.type + placed(o) : 'none';
const placeOf = o => !o.memory ? '' : o.memory + (o.name ? ` "${o.name}"` : '') + (o.offset || !o.name ? ` +${count(o.offset)} B` : '');
const share = (x, step) => step.kind && x ? `${seconds(x)}, ${percent(x / secondsOf(step))} of the step` : '';

function timeFacts(span, step) {
  const { program, k, node } = span, other = step.kind === 'measured' && program.estimated ? program.estimated[k] : 0;
  const rate = span.seconds && node.flops ? `, ${(node.flops / span.seconds / 1e9).toFixed(1)} GFLOP/s` : '';
  return [fact('time, ' + (step.kind || ''), step.kind ? share(span.seconds, step) + rate : ''), fact('estimate', other ? seconds(other) : '')];
}
function memoryFact(span, step) {
  const parts = bandsAt(step, span).map((b, i) => [b, step.view.bands[i].name]).filter(p => p[0]).sort((a, b) => b[0] - a[0]);
  return fact('memory then', `${bytes(step.bytes[span.index])}: ` + parts.map(([b, name]) => `${name} ${bytes(b)}`).join(', '));
}
function collectiveFacts(x, step) {
  const { c } = x, between = step.spans.slice(x.start.index + 1, x.wait.index).filter(s => s.part === 'run');
  const over = between.reduce((sum, s) => sum + s.seconds, 0);
  const what = !c.group ? [fact('moved', bytes(c.bytes))] : [fact('over', `${c.group}, ${c.ranks} ranks`), /* no group: a copy between host and device */
    fact('received', c.mapped && !c.bytes ? 'nothing: the ranks of a host map one copy' : bytes(c.bytes) + (c.mapped ? ', into a copy that the ranks of a host share' : '')),
    fact('types', (c.from === c.to ? c.from : `${c.from} to ${c.to}`) + (c.kind === 'all_gather' ? '' : `, summed in ${c.via}`))];
  return [h('h3', {}, `${c.kind} of ${c.unit || 'a value'}`), computes(x.start.node, step), ...what,
    fact('overlaps', between.length ? `${between.length} kernel${between.length > 1 ? 's' : ''}, ${between[0].node.op} to ${between[between.length - 1].node.op}` +
      (step.kind ? `, ${seconds(over)}` : '') : 'nothing'),
    fact('wait', step.kind ? share(x.wait.seconds, step) : ''),
    fact('result', x.start.node.out.map(o => typed(o) + ' @ ' + placeOf(o)).join('; ')), memoryFact(x.wait, step)];
}
function spanFacts(span, step) {
  const { node, types } = span;
  return [h('h3', {}, `${node.op}  ${node.scope || '(top level)'}`), computes(node, step),
    fact('phase', `${span.phase}${node.note === 'computed again' ? ', computed again (activation checkpointing)' : ''} · call ${span.k} of ${span.program.name}`),
    fact('reads', node.in.map(v => typed(types.get(v))).join(', ')),
    fact('writes', node.out.map(typed).join(', ')),
    fact('place', node.out.map(placeOf).join('; ') + (node.note && node.note !== 'computed again' ? ` (${node.note})` : '')),
    ...timeFacts(span, step), fact('work', `${node.flops ? (node.flops / 1e6).toPrecision(3) + ' MFLOP, ' : ''}${bytes(node.bytes || 0)} moved`),
    memoryFact(span, step)];
}
function tell(lanes) {
  const { at, step } = lanes;
  facts.replaceChildren(...(!at ? [h('p', { className: 'note' }, 'Point at a bar, or choose the drawing with Tab and walk with the arrow keys.')]
    : at.c ? collectiveFacts(at, step) : at.collective ? collectiveFacts(step.collectives.find(x => x.c === at.collective), step) : spanFacts(at, step))
    .filter(f => f));
}

/* ---- choosing, zooming, filtering */

const drawings = steps.map((s, i) => new Lanes(s, group, 'Step of ' + s.view.name));
/* All drawings have the lanes of each, in the same places. */
const lanes = new Map();
drawings.forEach(d => d.lanes.forEach(l => {
  const of = lanes.get(l.name) || { rows: l.rows && [], color: l.color };
  of.rows = l.rows && (l.rows.length > of.rows.length ? l.rows : of.rows);
  lanes.set(l.name, of);
}));
const order = [...lanes.keys()].sort((a, b) => !lanes.get(a).rows - !lanes.get(b).rows);
drawings.forEach(d => {
  d.lanes = order.map(name => ({ name, ...lanes.get(name), items: (d.lanes.find(l => l.name === name) || { items: [] }).items }));
});
const redraw = () => drawings.forEach(d => d.draw());
function choose(d, at) {
  if (d.at === at)
    return;
  drawings.forEach(other => { other.at = other === d ? at : null; });
  redraw();
  tell(d);
}
function zoom(t0, t1) {
  const least = group.all / 1e6;
  group.t0 = Math.max(0, Math.min(t0, group.all - least));
  group.t1 = Math.min(group.all, Math.max(t1, group.t0 + least));
  redraw();
}
function zoomBy(factor, d) {
  const at = d && d.at ? (d.at.from + d.at.to) / 2 : (group.t0 + group.t1) / 2;
  zoom(at - (at - group.t0) * factor, at + (group.t1 - at) * factor);
}
/* The next kernel or collective of the filter's modules, in the direction of `by`. */
function walk(d, by) {
  const { spans } = d.step, now = !d.at ? (by > 0 ? -1 : spans.length) : (d.at.c ? d.at.start : d.at).index;
  for (let i = now + by; i >= 0 && i < spans.length; i += by)
    if (spans[i].part !== 'wait' && d.shows(spans[i].module)) {
      const s = spans[i], at = s.part === 'run' ? s : d.step.collectives.find(x => x.start === s);
      const width = group.t1 - group.t0;
      if (at.from < group.t0 || at.to > group.t1)
        zoom(at.from - width / 2, at.from + width / 2);
      return choose(d, at);
    }
}
drawings.forEach(d => {
  const { canvas } = d, at = e => [e.offsetX, e.offsetY];
  let from = null;
  canvas.addEventListener('pointermove', e => {
    if (from !== null && e.buttons && Math.abs(e.offsetX - from) > 4) {
      d.drag = [from, e.offsetX];
      d.draw();
    } else if (!d.drag) {
      choose(d, d.find(...at(e)) || d.at);
    }
  });
  canvas.addEventListener('pointerdown', e => { from = e.offsetX; choose(d, d.find(...at(e)) || d.at); });
  window.addEventListener('pointerup', () => {
    if (d.drag) {
      const [a, b] = d.drag.map(x => d.t(x)).sort((x, y) => x - y);
      d.drag = null;
      zoom(a, b);
    }
    from = null;
  });
  canvas.addEventListener('dblclick', () => zoom(0, group.all));
  canvas.addEventListener('focus', () => { if (!d.at) walk(d, 1); });
  canvas.addEventListener('keydown', e => {
    const { spans } = d.step, keys = {
      ArrowRight: () => walk(d, 1), ArrowLeft: () => walk(d, -1), Home: () => choose(d, spans[0]), End: () => choose(d, spans[spans.length - 1]),
      '+': () => zoomBy(0.5, d), '-': () => zoomBy(2, d), 0: () => zoom(0, group.all), Escape: () => zoom(0, group.all) };
    if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      keys[e.key]();
    }
  });
});
onRedraw.push(redraw);

const names = [...new Set(steps.flatMap(s => s.spans.map(x => blockOf(x.module))))].filter(n => n);
const chosen = h('span', { className: 'note', attributes: { 'aria-live': 'polite' } });
const filter = h('input', { type: 'search', placeholder: 'all modules', id: 'filter', attributes: { list: 'modules', autocomplete: 'off', spellcheck: 'false' } });
filter.addEventListener('input', () => {
  group.filter = filter.value.trim();
  redraw();
  filterTables();
});
const button = (text, label, does) => h('button', { type: 'button', onclick: does, title: label, attributes: { 'aria-label': label } }, text);
const controls = h('div', { className: 'tools' }, h('label', { htmlFor: 'filter' }, 'Module'), filter,
  h('datalist', { id: 'modules' }, names.map(n => h('option', { value: n }))),
  button('+', 'zoom in', () => zoomBy(0.5)), button('−', 'zoom out', () => zoomBy(2)), button('whole step', 'show the whole step', () => zoom(0, group.all)), chosen);

/* ---- tables */

const opsOfAll = several ? null : document.querySelector('#ops .scroll'), units = document.querySelector('#units');
/* As C wrote it for all modules: calls of an operation in a phase count together. */
function opsTable(step, d) {
  const ops = new Map();
  step.spans.filter(s => s.part === 'run' && d.shows(s.module)).forEach(s => {
    const key = s.phase + ' ' + s.node.op, o = ops.get(key) || { phase: s.phase, op: s.node.op, calls: 0, seconds: 0, flops: 0, bytes: 0 };
    const { runs } = s.program;
    o.calls += runs;
    o.seconds += runs * s.seconds;
    o.flops += runs * (s.node.flops || 0);
    o.bytes += runs * (s.node.bytes || 0);
    ops.set(key, o);
  });
  const list = [...ops.values()], by = step.kind ? 'seconds' : 'bytes', total = step.kind ? secondsOf(step) : list.reduce((s, o) => s + o.bytes, 0);
  list.sort((a, b) => b[by] - a[by]);
  const bar = o => h('span', { className: 'bar', style: `width:${Math.max(2, 90 * o[by] / list[0][by])}px;background:${PHASES[o.phase]}` });
  return table(['operation', 'phase', 'calls', step.kind ? 'time' : 'moved', 'share', 'GFLOP', ''], list.slice(0, 14).map(o =>
    [o.op, o.phase, count(o.calls), step.kind ? seconds(o.seconds) : bytes(o.bytes), percent(o[by] / total), o.flops ? (o.flops / 1e9).toPrecision(3) : '', bar(o)]));
}
const tips = () => [...document.querySelectorAll('#ops tbody tr')].forEach(r => { r.title = steps[0].view.kinds[r.cells[0].textContent]; });
/* The tables of a page with one layout show the modules of the filter. */
function filterTables() {
  if (several)
    return;
  const { filter } = group, d = drawings[0], [step] = steps;
  document.querySelector('#ops .scroll').replaceWith(filter ? opsTable(step, d) : opsOfAll);
  tips();
  const inKernels = step.spans.filter(s => s.part === 'run' && d.shows(s.module)).reduce((sum, s) => sum + s.program.runs * s.seconds, 0);
  chosen.textContent = filter && step.kind ? `${seconds(inKernels)} in kernels, ${percent(inKernels / secondsOf(step))} of the step` : '';
  for (const r of units ? units.querySelector('tbody').rows : [])
    r.hidden = !d.shows(unitModule(r.cells[0].textContent));
}

/* ---- the page */

const legend = (name, color, pale) => h('span', { className: 'key' }, h('i', { style: `background:${color}${pale ? ';opacity:.3' : ''}` }), name);
const used = views[0].bands.filter((b, i) => steps.some(s => s.spans.some(x => bandsAt(s, x)[i])));
const key = h('p', { className: 'legend' }, steps.some(s => s.collectives.length) ? [legend('a collective under way', 'var(--ink)', true), legend('a rank waits for it', 'var(--ink)')] : null,
  used.map(b => legend(b.name, b.color)));
figures.forEach((f, i) => f.prepend(drawings[i].canvas));
const panels = figures[0].parentNode.parentNode;
panels.before(controls);
panels.after(key, facts);
tell(drawings[0]);
tips();
