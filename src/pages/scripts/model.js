/* model.js - a model as the tree that its tensors' names describe: parameters, types, shapes, bytes, and who holds what; and its blocks
 * in the order of the forward pass, with lines from each to those that read its results. C wrote the words and the tables. */
const data = dataOf('data');
const order = data.holders.map((name, i) => i).sort((a, b) => data.holders[a].localeCompare(data.holders[b], 'en', { numeric: true }));
const holders = order.map(i => data.holders[i]), many = holders.length > 1;
data.tensors.forEach(t => t.held.forEach(x => { x.by = order.indexOf(x.by); }));

/* ---- the tree: a node is a module or a tensor */

function readTree() {
  const top = { name: data.title, path: '', children: new Map(), depth: 0, open: true };
  data.tensors.forEach(t => {
    let at = top;
    const parts = t.name.split('.');
    parts.forEach((name, i) => {
      const key = i === parts.length - 1 ? 'tensor ' + name : name;
      if (!at.children.has(key))
        at.children.set(key, { name, path: parts.slice(0, i + 1).join('.'), children: new Map(), depth: at.depth + 1, parent: at });
      at = at.children.get(key);
    });
    at.tensor = t;
  });
  sum(top);
  return top;
}
/* Adds up what is below a node: [elements of each holder]. Buffers are no parameters. A loop, because recursion in a deep tree could overflow the stack. */
function sum(top) {
  const nodes = [top];
  for (let i = 0; i < nodes.length; i++)
    nodes.push(...nodes[i].children.values());
  nodes.reverse().forEach(n => {
    Object.assign(n, { elements: 0, buffers: 0, bytes: 0, tensors: 0, held: new Array(holders.length).fill(0), types: new Set() });
    if (n.tensor) {
      const t = n.tensor, each = t.elements ? t.bytes / t.elements : 0;
      Object.assign(n, { elements: t.buffer ? 0 : t.elements, buffers: t.buffer ? t.elements : 0, bytes: t.bytes, tensors: 1 });
      n.types.add(t.dtype);
      t.held.forEach(h => { n.held[h.by] += h.count * each; });
    }
    n.children.forEach(c => {
      n.elements += c.elements;
      n.buffers += c.buffers;
      n.bytes += c.bytes;
      n.tensors += c.tensors;
      c.held.forEach((b, i) => { n.held[i] += b; });
      c.types.forEach(t => n.types.add(t));
    });
  });
}
const top_ = readTree();

/* Open as many levels as fit on a screen. */
function openFirst() {
  for (let level = [top_], rows = 1; level.length && rows + level.reduce((s, n) => s + n.children.size, 0) <= 40;) {
    level.forEach(n => { n.open = true; });
    level = level.flatMap(n => [...n.children.values()]).filter(n => n.children.size);
    rows += level.length;
  }
}
openFirst();

/* ---- rows */

const shapeOf = t => '[' + t.shape.join(', ') + ']';
const tree = h('div', { className: 'tree', attributes: { role: 'tree', 'aria-label': 'modules' } });
const facts = h('dl', { className: 'facts', attributes: { 'aria-live': 'polite' } });
const note = h('p', { className: 'note' });
let chosen = top_, filter = '', rows = [];
const MOST = 2000; /* rows on the page */

