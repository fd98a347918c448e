// Every wait as a bar in the lane of its worker, and every step as a band in the lane below.
// The table of waits has the same as text.
const BAR = 12;
const BAND = 18;
const AXIS = 24;
const LANE_GAP = 8;
const DEEPEST = 4;

function lanesOf(aligned) {
  const lanes = new Map();
  for (const wait of waits) {
    const key = `${wait.run}\n${wait.worker}`;
    if (!lanes.has(key)) lanes.set(key, { run: wait.run, worker: wait.worker, rows: [], bars: [] });
    const lane = lanes.get(key);
    const run = runs[wait.run];
    const start = wait.start - (aligned && run ? (run.started - raw.base) * 1000 : 0);
    // What goes on at the same time lies below each other.
    let row = lane.rows.findIndex((end) => end <= start);
    if (row < 0) row = lane.rows.length < DEEPEST ? lane.rows.length : DEEPEST - 1;
    lane.rows[row] = Math.max(lane.rows[row] || 0, start + wait.ms);
    lane.bars.push({ wait, start, end: start + wait.ms, row, bad: wait.bad });
  }
  for (const step of steps) {
    const key = `${step.run}\n${step.worker}\nsteps`;
    if (!lanes.has(key)) lanes.set(key, { run: step.run, worker: step.worker, steps: true, rows: [], bars: [] });
    const lane = lanes.get(key);
    const run = runs[step.run];
    const shift = aligned && run ? (run.started - raw.base) * 1000 : 0;
    const row = Math.min(step.depth, DEEPEST - 1);
    while (lane.rows.length <= row) lane.rows.push(0);
    const { start, end, bad } = step;
    lane.bars.push({ step, start: start - shift, end: end - shift, row, bad });
  }
  const sorted = [...lanes.values()].sort((a, b) => a.run - b.run
    || a.worker.localeCompare(b.worker, 'en', { numeric: true }) || Boolean(a.steps) - Boolean(b.steps));
  let top = AXIS;
  for (const lane of sorted) {
    const run = runs[lane.run];
    const who = runs.length > 1 ? (run && (run.shard || run.name)) || '?' : '';
    const worker = lane.worker || (who ? '' : 'waits');
    lane.label = lane.steps && !lane.worker ? [who, 'steps'].filter(Boolean).join(' ')
      : [who, worker, lane.steps && 'steps'].filter(Boolean).join(' ');
    lane.top = top;
    lane.rise = lane.steps ? BAND : BAR;
    lane.height = lane.rows.length * (lane.rise + 2) + LANE_GAP;
    top += lane.height;
  }
  return { lanes: sorted, height: top + 4 };
}

// Of a step, the wait that tells most of it.
function waitOf(bar) {
  return bar.wait || bar.step.waits.find((wait) => wait.bad) || bar.step.waits[0];
}

class Timeline {
  constructor(open) {
    this.open = open;
    this.aligned = false;
    this.current = null;
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.tip = h('div', { class: 'tip', 'aria-hidden': 'true', hidden: true });
    this.spoken = h('p', { class: 'hidden', 'aria-live': 'polite', id: 'timeline-spoken' });
    this.box = h('div', {
      class: 'timeline', tabindex: '0', role: 'application', id: 'timeline',
      'aria-label': 'Timeline of waits. Arrow keys go from wait to wait and from lane to lane, '
        + 'Enter opens one, plus and minus zoom. Steps of tests are lanes of their own. The table of waits below has the same as text.',
      onkeydown: (event) => this.key(event),
      onfocus: () => { if (!this.current && this.lanes.length) this.go(0, 0); },
      onblur: () => this.rest(),
    }, this.canvas, this.tip);
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => this.rest());
    this.canvas.addEventListener('pointerdown', (event) => this.grab(event));
    this.canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    const button = (label, text, action) => h('button', {
      type: 'button', 'aria-label': label, title: label, onclick: action,
    }, text);
    this.controls = h('div', { class: 'controls' },
      button('Zoom in', '+', () => this.zoom(0.5)),
      button('Zoom out', '−', () => this.zoom(2)),
      button('Show the whole run', 'All', () => this.whole()),
      runs.length > 1 && h('label', { class: 'check' },
        h('input', { type: 'checkbox', onchange: (event) => this.align(event.target.checked) }),
        ' start runs together'));
    this.align(false);
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  align(aligned) {
    this.aligned = aligned;
    Object.assign(this, lanesOf(aligned));
    const bars = this.lanes.flatMap((lane) => lane.bars);
    this.first = bars.reduce((least, bar) => Math.min(least, bar.start), Infinity);
    this.last = bars.reduce((most, bar) => Math.max(most, bar.end), -Infinity);
    if (!bars.length) { this.first = 0; this.last = 1; }
    this.current = null;
    this.whole();
  }

  whole() {
    const margin = Math.max((this.last - this.first) * 0.01, 1);
    this.from = this.first - margin;
    this.to = this.last + margin;
    this.draw();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    const width = Math.min(Math.max((this.to - this.from) * factor, 5), (this.last - this.first) * 1.1 + 2);
    const part = (around - this.from) / (this.to - this.from);
    this.from = around - width * part;
    this.to = this.from + width;
    this.draw();
  }

