// The playback of a recording: what there was at each time of a test. All times are milliseconds of the test.
const GONE = -1;

class Playback {
  constructor(test, index, outcome, data) {
    const ms = (seconds) => Math.round(seconds * 1000);
    Object.assign(this, { test, index, outcome });
    this.begin = ms(data.begin || 0);
    this.end = Math.max(ms(data.end), this.begin + 1);
    // The page counts from the start of the first run.
    this.offset = ms(data.started - raw.base);
    this.kinds = (data.kinds || []).map((kind) => ({
      resource: kind.resource, columns: kind.columns || [], leftOut: kind.left_out || 0,
    }));
    this.objects = (data.objects || []).map(([kind, name]) => ({ kind: this.kinds[kind], name }));
    this.rows = data.rows || [];
    this.changes = (data.changes || []).map(([at, object, row]) => ({ at: ms(at), object, row }));
    this.events = (data.events || []).map(([at, subject, reason, count, message]) => (
      { at: ms(at), subject, reason, count, message }));
    this.logs = (data.logs || []).map(([at, source, text]) => ({ at: ms(at), source, text }));
    this.steps = (data.steps || []).map(([at, name]) => ({ at: ms(at), name }));
    this.failure = data.failure ? { at: ms(data.failure[0]), phase: data.failure[1], text: data.failure[2] } : null;
    this.leftOut = data.left_out || {};
    const times = [...this.changes, ...this.events, ...this.steps, this.failure].filter(Boolean).map((each) => each.at);
    this.moments = [...new Set(times)].filter((at) => at > this.begin && at <= this.end).sort((a, b) => a - b);
  }

  // Those of the other attempts at the test are at other times.
  get waits() {
    return this.test.waits.filter((wait) => !wait.inner
      && wait.start + wait.ms >= this.offset && wait.start <= this.offset + this.end)
      .map((wait) => ({ wait, start: wait.start - this.offset, end: wait.start - this.offset + wait.ms }));
  }

  covers(wait) {
    return wait.start >= this.offset && wait.start <= this.offset + this.end;
  }

  next(time) { return this.moments.find((at) => at > time); }
  previous(time) { return this.moments.findLast((at) => at < time); }

  // Objects by number, each with its row, the row before and the time of the last change.
  // Those that changed in the last moment, or since `since`, are marked.
  at(time, since = Infinity) {
    const objects = new Map();
    let last = -Infinity;
    for (const change of this.changes) {
      if (change.at > time) break;
      const known = objects.get(change.object);
      objects.set(change.object, { row: change.row, at: change.at, before: known ? known.row : GONE });
      if (change.at > this.begin) last = change.at;
    }
    const from = Math.min(last, since);
    for (const [number, object] of objects) {
      object.marked = object.at >= from && object.at > this.begin;
      if (object.row === GONE && !object.marked) objects.delete(number);
    }
    return { objects, last };
  }

  // How an object changed, in words.
  describe(number, state) {
    const { kind, name } = this.objects[number];
    const title = `${kind.resource.split('.')[0]}/${name}`;
    if (state.row === GONE) return `${title} deleted`;
    const cell = (row, at) => this.rows[row][at] || '';
    if (state.before === GONE) {
      const cells = kind.columns.map((head, at) => cell(state.row, at) && `${head} ${cell(state.row, at)}`).filter(Boolean);
      return `${title} new${cells.length ? `: ${cells.join(', ')}` : ''}`;
    }
    const changed = kind.columns.map((head, at) => [head, cell(state.before, at), cell(state.row, at)])
      .filter(([, before, now]) => before !== now);
    return `${title} ${changed.map(([head, before, now]) => `${head} ${before} → ${now}`).join(', ')}`;
  }
}

function playbackOf(wait) {
  const test = wait.test && tests.get(`${wait.run}\n${wait.test}`);
  return test ? test.playbacks.find((playback) => playback.covers(wait)) : undefined;
}
