'use strict';
const SPEEDS = [0.5, 1, 2, 5];
const NUMBERS = ['size', 'rtt1', 'rtt2', 'loss', 'seed'];
const USUAL = { size: '12', rate1: '10', rtt1: '40', rate2: '5', rtt2: '60', loss: '0', seed: '1', show: 'sctp,sctp-both,tcp,http3', events: '', speed: '1' };
// Cuts and repairs in the order of time: { path, at, cut }.
let events = [];
let run = null;

function read(text) {
  return text.split('_').map(word => /^(cut|repair)([12])-([\d.]+)$/.exec(word)).filter(Boolean)
    .map(([, what, path, at]) => ({ path: Number(path), at: Number(at), cut: what === 'cut' }));
}

const written = () => events.map(event => `${event.cut ? 'cut' : 'repair'}${event.path}-${event.at}`).join('_');

function settings() {
  const f = fields();
  const numbers = Object.fromEntries(NUMBERS.map(name => [name, f[name].value]));
  return { ...numbers, rate1: String(PATH_RATES[f.rate1.value]), rate2: String(PATH_RATES[f.rate2.value]), show: chosen(), events: written() };
}

function apply(wanted) {
  const f = fields();
  for (const name of NUMBERS) f[name].value = wanted[name];
  for (const name of ['rate1', 'rate2']) f[name].value = nearest(PATH_RATES, Number(wanted[name]));
  choose(wanted.show);
  events = read(wanted.events);
  $('speed').value = SPEEDS.includes(Number(wanted.speed)) ? wanted.speed : USUAL.speed;
  label();
}

function label() {
  const s = settings();
  tell({ ...inWords(s), loss: s.loss + ' %' });
}

// Computes the run, and shows it from a moment on.
async function compute(from, goOn) {
  const answer = await ask('cut-run');
  if (answer === null) return;
  run = answer;
  show();
  $('summary').textContent = run.summary;
  document.body.dataset.state = 'ready';
  seek(from);
  if (goOn) start();
}

function chart(way, number) {
  const s = settings(), most = (Number(s.rate1) + Number(s.rate2)) * 1e6 / 8 * run.interval_s;
  const svg = canvas();
  const clip = shape('rect', { x: 0, y: 0, width: 0, height: HEIGHT });
  const shown = shape('clipPath', { id: 'shown' + number });
  shown.append(clip);
  const inside = shape('g', { 'clip-path': `url(#shown${number})` });
  inside.append(...plot(way.carried, { events, end, interval: run.interval_s, most }));
  const cursor = shape('line', { class: 'now', y1: 0, y2: HEIGHT });
  svg.append(shown, inside, cursor);
  const height = `height: ${Number(s.rate1) + Number(s.rate2)} Mb/s`;
  return { clip, cursor, drawn: element('div', { className: 'chart' }, svg, axis('0 s', height, end.toFixed(1) + ' s')) };
}

function show() {
  end = run.end_s;
  $('time').max = end;
  panes = [];
  $('panes').replaceChildren();
  run.ways.forEach((way, number) => {
    const title = element('h2', { id: 'pane' + number, textContent: way.name });
    const bar = element('progress', { max: run.bytes, value: 0 });
    bar.setAttribute('aria-labelledby', title.id);
    const state = element('p', { className: 'state' });
    const { clip, cursor, drawn } = chart(way, number);
    const row = (name, ...before) => {
      const cell = element('td', {});
      return [cell, element('tr', {}, element('th', { scope: 'row' }, ...before, name), cell)];
    };
    const [pause, pauseRow] = row('longest time without data');
    const paths = way.carried.map((_, i) => row(`over path ${i + 1}`, element('i', { className: 'path' + (i + 1) })));
    const table = element('table', {}, element('tbody', {}, pauseRow, ...paths.map(([, line]) => line)));
    const section = element('section', {}, title, bar, state, drawn, table);
    section.dataset.carriage = way.key;
    section.setAttribute('aria-labelledby', title.id);
    $('panes').append(section);
    panes.push({ way, section, bar, state, clip, cursor, pause, paths: paths.map(([cell]) => cell) });
  });
}

// The sum of whole intervals until a moment.
function until(values, at) {
  const count = Math.floor(at / run.interval_s + 1e-9);
  return values.slice(0, count).reduce((sum, bytes) => sum + bytes, 0);
}

