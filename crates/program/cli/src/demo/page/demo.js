'use strict';
const RATES = [28.8, 56, 64, 128, 256, 512, 1000, 2000, 5000, 10000];
const SPEEDS = [1, 2, 5, 10, 20];
// Conditions from the documents, with the documents' names.
const PRESETS = [
  ['56Kbps.1080ms', 56, 1080], ['64Kbps.200ms', 64, 200], ['128Kbps.200ms', 128, 200], ['256Kbps.200ms', 256, 200],
  ['1Mbps.120ms', 1000, 120], ['1Mbps.200ms', 1000, 200], ['1Mbps.350ms', 1000, 350], ['1Mbps.850ms', 1000, 850],
  ['1Mbps.1100ms', 1000, 1100],
];
const USUAL = { loss: '4.3', burst: '1', rtt: '1080', rate: '56', objects: '10', streams: '10', seed: '1', show: 'sctp,tcp1,http3', speed: '5' };
// A picture of one transparent pixel.
const NOTHING = 'data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==';
const pictures = new Map();

function settings() {
  const f = fields();
  return { loss: f.loss.value, burst: f.burst.value, rtt: f.rtt.value, rate: String(RATES[f.rate.value]), objects: f.objects.value,
    streams: f.streams.value, seed: f.seed.value, show: chosen() };
}

function apply(wanted) {
  const f = fields();
  for (const name of ['loss', 'burst', 'rtt', 'objects', 'streams', 'seed']) f[name].value = wanted[name];
  f.rate.value = nearest(RATES, Number(wanted.rate));
  choose(wanted.show);
  $('speed').value = wanted.speed;
  label();
}

function label() {
  const s = settings();
  const texts = { loss: s.loss + ' %', burst: s.burst, rtt: s.rtt + ' ms', rate: s.rate + ' kb/s', objects: s.objects, streams: s.streams };
  const preset = PRESETS.find(([, rate, rtt]) => rate === Number(s.rate) && rtt === Number(s.rtt));
  fields().preset.value = preset ? preset[0] : '';
  tell(texts);
}

async function picture(name) {
  if (!pictures.has(name)) {
    pictures.set(name, fetch(name).then(answer => answer.arrayBuffer()));
  }
  return pictures.get(name);
}

async function compute() {
  const run = await ask('run', answer => Promise.all(answer.panes.flatMap(pane => pane.objects.map(object => picture(object.picture)))));
  if (run === null) return;
  $('summary').textContent = run.summary;
  await show(run);
  document.body.dataset.state = 'ready';
  if (!still()) start();
}

async function show(run) {
  end = Math.max(1, ...run.panes.map(pane => pane.page_s ?? 0));
  $('time').max = end;
  panes = [];
  $('panes').replaceChildren();
  for (const [number, pane] of run.panes.entries()) {
    const images = pane.objects.map(() => element('img', { alt: 'not there yet', src: NOTHING, onerror: blank }));
    const bars = pane.objects.map(() => element('i', {}));
    const lines = element('div', { className: 'lines' }, ...bars.map(bar => element('div', { className: 'row' }, bar)));
    lines.setAttribute('aria-hidden', 'true');
    const rows = [], labelled = [];
    for (const percent of [25, 50, 75, 100]) {
      const at = pane.ppage_s?.[percent];
      if (at == null) continue;
      const mark = element('div', { className: 'mark' }, element('span', { textContent: percent + ' %' }));
      mark.style.left = `min(${100 * at / end}%, 100% - 2px)`;
      // If marks are close to each other, only the earlier label is shown.
      if (at / end > 0.95) mark.classList.add('late');
      if (labelled.some(other => Math.abs(other - at) < 0.12 * end)) mark.firstChild.hidden = true; else labelled.push(at);
      lines.append(mark);
      rows.push(element('tr', {}, element('th', { scope: 'row', textContent: percent === 100 ? 'all of it' : percent + ' % of all pictures' }),
        element('td', { textContent: at.toFixed(1) + ' s' })));
    }
    // QUIC does not report its timeouts.
    const [what, counts] = pane.timeouts == null ? ['packets taken for lost', String(pane.fast_retransmits)]
      : ['timeouts, fast retransmits', pane.timeouts + ', ' + pane.fast_retransmits];
    rows.push(element('tr', {}, element('th', { scope: 'row', textContent: what }), element('td', { textContent: counts })));
    const title = element('h2', { id: 'pane' + number, textContent: pane.name });
    const section = element('section', { }, title, element('div', { className: 'pictures' }, ...images), lines,
      element('table', {}, element('tbody', {}, ...rows)));
    section.dataset.carriage = pane.carriage;
    section.setAttribute('aria-labelledby', title.id);
    $('panes').append(section);
    const data = await Promise.all(pane.objects.map(object => picture(object.picture)));
    panes.push({ pane, images, bars, data, section, drawn: pane.objects.map(() => -1) });
  }
  seek(0);
}

function bytesAt(arrivals, at) {
  let low = 0, high = arrivals.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (arrivals[middle][0] <= at) low = middle + 1; else high = middle;
  }
  return low ? arrivals[low - 1][1] : 0;
}

// A few bytes are not enough to draw anything. An error may belong to the image's previous content.
function blank({ target }) {
  if (!target.complete || target.naturalWidth > 0 || !target.src.startsWith('blob:')) return;
  URL.revokeObjectURL(target.src);
  target.src = NOTHING;
}

// Draws the received part of a picture.
function draw(image, data, bytes, name) {
  const share = Math.round(100 * bytes / data.byteLength);
  image.alt = `${name}: ${share} % has come`;
  image.dataset.share = share;
  const old = image.src;
  if (bytes === 0) {
    image.src = NOTHING;
  } else {
    image.src = URL.createObjectURL(new Blob([data.slice(0, bytes)], { type: 'image/jpeg' }));
  }
  if (old.startsWith('blob:')) URL.revokeObjectURL(old);
}

function seek(at) {
  move(at);
  for (const { pane, images, bars, data, section, drawn } of panes) {
    let whole = 0;
    pane.objects.forEach((object, i) => {
      const bytes = bytesAt(object.arrivals, now);
      if (bytes >= data[i].byteLength) whole++;
      if (bytes === drawn[i]) return;
      drawn[i] = bytes;
      bars[i].style.width = 100 * bytes / data[i].byteLength + '%';
      draw(images[i], data[i], bytes, 'picture ' + (i + 1));
    });
    section.dataset.whole = whole;
  }
}

fields().preset.append(element('option', { value: '', textContent: 'as set below' }),
  ...PRESETS.map(([name]) => element('option', { value: name, textContent: name })));
$('speed').append(...SPEEDS.map(speed => element('option', { value: speed, textContent: 'x' + speed })));
apply({ ...USUAL, ...Object.fromEntries(new URLSearchParams(location.search)) });
form.addEventListener('input', event => {
  if (event.target.name === 'preset') {
    const preset = PRESETS.find(([name]) => name === event.target.value);
    if (!preset) return;
    fields().rate.value = nearest(RATES, preset[1]);
    fields().rtt.value = preset[2];
  }
  label();
});
form.addEventListener('change', compute);
$('play').addEventListener('click', () => {
  if (playing === null) start(); else pauseHere();
});
compute();
