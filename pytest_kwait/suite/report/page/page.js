// The page: the verdict, failures first, the timeline, then everything in tables.
const SHOWN = 50;
// As pytest counts them.
const EXITS = { 1: 'tests failed', 2: 'it was interrupted', 3: 'an internal error', 4: 'invalid arguments' };
const player = new Player((wait, list) => openThing(wait, list));
const play = (playback, time) => player.show(playback, time);
const detail = new Detail(play);
const openThing = (thing, list) => detail.show(thing, list);

function total(name) {
  return runs.reduce((sum, run) => sum + ((run.tests || {})[name] || 0), 0);
}

function verdict() {
  const failed = total('failed') + total('error') + total('crashed');
  const count = runs.reduce((sum, run) => sum + Object.values(run.tests || {}).reduce((a, b) => a + b, 0), 0)
    || [...tests.values()].length;
  const killed = runs.filter((run) => run.ended === null).length;
  const outer = waits.filter((wait) => !wait.inner);
  const bad = outer.filter((wait) => wait.bad).length;
  const caught = outer.filter((wait) => wait.caught).length;
  const broken = runs.some((run) => run.exit_status && run.exit_status !== 5);
  let text = 'All tests passed';
  if (failed) text = `${counted(failed, 'test', 'tests')} failed`;
  else if (killed) text = `${counted(killed, 'run was', 'runs were')} killed`;
  else if (broken) text = `The run did not end well: ${EXITS[runs.find((run) => run.exit_status && run.exit_status !== 5).exit_status] || 'it failed'}`;
  else if (!count) text = 'No test ran';
  const good = !failed && !killed && !broken;
  document.title = `${good ? '✓' : '✕'} ${text} - kwait report`;
  const waited = outer.reduce((sum, wait) => sum + wait.ms, 0);
  const retries = waits.reduce((sum, wait) => sum + wait.retries, 0);
  const ends = runs.map((run) => run.ended).filter(Boolean);
  const started = runs.length ? Math.min(...runs.map((run) => run.started)) : raw.base;
  const stats = [
    ['tests', count.toLocaleString('en'), ''],
    ['waits', outer.length.toLocaleString('en'), ''],
    ['waited in all', duration(waited), ''],
    ['did not come true', bad.toLocaleString('en'), bad ? 'failed-early' : ''],
    ...(caught ? [['caught by their tests', caught.toLocaleString('en'), '']] : []),
    ['retries after API errors', retries.toLocaleString('en'), retries ? 'late' : ''],
    ['from start to end', ends.length ? duration((Math.max(...ends) - started) * 1000) : '–', ''],
  ];
  return h('header', {},
    h('p', { class: 'eyebrow' }, 'kwait report · ', dateTime(started)),
    h('h1', { class: good ? 'good' : 'bad' }, h('span', { 'aria-hidden': 'true' }, good ? '✓ ' : '✕ '), text),
    h('p', { class: 'muted runs' }, runs.slice(0, 8).map((run) => h('span', {},
      [run.shard ? `shard ${run.shard}` : '', `run ${run.name}`, run.cluster].filter(Boolean).join(' · '))),
    runs.length > 8 && h('span', {}, `and ${runs.length - 8} more runs`)),
    h('dl', { class: 'stats' }, stats.map(([name, value, style]) => h('div', { class: style }, h('dt', {}, name), h('dd', {}, value)))),
    raw.notes.length > 0 && h('ul', { class: 'notes', role: 'note' }, raw.notes.map((note) => h('li', {}, note))));
}

function waitEntry(wait, list) {
  const text = wait.evidence && wait.evidence.text;
  const holder = h('details', {}, h('summary', {}, 'Message'));
  if (text) holder.addEventListener('toggle', () => { if (holder.children.length < 2) holder.append(block(text)); });
  return h('li', { class: `failure ${waitStyle(wait)}` },
    h('button', { type: 'button', class: 'entry', onclick: () => openThing(wait, list) },
      waitBadge(wait), h('span', { class: 'num' }, `after ${duration(wait.ms)}`),
      h('span', { class: 'why' }, wait.headline || `${wait.subject} to ${wait.goal}: ${wait.outcome === 'error' ? wait.trouble : seen(wait)}`)),
    clues(wait.evidence || {}),
    text && holder);
}

// What most often says it all, without a click.
function clues(known) {
  const said = (known.events || []).slice(0, 2).map((event) => [
    'event', `${event.reason}${event.count > 1 ? ` ×${event.count}` : ''}: ${event.message}`]);
  for (const log of (known.logs || []).slice(0, 2)) {
    said.push(['log', `${log.pod}/${log.container}: ${log.lines[log.lines.length - 1] || ''}`]);
  }
  if (known.last_api_error) said.push(['API', known.last_api_error]);
  return said.length > 0 && h('dl', { class: 'clues' }, said.map(([name, text]) => [h('dt', {}, name), h('dd', {}, text)]));
}

