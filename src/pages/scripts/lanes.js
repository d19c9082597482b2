/* lanes.js - a step as a drawing over time: modules, collectives, the compute lanes, memory. Every lane has the same axis.
 * readStep() turns the data of the page into spans of time; Lanes draws them on a canvas and finds what is at a point. */

/* Without times every kernel and every wait is one unit wide. */
function readStep(view) {
  const kind = view.programs.every(p => p.measured) ? 'measured' : view.programs.every(p => p.estimated) ? 'estimated' : null;
  const step = { view, kind, spans: [], collectives: [], length: 0 };
  view.programs.forEach(program => {
    const n = program.alive.length, first = step.spans.length, types = new Map(), runs = Array(n), waits = Array(n);
    program.plan.nodes.forEach(node => {
      node.out.forEach(o => types.set(o.value, o));
      if (node.step !== undefined)
        runs[node.step] = node;
    });
    const pairs = [...program.plan.collectives, ...program.plan.transfers]; /* of a start and a wait */
    pairs.forEach(c => { waits[c.start] = waits[c.wait] = c; });
    for (let k = 0; k < n; k++) {
      const c = waits[k], node = runs[c ? c.start : k], part = !c ? 'run' : k === c.start ? 'start' : 'wait';
      const seconds = kind ? program[kind][k] : part === 'start' ? 0 : 1, from = step.length;
      step.length += seconds;
      step.spans.push({ program, k, node, part, collective: c, types, seconds, from, to: step.length, index: step.spans.length,
        phase: program.name === 'update' ? 'update' : node.phase, module: moduleOf(node, c, program) });
    }
    pairs.forEach(c => {
      const start = step.spans[first + c.start], wait = step.spans[first + c.wait];
      step.collectives.push({ c, start, wait, from: start.from, to: wait.to, module: start.module });
    });
    program.seconds = kind ? program[kind].reduce((a, b) => a + b, 0) : 0;
  });
  step.bytes = step.spans.map(s => bandsAt(step, s).reduce((a, b) => a + b, 0));
  step.peak = step.bytes.reduce((best, b, i) => b > step.bytes[best] ? i : best, 0);
  return step;
}
const bandsAt = (step, span) => step.view.bands.map((b, i) => b.fixed + (span.program.alive[span.k][i] || 0));

/* "encoder.layers.encoder_layer_3" of "unit encoder.layers.encoder_layer_3 split" */
const unitModule = name => name.replace(/^unit /, '').replace(/ (split|frozen|matrices|in|group)( .*)?$/, '');
function moduleOf(node, collective, program) {
  if (collective)
    return unitModule(collective.unit);
  const named = node.out.find(o => o.name);
  return program.name === 'update' && named ? unitModule(named.name.replace(/^\w+\.unit/, 'unit')) : node.scope;
}
/* The block of a module: its path up to the first number, as encoder.layers.encoder_layer_3. */
function blockOf(module) {
  const parts = module.split('.'), i = parts.findIndex(p => /\d$/.test(p));
  return i < 0 ? module : parts.slice(0, i + 1).join('.');
}

