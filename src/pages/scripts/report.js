/* report.js - charts that C has drawn as SVG: a box shows the data point nearest to the pointer, or the one that
 * the arrow keys have reached. */
document.querySelectorAll('.chart').forEach(chart => {
  const data = JSON.parse(chart.querySelector('script').textContent);
  const tip = chart.appendChild(document.createElement('div'));
  tip.className = 'tip';
  const near = (at, x) => at.reduce((best, p) => Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best, at[0]);
  const value = v => v === null ? 'none' : data.percent ? (100 * v).toFixed(2) + ' %' : String(+v.toPrecision(5));
  function memory(x) {
    const row = data.at[Math.max(0, Math.min(data.at.length - 1, Math.floor(x)))];
    const lines = data.names.map((n, i) => row[i + 1] > 0 ? n + '  ' + row[i + 1].toFixed(2) + ' MiB' : '').filter(l => l);
    const sum = row.slice(1).reduce((a, b) => a + b, 0);
    return [row[0], ...lines, 'total  ' + sum.toFixed(2) + ' MiB'].join('\n');
  }
  function curves(x) {
    return data.series.filter(s => s.at.length).map(s => {
      const p = near(s.at, x);
      return s.name + '  ' + value(p[1]) + '  (' + data.x + ' ' + p[0] + ')';
    }).join('\n');
  }
  chart.querySelectorAll(':scope>svg').forEach(svg => {
    const cursor = svg.querySelector('.cursor');
    const left = +svg.dataset.left, right = +svg.dataset.right, x0 = +svg.dataset.x0, x1 = +svg.dataset.x1;
    let place = 0; /* 0 is the left end of the axis, 1 the right end */
    const hide = () => { cursor.style.visibility = tip.style.visibility = 'hidden'; };
    const show = () => {
      const box = svg.getBoundingClientRect(), u = left + place * (right - left);
      const at = u / svg.viewBox.baseVal.width * box.width;
      cursor.setAttribute('x1', u);
      cursor.setAttribute('x2', u);
      cursor.style.visibility = tip.style.visibility = 'visible';
      const x = x0 + place * (x1 - x0);
      tip.textContent = data.memory ? memory(x) : curves(x);
      tip.style.top = '18px';
      tip.style.right = at > box.width / 2 ? box.width - at + 26 + 'px' : 'auto';
      tip.style.left = at > box.width / 2 ? 'auto' : at + 26 + 'px';
    };
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('pointermove', e => {
      const box = svg.getBoundingClientRect();
      place = ((e.clientX - box.left) / box.width * svg.viewBox.baseVal.width - left) / (right - left);
      return place < 0 || place > 1 ? hide() : show();
    });
    svg.tabIndex = 0;
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', e => {
      const by = { ArrowLeft: -0.01, ArrowRight: 0.01, Home: -1, End: 1 }[e.key];
      if (by === undefined)
        return;
      e.preventDefault();
      place = Math.max(0, Math.min(1, place + by));
      show();
    });
  });
});
