// Drawing the timeline: aggregates and a few marks on a canvas. Costs O(bins × lanes), whatever the
// number of events: there is no object per event.

import type { Timeline, TimelineMatch, Unit } from "./api.ts";
import { logOfText, shortCount } from "./numbers.ts";
import { tickLabel, tickStep, ticksBetween } from "./times.ts";
import { spanOf, timeToX, type View } from "./view.ts";

export const AXIS = 26;
export const ENDS = 30;
const LABEL_ROOM = 84;
const DOT = 4.5;

export interface Palette {
  lanes: readonly string[];
  text: string;
  faint: string;
  line: string;
  ground: string;
  accent: string;
  picked: string;
  font: string;
}

export interface Picture {
  view: View;
  unit: Unit;
  width: number;
  timeline: Timeline;
  lanes: number;
  selected: TimelineMatch | null;
  picked: readonly { ts: number; lane: number }[];
  playhead: number | null;
}

/** Return the height of a lane: few lanes are tall. */
export const laneHeight = (lanes: number): number => (lanes <= 4 ? 46 : lanes <= 8 ? 38 : 30);
export const heightOf = (lanes: number): number => AXIS + Math.max(1, lanes) * laneHeight(lanes) + ENDS;
export const laneMiddle = (lane: number, lanes: number): number => AXIS + (lane + 0.5) * laneHeight(lanes) + 3;
export const colourOf = (palette: Palette, lane: number): string =>
  palette.lanes[lane % palette.lanes.length] ?? palette.text;

/** Return how dark a bin is, from 0 to 1: by the logarithm, so that a single event is still seen. */
export function shade(count: number, most: number): number {
  if (count <= 0) return 0;
  return most <= 1 ? 1 : 0.25 + 0.75 * (Math.log1p(count) / Math.log1p(most));
}

