/* page.js - what the scripts of pages share: the data of the page, elements, numbers in words, colours. */
'use strict';
const dataOf = id => JSON.parse(document.getElementById(id).textContent);

/* An element: h('p', {className: 'note'}, 'text', another). Text is never markup. */
function h(name, { attributes, ...properties }, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(attributes || {}))
    e.setAttribute(key, value);
  e.append(...children.flat().filter(c => c !== null && c !== undefined));
  return e;
}
const row = (cells, of = 'td') => h('tr', {}, cells.map((c, i) => h(i || of === 'th' ? of : 'td', {}, c)));
const table = (head, rows) =>
  h('div', { className: 'scroll', tabIndex: 0 }, h('table', {}, h('thead', {}, row(head, 'th')), h('tbody', {}, rows.map(r => row(r)))));
const card = (value, name) => h('div', { className: 'card' }, h('b', {}, value), h('span', {}, name));

const count = n => Math.round(n).toLocaleString('en');
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  for (; Math.abs(n) >= 1024 && u < 4; u++)
    n /= 1024;
  return (u && Math.abs(n) < 100 ? n.toFixed(1) : Math.round(n)) + ' ' + units[u];
}
function seconds(s) {
  const [x, unit] = s >= 1 ? [s, 's'] : s >= 1e-3 ? [s * 1e3, 'ms'] : [s * 1e6, 'µs'];
  return (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2)) + ' ' + unit;
}
const percent = x => (100 * x).toFixed(x < 0.0995 ? 1 : 0) + ' %';

/* "var(--c-blue)" as the colour that it is in the present scheme. */
const styles = getComputedStyle(document.documentElement);
const colour = text => text.replace(/var\((.*)\)/, (_, name) => styles.getPropertyValue(name).trim());
/* Black or white, whichever is read better on a colour #rrggbb. */
function inkOn(hex) {
  const [r, g, b] = [1, 3, 5].map(i => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? '#111' : '#fff';
}
