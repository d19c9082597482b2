/* step.js - the page of a step, or of several layouts of one: cards, the drawings (lanes.js), what is chosen, tables. */
const views = dataOf('data'), good = views.filter(v => !v.refused), steps = good.map(readStep);
const main = document.querySelector('main'), several = views.length > 1;
const all = Math.max(...steps.map(s => s.length));
const group = { t0: 0, t1: all, all, filter: '', bytes: 1.06 * Math.max(...steps.map(s => s.bytes[s.peak])) };

/* ---- sums of a step */

function sums(step) {
  const s = { seconds: 0, wait: 0, moved: 0, calls: 0 };
  step.view.programs.forEach(p => { s.seconds += p.runs * p.seconds; });
  step.spans.forEach(x => {
    if (x.part === 'run' || !step.kind)
      return;
    s.wait += x.program.runs * x.seconds;
  });
  step.collectives.forEach(x => {
    s.moved += x.start.program.runs * x.c.bytes;
    s.calls += x.start.program.runs;
  });
  return s;
}
const timesText = step => step.kind === 'measured' ? `measured: the median of ${step.view.programs[0].measured_runs} runs`
  : step.kind ? 'estimated from measurements of this machine' : '';
function subtitle(view) {
  const runs = view.programs[0].runs;
  return [view.ranks > 1 ? `rank ${view.rank} of ${view.ranks}` : 'one rank', view.layout, `${runs} × ${view.micro_batch} samples of this rank`,
    `${view.isa}, ${view.threads} thread${view.threads > 1 ? 's' : ''}`].filter(t => t).join(' · ');
}

function cards(step) {
  const s = sums(step), { view } = step, node = view.bands[view.bands.length - 1];
  return h('div', { className: 'cards' },
    step.kind ? card(seconds(s.seconds), 'a step, ' + step.kind) : card('not known', 'time of a step'),
    s.calls ? card(step.kind ? seconds(s.wait) : count(s.calls), step.kind ? `in collectives, ${percent(s.wait / s.seconds)}` : 'collectives') : null,
    s.calls ? card(bytes(s.moved), `received in ${count(s.calls)} collectives`) : null,
    card(bytes(view.total_bytes), 'memory of this rank, as packed'),
    node.fixed ? card(bytes(node.fixed), node.name) : null);
}

/* ---- the details of one operation or collective */

const facts = h('dl', { className: 'facts', attributes: { 'aria-live': 'polite' } });
const fact = (name, value) => value ? h('div', {}, h('dt', {}, name), h('dd', {}, value)) : null;
const placed = o => o.placement ? ' {' + Object.entries(o.placement).map(([axis, p]) => axis + ': ' + p).join(', ') + '}' : '';
const typed = o => o ? o.type + placed(o) : 'none';
const placeOf = o => !o.memory ? '' : o.memory + (o.name ? ` "${o.name}"` : '') + (o.offset || !o.name ? ` +${count(o.offset)} B` : '');
const share = (x, step) => step.kind && x ? `${seconds(x)}, ${percent(x / sums(step).seconds)} of the step` : '';

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
  return [h('h3', {}, `${c.kind} of ${c.unit || 'a value'}`), fact('over', `${c.group}, ${c.ranks} ranks`),
    fact('received', c.mapped && !c.bytes ? 'nothing: the ranks of a host map one copy' : bytes(c.bytes) + (c.mapped ? ', into a copy that the ranks of a host share' : '')),
    fact('types', (c.from === c.to ? c.from : `${c.from} to ${c.to}`) + (c.kind === 'all_gather' ? '' : `, summed in ${c.via}`)),
    fact('overlaps', between.length ? `${between.length} kernel${between.length > 1 ? 's' : ''}, ${between[0].node.op} to ${between[between.length - 1].node.op}` +
      (step.kind ? `, ${seconds(over)}` : '') : 'nothing'),
    fact('wait', step.kind ? share(x.wait.seconds, step) : ''),
    fact('result', x.start.node.out.map(o => typed(o) + ' @ ' + placeOf(o)).join('; ')), memoryFact(x.wait, step)];
}
function spanFacts(span, step) {
  const { node, types } = span;
  return [h('h3', {}, `${node.op}  ${node.scope || '(top level)'}`),
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
  fillTables();
});
const button = (text, label, does) => h('button', { type: 'button', onclick: does, title: label, attributes: { 'aria-label': label } }, text);
const controls = h('div', { className: 'tools' }, h('label', { htmlFor: 'filter' }, 'Module'), filter,
  h('datalist', { id: 'modules' }, names.map(n => h('option', { value: n }))),
  button('+', 'zoom in', () => zoomBy(0.5)), button('−', 'zoom out', () => zoomBy(2)), button('whole step', 'show the whole step', () => zoom(0, group.all)), chosen);

/* ---- tables */

