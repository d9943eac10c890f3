"""The page of a report: its looks in light and dark, on paper, and its few lines of JavaScript.

The policy in its head forbids the page to fetch anything, whatever names it shows.
"""

from __future__ import annotations

import string

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6678; --line: #dde2ea;
  --card: #ffffff; --page: #f4f6f9; --mark: #2f6fde; --good: #1b7f4b; --bad: #c2272d;
  --s1: #2f6fde; --s2: #d0660a; --s3: #1f8f5f; --s4: #a63d94; --s5: #6d7686; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf3; --soft: #a3aec0; --line: #323b4a;
  --card: #1b222d; --page: #12171f; --mark: #6ea2ff; --good: #5fd39a; --bad: #ff8286;
  --s1: #6ea2ff; --s2: #ffa657; --s3: #5fd39a; --s4: #e58fd6; --s5: #a3aec0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); overflow-wrap: break-word;
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 40px 0 12px; }
h3 { font-size: 15px; margin: 0 0 8px; } a { color: var(--mark); }
p.lead, p.note { color: var(--soft); margin: 0 0 8px; white-space: pre-line; }
p.note { font-size: 13px; margin: 8px 0 0; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin-top: 12px; }
.tiles { display: grid; gap: 12px;
  grid-template-columns: repeat(auto-fit, minmax(min(45%, 230px), 1fr)); }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 14px 16px; } .tile b { display: block; font-size: 24px; font-weight: 650; }
.tile span { color: var(--soft); font-size: 13px; }
.card { padding: 16px; margin-top: 14px; min-width: 0; }
.scroll { overflow-x: auto; }
.pair { display: grid; gap: 0 14px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr)); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, .text th, .text td { text-align: left; }
th { color: var(--soft); font-weight: 600; font-size: 13px; vertical-align: bottom;
  white-space: pre; }
td { white-space: nowrap; } .text td, td:first-child { white-space: normal; }
.text td { overflow-wrap: anywhere; min-width: 4em; }
.text td:first-child:not(.light) { min-width: 9em; }
tr:last-child td { border-bottom: 0; }
td.bar { width: 34%; text-align: left; }
td.bar i { display: block; height: 10px; border-radius: 5px; background: var(--mark); }
.text td.light, .text td.number { white-space: nowrap; }
td.light { font-weight: 600; }
td.light i { display: inline-block; width: 12px; height: 12px; margin-right: 8px;
  border: 2px solid var(--soft); border-radius: 50%; }
td.passed { color: var(--good); }
td.passed i { background: var(--good); border-color: var(--good); }
td.failed { color: var(--bad); }
td.failed i { background: var(--bad); border-color: var(--bad); border-radius: 0; }
td.unknown { color: var(--soft); }
svg, img { max-width: 100%; height: auto; display: block; } svg { width: 100%; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
img { border-radius: 6px; } .panels img, img.blocks { width: 100%; }
img.blocks { image-rendering: pixelated; }
figure { margin: 14px 0 0; } figcaption { color: var(--soft); font-size: 13px; margin-top: 6px; }
.panels { display: grid; gap: 12px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 240px), 1fr)); }
.panels.wide { grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
.panels figure { margin: 0; }
.controls { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; }
.controls[hidden] { display: none; }
.controls label { display: flex; gap: 8px; align-items: center; }
.controls .run { flex: 1 1 260px; } .controls input { flex: 1; min-width: 0; }
button, select { font: inherit; color: inherit; background: var(--page); padding: 3px 10px;
  border: 1px solid var(--line); border-radius: 6px; }
:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
.frame h3 { margin: 14px 0 8px; }
.scales { display: grid; gap: 12px 24px; margin-top: 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }
.scale { font-size: 13px; color: var(--soft); print-color-adjust: exact; }
.scale .colours { display: flex; height: 12px; border-radius: 4px; overflow: hidden; }
.scale .colours i { flex: 1; } .scale .ends { display: flex; justify-content: space-between; }
.scale .ends.steps span { flex: 1; text-align: right; } .scale .ends.steps { margin-right: -4px; }
.swatch { display: inline-block; width: 12px; height: 12px; border-radius: 3px;
  vertical-align: -1px; margin: 0 4px 0 12px; border: 1px solid var(--line);
  print-color-adjust: exact; }
summary { cursor: pointer; font-weight: 600; }
@media screen { .frame.off { display: none; } }
@media (max-width: 500px) { main { padding: 20px 12px 40px; } .card { padding: 12px; } }
@media print { :root { --page: #ffffff; --card: #ffffff; --ink: #000000; --soft: #444444;
    --line: #bbbbbb; --s1: #2f6fde; --s2: #d0660a; --s3: #1f8f5f; --s4: #a63d94; }
  body { font-size: 11px; } main { max-width: none; padding: 0; }
  nav, .controls { display: none !important; } .scroll { overflow: visible; }
  th, td { font-size: 7.5px; padding: 2px; white-space: normal !important; }
  .panels, .panels.wide { grid-template-columns: 1fr 1fr; }
  .card, .tile, figure, .frame, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .card.long { break-inside: auto; } i { print-color-adjust: exact; } }
"""

SCRIPT = """
'use strict';
for (const viewer of document.querySelectorAll('.viewer')) {
  const frames = [...viewer.querySelectorAll('.frame')];
  const slider = viewer.querySelector('input');
  const order = viewer.querySelector('select');
  let row = frames;
  let at = 0;
  const show = (place) => {
    at = Math.min(Math.max(place, 0), row.length - 1);
    frames.forEach((frame) => frame.classList.toggle('off', frame !== row[at]));
    slider.value = at;
    slider.setAttribute('aria-valuetext', row[at].dataset.label);
    viewer.querySelector('output').textContent = `${at + 1} of ${row.length}`;
  };
  slider.addEventListener('input', () => show(Number(slider.value)));
  for (const button of viewer.querySelectorAll('button')) {
    button.addEventListener('click', () => show(at + Number(button.dataset.step)));
  }
  order.addEventListener('change', () => {
    const current = row[at];
    row = order.value === 'worst' ? frames
      : [...frames].sort((a, b) => a.dataset.place - b.dataset.place);
    show(row.indexOf(current));
  });
  const follow = () => {
    const target = row.findIndex((frame) => `#${frame.id}` === location.hash);
    if (target >= 0) { show(target); viewer.scrollIntoView(); }
  };
  addEventListener('hashchange', follow);
  viewer.querySelector('.controls').hidden = false;
  show(0);
  follow();
}
addEventListener('beforeprint', () => {
  for (const part of document.querySelectorAll('details')) { part.open = true; }
});
"""

PAGE = string.Template("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>$style</style></head><body><main><h1>$title</h1><p class="lead">$lead</p>
$sections
</main><script>$script</script></body></html>
""")
