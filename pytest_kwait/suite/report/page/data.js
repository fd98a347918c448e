// The report's data as objects, and how numbers are said.
const raw = JSON.parse(document.getElementById('kwait-data').textContent);

const OUTCOMES = {
  'met': { glyph: '✓', style: 'met' },
  'failed early': { glyph: '✕', style: 'failed-early' },
  'timed out': { glyph: '◷', style: 'late' },
  'error': { glyph: '!', style: 'error' },
  'interrupted': { glyph: '‖', style: 'cut' },
  'unfinished': { glyph: '…', style: 'cut' },
  'caught': { glyph: '–', style: 'cut' },
  'passed': { glyph: '✓', style: 'met' },
  'failed': { glyph: '✕', style: 'failed-early' },
  'crashed': { glyph: '✕', style: 'failed-early' },
  'skipped': { glyph: '–', style: 'cut' },
  'xfailed': { glyph: '–', style: 'cut' },
  'xpassed': { glyph: '✓', style: 'met' },
  'rerun': { glyph: '↻', style: 'cut' },
};
const BAD_TESTS = new Set(['failed', 'error', 'crashed']);

const runs = raw.runs;
const waits = raw.waits.map((row, index) => {
  const text = (at) => raw.texts[row[at] || 0];
  const changes = [];
  for (let at = 0; at < (row[8] || []).length; at += 2) {
    changes.push({ at: row[8][at], text: raw.texts[row[8][at + 1]] });
  }
  return {
    index, run: row[0], worker: text(1), test: text(2), subject: text(3), goal: text(4),
    start: row[5], ms: row[6] || 0, outcome: text(7), changes,
    retries: row[9] || 0, trouble: text(10), headline: text(11),
    inner: Boolean(row[12]), leftOut: row[13] || 0, step: text(14),
    // Its test caught its error, or expected it.
    caught: Boolean(row[15]), bad: text(7) !== 'met' && !row[15], evidence: raw.evidence[index] || null,
  };
});

// Tests by what they waited for; the last of several attempts says how a test ended.
const tests = new Map();
function testOf(run, name) {
  const key = `${run}\n${name}`;
  if (!tests.has(key)) {
    tests.set(key, {
      run, name, worker: '', outcome: '', ms: 0, text: '', recording: '', playbacks: [], waited: 0, count: 0, waits: [], bad: false,
      explored: null,
    });
  }
  return tests.get(key);
}
raw.tests.forEach(([run, worker, name, outcome, ms, text, recording], index) => {
  const test = testOf(run, raw.texts[name]);
  Object.assign(test, {
    worker: raw.texts[worker], outcome: raw.texts[outcome], ms: test.ms + ms, text: raw.texts[text],
    recording: raw.texts[recording || 0] || test.recording,
    explored: raw.explored[index] || test.explored,
  });
  test.bad = BAD_TESTS.has(test.outcome);
  const played = raw.playbacks[index];
  if (played) test.playbacks.push(new Playback(test, index, test.outcome, played));
});
for (const wait of waits) {
  if (!wait.test) continue;
  const test = testOf(wait.run, wait.test);
  test.waits.push(wait);
  test.worker = test.worker || wait.worker;
  if (!wait.inner) { test.waited += wait.ms; test.count += 1; }
}
// Steps of tests, outer ones first: each from the beginning of its first wait to the end of its last.
const steps = [];
{
  const open = new Map();
  for (const wait of [...waits].sort((a, b) => a.start - b.start)) {
    if (!wait.test) continue;
    const key = `${wait.run}\n${wait.worker}\n${wait.test}`;
    const around = open.get(key) || [];
    const names = wait.step ? wait.step.split(' > ') : [];
    let same = 0;
    while (same < names.length && around[same] && around[same].name === names[same]) same += 1;
    around.length = same;
    for (let depth = same; depth < names.length; depth += 1) {
      const step = {
        name: names[depth], path: names.slice(0, depth + 1).join(' > '), depth,
        run: wait.run, worker: wait.worker, test: wait.test,
        start: wait.start, end: wait.start, waits: [], bad: false,
      };
      steps.push(step);
      around.push(step);
    }
    for (const step of around) {
      step.end = Math.max(step.end, wait.start + wait.ms);
      step.waits.push(wait);
      step.bad = step.bad || wait.bad;
    }
    open.set(key, around);
  }
}
// Of a test whose worker was killed, pytest knows the beginning alone.
for (const test of tests.values()) test.ms = Math.max(test.ms, Math.min(test.waited, test.outcome === 'crashed' ? Infinity : 0));

function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours}h ${minutes}m` : `${minutes}m ${String(seconds % 60).padStart(2, '0')}s`;
}

// UTC, as the logs of CI systems have it.
function clockTime(ms, digits = 19) {
  const date = new Date(raw.base * 1000 + ms);
  return Number.isNaN(date.getTime()) ? 'unknown' : date.toISOString().slice(11, digits);
}
function dateTime(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return 'unknown';
  return `${date.toISOString().slice(0, 10)} ${date.toISOString().slice(11, 16)} UTC`;
}

function counted(count, one, many) {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

// How an exploration went on the whole; empty for other tests.
function exploredRuns({ explored }) {
  return explored ? `${explored.passed.toLocaleString('en')} of ${counted(explored.runs, 'run', 'runs')} passed` : '';
}

function place(thing) {
  const run = runs[thing.run];
  const parts = [];
  if (run && run.shard) parts.push(`shard ${run.shard}`);
  if (runs.length > 1 && run && !run.shard) parts.push(`run ${run.name}`);
  if (thing.worker) parts.push(thing.worker);
  return parts.join(' · ');
}

function seen(wait) {
  const last = wait.changes[wait.changes.length - 1];
  return last ? last.text : 'nothing seen yet';
}
