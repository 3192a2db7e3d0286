import assert from "node:assert/strict";
import { test } from "node:test";
import type { Timeline } from "../src/api.ts";
import { describe, heightOf, hitAt, laneMiddle, shade, type Picture } from "../src/draw.ts";

const timeline: Timeline = {
  from: 0,
  to: 100,
  lanes: [
    { name: "A", total: 1, bins: [1, 0] },
    { name: "B", total: 2, bins: [1, 1] },
  ],
  events: [
    { row: 0, name: "row 0", lane: 0, ts: 10, label: "A" },
    { row: 1, name: "row 1", lane: 1, ts: 50, label: "B" },
  ],
  matches: [
    {
      index: "7",
      marks: [
        { row: 0, name: "row 0", lane: 0, ts: 10, variable: "a" },
        { row: 1, name: "row 1", lane: 1, ts: 50, variable: "b" },
      ],
    },
  ],
  ends: { bins: ["0", "100000000000000000000"] },
};

const picture: Picture = {
  view: { from: 0, to: 100 },
  unit: "number",
  width: 1000,
  timeline,
  lanes: 2,
  selected: null,
  picked: [],
  playhead: null,
};

test("a click near a mark selects its match, and a click aside nothing", () => {
  const hit = hitAt(104, laneMiddle(0, 2) + 3, picture, false);
  assert.equal(hit?.kind === "match" && hit.match.index, "7");
  assert.equal(hitAt(300, laneMiddle(0, 2), picture, false), null);
  assert.equal(hitAt(100, laneMiddle(1, 2), picture, false), null);
});

test("in picking, a click takes the event", () => {
  const hit = hitAt(500, laneMiddle(1, 2), picture, true);
  assert.equal(hit?.kind === "event" && hit.row, 1);
});

test("in picking, the marks of matches are events where there are too many to show", () => {
  const hit = hitAt(500, laneMiddle(1, 2), { ...picture, timeline: { ...timeline, events: [] } }, true);
  assert.equal(hit?.kind === "event" && hit.row, 1);
});

test("a single event beside a million is still seen", () => {
  assert.equal(shade(0, 1e6), 0);
  assert.ok(shade(1, 1e6) > 0.2);
  assert.equal(shade(1e6, 1e6), 1);
});

test("the words say how many events and matches are in view", () => {
  assert.equal(describe(timeline), "In view: A 1, B 2; 1.00 × 10²⁰ matches end here.");
});

test("the picture grows with its lanes", () => {
  assert.equal(heightOf(3) - heightOf(2), laneMiddle(1, 2) - laneMiddle(0, 2));
});
