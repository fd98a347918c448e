// A table of any length: only the rows that can be seen are there.
class VirtualTable {
  // columns: {name, title, cell(row) -> node or text, value(row) -> what it is sorted by, first}
  constructor(name, columns, rows, open, sorted) {
    Object.assign(this, { name, columns, all: rows, open, sorted, rows: [], active: 0 });
    this.down = Boolean(columns.find((column) => column.name === sorted).down);
    this.heads = columns.map((column) => h('div', { role: 'columnheader', class: `cell ${column.name}` },
      h('button', { type: 'button', onclick: () => this.sort(column.name) }, column.title)));
    this.body = h('div', { class: 'rows', role: 'rowgroup' });
    this.box = h('div', {
      class: 'scroll', tabindex: '0', role: 'grid', 'aria-label': `${name}: arrow keys choose a row, Enter opens it`,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event),
      onfocus: () => this.mark(), onblur: () => this.mark(),
    }, h('div', { class: 'row head', role: 'row' }, this.heads), this.body);
    this.element = h('div', { class: `table ${name.toLowerCase()}` }, this.box);
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.show(() => true);
  }

  show(wanted) {
    this.wanted = wanted;
    this.rows = this.all.filter(wanted);
    this.order();
    this.active = 0;
    this.box.scrollTop = 0;
    this.draw();
  }

  sort(name) {
    const column = this.columns.find((each) => each.name === name);
    this.down = this.sorted === name ? !this.down : Boolean(column.down);
    this.sorted = name;
    this.order();
    this.draw();
  }

  order() {
    const { value } = this.columns.find((column) => column.name === this.sorted);
    const sign = this.down ? -1 : 1;
    const keyed = this.rows.map((row) => [value(row), row]);
    keyed.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0));
    this.rows = keyed.map(([, row]) => row);
    this.heads.forEach((head, at) => {
      const mine = this.columns[at].name === this.sorted;
      head.setAttribute('aria-sort', mine ? (this.down ? 'descending' : 'ascending') : 'none');
    });
  }

  get height() {
    return parseFloat(getComputedStyle(this.box).getPropertyValue('--row')) || 36;
  }

  draw(everything = 0) {
    const row = this.height;
    const first = everything ? 0 : Math.max(Math.floor(this.box.scrollTop / row) - 10, 0);
    const shown = everything || Math.ceil(this.box.clientHeight / row) + 20;
    const last = Math.min(first + shown, this.rows.length);
    this.body.style.height = `${(everything ? last : this.rows.length) * row}px`;
    this.box.setAttribute('aria-rowcount', this.rows.length + 1);
    const drawn = [];
    for (let at = first; at < last; at += 1) drawn.push(this.row(at, row));
    this.body.replaceChildren(...drawn);
    if (!this.rows.length) this.body.append(h('p', { class: 'none' }, 'Nothing here.'));
    this.mark();
  }

  // The same rows stay: a click that moves the focus here must end on the row where it began.
  mark() {
    const focused = document.activeElement === this.box;
    let active = null;
    for (const row of this.body.querySelectorAll('.row')) {
      const mine = focused && row.id === `${this.name}-${this.active}`;
      row.classList.toggle('active', mine);
      row.setAttribute('aria-selected', mine ? 'true' : 'false');
      if (mine) active = row;
    }
    if (active) this.box.setAttribute('aria-activedescendant', active.id);
    else this.box.removeAttribute('aria-activedescendant');
  }

  row(at, height) {
    const thing = this.rows[at];
    const element = h('div', {
      class: 'row', role: 'row', id: `${this.name}-${at}`, 'aria-rowindex': at + 2,
      onclick: () => { this.active = at; this.open(thing, this.rows); },
    }, this.columns.map((column) => h('div', { role: 'gridcell', class: `cell ${column.name}` }, column.cell(thing))));
    element.style.transform = `translateY(${at * height}px)`;
    return element;
  }

  key(event) {
    if (event.target !== this.box || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(Math.floor(this.box.clientHeight / this.height) - 2, 1);
    const to = {
      ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page,
      PageUp: this.active - page, Home: 0, End: this.rows.length - 1,
    }[event.key];
    if (event.key === 'Enter' && this.rows[this.active]) {
      event.preventDefault();
      this.open(this.rows[this.active], this.rows);
    }
    if (to === undefined) return;
    event.preventDefault();
    this.active = Math.min(Math.max(to, 0), Math.max(this.rows.length - 1, 0));
    const top = this.active * this.height;
    const room = this.box.clientHeight - 2 * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top > this.box.scrollTop + room) this.box.scrollTop = top - room;
    this.draw();
  }
}

const COLUMNS = {
  outcome: { name: 'outcome', title: 'Outcome', cell: waitBadge, value: (wait) => `${wait.bad ? 0 : 1}${wait.outcome}` },
  time: { name: 'time', title: 'Waited', cell: (wait) => duration(wait.ms), value: (wait) => wait.ms, down: true },
  what: { name: 'what', title: 'What was awaited', cell: awaited, value: (wait) => wait.subject },
  test: { name: 'testcell', title: 'Test', cell: (wait) => (wait.test ? testName(wait.test, true) : 'outside of tests'), value: (wait) => wait.test },
  place: { name: 'place', title: 'Where', cell: (wait) => place(wait), value: (wait) => place(wait) },
  start: { name: 'start', title: 'Began', cell: (wait) => clockTime(wait.start), value: (wait) => wait.start },
  retries: { name: 'retries', title: 'Retries', cell: (wait) => String(wait.retries), value: (wait) => wait.retries, down: true },
  trouble: { name: 'what', title: 'Last error', cell: (wait) => wait.trouble || '–', value: (wait) => wait.trouble },
};

function waitsTable(open) {
  const { outcome, time, what, test, place: where, start } = COLUMNS;
  return new VirtualTable('Waits', [outcome, time, what, test, where, start], waits, open, 'time');
}

function errorsTable(open) {
  const { retries, trouble, outcome, test, place: where, start } = COLUMNS;
  const rows = waits.filter((wait) => wait.retries || wait.outcome === 'error');
  return new VirtualTable('Errors', [outcome, retries, trouble, test, where, start], rows, open, 'retries');
}

function testsTable(open) {
  const columns = [
    { name: 'outcome', title: 'Outcome', cell: (test) => badge(test.outcome || 'unfinished'), value: (test) => `${test.bad ? 0 : 1}${test.outcome}` },
    { name: 'time', title: 'Waited', cell: (test) => duration(test.waited), value: (test) => test.waited, down: true },
    { name: 'what', title: 'Test', cell: (test) => testName(test.name), value: (test) => test.name },
    { name: 'testcell', title: 'Waits', cell: (test) => counted(test.count, 'wait', 'waits'), value: (test) => test.count, down: true },
    { name: 'place', title: 'Where', cell: (test) => place(test), value: (test) => place(test) },
    { name: 'start', title: 'Took', cell: (test) => duration(test.ms), value: (test) => test.ms, down: true },
  ];
  return new VirtualTable('Tests', columns, [...tests.values()], open, 'time');
}
