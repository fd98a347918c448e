// One wait, or one test, with all that is known of it.
class Detail {
  constructor(play) {
    this.play = play;
    this.content = h('div', { class: 'content' });
    this.title = h('h2', { id: 'detail-title', tabindex: '-1' });
    this.previous = h('button', { type: 'button', onclick: () => this.step(-1), title: 'Previous (left arrow)' }, '← Previous');
    this.next = h('button', { type: 'button', onclick: () => this.step(1), title: 'Next (right arrow)' }, 'Next →');
    this.element = h('dialog', {
      class: 'detail', 'aria-labelledby': 'detail-title',
      onclose: () => this.closed(),
      onclick: (event) => { if (event.target === this.element) this.element.close(); },
      onkeydown: (event) => this.key(event),
    }, h('div', { class: 'bar' }, this.previous, this.next, h('span', { class: 'grow' }),
      h('button', { type: 'button', class: 'close', onclick: () => this.element.close() }, 'Close ', h('kbd', {}, 'Esc'))),
    this.title, this.content);
  }

  key(event) {
    if (event.target.closest('pre, summary') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'ArrowLeft') this.step(-1);
    if (event.key === 'ArrowRight') this.step(1);
  }

  step(by) {
    const at = this.list.indexOf(this.thing) + by;
    if (at >= 0 && at < this.list.length) this.show(this.list[at], this.list);
  }

  closed() {
    setHash('');
  }

  show(thing, list = [thing]) {
    this.thing = thing;
    this.list = list;
    const at = list.indexOf(thing);
    this.previous.disabled = at <= 0;
    this.next.disabled = at >= list.length - 1;
    if (thing.waits) this.test(thing); else this.wait(thing);
    if (!this.element.open) this.element.showModal();
    this.element.scrollTop = 0;
    this.title.focus();
  }

  wait(wait) {
    setHash(`#wait-${wait.index}`);
    this.title.replaceChildren(waitBadge(wait), ' ', wait.subject);
    const known = wait.evidence || {};
    const test = wait.test && tests.get(`${wait.run}\n${wait.test}`);
    this.content.replaceChildren(...[
      wait.headline && h('p', { class: `headline ${waitStyle(wait)}` }, wait.headline),
      facts([
        ['Awaited', `${wait.subject} to ${wait.goal}`],
        ['Seen last', seen(wait)],
        ['Took', duration(wait.ms) + (known.limit_seconds ? ` of ${duration(known.limit_seconds * 1000)}` : '')],
        ['Began', `${clockTime(wait.start, 23)} UTC`],
        ['Test', test ? h('button', { type: 'button', class: 'link', onclick: () => this.show(test) }, wait.test) : 'outside of every test'],
        ['Step', wait.step],
        ['See it again', test && this.again(test, playbackOf(wait), wait)],
        ['Where', place(wait)],
        ['There at the end', known.seen],
        ['Retries', wait.retries ? `${wait.retries}` : ''],
        ['Last API error', wait.trouble],
        ['Caught', wait.caught ? 'by the test: this wait did not fail it' : ''],
        ['Part of', wait.inner ? 'another wait, which counts it' : ''],
      ]),
      story(wait),
      pods(known),
      section('Warning events', (known.events || []).map((event) => h('li', {},
        h('b', {}, `${event.reason} `), event.count > 1 && h('span', { class: 'muted' }, `×${event.count} `),
        h('code', {}, event.subject), event.others > 0 && ` and ${event.others} more`, `: ${event.message}`)), known.events_left_out),
      ...(known.logs || []).map((log) => h('section', {},
        h('h3', {}, 'Log of ', h('code', {}, `${log.pod}/${log.container}`), log.previous && ' (the run before)'),
        block(log.lines.join('\n')))),
      section('There is instead', (known.existing || []).map((found) => h('li', {},
        `${counted(found.count, 'object', 'objects')} of ${found.resource}: `, h('code', {}, found.names.join(', ') || 'none')))),
      section('Could not be gathered', (known.errors || []).map((error) => h('li', {}, error))),
      known.text && h('details', {}, h('summary', {}, 'The whole message'), block(known.text)),
      wait.bad && !wait.evidence && h('p', { class: 'muted' }, wait.outcome === 'unfinished'
        ? 'Its process ended before this wait did.' : 'No evidence was recorded.'),
    ].filter(Boolean));
  }