const PHASES = { forward: 'var(--c-blue)', backward: 'var(--c-violet)', update: 'var(--c-teal)' };
/* Lanes of collectives: units are gathered and reduced; the others are of activations. */
const GATHER = 'var(--c-amber)', REDUCE = 'var(--c-red)', OTHER = 'var(--c-brown)';
const isUnit = c => c.unit.startsWith('unit ');
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/* group: what several drawings share: the part of the axis that they show, the largest memory, the module of the filter. */
class Lanes {
  constructor(step, group, name) {
    this.step = step;
    this.group = group;
    this.at = null; /* the span, or the collective, that is shown below */
    this.canvas = h('canvas', { tabIndex: 0, className: 'lanes', attributes: { role: 'application', 'aria-label': name +
      '. Left and right: the operation before and behind. Plus and minus: zoom. 0: the whole step.' } });
    this.lanes = this.makeLanes();
    this.blocks = this.makeBlocks();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  makeLanes() {
    const of = new Map();
    this.step.collectives.forEach(x => {
      const color = !isUnit(x.c) ? OTHER : x.c.kind === 'all_gather' ? GATHER : REDUCE, key = x.c.kind + (x.c.group ? ' over ' + x.c.group : '');
      if (!of.has(key))
        of.set(key, { name: key, color, rows: [], items: [] });
      const lane = of.get(key);
      let r = lane.rows.findIndex(end => end <= x.from);
      r = r >= 0 ? r : lane.rows.length < 4 ? lane.rows.push(0) - 1 : 3;
      lane.rows[r] = x.to;
      lane.items.push(Object.assign(x, { row: r }));
    });
    const lanes = [...of.values()];
    Object.entries(PHASES).forEach(([name, color]) => {
      const items = this.step.spans.filter(s => s.part === 'run' && s.phase === name);
      if (items.length)
        lanes.push({ name, color, rows: null, items });
    });
    return lanes;
  }

  makeBlocks() {
    const blocks = [];
    this.step.spans.filter(s => s.part === 'run').forEach(s => {
      const name = blockOf(s.module), last = blocks[blocks.length - 1];
      if (last && last.name === name && last.phase === s.phase)
        last.to = s.to;
      else
        blocks.push({ name, phase: s.phase, from: s.from, to: s.to, even: blocks.length % 2 });
    });
    return blocks;
  }

  /* Places of everything, for the present width. */
  place() {
    const width = this.canvas.clientWidth, narrow = width < 620, caption = narrow ? 15 : 0;
    const p = this.places = { width, narrow, left: narrow ? 2 : 150, right: width - 10, lanes: [] };
    let y = 22;
    p.blocks = [y + caption, y + caption + 20];
    y = p.blocks[1] + 6;
    for (const lane of this.lanes) {
      y += narrow ? 4 : 0;
      const each = !lane.rows ? 30 : lane.rows.length > 2 ? 11 : 16, rows = lane.rows ? lane.rows.length : 1;
      p.lanes.push({ lane, each, from: y + caption, to: y + caption + rows * each });
      y += caption + rows * each + (lane.rows ? 6 : 3);
    }
    p.memory = [y + caption + 10, y + caption + 10 + (narrow ? 130 : 170)];
    p.height = p.memory[1] + 22;
    return p;
  }
  x(t) {
    const { left, right } = this.places, { t0, t1 } = this.group;
    return left + (t - t0) / (t1 - t0) * (right - left);
  }
  t(x) {
    const { left, right } = this.places, { t0, t1 } = this.group;
    return t0 + (x - left) / (right - left) * (t1 - t0);
  }

  draw() {
    const p = this.place(), scale = devicePixelRatio || 1, g = this.g = this.canvas.getContext('2d');
    if (!p.width)
      return;
    this.canvas.style.height = p.height + 'px';
    this.canvas.width = Math.round(p.width * scale);
    this.canvas.height = Math.round(p.height * scale);
    g.scale(scale, scale);
    g.font = FONT;
    g.textBaseline = 'middle';
    this.drawAxis();
    this.drawBlocks();
    p.lanes.forEach(l => this.drawLane(l));
    this.drawMemory();
    this.drawSelection();
  }
  text(s, x, y, color, align = 'left') {
    this.g.fillStyle = colour(color);
    this.g.textAlign = align;
    this.g.fillText(s, x, y);
  }
  fits(s, width) { return this.g.measureText(s).width + 3 < width; }
  /* What fits of a module's name: all, its last part, its number. */
  shortName(name, width) {
    const last = name.split('.').pop();
    return [name, last, (last.match(/\d+$/) || [''])[0]].find(t => this.fits(t, width)) || '';
  }
  caption(s, from, to) {
    const p = this.places;
    this.text(s, p.narrow ? p.left : 0, p.narrow ? from - 8 : (from + to) / 2, 'var(--mute)');
  }

  drawAxis() {
    const p = this.places, { g, group: { t0, t1 }, step } = this;
    const rough = (t1 - t0) / Math.max(2, (p.right - p.left) / 90), power = 10 ** Math.floor(Math.log10(rough));
    const every = [1, 2, 5, 10].map(m => m * power).find(d => d >= rough);
    const unit = t1 - t0 >= 2 ? [1, 's'] : t1 - t0 >= 2e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
    g.strokeStyle = colour('var(--line)');
    for (let t = Math.ceil(t0 / every) * every; t <= t1 * 1.000001; t += every) {
      const x = Math.round(this.x(t)) + 0.5;
      g.beginPath();
      g.moveTo(x, 18);
      g.lineTo(x, p.memory[1]);
      g.stroke();
      const label = step.kind ? +(t * unit[0]).toPrecision(4) + ' ' + unit[1] : count(t);
      this.text(label, x, 9, 'var(--mute)', x > p.right - 20 ? 'right' : x < p.left + 20 ? 'left' : 'center');
    }
    if (!p.narrow)
      this.text(step.kind ? 'time' : 'kernel calls', 0, 9, 'var(--mute)');
  }

  drawBlocks() {
    const p = this.places, [y0, y1] = p.blocks, { g } = this;
    this.caption('module', y0, y1);
    for (const b of this.blocks) {
      const x0 = Math.max(p.left, this.x(b.from)), x1 = Math.min(p.right, this.x(b.to));
      if (x1 <= x0)
        continue;
      const chosen = this.at && blockOf(this.at.module) === b.name;
      g.fillStyle = colour(chosen ? 'var(--c-sky)' : b.even ? 'var(--band)' : 'var(--line)');
      g.globalAlpha = this.shows(b.name) ? 1 : 0.35;
      g.fillRect(x0, y0, Math.max(x1 - x0 - (x1 - x0 > 3), 0.5), y1 - y0);
      const name = this.shortName(b.name || 'top', x1 - x0);
      if (name)
        this.text(name, (x0 + x1) / 2, (y0 + y1) / 2 + 0.5, chosen ? '#111' : 'var(--ink)', 'center');
      g.globalAlpha = 1;
    }
  }
  shows(module) {
    const { filter } = this.group;
    return !filter || module.includes(filter) || filter.startsWith(module + '.');
  }

  drawLane({ lane, each, from, to }) {
    const p = this.places, { g } = this, color = colour(lane.color), ink = inkOn(color);
    this.caption(lane.name, from, to);
    const ends = []; /* of each row: up to which pixel something is drawn */
    for (const item of lane.items) {
      const x0 = Math.max(p.left, this.x(item.from)), x1 = Math.min(p.right, Math.max(this.x(item.to), this.x(item.from) + 1));
      const r = item.row || 0, end = Math.max(x1, x0 + 0.5);
      if (x1 < p.left || x0 > p.right || end <= (ends[r] || 0) + 0.25)
        continue;
      ends[r] = end;
      const y = from + r * each, high = each - (lane.rows ? 2 : 0), gap = end - x0 > 4 ? 1 : 0;
      g.fillStyle = color;
      const seen = this.shows(item.module) ? 1 : 0.16;
      if (lane.rows) { /* under way: pale; the wait: full */
        g.globalAlpha = seen * 0.35;
        g.fillRect(x0, y, end - x0 - gap, high);
        const wait = Math.max(x0, this.x(item.wait.from));
        g.globalAlpha = seen;
        if (wait < end)
          g.fillRect(wait, y, Math.max(end - wait - gap, 0.5), high);
        const name = high > 11 ? this.shortName(item.module, wait - x0 - 4) : '';
        if (name)
          this.text(name, x0 + 4, y + high / 2 + 0.5, 'var(--ink)');
      } else {
        g.globalAlpha = seen * (item.index % 2 ? 1 : 0.82);
        g.fillRect(x0, y, end - x0 - gap, high);
        g.globalAlpha = seen;
        if (this.fits(item.node.op, end - x0))
          this.text(item.node.op, (x0 + end) / 2, y + high / 2 + 0.5, ink, 'center');
      }
      g.globalAlpha = 1;
    }
  }

  drawMemory() {
    const p = this.places, { g, step } = this, [top, bottom] = p.memory, most = this.group.bytes;
    const y = b => bottom - b / most * (bottom - top);
    this.caption('memory', top - 4, top + 8);
    /* for each column of pixels the span in it that holds the most */
    const shown = new Array(Math.ceil(p.right) + 1).fill(-1);
    step.spans.forEach((s, i) => {
      const a = this.x(s.from), b = this.x(s.to);
      if (b < p.left || a > p.right)
        return;
      for (let x = Math.max(Math.floor(a), Math.floor(p.left)); x <= Math.min(b, p.right - 1); x++)
        if (shown[x] < 0 || step.bytes[i] > step.bytes[shown[x]])
          shown[x] = i;
    });
    for (let x = Math.floor(p.left); x < p.right; x++) {
      let last = x;
      while (last + 1 < p.right && shown[last + 1] === shown[x])
        last++;
      if (shown[x] >= 0) {
        let sum = 0;
        bandsAt(step, step.spans[shown[x]]).forEach((b, i) => {
          g.fillStyle = colour(step.view.bands[i].color);
          if (b)
            g.fillRect(x, y(sum + b), last - x + 1, y(sum) - y(sum + b) + 0.3);
          sum += b;
        });
      }
      x = last;
    }
    this.nameBands(shown, y);
    const every = 2 ** Math.ceil(Math.log2(most / 4));
    for (let b = 0; b <= most; b += every) {
      const label = bytes(b).replace('.0', '');
      if (!p.narrow)
        this.text(label, p.left - 6, y(b), 'var(--mute)', 'right');
      else if (b)
        this.text(label, p.right, y(b) - 7, 'var(--ink)', 'right');
      g.strokeStyle = colour('var(--line)');
      g.globalAlpha = 0.6;
      g.strokeRect(p.left, Math.round(y(b)) + 0.5, p.right - p.left, 0);
      g.globalAlpha = 1;
    }
    const peak = step.spans[step.peak], x = this.x((peak.from + peak.to) / 2);
    if (x < p.left || x > p.right)
      return;
    g.strokeStyle = colour('var(--ink)');
    g.setLineDash([3, 3]);
    g.strokeRect(x, y(step.bytes[step.peak]) - 8, 0, bottom - y(step.bytes[step.peak]) + 8);
    g.setLineDash([]);
    const right = x > (p.left + p.right) / 2;
    const node = step.view.bands[step.view.bands.length - 1].fixed;
    this.text('peak ' + bytes(step.bytes[step.peak]) + (node && !p.narrow ? ', with the host\'s copy of gathered units' : ''), x + (right ? -5 : 5), y(step.bytes[step.peak]) - 8, 'var(--ink)', right ? 'right' : 'left');
  }

  /* The name of a band stands in it where it is high enough over the width of the name. */
  nameBands(shown, y) {
    const p = this.places, { step, g } = this, at = [];
    for (let x = Math.ceil(p.left); x < p.right - 4; x += 4) {
      const bands = shown[x] < 0 ? [] : bandsAt(step, step.spans[shown[x]]);
      let sum = 0;
      at.push({ x, edges: bands.map(b => [y(sum), y(sum += b)]) });
    }
    step.view.bands.forEach((band, i) => {
      const wide = g.measureText(band.name).width + 12, columns = Math.ceil(wide / 4);
      let best = null;
      for (let k = 0; k + columns <= at.length; k++) {
        let low = Infinity, high = -Infinity;
        for (let c = k; c < k + columns; c++) {
          const edge = at[c].edges[i] || [0, 0];
          low = Math.min(low, edge[0]);
          high = Math.max(high, edge[1]);
        }
        if (low - high >= 14 && (!best || low - high > best.low - best.high + 4))
          best = { x: at[k].x, low, high };
      }
      if (best)
        this.text(band.name, best.x + 6, (best.low + best.high) / 2 + 0.5, inkOn(colour(band.color)));
    });
  }

  drawSelection() {
    const p = this.places, { g, at } = this;
    if (this.drag) {
      g.fillStyle = colour('var(--c-blue)');
      g.globalAlpha = 0.2;
      g.fillRect(Math.min(...this.drag), 18, Math.abs(this.drag[1] - this.drag[0]), p.memory[1] - 18);
      g.globalAlpha = 1;
    }
    if (!at)
      return;
    const x0 = Math.max(p.left, this.x(at.from)), x1 = Math.min(p.right, Math.max(this.x(at.to), this.x(at.from) + 1));
    if (x1 < p.left || x0 > p.right)
      return;
    g.fillStyle = colour('var(--ink)');
    g.globalAlpha = 0.08;
    g.fillRect(x0, 18, x1 - x0, p.memory[1] - 18);
    g.globalAlpha = 1;
    g.strokeStyle = colour('var(--ink)');
    for (const { lane, each, from, to } of p.lanes)
      if (lane.items.includes(at))
        g.strokeRect(x0, from + (at.row || 0) * each, Math.max(x1 - x0, 2), lane.rows ? each - 2 : to - from);
  }

  /* ---- what is where */

  spanAt(t) {
    const { spans } = this.step;
    let a = 0, b = spans.length - 1;
    while (a < b) {
      const m = (a + b) >> 1;
      if (spans[m].to <= t)
        a = m + 1;
      else
        b = m;
    }
    return spans[a];
  }
  /* The collective under the point, where it is on their lanes; the operation of that time elsewhere. */
  find(x, y) {
    const p = this.places;
    if (x < p.left || x > p.right)
      return null;
    for (const { lane, each, from, to } of p.lanes)
      if (lane.rows && y >= from && y < to) {
        const near = item => Math.max(this.x(item.from) - x, x - this.x(item.to), 0), r = Math.floor((y - from) / each);
        const best = lane.items.filter(i => i.row === r).reduce((best, i) => !best || near(i) < near(best) ? i : best, null);
        return best && near(best) < 4 ? best : null;
      }
    return this.spanAt(this.t(x));
  }
}