/* A cell for each holder, the fuller the more of it they hold. */
function strip(n) {
  const cells = Math.min(holders.length, 64), step = holders.length / cells;
  const s = h('span', { className: 'strip', attributes: { 'aria-hidden': 'true' } });
  for (let i = 0; i < cells; i++) {
    const part = n.bytes ? Math.max(...n.held.slice(Math.floor(i * step), Math.max(Math.floor((i + 1) * step), Math.floor(i * step) + 1))) / n.bytes : 0;
    s.append(h('i', { style: `--part:${Math.round(100 * part)}%`, title: holders.length <= 64 ? `${holders[i]}: ${percent(part)}` : '' }));
  }
  return s;
}
function makeRow(n) {
  const t = n.tensor, row = h('div', { className: 'node', tabIndex: -1, attributes: { role: 'treeitem', 'aria-level': n.depth + 1 } },
    h('span', { className: 'title', style: `padding-left:${Math.min(n.depth, 12) * 16}px` },
      h('span', { className: 'twist' }, t ? '' : n.open || filter ? '▾' : '▸'), h('b', {}, n.name), t ? h('small', {}, `${t.dtype} ${shapeOf(t)}${t.buffer ? ', buffer' : ''}`) : null),
    h('span', { className: 'number' }, t && t.buffer ? '' : count(n.elements)), h('span', { className: 'number' }, bytes(n.bytes)),
    h('span', { className: 'size' }, h('i', { style: `width:${(100 * n.bytes / (top_.bytes || 1)).toFixed(2)}%` })), many ? strip(n) : null);
  if (!t)
    row.setAttribute('aria-expanded', String(Boolean(n.open || filter)));
  row.addEventListener('click', () => { choose(n); toggle(n); });
  row.addEventListener('focus', () => choose(n));
  row.addEventListener('pointerenter', () => tell(n));
  n.row = row;
  return row;
}
const matches = n => !filter || n.path.toLowerCase().includes(filter) || [...n.children.values()].some(matches);
/* The rows that can be seen, in order. */
function visible() {
  const out = [], walk = [top_];
  while (walk.length && out.length <= MOST) {
    const n = walk.pop();
    if (!matches(n))
      continue;
    out.push(n);
    if (n.open || filter)
      walk.push(...[...n.children.values()].reverse());
  }
  return out;
}
function draw() {
  rows = visible();
  note.textContent = rows.length > MOST ? `The first ${count(MOST)} rows: close a module, or say which.` : '';
  rows.length = Math.min(rows.length, MOST);
  tree.replaceChildren(...rows.map(makeRow));
  if (!rows.includes(chosen))
    chosen = top_;
  mark();
}
function mark() {
  rows.forEach(n => {
    n.row.tabIndex = n === chosen ? 0 : -1;
    n.row.setAttribute('aria-selected', String(n === chosen));
  });
}
function choose(n) {
  chosen = n;
  mark();
  tell(n);
}
function toggle(n, open = !n.open) {
  if (n.tensor || filter || n.open === open)
    return;
  n.open = open;
  draw();
  chosen.row.focus();
}
function tell(n) {
  const t = n.tensor, fact = (name, value) => value ? h('div', {}, h('dt', {}, name), h('dd', {}, value)) : '';
  const held = t ? t.held.map(x => `${holders[x.by]}: ${x.what}`) : many ? holders.map((name, i) => `${name}: ${bytes(n.held[i])}`) : [];
  facts.replaceChildren(h('h3', {}, n.path || data.title),
    fact('parameters', n.elements ? count(n.elements) : ''), fact('in buffers', n.buffers ? count(n.buffers) : ''),
    fact('tensors', t ? '' : count(n.tensors)), fact('bytes', `${bytes(n.bytes)}, ${percent(n.bytes / (top_.bytes || 1))} of all`),
    fact(t ? 'type' : 'types', t ? `${t.dtype} ${shapeOf(t)}` : [...n.types].join(', ')), fact('stored in', t ? t.where : ''),
    fact('held by', held.slice(0, 64).join('; ') + (held.length > 64 ? `; and ${held.length - 64} more` : '')));
}
tree.addEventListener('keydown', e => {
  const i = rows.indexOf(chosen), go = n => n && n.row.focus(), keys = {
    ArrowDown: () => go(rows[i + 1]), ArrowUp: () => go(rows[i - 1]), Home: () => go(rows[0]), End: () => go(rows[rows.length - 1]),
    ArrowRight: () => chosen.open || chosen.tensor ? go(rows[i + 1]) : toggle(chosen, true),
    ArrowLeft: () => chosen.open && !chosen.tensor ? toggle(chosen, false) : go(chosen.parent), Enter: () => toggle(chosen), ' ': () => toggle(chosen) };
  if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) {
    e.preventDefault();
    keys[e.key]();
  }
});

/* ---- the page */

