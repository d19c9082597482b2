/* charts.js - what the scripts of pages share: elements, numbers in words, colours, and charts.
 *
 * C writes each chart as a figure of class `chart` with a table of its numbers and with its data as JSON:
 *
 *     { "title": "loss", "x": "step", "unit": "", "height": 320, "low": 0, "high": 1, "stacked": false,
 *       "series": [ { "name": "training", "color": "var(--c-blue)", "faint": false, "dots": false,
 *                     "points": [ [1, 2.5], [2, null], [3, 2.25, 2, 2.5] ] } ],
 *       "labels": [], "marks": [ { "x": 2, "kind": "restart", "text": "1" } ] }
 *
 * A point is [x, mean, least, greatest] of neighbouring numbers, [x, y] of a single one, [x, null] where there is none. `unit` is "",
 * "percent" (y is a fraction) or "MiB". `low` and `high`: what the axis of y covers in any case. Stacked series have the same x; a column
 * reaches to the x of the next one, the last to `end`, and `labels` says what runs there. Marks: "restart", "line" and "peak" are
 * dashed lines with a text, "kept" and "removed" are checkpoints. */
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
const SVG = h('p', { innerHTML: '<svg></svg>' }).firstChild.namespaceURI;
function svg(name, attributes, ...children) {
  const e = document.createElementNS(SVG, name);
  for (const a in attributes)
    e.setAttribute(a, attributes[a]);
  e.append(...children);
  return e;
}
const row = (cells, of = 'td') => h('tr', {}, cells.map((c, i) => h(i || of === 'th' ? of : 'td', {}, c)));
const table = (head, rows) =>
  h('div', { className: 'scroll', tabIndex: 0 }, h('table', {}, h('thead', {}, row(head, 'th')), h('tbody', {}, rows.map(r => row(r)))));

/* Makes the headings of a table buttons that sort its rows: by data-v of the cells, or by their texts. */
function sortable(table) {
  const rows = [...table.tBodies[0].rows], headings = [...table.tHead.rows[0].cells];
  headings.forEach((th, column) => {
    const button = h('button', { type: 'button' }, ...th.childNodes);
    th.append(button);
    button.addEventListener('click', () => {
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
        const sign = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
        return up ? sign : -sign;
      });
      table.tBodies[0].append(...order.map(o => o[1]));
    });
  });
  return headings;
}

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
const number = v => String(+v.toPrecision(5));

/* "var(--c-blue)" as the colour that it is in the present scheme. */
const styles = getComputedStyle(document.documentElement);
const colour = text => text.replace(/var\((.*)\)/, (_, name) => styles.getPropertyValue(name).trim());
/* Black or white, whichever is read better on a colour #rrggbb. */
function inkOn(hex) {
  const [r, g, b] = [1, 3, 5].map(i => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? '#111' : '#fff';
}

/* Paper is light and narrower than most screens: the page is drawn anew for it, and once more for the screen. Colours of texts on
 * coloured areas depend on the scheme. */
const onRedraw = []; /* functions that draw */
const redrawAll = () => onRedraw.forEach(draw => draw());
for (const [event, printing] of [['beforeprint', true], ['afterprint', false]])
  addEventListener(event, () => {
    document.documentElement.classList.toggle('printing', printing);
    redrawAll();
  });

/* ---- charts */

const Chart = (() => {

/* Places of ticks: 1, 2 or 5 times a power of ten apart, about `wanted` of them. */
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw)), m = raw / power;
  const step = power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10), out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}
/* The range without the most extreme half percent of the numbers, so that one wild step does not flatten a curve. */
function range(values) {
  const sorted = Float64Array.from(values).sort(), cut = Math.floor(sorted.length / 200);
  return [sorted[cut], sorted[sorted.length - 1 - cut]];
}
const least = p => p.length > 2 ? p[2] : p[1], greatest = p => p.length > 2 ? p[3] : p[1];
const DASHES = ['', '6 3', '2 2', '8 3 2 3'];
const SIGNS = { restart: 'restart, with the attempt that it began', kept: 'checkpoint', removed: 'checkpoint removed since' };

/* Draws the data into `plot`, an element as wide as the drawing. A box shows the points nearest to the pointer, or to the cursor
 * that the arrow keys move; screen readers read it. `legend` (an element) gets the names of the series. */
