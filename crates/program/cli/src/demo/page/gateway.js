'use strict';
const USUAL = { size: 20, rate1: 4, rtt1: 40, rate2: 3, rtt2: 60 };
// Milliseconds between two looks at a download.
const LOOK = 200;
const form = $('settings'), section = document.querySelector('#panes section'), bar = document.querySelector('progress');
const buttons = [...document.querySelectorAll('button.path')];
let looking = null, last = null;

const seconds = time => time.toFixed(1) + ' s';
const isOver = state => state.completed_s != null || state.failed_s != null;

function settings() {
  const value = name => form.elements[name].value;
  return { size: value('size'), rate1: PATH_RATES[value('rate1')], rtt1: value('rtt1'), rate2: PATH_RATES[value('rate2')], rtt2: value('rtt2') };
}

const label = () => mark(form, inWords(settings()));

async function ask(what, method = 'GET') {
  const answer = await fetch(what, { method, headers: { 'x-anabranch-demo': '1' } });
  const state = await answer.json();
  if (!answer.ok) throw new Error(state.error);
  return state;
}

const isDown = (state, path) => state.events.filter(event => event.path === path).at(-1)?.cut ?? false;

// The longest time without a new byte, in seconds, until the end or now.
function longest({ arrived, interval_s, elapsed_s, completed_s }) {
  let since = 0, most = 0;
  arrived.forEach((bytes, i) => {
    if (bytes === (arrived[i - 1] ?? 0)) return;
    most = Math.max(most, i * interval_s - since);
    since = (i + 1) * interval_s;
  });
  const waits = completed_s == null ? Math.max(0, elapsed_s - since) : 0;
  return { most: Math.max(most, waits), waits };
}

function sentence(state, arrived, waits) {
  const share = Math.floor(100 * arrived / state.bytes) + ' %';
  if (state.completed_s != null) return `Complete after ${seconds(state.completed_s)}; every byte is right.`;
  if (state.failed_s != null) return `${share}; failed after ${seconds(state.failed_s)}: ${state.error}.`;
  return waits >= 1 ? `${share}; no data for ${seconds(waits)}` : `${share}, ${megabytes(arrived)}`;
}

function show(state) {
  last = state;
  const done = state.completed_s != null;
  const arrived = done ? state.bytes : state.arrived.at(-1) ?? 0;
  const { most, waits } = longest(state);
  bar.max = state.bytes;
  bar.value = arrived;
  section.querySelector('.state').textContent = sentence(state, arrived, waits);
  section.classList.toggle('stuck', state.failed_s != null || waits >= 1);
  $('pause').textContent = seconds(most);
  state.carried.forEach((path, i) => { $('carried' + (i + 1)).textContent = megabytes(path.reduce((sum, bytes) => sum + bytes, 0)); });
  $('rate').textContent = (arrived * 8 / 1e6 / Math.max(state.elapsed_s, 0.1)).toFixed(1) + ' Mb/s';
  const end = Math.max(10, state.elapsed_s);
  const events = state.events.map(({ path, at_s, cut }) => ({ path, at: at_s, cut }));
  const drawn = canvas(), rate = state.rate / 1e6;
  drawn.append(...plot(state.carried, { events, end, interval: state.interval_s, most: state.rate / 8 * state.interval_s }));
  section.querySelector('.chart').replaceChildren(drawn, axis('0 s', `height: ${rate} Mb/s`, seconds(end)));
  for (const button of buttons) {
    const path = Number(button.dataset.path), down = isDown(state, path);
    button.disabled = isOver(state);
    button.classList.toggle('down', down);
    const text = (down ? 'Repair link ' : 'Cut link ') + path;
    if (button.lastChild.textContent !== text) button.lastChild.textContent = text;
  }
  $('start').textContent = isOver(state) ? 'Start again' : 'Start from the beginning';
  $('more').hidden = false;
  $('command').textContent = state.command;
  $('status').href = state.status;
  document.body.dataset.state = isOver(state) ? 'done' : 'running';
}

const say = text => { $('summary').textContent = text; };

function fail(error) {
  clearTimeout(looking);
  say('The gateway does not answer: ' + error.message);
  document.body.dataset.state = 'failed';
}

async function look() {
  try {
    const state = await ask('gateway-state');
    if (state === null) { say('The gateway has ended, because no page was open. Start again.'); return; }
    show(state);
    if (isOver(state)) say(state.completed_s != null ? 'The whole file has arrived.' : 'The download has failed.');
    else looking = setTimeout(look, LOOK);
  } catch (error) { fail(error); }
}

async function begin() {
  clearTimeout(looking);
  say('The two sides connect.');
  try {
    show(await ask('gateway-start?' + new URLSearchParams(settings()), 'POST'));
    say('Press \u201cCut link 1\u201d while the file is on its way.');
    looking = setTimeout(look, LOOK);
  } catch (error) { fail(error); }
}

async function press(path) {
  const up = isDown(last, path);
  try {
    show(await ask('gateway-set?' + new URLSearchParams({ path, up }), 'POST'));
    say(`Link ${path} is ${up ? 'repaired' : 'cut'}.`);
  } catch (error) { fail(error); }
}

for (const [name, value] of Object.entries(USUAL)) form.elements[name].value = value;
label();
form.addEventListener('input', label);
form.addEventListener('submit', event => event.preventDefault());
$('start').addEventListener('click', begin);
for (const button of buttons) button.addEventListener('click', () => press(Number(button.dataset.path)));
document.body.dataset.state = 'ready';
// A download that another page has begun, or this one before it was loaded again.
ask('gateway-state').then(state => { if (state !== null) { show(state); look(); } }).catch(fail);