// Names and numbers differ from test to test; what is left is the reason that they share.
function reasons(list) {
  const groups = new Map();
  for (const wait of list) {
    const known = (wait.evidence && wait.evidence.reason) || wait.headline.replace(/^.*?(?:can no longer|did not) [^:]*: /, '') || wait.trouble || seen(wait);
    const key = known.replace(/[\w./:-]*\d[\w./:-]*/g, '…');
    if (!groups.has(key)) groups.set(key, { text: known, waits: [] });
    groups.get(key).waits.push(wait);
  }
  const shared = [...groups.values()].filter((group) => group.waits.length > 1)
    .sort((a, b) => b.waits.length - a.waits.length).slice(0, 5);
  return shared.length > 0 && h('ul', { class: 'plain reasons', 'aria-label': 'Reasons that several waits share' }, shared.map((group) => h('li', {},
    h('button', { type: 'button', class: 'entry', onclick: () => openThing(group.waits[0], group.waits) },
      h('b', { class: 'num' }, `${group.waits.length} ×`), h('span', { class: 'why' }, group.text)))));
}

function card(test, list) {
  const bad = test.waits.filter((wait) => wait.bad);
  const holder = h('details', {}, h('summary', {}, 'What pytest says'));
  holder.addEventListener('toggle', () => { if (holder.children.length < 2) holder.append(block(test.text)); });
  return h('article', { class: 'card' },
    h('h3', {}, badge(test.outcome), ' ', h('button', { type: 'button', class: 'link', onclick: () => openThing(test, list) }, testName(test.name))),
    h('p', { class: 'muted' }, [place(test), `took ${duration(test.ms)}, ${duration(test.waited)} of it waiting`, exploredRuns(test)].filter(Boolean).join(' · ')),
    test.playbacks.length > 0 && h('p', { class: 'plays' }, test.playbacks.map((playback, at) => playLink(playback, play,
      test.playbacks.length > 1 ? `Play attempt ${at + 1} (${playback.outcome})` : 'Play the recording'))),
    test.explored && h('dl', { class: 'clues' }, exploredFailures(test).map(([name, failure]) => [
      h('dt', {}, name), h('dd', {}, failure.headline), h('dt', {}, 'again'), h('dd', {}, failure.command)])),
    bad.length > 0 && h('ul', { class: 'plain' }, bad.map((wait) => waitEntry(wait, bad))),
    test.text && !bad.length && h('pre', { tabindex: '0', class: 'short' }, test.text.split('\n').filter((line) => line.trim()).slice(-6).join('\n')),
    test.text && holder);
}

// As many as one reads, and the others when asked for.
function growing(things, render, noun) {
  const holder = h('div', { class: 'cards' });
  let shown = 0;
  const more = h('button', { type: 'button', class: 'more', onclick: () => grow() });
  function grow() {
    holder.append(...things.slice(shown, shown + SHOWN).map(render));
    shown = Math.min(shown + SHOWN, things.length);
    more.hidden = shown >= things.length;
    more.textContent = `Show ${Math.min(SHOWN, things.length - shown)} more of ${things.length} ${noun}`;
  }
  grow();
  return [holder, more];
}

function failures() {
  const rank = { crashed: 0, failed: 1, error: 2 };
  const bad = [...tests.values()].filter((test) => test.bad)
    .sort((a, b) => rank[a.outcome] - rank[b.outcome]);
  const loose = waits.filter((wait) => wait.bad && (!wait.test || !tests.get(`${wait.run}\n${wait.test}`).outcome));
  const expected = waits.filter((wait) => wait.bad && wait.test && !tests.get(`${wait.run}\n${wait.test}`).bad && tests.get(`${wait.run}\n${wait.test}`).outcome);
  const caught = waits.filter((wait) => wait.caught);
  return h('section', { id: 'failures', 'aria-labelledby': 'failures-title', tabindex: '-1' },
    h('h2', { id: 'failures-title' }, 'Failures'),
    reasons([...bad.flatMap((test) => test.waits.filter((wait) => wait.bad)), ...loose]),
    bad.length > 0 ? growing(bad, (test) => card(test, bad), 'failed tests') : h('p', { class: 'none' }, 'No test failed.'),
    loose.length > 0 && [h('h3', {}, 'Waits of no finished test'),
      growing(loose, (wait) => h('ul', { class: 'plain card' }, waitEntry(wait, loose)), 'waits')],
    expected.length > 0 && lazily(`${counted(expected.length, 'wait', 'waits')} in tests that did not fail did not come true`,
      () => growing(expected, (wait) => h('ul', { class: 'plain card' }, waitEntry(wait, expected)), 'waits')),
    caught.length > 0 && lazily(`${counted(caught.length, 'wait that its test caught', 'waits that their tests caught')}`,
      () => growing(caught, (wait) => h('ul', { class: 'plain card' }, waitEntry(wait, caught)), 'waits')));
}