// The end of the last interval in which something arrived, of this many.
function lastArrival({ arrived }, count) {
  let i = Math.min(count, arrived.length) - 1;
  while (i >= 0 && arrived[i] === (arrived[i - 1] ?? 0)) i--;
  return (i + 1) * run.interval_s;
}

function seek(at) {
  move(at);
  // Without motion, the charts show the whole run.
  const seen = still() && playing === null ? end : now;
  for (const pane of panes) update(pane, seen);
  for (const button of document.querySelectorAll('button.path')) {
    const path = Number(button.dataset.path), down = isDown(path, now);
    button.classList.toggle('down', down);
    const text = (down ? 'Repair path ' : 'Cut path ') + path;
    if (button.lastChild.textContent !== text) button.lastChild.textContent = text;
  }
}

function update({ way, section, bar, state, clip, cursor, pause, paths }, seen) {
  clip.setAttribute('width', WIDTH * seen / end);
  const x = WIDTH * now / end;
  cursor.setAttribute('x1', x);
  cursor.setAttribute('x2', x);
  const isComplete = way.completed_s != null && way.completed_s <= now;
  const whole = Math.floor(now / run.interval_s + 1e-9);
  const arrived = isComplete ? run.bytes : whole ? way.arrived[Math.min(whole, way.arrived.length) - 1] ?? 0 : 0;
  bar.value = arrived;
  section.dataset.arrived = arrived;
  const share = Math.floor(100 * arrived / run.bytes) + ' %';
  const lengths = way.pauses.map(([from, to]) => [from, Math.min(to, now) - from]);
  const longest = Math.max(0, ...lengths.map(([, length]) => length));
  const waits = isComplete ? 0 : now - lastArrival(way, whole);
  const failed = way.failed_s != null && way.failed_s <= now;
  const waiting = waits >= Math.max(1, 2 * run.interval_s);
  section.classList.toggle('stuck', failed || waiting);
  state.textContent = isComplete ? `Complete after ${way.completed_s.toFixed(1)} s`
    : failed ? `${share}; the connection ended at ${way.failed_s.toFixed(1)} s`
    : waiting ? `${share}; no data for ${waits.toFixed(1)} s` : `${share}, ${megabytes(arrived)}`;
  pause.textContent = longest.toFixed(2) + ' s';
  paths.forEach((cell, i) => { cell.textContent = megabytes(until(way.carried[i], now)); });
}

function isDown(path, at) {
  return events.filter(event => event.path === path && event.at <= at).at(-1)?.cut ?? false;
}

// Cuts or repairs a path now. What was to happen later is forgotten.
function press(path) {
  if (run === null || document.body.dataset.state === 'computing') return;
  if (now >= end && run.ways.every(way => way.completed_s != null)) {
    $('hint').textContent = 'The whole file has arrived. Press Play, or move the time back, and cut a path while the file is on its way.';
    return;
  }
  const goOn = playing !== null || (document.body.dataset.state === 'done' && !still());
  // Rounded up, so that what has been shown stays.
  const at = Math.ceil(now * 100 - 1e-6) / 100, down = isDown(path, at);
  const here = event => event.path === path && event.at === at;
  const again = events.some(here);
  events = events.filter(event => event.at <= at && !here(event));
  if (!again) events.push({ path, at, cut: !down });
  $('hint').textContent = again ? '' : `Path ${path} ${down ? 'repaired' : 'cut'} at ${at.toFixed(2)} s.`;
  compute(at, goOn);
}

// Shows a run from its beginning, or all of it.
function begin() {
  compute(still() ? Infinity : 0, !still());
}

$('speed').append(...SPEEDS.map(speed => element('option', { value: speed, textContent: 'x' + speed })));
apply({ ...USUAL, ...Object.fromEntries(new URLSearchParams(location.search)) });
form.addEventListener('input', label);
form.addEventListener('change', begin);
for (const button of document.querySelectorAll('button.path')) {
  button.addEventListener('click', () => press(Number(button.dataset.path)));
}
$('play').addEventListener('click', () => {
  if (run === null) return;
  if (playing === null) start(); else { pauseHere(); seek(now); }
});
$('forget').addEventListener('click', () => { events = []; $('hint').textContent = ''; begin(); });
$('hint').textContent = 'Press “Cut path 1” while the file is on its way.';
begin();
