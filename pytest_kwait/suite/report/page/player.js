// Plays the recording of a test: a slider over its time, its objects, waits, events and logs at that time.
const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 50];
const THUMB = 20;
const SHOWN_EVENTS = 5;
const SHOWN_LINES = 12;
const TRACK = { label: 18, lane: 10, lanes: 3, ticks: 12 };
// Of one who wants no motion, the time moves on in jumps.
const JUMP = 500;
// While it plays, a change is marked for this time of the viewer.
const MARKED = 700;

function exact(ms) { return `${(ms / 1000).toFixed(3)} s`; }

class Player {
  constructor(open) {
    this.open = open;
    this.speed = 1;
    this.title = h('h2', { id: 'player-title' });
    this.notes = h('p', { class: 'muted' });
    this.track = h('canvas', { 'aria-hidden': 'true' });
    this.slider = h('input', {
      type: 'range', step: '1', 'aria-label': 'Time of the test', autofocus: true,
      'aria-describedby': 'player-keys', oninput: () => this.seek(Number(this.slider.value)),
      onchange: () => this.link(),
    });
    this.time = h('p', { class: 'num' });
    this.status = h('p', { role: 'status', class: 'moment' });
    // Narrow pages show the glyphs alone.
    const word = (text) => h('span', { class: 'word' }, text);
    const button = (title, key, action, ...content) => h('button', {
      type: 'button', title: `${title} (${key})`, 'aria-label': title, 'aria-keyshortcuts': key, onclick: action,
    }, content);
    this.toggle = button('Play', 'Space', () => this.playOrPause(), '▶', word(' Play'));
    this.fail = button('Go to the failure', 'f', () => this.go(this.playback.failure.at), '✕', word(' Failure'));
    const speed = h('select', { 'aria-label': 'Speed', onchange: (event) => { this.speed = Number(event.target.value); } },
      SPEEDS.map((each) => h('option', { value: each, selected: each === 1 }, `${each}×`)));
    this.failure = h('div', {});
    this.objects = h('div', {});
    this.waits = h('div', {});
    this.events = h('div', {});
    this.logs = h('div', {});
    this.content = h('div', { class: 'scene', onfocusin: () => this.pause() },
      h('section', { class: 'objects', 'aria-labelledby': 'player-objects' },
        h('h3', { id: 'player-objects' }, 'Objects'), this.objects),
      h('div', { class: 'beside' }, this.failure,
        h('section', { 'aria-labelledby': 'player-waits' }, h('h3', { id: 'player-waits' }, 'Waits'), this.waits),
        h('section', { 'aria-labelledby': 'player-events' }, h('h3', { id: 'player-events' }, 'Warning events'), this.events),
        h('section', { 'aria-labelledby': 'player-logs' }, h('h3', { id: 'player-logs' }, 'Logs'), this.logs)));
    this.element = h('dialog', {
      class: 'detail player', 'aria-labelledby': 'player-title',
      onclose: () => this.closed(),
      onclick: (event) => { if (event.target === this.element) this.element.close(); },
      onkeydown: (event) => this.key(event),
    }, h('div', { class: 'bar' }, h('span', { class: 'muted grow' }, 'Recording'),
      h('button', { type: 'button', class: 'close', onclick: () => this.element.close() }, 'Close ', h('kbd', {}, 'Esc'))),
    this.title, this.notes,
    h('div', { class: 'transport' }, this.track, this.slider,
      h('div', { class: 'buttons' }, this.toggle,
        button('Previous change', 'p', () => this.step(-1), '‹', word(' Change')),
        button('Next change', 'n', () => this.step(1), word('Change '), '›'),
        this.fail, speed, this.time), this.status),
    h('p', { class: 'muted keys', id: 'player-keys' }, 'Arrow keys, Home and End move the time, ', h('kbd', {}, 'Space'),
      ' plays, ', h('kbd', {}, 'n'), ' and ', h('kbd', {}, 'p'), ' go to the next and previous change.'),
    this.content);
    this.track.addEventListener('pointerdown', (event) => {
      this.track.setPointerCapture(event.pointerId);
      this.grab(event);
    });
    this.track.addEventListener('pointermove', (event) => { if (event.buttons) this.grab(event); });
    this.track.addEventListener('pointerup', () => this.link());
    new ResizeObserver(() => this.draw()).observe(this.track);
  }