  again(test, playback = test.playbacks[test.playbacks.length - 1], wait = null) {
    const time = wait && playback && wait.start + wait.ms - playback.offset;
    return (test.recording || playback) && [
      playback && h('div', {}, playLink(playback, this.play, wait ? 'Show the end of this wait' : 'Play it', time)), replay(test)];
  }

  test(test) {
    setHash('');
    this.title.replaceChildren(badge(test.outcome || 'unfinished'), ' ', testName(test.name));
    this.content.replaceChildren(...[
      facts([
        ['Test', test.name],
        ['Where', place(test)],
        ['Took', duration(test.ms)],
        ['See it again', this.again(test)],
        ['Of it, waiting', `${duration(test.waited)} in ${counted(test.count, 'wait', 'waits')}`],
        ['Explored', exploredRuns(test)],
      ]),
      section('Distinct failures', exploredFailures(test).map(([name, failure]) => h('li', {},
        h('b', {}, name), ` ${failure.headline}`, h('div', {}, h('code', {}, failure.command))))),
      test.waits.length && h('section', {}, h('h3', {}, 'Its waits'), h('ol', { class: 'plain' }, test.waits.map((wait) => h('li', {},
        h('button', { type: 'button', class: 'entry', onclick: () => this.show(wait, test.waits) },
          waitBadge(wait), h('span', { class: 'num' }, duration(wait.ms)),
          h('span', {}, awaited(wait))))))),
      test.text && h('section', {}, h('h3', {}, 'What pytest says'), block(test.text)),
    ].filter(Boolean));
  }
}

function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

// A link, so that it can be opened elsewhere.
function playLink(playback, play, text, time = null) {
  return h('a', {
    class: 'play', href: `#play-${playback.index}${time === null ? '' : `@${time / 1000}`}`,
    onclick: (event) => { event.preventDefault(); play(playback, time === null ? undefined : time); },
  }, h('span', { 'aria-hidden': 'true' }, '▶ '), text);
}

// The distinct failures of an explored test, each with its number of runs.
function exploredFailures({ explored }) {
  return explored ? explored.failures.map((failure) => [counted(failure.runs, 'run', 'runs'), failure]) : [];
}

// Without a link: a browser cannot open a recording, and the page may be elsewhere.
function replay(test) {
  return test.recording && h('code', {}, `kwait replay ${test.recording}`);
}

function block(text) {
  return h('pre', { tabindex: '0' }, text);
}

function section(title, items, leftOut = 0) {
  return items.length > 0 && h('section', {}, h('h3', {}, title), h('ul', {}, items,
    leftOut > 0 && h('li', { class: 'muted' }, `and ${leftOut} more`)));
}

function story(wait) {
  if (!wait.changes.length) return null;
  const lines = wait.changes.map((change) => h('li', {},
    h('span', { class: 'num' }, `+${duration(change.at)}`), h('span', {}, change.text)));
  if (wait.leftOut) {
    lines.splice(Math.min(10, lines.length), 0, h('li', { class: 'muted' }, h('span', {}), `… ${counted(wait.leftOut, 'change', 'changes')} between …`));
  }
  lines.push(h('li', { class: 'end' }, h('span', { class: 'num' }, `+${duration(wait.ms)}`), waitBadge(wait)));
  return h('section', {}, h('h3', {}, 'How it went'), h('ol', { class: 'story' }, lines));
}

function pods(known) {
  if (!known.pods || !known.pods.length) return null;
  const rows = known.pods.map((pod) => h('tr', {},
    h('td', {}, h('code', {}, pod.name), pod.deleting && ' (being deleted)', h('div', { class: 'muted' }, pod.node)),
    h('td', {}, pod.phase, pod.ready && ', ready', pod.note && h('div', { class: 'trouble' }, pod.note)),
    h('td', {}, (pod.containers || []).map((container) => h('div', { class: container.failing ? 'trouble' : '' },
      `${container.name}${container.init ? ' (init)' : ''}: ${container.state}`,
      container.reason && ` ${container.reason}`,
      container.exit_code !== null && container.exit_code !== undefined && `, exit code ${container.exit_code}`,
      container.restarts > 0 && `, ${counted(container.restarts, 'restart', 'restarts')}`,
      container.message && h('div', { class: 'muted' }, container.message))))));
  return h('section', {}, h('h3', {}, 'Pods'), h('div', { class: 'wide' }, h('table', {},
    h('thead', {}, h('tr', {}, ['Pod', 'Phase', 'Containers'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, rows))), known.pods_left_out > 0 && h('p', { class: 'muted' }, `and ${known.pods_left_out} more`));
}
