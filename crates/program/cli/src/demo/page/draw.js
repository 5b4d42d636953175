'use strict';
// What all pages share: elements, and charts of what two paths carry.
const $ = id => document.getElementById(id);
const megabytes = bytes => (bytes / 1e6).toFixed(1) + ' MB';
const HEIGHT = 100, WIDTH = 1000;
// The rates that a path can have, in Mb/s.
const PATH_RATES = [0.5, 1, 2, 5, 10, 20, 50, 100];

// The settings of a file and two paths in words.
const inWords = s => ({ size: s.size + ' MB', rate1: s.rate1 + ' Mb/s', rtt1: s.rtt1 + ' ms', rate2: s.rate2 + ' Mb/s', rtt2: s.rtt2 + ' ms' });

// Writes the values of a form's sliders next to them.
function mark(form, texts) {
  for (const [name, text] of Object.entries(texts)) {
    form.querySelector(`[data-of=${name}]`).textContent = text;
    form.elements[name].setAttribute('aria-valuetext', text);
  }
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The area between two lines of steps, of the heights `low` and `high` in each interval.
function area(low, high, x, y) {
  let there = '', back = '';
  high.forEach((top, i) => {
    const [left, right] = [x(i), x(i + 1)].map(at => at.toFixed(2));
    there += `L${left} ${y(top)}L${right} ${y(top)}`;
    back = `L${right} ${y(low[i])}L${left} ${y(low[i])}` + back;
  });
  return there ? `M${x(0)} ${y(0)}${there}${back}Z` : '';
}

const canvas = () => shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });

// Texts below a chart.
function axis(...texts) {
  const made = element('div', { className: 'axis' }, ...texts.map(textContent => element('span', { textContent })));
  made.setAttribute('aria-hidden', 'true');
  return made;
}

// Periods in which a path is down, until `end`.
function outages(events, end) {
  const down = {}, periods = [];
  for (const { path, at, cut } of events) {
    if (cut) down[path] = at;
    else { periods.push([down[path], at]); delete down[path]; }
  }
  return periods.concat(Object.values(down).map(at => [at, end]));
}

// What the paths have carried in each interval, one on the other, and the cuts. At the height of the chart, `most` bytes
// are carried in an interval.
function plot(carried, { events, end, interval, most }) {
  const x = count => WIDTH * count * interval / end;
  const y = bytes => (HEIGHT * (1 - Math.min(1, bytes / most))).toFixed(2);
  const drawn = outages(events, end).map(([from, to]) =>
    shape('rect', { class: 'shade', x: WIDTH * from / end, y: 0, width: WIDTH * Math.max(0, to - from) / end, height: HEIGHT }));
  let low = Array(Math.max(...carried.map(path => path.length))).fill(0);
  carried.forEach((path, i) => {
    const high = low.map((bytes, at) => bytes + (path[at] ?? 0));
    drawn.push(shape('path', { class: 'path' + (i + 1), d: area(low, high, x, y) }));
    low = high;
  });
  const lines = events.map(({ at }) => shape('line', { class: 'cut', x1: WIDTH * at / end, x2: WIDTH * at / end, y1: 0, y2: HEIGHT }));
  return drawn.concat(lines);
}