  show(playback, time) {
    this.pause();
    this.playback = playback;
    const { failure } = playback;
    if (!this.element.open) this.before = location.hash.startsWith('#play-') ? '' : location.hash;
    // It plays from the start unless a time is chosen.
    this.chosen = time !== undefined;
    this.title.replaceChildren(badge(playback.outcome), ' ', testName(playback.test.name));
    const replayed = replay(playback.test);
    this.notes.replaceChildren(...[
      playback.leftOut.changes && `The first ${duration(playback.begin)}, with ${counted(playback.leftOut.changes, 'change', 'changes')}, are left out here. `,
      replayed && 'In full, with kubectl: ', replayed].filter(Boolean));
    this.slider.min = playback.begin;
    this.slider.max = playback.end;
    this.fail.hidden = !failure;
    this.lanes = this.layWaits();
    this.widths = new Map(playback.kinds.map((kind) => [kind, this.columnWidths(kind)]));
    this.shown = {};
    if (!this.element.open) this.element.showModal();
    this.element.scrollTop = 0;
    this.slider.focus();
    this.seek(time === undefined ? (failure ? failure.at : playback.end) : time, this.chosen);
    this.link();
  }

  closed() {
    this.pause();
    // The event of closing comes late: something else may be shown by then.
    if (location.hash.startsWith('#play-')) setHash(this.before);
  }

  link() {
    const at = this.chosen ? `@${this.now / 1000}` : '';
    setHash(`#play-${this.playback.index}${at}`);
  }

  // In as many lanes as there are waits at a time.
  layWaits() {
    const ends = [];
    return this.playback.waits.map((each) => {
      let lane = ends.findIndex((end) => end <= each.start);
      if (lane < 0) lane = Math.min(ends.length, TRACK.lanes - 1);
      ends[lane] = Math.max(ends[lane] || 0, each.end);
      return { ...each, lane };
    });
  }

  // The widths of a table's columns in percent, the same at each time.
  columnWidths(kind) {
    const { objects, changes, rows } = this.playback;
    const long = [7, ...kind.columns.map((head) => head.length + 2), 10];
    const grow = (at, text) => { long[at] = Math.max(long[at], Math.min(text.length, 28)); };
    for (const { object, row } of changes) {
      if (objects[object].kind !== kind) continue;
      grow(0, objects[object].name);
      if (row !== GONE) rows[row].forEach((cell, at) => grow(at + 1, cell));
    }
    const all = long.reduce((sum, each) => sum + each + 2, 0);
    return long.map((each) => ((each + 2) / all) * 100);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const within = event.target.closest('button, select');
    const least = (this.playback.end - this.playback.begin) / 200;
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4].find((each) => each >= least) || 12e4;
    const moves = {
      ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step,
      PageUp: step * 20, PageDown: -step * 20, Home: -Infinity, End: Infinity,
    };
    const actions = {
      ' ': () => this.playOrPause(), n: () => this.step(1), p: () => this.step(-1),
      f: () => this.playback.failure && this.go(this.playback.failure.at),
    };
    if (event.key === ' ' ? within : event.key in moves && event.target !== this.slider) return;
    const action = event.key in moves ? () => this.go(this.now + moves[event.key]) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  step(by) {
    const at = by > 0 ? this.playback.next(this.now) : this.playback.previous(this.now);
    this.go(at === undefined ? (by > 0 ? this.playback.end : this.playback.begin) : at);
  }

  go(time) {
    this.pause();
    this.seek(time);
    this.link();
  }

