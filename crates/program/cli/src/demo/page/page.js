'use strict';
// What pages that replay share: settings, the computation, and the time. A page's own script has `settings`, `label` and
// `seek`.
const form = $('settings');
let panes = [], end = 1, now = 0, playing = null, asked = 0;

const fields = () => form.elements;
const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
const nearest = (rates, rate) => rates.reduce((best, r, i) => Math.abs(r - rate) < Math.abs(rates[best] - rate) ? i : best, 0);

// The names of the panes that are chosen, with commas between them.
const chosen = () => [...form.querySelectorAll('[name=show]:checked')].map(box => box.value).join(',');

function choose(show) {
  const names = show.split(',');
  form.querySelectorAll('[name=show]').forEach(box => { box.checked = names.includes(box.value); });
}

// Writes the values of the sliders next to them, and the link to these settings.
function tell(texts) {
  mark(form, texts);
  $('link').href = '?' + new URLSearchParams({ ...settings(), speed: $('speed').value });
}

// What the program computes for the settings, after `prepare` has run with it. Null if it failed, or if another
// computation has begun meanwhile.
async function ask(path, prepare = async () => {}) {
  stop();
  label();
  history.replaceState(null, '', $('link').href);
  const turn = ++asked;
  document.body.dataset.state = 'computing';
  $('summary').textContent = 'Computing …';
  let answer;
  try {
    const fetched = await fetch(path + '?' + new URLSearchParams(settings()));
    answer = await fetched.json();
    if (!fetched.ok) throw new Error(answer.error);
    await prepare(answer);
  } catch (error) {
    if (turn === asked) { $('summary').textContent = 'It cannot be computed: ' + error.message; document.body.dataset.state = 'failed'; }
    return null;
  }
  return turn === asked ? answer : null;
}

// Sets the time, and shows it.
function move(at) {
  now = Math.min(Math.max(at, 0), end);
  $('time').value = now;
  $('time').setAttribute('aria-valuetext', now.toFixed(1) + ' seconds');
  $('clock').textContent = now.toFixed(1) + ' s';
}

function start() {
  if (now >= end) seek(0);
  $('play').textContent = 'Pause';
  document.body.dataset.state = 'playing';
  let last = performance.now();
  const step = time => {
    if (playing === null) return;
    seek(now + Math.max(0, time - last) / 1000 * Number($('speed').value));
    last = time;
    if (now >= end) { stop(); document.body.dataset.state = 'done'; return; }
    playing = requestAnimationFrame(step);
  };
  playing = requestAnimationFrame(step);
}

function stop() {
  if (playing !== null) cancelAnimationFrame(playing);
  playing = null;
  $('play').textContent = 'Play';
}

function pauseHere() {
  stop();
  document.body.dataset.state = 'ready';
}

form.addEventListener('submit', event => event.preventDefault());
$('time').addEventListener('input', event => { pauseHere(); seek(Number(event.target.value)); });
$('speed').addEventListener('change', () => { label(); history.replaceState(null, '', $('link').href); });
