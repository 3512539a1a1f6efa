/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs inside a page of the HTML report, in a frame of a browser. Tells the page around it what it found, as JSON:
 * a list of complaints, which should be empty, and what the page looks like. */
'use strict';
var complaints = [];
window.addEventListener('error', function (event) { complaints.push('script: ' + event.message); });
document.addEventListener('securitypolicyviolation', function (event) {
  complaints.push('the page wanted ' + event.blockedURI);
});

function luminance(color) {
  var part = color.match(/[\d.]+/g).slice(0, 3).map(function (text) {
    var value = text / 255;
    return value <= 0.03928 ? value / 12.92 : Math.pow((value + 0.055) / 1.055, 2.4);
  });
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
}

function contrast(a, b) {
  var x = luminance(a), y = luminance(b);
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

function groundOf(element) {
  for (; element; element = element.parentElement) {
    var color = getComputedStyle(element).backgroundColor;
    if (!/, 0\)$/.test(color)) return color;
  }
  return 'rgb(255, 255, 255)';
}

function checkContrast() {
  document.querySelectorAll('body, dt, dd, th, td, h4, a, summary, .soft, .good, .warning, .bad').forEach(
    function (element) {
      var ratio = contrast(getComputedStyle(element).color, groundOf(element));
      if (ratio < 4.5)
        complaints.push('contrast ' + ratio.toFixed(2) + ' of ' + element.outerHTML.slice(0, 80));
    });
}

function overlap(a, b) {
  return a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
}

function checkCharts() {
  document.querySelectorAll('svg').forEach(function (svg) {
    var frame = svg.getBoundingClientRect(), texts = Array.from(svg.querySelectorAll('text'));
    if (!(frame.width > 20 && frame.height > 5)) complaints.push('an invisible chart');
    Array.from(svg.querySelectorAll('text, rect, circle, line')).forEach(function (mark) {
      var at = mark.getBoundingClientRect();
      if (at.left < frame.left - 3 || at.right > frame.right + 3 || at.top < frame.top - 3 ||
          at.bottom > frame.bottom + 3)
        complaints.push('outside its chart: ' + mark.outerHTML);
    });
    texts.forEach(function (one, i) {
      texts.slice(i + 1).forEach(function (two) {
        if (overlap(one.getBoundingClientRect(), two.getBoundingClientRect()))
          complaints.push('on top of each other: ' + one.textContent + ' and ' + two.textContent);
      });
    });
  });
}

/* Three charts of a site are one row where there is room for them; labels of a small one can be read. */
function checkLayout() {
  document.querySelectorAll('.charts').forEach(function (charts) {
    var tops = Array.from(charts.children).map(function (chart) { return chart.getBoundingClientRect().top; });
    if (tops.length === 3 && document.documentElement.clientWidth >= 1200 && Math.max(...tops) > Math.min(...tops))
      complaints.push('three charts in more than one row');
  });
  document.querySelectorAll('svg.chart').forEach(function (svg) {
    var pixels = 12 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    var text = svg.querySelector('text');
    if (text) pixels *= parseFloat(getComputedStyle(text).fontSize) / 12;
    if (pixels < 10.5) complaints.push('letters of ' + pixels.toFixed(1) + ' pixels in a chart');
  });
}

function checkSorting() {
  document.querySelectorAll('table.sortable').forEach(function (table) {
    var count = table.tBodies[0].rows.length;
    table.querySelectorAll('th[data-key]').forEach(function (head) {
      ['first', 'second'].forEach(function () {
        head.querySelector('button').click();
        var column = head.cellIndex, up = head.getAttribute('aria-sort') === 'ascending';
        var values = Array.from(table.tBodies[0].rows).map(function (row) {
          return row.cells[column].dataset.v;
        });
        var known = values.filter(function (value) { return value !== ''; });
        if (values.length !== count) complaints.push('sorting lost rows');
        if (values.indexOf('') >= 0 && values.slice(values.indexOf('')).join('') !== '')
          complaints.push('unknown values are not last by ' + head.dataset.key);
        known.slice(1).forEach(function (value, i) {
          var number = head.dataset.kind === 'number';
          var x = number ? Number(known[i]) : known[i], y = number ? Number(value) : value;
          if (up ? x > y : x < y)
            complaints.push('not sorted by ' + head.dataset.key + ': ' + known.join(' '));
        });
      });
    });
  });
}

window.addEventListener('load', function () {
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth)
    complaints.push('wider than its window: ' + document.documentElement.scrollWidth);
  checkContrast();
  checkCharts();
  checkLayout();
  checkSorting();
  parent.postMessage(JSON.stringify({
    complaints: complaints,
    ground: getComputedStyle(document.body).backgroundColor,
    width: document.documentElement.clientWidth,
    charts: document.querySelectorAll('svg.chart').length,
  }), '*');
});