  grab(event) {
    const room = Math.max(this.track.clientWidth - THUMB, 1);
    const part = (event.offsetX - THUMB / 2) / room;
    this.pause();
    this.seek(Math.round(this.playback.begin + part * (this.playback.end - this.playback.begin)));
  }

  playOrPause() {
    if (this.playing) { this.pause(); this.link(); return; }
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.playing = true;
    this.status.setAttribute('aria-live', 'off');
    this.label('‖', 'Pause');
    if (!this.chosen || this.now >= this.playback.end) this.seek(this.playback.begin);
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      this.seek(this.now + (now - last) * this.speed);
      last = now;
      if (this.now >= this.playback.end) { this.pause(); this.link(); }
    };
    if (calm) this.timer = setInterval(tick, JUMP);
    else {
      const frame = () => { tick(); if (this.playing) this.frame = requestAnimationFrame(frame); };
      this.frame = requestAnimationFrame(frame);
    }
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    clearInterval(this.timer);
    cancelAnimationFrame(this.frame);
    this.label('▶', 'Play');
    this.seek(Math.round(this.now));
    this.status.removeAttribute('aria-live');
    this.speak();
  }

  label(glyph, name) {
    this.toggle.firstChild.replaceWith(glyph);
    this.toggle.lastChild.textContent = ` ${name}`;
    this.toggle.title = `${name} (Space)`;
    this.toggle.setAttribute('aria-label', name);
  }

  seek(time, chosen = true) {
    const { playback } = this;
    this.chosen = chosen;
    this.now = Math.min(Math.max(time, playback.begin), playback.end);
    this.slider.value = this.now;
    if (!this.playing) this.speak();
    this.time.replaceChildren(`${exact(this.now)} of ${exact(playback.end)}`,
      h('span', { class: 'muted' }, ` · ${clockTime(playback.offset + this.now, 23)} UTC`));
    const focused = this.content.contains(document.activeElement);
    this.render();
    if (focused && !this.content.contains(document.activeElement)) this.slider.focus();
    this.draw();
  }

  speak() {
    const { failure, end } = this.playback;
    const seconds = (ms) => `${Number((ms / 1000).toFixed(3))}`;
    this.slider.setAttribute('aria-valuetext', `${seconds(this.now)} of ${seconds(end)} seconds${
      failure && failure.at === Math.round(this.now) ? ', the failure' : ''}`);
  }

  // Only what changed is made anew.
  put(name, holder, key, make) {
    if (this.shown[name] === key) return;
    this.shown[name] = key;
    holder.replaceChildren(...make().filter(Boolean));
  }

  render() {
    const { playback, now } = this;
    const since = this.playing ? now - MARKED * this.speed : Infinity;
    const state = playback.at(now, since);
    const marked = [...state.objects].filter(([, each]) => each.marked).sort(([, a], [, b]) => b.at - a.at);
    const key = `${state.last} ${marked.map(([number, each]) => `${number}@${each.at}`)}`;
    this.put('objects', this.objects, key, () => this.tables(state.objects));
    const { failure } = playback;
    const failed = failure && failure.at <= now;
    const step = playback.steps.findLast((each) => each.at <= now);
    const past = marked.length && !this.playing ? now - state.last : 0;
    this.put('moment', this.status, `${key} ${past} ${step && step.at} ${failed}`, () => [
      failed && h('b', { class: 'trouble' }, `✕ failure in ${failure.phase} · `),
      step && h('span', { class: 'muted' }, `step ${step.name} · `),
      !marked.length ? 'nothing has changed yet' : [
        past > 0 && `${exact(past)} ago: `,
        marked.slice(0, 3).map(([number, each]) => playback.describe(number, each)).join('; '),
        marked.length > 3 && `; and ${marked.length - 3} more`].filter(Boolean).join(''),
    ]);
    this.put('failure', this.failure, failed, () => [failed && h('p', { class: 'headline failed-early' },
      `✕ failure in ${failure.phase} at ${exact(failure.at)}: ${failure.text}`)]);
    const running = this.lanes.filter((each) => each.start <= now && now <= each.end);
    const ended = running.length ? null : this.lanes.filter((each) => each.end < now).sort((a, b) => a.end - b.end).pop();
    const waiting = running.length ? running : [ended].filter(Boolean);
    const verdicts = waiting.map((each) => this.verdict(each));
    this.put('waits', this.waits, waiting.map((each, at) => `${each.wait.index} ${verdicts[at].at} ${each.end <= now}`).join(), () => [
      waiting.length ? h('ul', { class: 'plain' }, waiting.map((each, at) => this.wait(each, verdicts[at])))
        : h('p', { class: 'muted' }, 'No wait has begun.')]);
    const events = playback.events.filter((each) => each.at <= now);
    this.put('events', this.events, events.length, () => this.listEvents(events));
    const lines = playback.logs.filter((each) => each.at <= now);
    this.put('logs', this.logs, lines.length, () => this.listLines(lines));
  }

  tables(objects) {
    const { playback } = this;
    const made = playback.kinds.map((kind) => {
      const found = playback.objects.map((object, number) => ({ object, state: objects.get(number) }))
        .filter(({ object, state }) => object.kind === kind && state);
      if (!found.length) return null;
      const [name, group] = kind.resource.split(/\.(.*)/);
      return h('table', { role: 'table' },
        h('caption', {}, h('b', {}, name), group && h('span', { class: 'muted' }, `.${group}`),
          kind.leftOut > 0 && h('span', { class: 'muted' }, ` - and ${kind.leftOut.toLocaleString('en')} more, left out: their states are less rare`)),
        h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ['Name', ...kind.columns, 'Change'].map((head, at) => {
          const cell = h('th', { scope: 'col', role: 'columnheader' }, head);
          cell.style.width = `${this.widths.get(kind)[at]}%`;
          return cell;
        }))),
        h('tbody', { role: 'rowgroup' }, found.map(({ object, state }) => this.row(object, state))));
    });
    return made.some(Boolean) ? made : [h('p', { class: 'muted' }, 'There is none.')];
  }

  row({ kind, name }, state) {
    const { rows } = this.playback;
    const gone = state.row === GONE;
    const cells = rows[gone ? state.before : state.row] || [];
    const before = state.marked && !gone && state.before !== GONE ? rows[state.before] : null;
    const mark = !state.marked ? '' : gone ? '✕ deleted' : before ? '● changed' : '+ new';
    return h('tr', { role: 'row', class: [mark && 'marked', gone && 'gone'].filter(Boolean).join(' ') },
      h('th', { scope: 'row', role: 'rowheader' }, name),
      kind.columns.map((head, at) => h('td', { role: 'cell', 'data-head': head, class: cells[at] ? null : 'empty' },
        before && before[at] !== cells[at] ? [h('s', {}, before[at]), ' → ', h('b', {}, cells[at])] : cells[at] || '')),
      h('td', { role: 'cell', class: mark ? 'mark' : 'mark empty' }, mark));
  }

  verdict(each) {
    return each.wait.changes.findLast((change) => each.start + change.at <= this.now) || { at: GONE, text: 'nothing seen yet' };
  }

  wait(each, verdict) {
    const over = each.end <= this.now;
    return h('li', {}, h('button', { type: 'button', class: 'entry', onclick: () => {
      this.element.close();
      this.open(each.wait, this.playback.test.waits);
    } }, over ? waitBadge(each.wait) : h('span', { class: 'badge cut' }, '… running'),
    h('span', {}, awaited(each.wait)),
    h('span', { class: 'verdict' }, verdict.text),
    h('span', { class: 'muted num' }, over ? `ended at ${exact(each.end)}` : `since ${exact(Math.max(each.start, 0))}`)));
  }

  listEvents(events) {
    const rest = events.length - SHOWN_EVENTS + (this.playback.leftOut.events || 0);
    if (!events.length) return [h('p', { class: 'muted' }, 'None yet.')];
    return [h('ul', { class: 'plain' }, events.slice(-SHOWN_EVENTS).reverse().map((event) => h('li', {},
      h('span', { class: 'num muted' }, `${exact(event.at)} `), h('b', {}, event.reason),
      event.count > 1 && h('span', { class: 'muted' }, ` ×${event.count}`), ' ', h('code', {}, event.subject), `: ${event.message}`))),
    rest > 0 && h('p', { class: 'muted' }, `and ${rest} before`)];
  }

  listLines(lines) {
    if (!lines.length) return [h('p', { class: 'muted' }, 'No line yet.')];
    const rest = lines.length - SHOWN_LINES + (this.playback.leftOut.logs || 0);
    return [rest > 0 && h('p', { class: 'muted' }, `${counted(rest, 'line', 'lines')} before`),
      h('ol', { class: 'plain lines' }, lines.slice(-SHOWN_LINES).map((line) => h('li', {},
        h('span', { class: 'muted' }, `${exact(line.at)} ${line.source} `), line.text)))];
  }

  x(ms) {
    const { begin, end } = this.playback;
    return THUMB / 2 + ((ms - begin) / (end - begin)) * (this.width - THUMB);
  }

  // Steps, waits and changes above the slider; the lists below say the same.
  draw() {
    this.width = this.track.clientWidth;
    if (!this.width || !this.playback) return;
    const { playback } = this;
    const lanes = Math.max(...this.lanes.map((each) => each.lane + 1), 1);
    const height = TRACK.label + lanes * TRACK.lane + TRACK.ticks;
    const ratio = window.devicePixelRatio || 1;
    this.track.style.height = `${height}px`;
    this.track.width = Math.round(this.width * ratio);
    this.track.height = Math.round(height * ratio);
    const pen = this.track.getContext('2d');
    pen.scale(ratio, ratio);
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    const line = (at, top, bottom, colour, width = 1) => {
      pen.fillStyle = colours[colour];
      pen.fillRect(Math.round(this.x(at) - width / 2), top, width, bottom - top);
    };
    for (const { wait, start, end, lane } of this.lanes) {
      const left = this.x(Math.max(start, playback.begin));
      const inset = wait.bad ? 0 : 2;
      pen.fillStyle = colours[waitStyle(wait)];
      pen.fillRect(left, TRACK.label + lane * TRACK.lane + inset,
        Math.max(this.x(Math.min(end, playback.end)) - left - 1, 2), TRACK.lane - 2 - 2 * inset);
    }
    const bottom = height - TRACK.ticks;
    for (const at of new Set(playback.moments.map((each) => Math.round(this.x(each))))) {
      pen.fillStyle = colours.muted;
      pen.fillRect(at, bottom + 2, 1, TRACK.ticks - 4);
    }
    const room = playback.failure ? this.x(playback.failure.at) - 10 : this.width;
    playback.steps.forEach((step, number) => {
      line(step.at, 2, bottom, 'muted');
      const next = playback.steps[number + 1];
      const left = this.x(step.at) + 4;
      pen.save();
      pen.beginPath();
      pen.rect(left, 0, Math.max(Math.min(next ? this.x(next.at) - 4 : this.width, room) - left, 0), TRACK.label);
      pen.clip();
      pen.fillStyle = colours.muted;
      pen.fillText(step.name, left, TRACK.label / 2);
      pen.restore();
    });
    if (playback.failure) {
      line(playback.failure.at, TRACK.label - 4, height, 'failed-early', 2);
      pen.fillStyle = colours['failed-early-ink'];
      pen.textAlign = 'center';
      pen.fillText('✕', this.x(playback.failure.at), TRACK.label / 2);
    }
    line(this.now, TRACK.label - 4, height, 'focus', 2);
  }
}