const tables = h('div', {});
/* Calls of an operation in a phase count together. */
function opsTable(step, d) {
  const ops = new Map(), all = { seconds: 0 };
  step.spans.filter(s => s.part === 'run' && d.shows(s.module)).forEach(s => {
    const key = s.phase + ' ' + s.node.op, o = ops.get(key) || { phase: s.phase, op: s.node.op, calls: 0, seconds: 0, flops: 0, bytes: 0 };
    const { runs } = s.program;
    o.calls += runs;
    o.seconds += runs * s.seconds;
    o.flops += runs * (s.node.flops || 0);
    o.bytes += runs * (s.node.bytes || 0);
    ops.set(key, o);
  });
  const list = [...ops.values()], by = step.kind ? 'seconds' : 'bytes', total = step.kind ? sums(step).seconds : list.reduce((s, o) => s + o.bytes, 0);
  list.sort((a, b) => b[by] - a[by]);
  all.seconds = list.reduce((s, o) => s + o.seconds, 0);
  const bar = o => h('span', { className: 'bar', style: `width:${Math.max(2, 90 * o[by] / list[0][by])}px;background:${PHASES[o.phase]}` });
  return [table(['operation', 'phase', 'calls', step.kind ? 'time' : 'moved', 'share', 'GFLOP', ''], list.slice(0, 14).map(o =>
    [o.op, o.phase, count(o.calls), step.kind ? seconds(o.seconds) : bytes(o.bytes), percent(o[by] / total), o.flops ? (o.flops / 1e9).toPrecision(3) : '', bar(o)])), all];
}
/* One row for each unit and kind of collective, the longest waits first. */
function unitsTable(step, d) {
  const rows = new Map();
  step.collectives.filter(x => d.shows(x.module)).forEach(x => {
    const key = x.c.kind + x.c.group + (isUnit(x.c) ? x.c.unit : ''), runs = x.start.program.runs;
    const r = rows.get(key) || { kind: x.c.kind, unit: isUnit(x.c) ? x.c.unit.slice(5) : 'activations', group: x.c.group, calls: 0, bytes: 0, over: 0, wait: 0 };
    r.calls += runs;
    r.bytes += runs * x.c.bytes;
    r.over += runs * (x.wait.from - x.start.to);
    r.wait += runs * x.wait.seconds;
    rows.set(key, r);
  });
  const list = [...rows.values()].sort((a, b) => b.wait - a.wait || b.bytes - a.bytes), most = 40;
  const times = step.kind ? ['overlapped', 'wait'] : [];
  return list.length ? [h('h2', {}, 'Collectives by unit'), table(['unit', 'collective', 'over', 'calls', 'received', ...times], list.slice(0, most).map(r =>
    [r.unit, r.kind, r.group, count(r.calls), bytes(r.bytes), ...(step.kind ? [seconds(r.over), seconds(r.wait)] : [])])),
    list.length > most ? h('p', { className: 'note' }, `and ${list.length - most} more`) : null] : [];
}
function fillTables() {
  if (several)
    return;
  const [ops, all] = opsTable(steps[0], drawings[0]);
  chosen.textContent = group.filter && steps[0].kind ? `${seconds(all.seconds)} in kernels, ${percent(all.seconds / sums(steps[0]).seconds)} of the step` : '';
  tables.replaceChildren(h('h2', {}, steps[0].kind ? 'Where the time goes' : 'What the kernels move'), ops, ...unitsTable(steps[0], drawings[0]).filter(e => e));
}
function compareTable() {
  const all = steps.map(s => ({ step: s, s: sums(s) })), timed = steps.every(s => s.kind);
  const line = (name, value, text) => {
    const first = value(all[0]);
    if (all.every(a => !value(a)))
      return null;
    return [name, ...all.map((a, i) => text(value(a)) + (i && first && value(a) !== first ? `  (${value(a) > first ? '+' : '−'}${percent(Math.abs(value(a) / first - 1))})` : ''))];
  };
  const rows = [timed ? line('time of a step', a => a.s.seconds, seconds) : null, timed ? line('in collectives', a => a.s.wait, seconds) : null,
    line('collectives', a => a.s.calls, count), line('received', a => a.s.moved, bytes), line('memory, as packed', a => a.step.view.total_bytes, bytes),
    ...good[0].bands.map((b, i) => line('at the peak: ' + b.name, a => bandsAt(a.step, a.step.spans[a.step.peak])[i], bytes))];
  return table(['', ...good.map(v => v.name)], rows.filter(r => r));
}

/* ---- the page */

const legend = (name, color, pale) => h('span', { className: 'key' }, h('i', { style: `background:${color}${pale ? ';opacity:.3' : ''}` }), name);
const used = good[0].bands.filter((b, i) => steps.some(s => s.spans.some(x => bandsAt(s, x)[i])));
const key = h('p', { className: 'legend' }, steps.some(s => s.collectives.length) ? [legend('a collective under way', 'var(--ink)', true), legend('a rank waits for it', 'var(--ink)')] : null,
  used.map(b => legend(b.name, b.color)));
const runs = good[0].programs[0].runs;
const shown = (runs > 1 ? `One of ${runs} micro-batches, then the update. ` : '') +
  (steps.every(s => s.kind) ? '' : 'Times are not known here, so every kernel call is equally wide: lockstep doctor, or --measure, measures them. ') +
  'Drag over a part to zoom in.';
const panel = (d, i) => h('section', { className: 'panel' }, several ? [h('h2', {}, good[i].name), h('p', { className: 'sub' }, subtitle(good[i]))] : null,
  h('figure', { className: 'chart' }, d.canvas));
main.append(h('h1', {}, several ? document.title.replace(/ – lockstep$/, '') : 'Step of ' + good[0].name),
  h('p', { className: 'sub' }, several ? 'All drawings have the same axes: time to the right, memory upwards.'
    : subtitle(good[0]) + (timesText(steps[0]) ? ' · times ' + timesText(steps[0]) : '')),
  ...views.filter(v => v.refused).map(v => h('p', { className: 'warn' }, `${v.name} is refused: ${v.refused}`)),
  several ? '' : cards(steps[0]), controls, h('p', { className: 'note' }, shown), h('div', { className: several ? 'panels' : '' }, drawings.map(panel)),
  key, facts, several ? compareTable() : tables);
tell(drawings[0]);
fillTables();