const input = h('input', { type: 'search', id: 'filter', placeholder: 'all modules', attributes: { autocomplete: 'off', spellcheck: 'false' } });
input.addEventListener('input', () => { filter = input.value.trim().toLowerCase(); draw(); });
function openAll(open) {
  const all = [top_];
  for (let i = 0; i < all.length; i++) {
    all[i].open = open || all[i] === top_;
    all.push(...all[i].children.values());
  }
  draw();
}
const button = (text, does) => h('button', { type: 'button', onclick: does }, text);
document.getElementById('tree').append(
  h('div', { className: 'tools' }, h('label', { htmlFor: 'filter' }, 'Module'), input, button('open all', () => openAll(true)), button('close all', () => openAll(false))),
  many ? h('p', { className: 'note' }, `One cell for each ${data.holder}, ${holders[0]} to ${holders[holders.length - 1]}: a full cell holds all of it.`) : '',
  h('div', { className: 'head' }, h('span', {}, 'module'), h('span', { className: 'number' }, 'parameters'), h('span', { className: 'number' }, 'bytes'), h('span', {}, 'size'), many ? h('span', {}, data.holder + 's') : null),
  tree, note, facts);
document.querySelector('main').classList.toggle('many', many);
draw();
tell(top_);

/* ---- the forward pass */

/* Lines from a block to a later one that is not the next go around those between, the longer the farther out. */
function drawLines(list, lines) {
  const boxes = [...list.children].map(e => ({ top: e.offsetTop, bottom: e.offsetTop + e.offsetHeight })), links = [], lanes = [];
  data.graph.forEach((part, to) => part.from.forEach(from => { if (to - from > 1) links.push({ from, to }); }));
  links.sort((a, b) => (a.to - a.from) - (b.to - b.from) || a.from - b.from);
  links.forEach(l => {
    let k = lanes.findIndex(taken => taken.every(o => o.to <= l.from || o.from >= l.to));
    k = k >= 0 ? k : lanes.push([]) - 1;
    lanes[k].push(l);
    l.lane = k;
  });
  const room = Math.min(14 * lanes.length + 10, 150), step = lanes.length ? (room - 10) / lanes.length : 0;
  list.style.marginRight = room + 'px';
  const right = list.offsetLeft + list.offsetWidth, height = list.offsetHeight;
  lines.setAttribute('viewBox', `0 0 ${right + room} ${height}`);
  lines.setAttribute('width', right + room);
  lines.setAttribute('height', height);
  lines.replaceChildren(...links.map(l => {
    const x = right + 8 + step * (l.lane + 0.5), y0 = boxes[l.from].bottom - 9 - list.offsetTop, y1 = boxes[l.to].top + 10 - list.offsetTop;
    return svg('path', { class: 'link', d: `M${right} ${y0}H${x - 5}q5 0 5 5V${y1 - 5}q0 5 -5 5H${right + 1}m5 -4l-5 4l5 4` });
  }));
}
function block(part, number) {
  const details = part.operations.map(([op, below, type]) => h('li', {}, h('b', {}, op), below ? ' ' + below : '', h('small', {}, type)));
  const inside = h('ol', { hidden: true }, details), n = part.operations.length;
  const title = h('button', { type: 'button', attributes: { 'aria-expanded': 'false' } }, h('b', {}, part.name),
    h('span', {}, [n ? `${count(n)} operation${n > 1 ? 's' : ''}` : '', part.parameters ? count(part.parameters) + ' parameters' : ''].filter(t => t).join(', ')), h('span', { className: 'result' }, part.result));
  title.addEventListener('click', () => {
    inside.hidden = !inside.hidden;
    title.setAttribute('aria-expanded', String(!inside.hidden));
    redrawAll();
  });
  return h('li', { className: part.from.includes(number - 1) ? 'next' : '' }, title, n ? inside : '');
}
if (data.graph) {
  const list = h('ol', { className: 'flow', attributes: { 'aria-label': 'blocks of the forward pass' } }, data.graph.map(block)), lines = svg('svg', { 'aria-hidden': 'true' });
  document.getElementById('graph').prepend(h('div', { className: 'graph' }, lines, list));
  onRedraw.push(() => drawLines(list, lines));
  new ResizeObserver(() => drawLines(list, lines)).observe(list.parentNode);
}