return class {
  constructor(plot, legend) {
    this.plot = plot;
    this.legend = legend;
    this.place = 0.5; /* of the cursor, from 0 at the left end to 1 */
    this.tip = h('div', { className: 'tip', attributes: { role: 'status', 'aria-live': 'polite' } });
    plot.append(this.tip);
    plot.tabIndex = 0;
    plot.setAttribute('role', 'img');
    plot.addEventListener('pointermove', e => {
      const f = this.frame, x = e.clientX - plot.getBoundingClientRect().left;
      this.place = f ? (x - f.left) / (f.right - f.left) : -1;
      return this.place < 0 || this.place > 1 ? this.hide() : this.show();
    });
    plot.addEventListener('pointerleave', () => this.hide());
    plot.addEventListener('blur', () => this.hide());
    plot.addEventListener('keydown', e => {
      const by = { ArrowLeft: -0.01, ArrowRight: 0.01, Home: -1, End: 1 }[e.key];
      if (by === undefined || e.ctrlKey || e.metaKey || e.altKey)
        return;
      e.preventDefault();
      this.place = Math.max(0, Math.min(1, this.place + by));
      this.show();
    });
    onRedraw.push(() => this.draw());
    new ResizeObserver(() => { if (plot.clientWidth !== this.width) this.draw(); }).observe(plot);
  }

  /* data NULL: nothing to draw, and `why` is said instead */
  set(data, why) {
    this.data = data;
    this.why = why;
    this.draw();
  }

  text(v) {
    const { unit } = this.data;
    return v === null ? 'none' : unit === 'percent' ? (100 * v).toFixed(2) + ' %' : unit ? v.toFixed(2) + ' ' + unit : number(v);
  }
  tick(v) {
    const { unit, log } = this.data;
    return log ? (10 ** v).toPrecision(2) : unit === 'percent' ? +(100 * v).toPrecision(4) + '%' : number(v);
  }

  /* The ranges of both axes, and where a number is in the drawing. */
  makeFrame() {
    const { data } = this, { series, log } = data, width = this.width = Math.max(240, this.plot.clientWidth);
    const narrow = width < 600, height = narrow ? Math.min(data.height, 280) : data.height, top = 10, bottom = height - 36;
    const points = series.flatMap(s => s.points), x = points.map(p => p[0]);
    const known = points.filter(p => p[1] !== null), scale = v => log ? Math.log10(v) : v;
    let [y0, y1] = range(data.stacked ? [0, ...this.sums()] : known.flatMap(p => [least(p), greatest(p)]).filter(v => !log || v > 0));
    const x0 = data.stacked ? Math.min(...x) : x.reduce((a, b) => Math.min(a, b), 0), most = x.reduce((a, b) => Math.max(a, b), 0);
    const x1 = data.end !== undefined ? data.end : most > x0 ? most : x0 + 1;
    if (data.stacked) {
      y1 = 1.12 * Math.max(...this.sums()); /* with room for the texts of marks */
    } else {
      [y0, y1] = data.low === undefined ? [scale(y0), scale(y1)] : [Math.min(y0, data.low), Math.max(y1, data.high)];
      const margin = y1 > y0 ? 0.05 * (y1 - y0) : Math.max(1e-12, 0.1 * Math.abs(y1));
      y0 = !log && y0 >= 0 && y0 - margin < 0 ? 0 : y0 - margin;
      y1 += margin;
    }
    const yTicks = ticks(y0, y1, narrow ? 4 : 5), left = 16 + 7 * Math.max(...yTicks.map(v => this.tick(v).length), 3), right = width - 18;
    const px = v => left + (v - x0) / (x1 - x0) * (right - left);
    const py = v => Math.max(-9999, Math.min(9999, bottom - (scale(v) - y0) / (y1 - y0) * (bottom - top)));
    return { width, height, narrow, left, right, top, bottom, x0, x1, y0, y1, yTicks, px, py, at: (a, b) => px(a).toFixed(1) + ' ' + py(b).toFixed(1) };
  }

  draw() {
    this.hide();
    this.plot.replaceChildren(this.tip);
    this.legend.replaceChildren();
    this.frame = null;
    if (!this.data || !this.data.series.some(s => s.points.some(p => p[1] !== null))) {
      this.plot.prepend(h('p', { className: 'note' }, this.why || 'No number is finite.'));
      return;
    }
    if (!this.plot.clientWidth)
      return; /* (it is not shown: ResizeObserver tells when it is) */
    const { data } = this, f = this.frame = this.makeFrame();
    this.plot.setAttribute('aria-label', data.title + ', a drawing. Left and right: the values at a cursor.');
    const inside = svg('svg', { x: f.left, y: f.top - 5, width: f.right - f.left + 5, height: f.bottom - f.top + 10,
      viewBox: `${f.left} ${f.top - 5} ${f.right - f.left + 5} ${f.bottom - f.top + 10}` });
    inside.append(...(data.stacked ? this.areas() : data.series.flatMap((s, i) => this.line(s, i))));
    this.cursor = svg('line', { class: 'cursor', y1: f.top, y2: f.bottom });
    this.plot.prepend(svg('svg', { viewBox: `0 0 ${f.width} ${f.height}`, 'aria-hidden': 'true' },
      ...this.axes(), inside, ...(data.stacked ? this.names() : []), ...this.marks(), this.cursor));
    this.keys();
  }
  axes() {
    const f = this.frame, out = [], y = v => f.bottom - (v - f.y0) / (f.y1 - f.y0) * (f.bottom - f.top);
    for (const v of f.yTicks)
      out.push(svg('line', { class: 'grid', x1: f.left, x2: f.right, y1: y(v), y2: y(v) }),
               svg('text', { class: 'tick', x: f.left - 8, y: y(v) + 4, 'text-anchor': 'end' }, this.tick(v)));
    for (const v of ticks(f.x0, f.x1, f.narrow ? 4 : 9).filter(v => Number.isInteger(v)))
      out.push(svg('text', { class: 'tick', x: f.px(v), y: f.bottom + 17, 'text-anchor': 'middle' }, String(v)));
    out.push(svg('text', { class: 'tick', x: f.right, y: f.height - 4, 'text-anchor': 'end' }, this.data.x));
    return out;
  }

  /* ---- lines */

  /* A path along y(point); a point without a number is a gap. */
  path(points, y) {
    let d = '', pen = 'M';
    for (const p of points) {
      d += p[1] === null ? '' : pen + this.frame.at(p[0], y(p));
      pen = p[1] === null ? 'M' : 'L';
    }
    return d;
  }
  line(s, i) {
    const { frame: f, data } = this, shown = data.log ? s.points.filter(p => p[1] > 0) : s.points, out = [];
    const points = s.smooth ? s.smooth : shown, band = shown.filter(p => p.length > 2), number = s.number === undefined ? i : s.number, dash = DASHES[Math.floor(number / 8) % 4];
    if (band.length)
      out.push(svg('path', { class: 'band', fill: s.color, opacity: s.faint ? 0.22 : 0.16, d: 'M' + band.map(p => f.at(p[0], p[3])).join('L') + 'L' +
        band.slice().reverse().map(p => f.at(p[0], data.log ? Math.max(p[2], 10 ** f.y0) : p[2])).join('L') + 'Z' }));
    else if (s.smooth)
      out.push(svg('path', { fill: 'none', stroke: s.color, opacity: 0.3, d: this.path(shown, p => p[1]) }));
    out.push(svg('path', { class: 'curve', fill: 'none', stroke: s.color, 'stroke-width': s.faint ? 1 : 2, 'stroke-linejoin': 'round',
      'stroke-dasharray': dash, opacity: s.faint ? 0.45 : 1, d: this.path(points, p => p[1]) }));
    if (s.dots && points.length <= 200)
      out.push(...points.filter(p => p[1] !== null).map(p => svg('circle', { r: 3.5, fill: s.color, cx: f.px(p[0]), cy: f.py(p[1]) })));
    return out;
  }

  /* ---- stacked areas */

  sums() {
    const { series } = this.data;
    return series[0].points.map((_, k) => series.reduce((sum, s) => sum + s.points[k][1], 0));
  }
  /* [from, to) of column k */
  column(k) {
    const { points } = this.data.series[0];
    return [points[k][0], k + 1 < points.length ? points[k + 1][0] : this.frame.x1];
  }
  areas() {
    const { frame: f, data: { series } } = this, n = series[0].points.length, under = new Float64Array(n);
    return series.map(s => {
      const upper = [], lower = [];
      for (let k = 0; k < n;) {
        let same = k + 1; /* columns of equal height share a piece */
        while (same < n && s.points[same][1] === s.points[k][1] && under[same] === under[k])
          same++;
        const from = f.px(this.column(k)[0]).toFixed(1), to = f.px(this.column(same - 1)[1]).toFixed(1);
        const top = f.py(under[k] + s.points[k][1]).toFixed(1), low = f.py(under[k]).toFixed(1);
        upper.push(from + ' ' + top, to + ' ' + top);
        lower.push(from + ' ' + low, to + ' ' + low);
        k = same;
      }
      s.points.forEach((p, k) => { under[k] += p[1]; });
      return svg('path', { class: 'area', fill: s.color, d: 'M' + upper.join('L') + 'L' + lower.reverse().join('L') + 'Z' });
    });
  }
  /* The name of an area stands in it where it is high enough over the width of the name, so that nobody needs to tell colours
   * apart. */
  names() {
    const { frame: f, data: { series } } = this, n = series[0].points.length, under = new Float64Array(n), out = [];
    for (const s of series) {
      const wide = 12 + 6.6 * s.name.length;
      let best = null;
      for (let k = 0; k < n; k++) {
        const from = f.px(this.column(k)[0]);
        let low = Infinity, high = -Infinity; /* in pixels: the part of the area that is free over the whole width */
        for (let i = k; i < n && f.px(this.column(i)[0]) < from + wide; i++) {
          low = Math.min(low, f.py(under[i]));
          high = Math.max(high, f.py(under[i] + s.points[i][1]));
        }
        if (from + wide <= f.right && low - high >= 14 && (!best || low - high > best.low - best.high + 4))
          best = { x: from + 6, low, high };
      }
      s.points.forEach((p, k) => { under[k] += p[1]; });
      if (best)
        out.push(svg('text', { class: 'area-name', x: best.x, y: (best.low + best.high) / 2 + 4, 'data-on': '1', fill: inkOn(colour(s.color)) }, s.name));
    }
    return out;
  }

  /* ---- marks and keys */

  marks() {
    const f = this.frame, out = [], ends = {}; /* of the last text in a row: one that would lie over it is left out */
    for (const m of this.data.marks || []) {
      const x = f.px(m.x), row = m.kind === 'peak' ? 23 : 9, left = x > f.right - 90, wide = 10 + 7.5 * (m.text || '').length;
      if (m.kind === 'kept' || m.kind === 'removed') {
        out.push(svg('path', { class: m.kind, d: `M${x.toFixed(1)} ${f.bottom - 7}l4 6.5h-8z` }));
        continue;
      }
      if (m.x > f.x0 || m.kind === 'restart')
        out.push(svg('line', { class: 'edge', x1: x, x2: x, y1: f.top, y2: f.bottom }));
      const from = left ? x - wide : x;
      if (!m.text || from < (ends[row] || 0))
        continue;
      out.push(svg('text', { class: 'name', x: x + (left ? -4 : 4), y: f.top + row, 'text-anchor': left ? 'end' : 'start' }, m.text));
      ends[row] = from + wide;
    }
    return out;
  }
  keys() {
    const { series, marks, stacked } = this.data, kinds = new Set((marks || []).map(m => m.kind));
    const list = stacked ? series.slice().reverse() : series; /* from the top down, as the areas lie */
    this.legend.append(...list.map(s => h('span', { className: 'key' }, h('i', { style: `background:${s.color}${s.faint ? ';opacity:.45' : ''}` }), s.name)),
      ...Object.keys(SIGNS).filter(k => kinds.has(k)).map(k =>
        h('span', { className: 'key' }, k === 'restart' ? h('i', { className: 'restart' }) : h('b', {}, k === 'kept' ? '▲' : '△'), SIGNS[k])));
  }

  /* ---- the box at the cursor */

  hide() {
    this.tip.textContent = '';
    if (this.cursor)
      this.cursor.style.visibility = 'hidden';
  }
  stackText(x) {
    const { series, labels } = this.data, { points } = series[0];
    let k = 0;
    while (k + 1 < points.length && points[k + 1][0] <= x)
      k++;
    return [labels[k], ...series.filter(s => s.points[k][1] > 0).reverse().map(s => s.name + '  ' + this.text(s.points[k][1])),
      'total  ' + this.text(this.sums()[k])].join('\n');
  }
  lineText(x) {
    const near = at => at.reduce((best, p) => Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best, at[0]), room = this.frame.narrow ? 18 : 40;
    return this.data.series.filter(s => s.points.length).slice(0, 16).map(s => {
      const p = near(s.points), name = s.name.length > room ? s.name.slice(0, room - 1) + '\u2026' : s.name;
      const smooth = s.smooth ? this.text(near(s.smooth)[1]) + ' smoothed; ' : '', extremes = p.length > 2 ? `, ${this.text(p[2])} to ${this.text(p[3])}` : '';
      return `${name}  ${smooth}${this.text(p[1])}${extremes}  (${this.data.x} ${p[0]})`;
    }).join('\n');
  }
  show() {
    const f = this.frame;
    if (!f)
      return;
    const x = f.x0 + this.place * (f.x1 - f.x0), u = f.px(x), right = u > f.width / 2;
    this.cursor.setAttribute('x1', u);
    this.cursor.setAttribute('x2', u);
    this.cursor.style.visibility = 'visible';
    this.tip.textContent = this.data.stacked ? this.stackText(x) : this.lineText(x);
    this.tip.style.left = f.narrow ? '0' : right ? 'auto' : u + 14 + 'px'; /* on a narrow screen it has no room beside the cursor */
    this.tip.style.right = f.narrow || !right ? 'auto' : f.width - u + 14 + 'px';
  }
};

})();

/* The figures that C wrote with their data. */
document.querySelectorAll('figure.chart>script').forEach(script => {
  const plot = h('div', { className: 'plot' }), legend = h('p', { className: 'keys' });
  script.after(plot, legend);
  new Chart(plot, legend).set(JSON.parse(script.textContent));
});
