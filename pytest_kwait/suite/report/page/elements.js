// Elements are made of text nodes: what clusters and tests say never becomes markup.
function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

// Browsers refuse further changes of the address after some hundred in a short time.
function setHash(hash) {
  try {
    history.replaceState(null, '', location.pathname + location.search + hash);
  } catch (error) {
    if (error.name !== 'SecurityError') throw error;
  }
}

function badge(outcome, known = OUTCOMES[outcome] || { glyph: '?', style: 'cut' }) {
  return h('span', { class: `badge ${known.style}` },
    h('span', { 'aria-hidden': 'true' }, known.glyph), ` ${outcome || 'unknown'}`);
}

function waitStyle(wait) {
  return (OUTCOMES[wait.caught ? 'caught' : wait.outcome] || { style: 'cut' }).style;
}

function waitBadge(wait) {
  return wait.caught ? badge(`${wait.outcome}, caught`, OUTCOMES.caught) : badge(wait.outcome);
}

// The function is what one looks for; the folders before it matter less.
function testName(name, short = false) {
  const cut = name.indexOf('::');
  if (short && cut >= 0) {
    return h('span', { class: 'test', title: name }, name.slice(cut + 2), ' ', h('span', { class: 'file' }, name.slice(0, cut)));
  }
  if (cut < 0) return h('span', { class: 'test' }, name);
  return h('span', { class: 'test', title: name },
    h('span', { class: 'file' }, name.slice(0, cut + 2)), h('b', {}, name.slice(cut + 2)));
}

// Kind, name and goal first: a namespace of a test alone says little.
function awaited(wait) {
  const named = /^(\S+) ([^\s/]+)\/(\S+)$/.exec(wait.subject);
  if (!named) return [h('b', {}, wait.subject), ` to ${wait.goal}`];
  return h('span', { title: `${wait.subject} to ${wait.goal}` }, h('b', {}, `${named[1]} ${named[3]}`),
    ` to ${wait.goal} `, h('span', { class: 'muted' }, `in ${named[2]}`));
}

const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['met', 'failed-early', 'late', 'error', 'cut', 'ink', 'muted', 'line', 'lane', 'focus',
    'cut-back', 'failed-early-back', 'failed-early-ink']) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}