function drawAxis(context: CanvasRenderingContext2D, picture: Picture, palette: Palette, height: number): void {
  const { view, unit, width } = picture;
  const step = tickStep(spanOf(view), width / LABEL_ROOM, unit);
  context.font = `11px ${palette.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const time of ticksBetween(view.from, view.to, step)) {
    const x = Math.round(timeToX(time, view, width)) + 0.5;
    context.strokeStyle = palette.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, AXIS - 8);
    context.lineTo(x, height);
    context.stroke();
    context.fillStyle = palette.faint;
    const label = tickLabel(time, step, unit);
    if (x + 4 + context.measureText(label).width < width) context.fillText(label, x + 4, 10);
  }
}

function drawLanes(context: CanvasRenderingContext2D, picture: Picture, palette: Palette): void {
  const { timeline, lanes, view, width } = picture;
  const asMarks = timeline.events.length > 0;
  const most = Math.max(1, ...timeline.lanes.flatMap((lane) => lane.bins));
  for (let i = 0; i < lanes; i++) {
    const lane = timeline.lanes[i];
    const middle = laneMiddle(i, lanes);
    context.strokeStyle = palette.line;
    context.beginPath();
    context.moveTo(0, middle + 0.5);
    context.lineTo(width, middle + 0.5);
    context.stroke();
    if (lane === undefined || asMarks) continue;
    context.fillStyle = colourOf(palette, i);
    const size = spanOf(timeline) / lane.bins.length;
    for (const [bin, count] of lane.bins.entries()) {
      if (count === 0) continue;
      const x = timeToX(timeline.from + bin * size, view, width);
      const right = timeToX(timeline.from + (bin + 1) * size, view, width);
      if (right < 0 || x > width) continue;
      const part = shade(count, most);
      const tall = 4 + part * laneHeight(lanes) * 0.45;
      context.globalAlpha = 0.25 + 0.5 * part;
      context.fillRect(x, middle - tall / 2, Math.max(1, right - x - (right - x > 5 ? 1 : 0)), tall);
    }
    context.globalAlpha = 1;
  }
  for (const event of timeline.events) {
    const lane = event.lane;
    const x = timeToX(event.ts, view, width);
    if (lane < 0 || x < -DOT || x > width + DOT) continue;
    context.globalAlpha = 0.55;
    context.fillStyle = colourOf(palette, lane);
    disc(context, x, laneMiddle(lane, lanes), DOT - 1);
    context.globalAlpha = 1;
  }
}

function disc(context: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

/** Draw a match: its marks, joined in the order of time. */
function drawMatch(
  context: CanvasRenderingContext2D,
  match: TimelineMatch,
  picture: Picture,
  palette: Palette,
  bold: boolean,
): void {
  const points = match.marks
    .map((mark) => ({ x: timeToX(mark.ts, picture.view, picture.width), lane: mark.lane }))
    .filter(({ lane }) => lane >= 0);
  context.strokeStyle = bold ? palette.accent : palette.text;
  context.lineWidth = bold ? 2.5 : 1;
  context.globalAlpha = bold ? 1 : 0.4;
  context.lineJoin = "round";
  context.beginPath();
  let before: { x: number; y: number } | null = null;
  for (const { x, lane } of points) {
    const y = laneMiddle(lane, picture.lanes);
    if (before === null) context.moveTo(x, y);
    else if (before.y === y)
      context.quadraticCurveTo((before.x + x) / 2, y - Math.min(12, Math.abs(x - before.x) / 3), x, y);
    else context.bezierCurveTo((before.x + x) / 2, before.y, (before.x + x) / 2, y, x, y);
    before = { x, y };
  }
  context.stroke();
  context.globalAlpha = 1;
  for (const { x, lane } of points) {
    context.fillStyle = palette.ground;
    disc(context, x, laneMiddle(lane, picture.lanes), bold ? DOT + 2 : DOT);
    context.fillStyle = bold ? palette.accent : colourOf(palette, lane);
    disc(context, x, laneMiddle(lane, picture.lanes), bold ? DOT + 0.5 : DOT - 1);
  }
}

function drawEnds(context: CanvasRenderingContext2D, picture: Picture, palette: Palette): void {
  const { timeline, view, width } = picture;
  const top = AXIS + picture.lanes * laneHeight(picture.lanes) + 6;
  const bins = timeline.ends.bins;
  const logs = bins.map((text) => (text === "0" ? -1 : logOfText(text)));
  const most = Math.max(0, ...logs);
  context.fillStyle = palette.accent;
  const size = spanOf(timeline) / Math.max(1, bins.length);
  for (const [bin, log] of logs.entries()) {
    if (log < 0) continue;
    const x = timeToX(timeline.from + bin * size, view, width);
    const right = timeToX(timeline.from + (bin + 1) * size, view, width);
    const tall = 3 + 15 * (most > 0 ? log / most : 1);
    context.globalAlpha = 0.75;
    context.fillRect(x, top + 18 - tall, Math.max(1.5, right - x - (right - x > 5 ? 1 : 0)), tall);
  }
  context.globalAlpha = 1;
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(0, top + 18.5);
  context.lineTo(width, top + 18.5);
  context.stroke();
}

/** Draw everything. The context is scaled so that its units are CSS pixels. */
export function draw(context: CanvasRenderingContext2D, picture: Picture, palette: Palette): void {
  const height = heightOf(picture.lanes);
  context.clearRect(0, 0, picture.width, height);
  drawAxis(context, picture, palette, height);
  drawLanes(context, picture, palette);
  drawEnds(context, picture, palette);
  for (const match of picture.timeline.matches) {
    if (match.index !== picture.selected?.index) drawMatch(context, match, picture, palette, false);
  }
  if (picture.selected) drawMatch(context, picture.selected, picture, palette, true);
  for (const { ts, lane } of picture.picked) {
    if (lane < 0) continue;
    context.strokeStyle = palette.picked;
    context.lineWidth = 2.5;
    context.beginPath();
    context.arc(timeToX(ts, picture.view, picture.width), laneMiddle(lane, picture.lanes), DOT + 4, 0, 2 * Math.PI);
    context.stroke();
  }
  if (picture.playhead !== null) {
    const x = timeToX(picture.playhead, picture.view, picture.width);
    context.strokeStyle = palette.picked;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, AXIS - 8);
    context.lineTo(x, height);
    context.stroke();
    context.fillStyle = palette.picked;
    disc(context, x, AXIS - 8, 3.5);
  }
}

/** What the pointer can hit: a mark of a match, or an event. */
export type Hit =
  { kind: "match"; match: TimelineMatch } | { kind: "event"; row: number; name: string; ts: number; lane: number; label: string };

const REACH = 9;

/** Return what lies under a point; with `events`, single events come before matches. */
export function hitAt(x: number, y: number, picture: Picture, events: boolean): Hit | null {
  let best: Hit | null = null;
  let nearest = REACH;
  const consider = (ts: number, lane: number, hit: () => Hit): void => {
    if (lane < 0) return;
    const distance = Math.hypot(timeToX(ts, picture.view, picture.width) - x, laneMiddle(lane, picture.lanes) - y);
    if (distance < nearest) [nearest, best] = [distance, hit()];
  };
  for (const event of picture.timeline.events) {
    consider(event.ts, event.lane, () => ({ kind: "event", ...event }));
  }
  if (events && best !== null) return best;
  nearest = REACH + 0.01;
  for (const match of picture.timeline.matches) {
    for (const mark of match.marks) {
      if (events) {
        consider(mark.ts, mark.lane, () => ({
          kind: "event",
          row: mark.row,
          name: mark.name,
          ts: mark.ts,
          lane: mark.lane,
          label: mark.variable,
        }));
      } else {
        consider(mark.ts, mark.lane, () => ({ kind: "match", match }));
      }
    }
  }
  return best;
}

/** Say in words what is in view, for those who do not see the picture. */
export function describe(timeline: Timeline): string {
  const lanes = timeline.lanes.map(({ name, bins }) => `${name} ${shortCount(bins.reduce((sum, n) => sum + n, 0))}`);
  const ends = timeline.ends.bins.reduce((sum, text) => sum + BigInt(text), 0n);
  const matches = ends === 1n ? "1 match ends" : `${shortCount(String(ends))} matches end`;
  return `In view: ${lanes.join(", ") || "no events"}; ${matches} here.`;
}
