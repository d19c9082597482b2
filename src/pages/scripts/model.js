/* model.js - a model as the tree that its tensors' names describe: parameters, types, shapes, bytes, and who holds what. */
const data = dataOf('data'), main = document.querySelector('main');
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
/* Adds up what is below a node: [elements of each holder]. A loop, because recursion in a deep tree could overflow the stack. */
function sum(top) {
  const nodes = [top];
  for (let i = 0; i < nodes.length; i++)
    nodes.push(...nodes[i].children.values());
  nodes.reverse().forEach(n => {
    Object.assign(n, { elements: 0, bytes: 0, tensors: 0, held: new Array(holders.length).fill(0), types: new Set() });
    if (n.tensor) {
      const t = n.tensor, each = t.elements ? t.bytes / t.elements : 0;
      Object.assign(n, { elements: t.elements, bytes: t.bytes, tensors: 1 });
      n.types.add(t.dtype);
      t.held.forEach(h => { n.held[h.by] += h.count * each; });
    }
    n.children.forEach(c => {
      n.elements += c.elements;
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
      h('span', { className: 'twist' }, t ? '' : n.open || filter ? '▾' : '▸'), h('b', {}, n.name), t ? h('small', {}, `${t.dtype} ${shapeOf(t)}`) : null),
    h('span', { className: 'number' }, count(n.elements)), h('span', { className: 'number' }, bytes(n.bytes)),
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
    fact('parameters', count(n.elements) + (t ? '' : ` in ${count(n.tensors)} tensor${n.tensors === 1 ? '' : 's'}`)), fact('bytes', `${bytes(n.bytes)}, ${percent(n.bytes / (top_.bytes || 1))} of all`),
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
const per = top_.held, most = per.reduce((a, b) => Math.max(a, b), 0), least = per.reduce((a, b) => Math.min(a, b), Infinity);
main.append(h('h1', {}, data.title), data.about ? h('p', { className: 'sub' }, data.about) : '',
  h('div', { className: 'cards' }, card(count(top_.elements), 'parameters'), card(count(top_.tensors), 'tensors'), card(bytes(top_.bytes), [...top_.types].sort().join(', ')),
    many ? card(bytes(most), `${most === least ? 'in each' : 'the most in one'} of ${count(holders.length)} ${data.holder}s`) : null),
  h('div', { className: 'tools' }, h('label', { htmlFor: 'filter' }, 'Module'), input, button('open all', () => openAll(true)), button('close all', () => openAll(false))),
  many ? h('p', { className: 'note' }, `One cell for each ${data.holder}, ${holders[0]} to ${holders[holders.length - 1]}: a full cell holds all of it.`) : '',
  h('div', { className: 'head' }, h('span', {}, 'module'), h('span', { className: 'number' }, 'parameters'), h('span', { className: 'number' }, 'bytes'), h('span', {}, 'size'), many ? h('span', {}, data.holder + 's') : null),
  tree, note, facts);
main.classList.toggle('many', many);
draw();
tell(top_);