  x(ms) { return this.gutter + ((ms - this.from) / (this.to - this.from)) * (this.width - this.gutter); }
  time(x) { return this.from + ((x - this.gutter) / (this.width - this.gutter)) * (this.to - this.from); }

  draw() {
    this.width = this.box.clientWidth;
    if (!this.width) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    const pen = this.canvas.getContext('2d');
    pen.scale(ratio, ratio);
    pen.font = '12px system-ui, sans-serif';
    const widest = Math.max(...this.lanes.map((lane) => pen.measureText(lane.label).width), 30);
    this.gutter = Math.min(widest + 16, this.width * 0.3);
    this.ticks(pen);
    this.lanes.forEach((lane, number) => {
      if (number % 2 === 0) {
        pen.fillStyle = colours.lane;
        pen.fillRect(0, lane.top, this.width, lane.height);
      }
    });
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, 0, this.width - this.gutter, this.height);
    pen.clip();
    // What did not come true is drawn last, so that nothing hides it.
    for (const bad of [false, true]) {
      for (const lane of this.lanes) {
        for (const bar of lane.bars) if (bar.bad === bad) this.bar(pen, lane, bar);
      }
    }
    if (this.current) this.bar(pen, this.current.lane, this.current.bar, true);
    pen.restore();
    pen.fillStyle = colours.ink;
    pen.textBaseline = 'middle';
    for (const lane of this.lanes) {
      pen.fillText(lane.label, 8, lane.top + lane.height / 2, this.gutter - 12);
    }
  }

  bar(pen, lane, bar, marked = false) {
    if (bar.end < this.from || bar.start > this.to) return;
    const x = this.x(bar.start);
    const least = bar.bad ? 3 : 1.5;
    const width = Math.max(this.x(bar.end) - x - 0.5, least);
    const y = lane.top + LANE_GAP / 2 + bar.row * (lane.rise + 2);
    if (bar.step) {
      this.band(pen, bar, x, y, width);
      if (marked) this.frame(pen, x, y, width, lane.rise);
      return;
    }
    pen.fillStyle = colours[waitStyle(bar.wait)];
    pen.globalAlpha = bar.bad || marked ? 1 : 0.75;
    // Without colours, too, one sees what did not come true: it is taller.
    const inset = bar.bad ? 0 : 3;
    pen.fillRect(x, y + inset, width, BAR - 2 * inset);
    pen.globalAlpha = 1;
    if (marked) this.frame(pen, x, y, width, lane.rise);
  }

  frame(pen, x, y, width, height) {
    pen.strokeStyle = colours.focus;
    pen.lineWidth = 2;
    pen.strokeRect(x - 2, y - 1, width + 4, height + 2);
  }

  band(pen, bar, x, y, width) {
    pen.fillStyle = colours[bar.bad ? 'failed-early-back' : 'cut-back'];
    pen.fillRect(x, y, width, BAND);
    pen.fillStyle = colours[bar.bad ? 'failed-early' : 'cut'];
    pen.fillRect(x, y, Math.min(width, 3), BAND);
    // The name stays in sight while a part of the band is.
    const left = Math.max(x, this.gutter) + 7;
    const room = x + width - left - 4;
    if (room < 20) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, y, room, BAND);
    pen.clip();
    pen.fillStyle = colours[bar.bad ? 'failed-early-ink' : 'ink'];
    pen.textBaseline = 'middle';
    pen.fillText(`${bar.bad ? '✕ ' : ''}${bar.step.name}`, left, y + BAND / 2 + 1);
    pen.restore();
  }

  ticks(pen) {
    const wanted = (this.to - this.from) / Math.max((this.width - this.gutter) / 90, 1);
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4,
      3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 864e5];
    const step = steps.find((each) => each >= wanted) || Math.ceil(wanted / 864e5) * 864e5;
    const offset = this.aligned ? 0 : (raw.base * 1000) % step;
    pen.textBaseline = 'middle';
    for (let at = Math.ceil((this.from + offset) / step) * step - offset; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      pen.strokeStyle = colours.line;
      pen.beginPath();
      pen.moveTo(x, AXIS - 4);
      pen.lineTo(x, this.height);
      pen.stroke();
      const text = this.aligned ? duration(Math.max(at, 0)) : clockTime(at, step < 1000 ? 23 : step < 6e4 ? 19 : 16);
      pen.fillStyle = colours.muted;
      if (x + 4 + pen.measureText(text).width < this.width) pen.fillText(text, x + 4, AXIS / 2);
    }
  }

  find(x, y) {
    const lane = this.lanes.find((each) => y >= each.top && y < each.top + each.height);
    if (!lane || x < this.gutter) return null;
    let best = null;
    for (const bar of lane.bars) {
      const left = this.x(bar.start);
      const right = Math.max(this.x(bar.end), left + 2);
      const top = lane.top + LANE_GAP / 2 + bar.row * (lane.rise + 2);
      const away = Math.max(left - x, x - right, 0) + Math.max(top - y, y - top - lane.rise, 0);
      // Of what lies on top of each other, the one that is seen.
      const rank = away - (bar.bad ? 0.5 : 0);
      if (away <= 5 && (!best || rank < best.rank)) best = { lane, bar, rank };
    }
    return best;
  }

  hover(event) {
    if (this.dragged) { this.drag(event); return; }
    const found = this.find(event.offsetX, event.offsetY);
    this.canvas.style.cursor = found ? 'pointer' : 'default';
    if ((found && found.bar) === (this.current && this.current.bar)) return;
    this.mark(found);
  }

  grab(event) {
    this.dragged = { x: event.offsetX, from: this.from, to: this.to, moved: false };
    const drop = () => {
      window.removeEventListener('pointerup', drop);
      window.removeEventListener('pointercancel', drop);
      const moved = this.dragged && this.dragged.moved;
      this.dragged = null;
      const found = moved ? null : this.find(event.offsetX, event.offsetY);
      if (found) { this.mark(found); this.open(waitOf(found.bar)); }
    };
    window.addEventListener('pointerup', drop);
    window.addEventListener('pointercancel', drop);
  }

  drag(event) {
    const by = this.dragged.x - event.offsetX;
    if (Math.abs(by) > 4) this.dragged.moved = true;
    if (!this.dragged.moved) return;
    const ms = (by / (this.width - this.gutter)) * (this.dragged.to - this.dragged.from);
    this.from = this.dragged.from + ms;
    this.to = this.dragged.to + ms;
    this.draw();
  }

  wheel(event) {
    // Without a key the wheel scrolls the page.
    if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return;
    event.preventDefault();
    const turn = event.deltaY || event.deltaX;
    this.zoom(turn > 0 ? 1.25 : 0.8, this.time(event.offsetX));
  }

  key(event) {
    const lane = this.current ? this.lanes.indexOf(this.current.lane) : 0;
    const bar = this.current ? this.current.lane.bars.indexOf(this.current.bar) : -1;
    const actions = {
      ArrowRight: () => this.go(lane, bar + 1),
      ArrowLeft: () => this.go(lane, bar - 1),
      ArrowDown: () => this.beside(lane + 1),
      ArrowUp: () => this.beside(lane - 1),
      Home: () => this.go(lane, 0),
      End: () => this.go(lane, Infinity),
      '+': () => this.zoom(0.5),
      '=': () => this.zoom(0.5),
      '-': () => this.zoom(2),
      0: () => this.whole(),
      Enter: () => this.current && this.open(waitOf(this.current.bar)),
      ' ': () => this.current && this.open(waitOf(this.current.bar)),
      Escape: () => this.rest(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  beside(number) {
    const lane = this.lanes[number];
    if (!lane) return;
    const start = this.current ? this.current.bar.start : 0;
    const nearest = lane.bars.reduce((best, bar) => (
      Math.abs(bar.start - start) < Math.abs(best.start - start) ? bar : best));
    this.go(number, lane.bars.indexOf(nearest));
  }

  go(number, index) {
    const lane = this.lanes[number];
    if (!lane) return;
    const bar = lane.bars[Math.min(Math.max(index, 0), lane.bars.length - 1)];
    const width = this.to - this.from;
    if (bar.start < this.from || bar.start > this.to) {
      this.from = bar.start - width / 2;
      this.to = this.from + width;
    }
    this.mark({ lane, bar });
    const { wait, step } = bar;
    if (step) {
      this.spoken.textContent = `${lane.label}: ${step.path}, ${counted(step.waits.length, 'wait', 'waits')} in `
        + `${duration(bar.end - bar.start)}${step.bad ? ', not all met' : ''}. ${step.test}`;
      return;
    }
    this.spoken.textContent = `${lane.label}: ${wait.subject} to ${wait.goal}, ${wait.outcome} after `
      + `${duration(wait.ms)}. ${wait.headline || seen(wait)}`;
  }

  rest() { this.mark(null); }

  mark(found) {
    this.current = found;
    this.tip.hidden = !found;
    this.draw();
    if (!found) return;
    const { wait, step } = found.bar;
    if (step) {
      this.tip.replaceChildren(
        h('div', {}, h('b', {}, step.path)),
        h('div', { class: 'muted' }, `${counted(step.waits.length, 'wait', 'waits')} in ${duration(step.end - step.start)}`
          + `${step.bad ? ', not all met' : ''}`),
        h('div', { class: 'muted' }, step.test));
    } else this.tip.replaceChildren(
      h('div', {}, waitBadge(wait), ` after ${duration(wait.ms)}`),
      h('div', {}, awaited(wait)),
      h('div', { class: 'muted' }, `seen: ${seen(wait)}`),
      wait.test && h('div', { class: 'muted' }, wait.test));
    const x = Math.min(Math.max(this.x(found.bar.start), this.gutter), this.width - 40);
    const left = Math.min(x, Math.max(this.width - this.tip.offsetWidth - 8, 0));
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${found.lane.top + found.lane.height + 4}px`;
  }
}