function lazily(title, render) {
  const element = h('details', { class: 'expected' }, h('summary', {}, title));
  element.addEventListener('toggle', () => { if (element.children.length < 2) element.append(...render()); });
  return element;
}

function legend() {
  const present = [...new Set(waits.map((wait) => (wait.caught ? 'caught' : wait.outcome)))];
  return h('ul', { class: 'legend', 'aria-label': 'Colours' },
    Object.keys(OUTCOMES).filter((name) => present.includes(name)).map((name) => h('li', {}, badge(name))));
}

function tabs(views) {
  const list = h('div', { role: 'tablist', 'aria-label': 'Tables', class: 'tabs' });
  const panel = h('div', { role: 'tabpanel', id: 'panel', class: 'panel' });
  const made = {};
  const select = (name, focus) => {
    for (const tab of list.children) {
      const mine = tab.id === `tab-${name}`;
      tab.setAttribute('aria-selected', mine ? 'true' : 'false');
      tab.tabIndex = mine ? 0 : -1;
      if (mine && focus) tab.focus();
    }
    made[name] = made[name] || views.find((view) => view.name === name).make();
    panel.setAttribute('aria-labelledby', `tab-${name}`);
    panel.replaceChildren(filters(made[name]), made[name].element);
    tabs.shown = made[name];
    made[name].draw();
  };
  views.forEach((view, at) => list.append(h('button', {
    type: 'button', role: 'tab', id: `tab-${view.name}`, 'aria-controls': 'panel', onclick: () => select(view.name),
    onkeydown: (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by) { event.preventDefault(); select(views[(at + by + views.length) % views.length].name, true); }
    },
  }, view.title, h('span', { class: 'count' }, view.count.toLocaleString('en')))));
  select(views[0].name);
  return [list, panel];
}

function filters(table) {
  const state = table.filter || (table.filter = { text: '', outcome: '' });
  const spoken = h('span', { class: 'muted', 'aria-live': 'polite' });
  const apply = () => {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    table.show((row) => {
      if (state.outcome && row.outcome !== state.outcome) return false;
      if (!words.length) return true;
      const text = row.waits ? row.name : `${row.subject} ${row.goal} ${row.test} ${row.headline} ${row.trouble}`;
      const lower = `${text} ${place(row)}`.toLowerCase();
      return words.every((word) => lower.includes(word));
    });
    spoken.textContent = `${table.rows.length.toLocaleString('en')} of ${table.all.length.toLocaleString('en')}`;
  };
  const outcomes = [...new Set(table.all.map((row) => row.outcome).filter(Boolean))].sort();
  const element = h('div', { class: 'filters', role: 'search' },
    h('input', { type: 'search', placeholder: 'Filter by words', 'aria-label': 'Filter by words', value: state.text,
      oninput: (event) => { state.text = event.target.value; apply(); } }),
    h('select', { 'aria-label': 'Outcome', onchange: (event) => { state.outcome = event.target.value; apply(); } },
      h('option', { value: '' }, 'every outcome'),
      outcomes.map((name) => h('option', { value: name, selected: name === state.outcome }, name))),
    spoken);
  apply();
  return element;
}

function build() {
  readColours();
  const timeline = new Timeline((wait) => openThing(wait, waits));
  const troubled = waits.filter((wait) => wait.retries || wait.outcome === 'error').length;
  document.getElementById('page').replaceChildren(
    verdict(),
    h('main', {},
      failures(),
      waits.length > 0 && h('section', { 'aria-labelledby': 'timeline-title' },
        h('div', { class: 'line' }, h('h2', { id: 'timeline-title' }, 'Timeline'), legend(), timeline.controls),
        timeline.box, timeline.spoken),
      h('section', { 'aria-label': 'Tables' }, tabs([
        { name: 'waits', title: 'Waits, slowest first', count: waits.length, make: () => waitsTable(openThing) },
        { name: 'tests', title: 'Tests by time waiting', count: tests.size, make: () => testsTable(openThing) },
        { name: 'errors', title: 'Retries and API errors', count: troubled, make: () => errorsTable(openThing) },
      ]))),
    detail.element, player.element);
  timeline.draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); timeline.draw(); player.draw(); });
  window.addEventListener('beforeprint', () => tabs.shown.draw(200));
  window.addEventListener('afterprint', () => tabs.shown.draw());
  window.addEventListener('hashchange', openLinked);
  openLinked();
}

function openLinked() {
  const [, kind, number, time] = /^#(wait|play)-(\d+)(?:@([\d.]+))?$/.exec(location.hash) || [];
  if (kind === 'wait' && waits[number]) openThing(waits[number], waits);
  const playback = kind === 'play' && [...tests.values()].flatMap((test) => test.playbacks).find((each) => each.index === Number(number));
  if (playback) play(playback, time === undefined ? undefined : Math.round(Number(time) * 1000) || 0);
}

build();
