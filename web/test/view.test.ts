import assert from "node:assert/strict";
import { test } from "node:test";
import { clampView, panView, spanOf, timeToX, viewAround, wholeView, xToTime, zoomView } from "../src/view.ts";

test("zooming keeps the time under the pointer where it is", () => {
  const view = { from: 100, to: 200 };
  const around = xToTime(250, view, 1000);
  const zoomed = zoomView(view, 0.5, around);
  assert.equal(spanOf(zoomed), 50);
  assert.equal(timeToX(around, zoomed, 1000), 250);
});

test("panning keeps the span", () => {
  assert.deepEqual(panView({ from: 0, to: 10 }, 0.5), { from: 5, to: 15 });
});

test("a view stays inside the whole, and keeps its span if it can", () => {
  const whole = { from: 0, to: 100 };
  assert.deepEqual(clampView({ from: 90, to: 110 }, whole, 1), { from: 80, to: 100 });
  assert.deepEqual(clampView({ from: -500, to: 500 }, whole, 1), whole);
  assert.equal(spanOf(clampView({ from: 50, to: 50 }, whole, 4)), 4);
});

test("a stream of one instant has a view with room", () => {
  assert.ok(spanOf(wholeView({ from: 5, to: 5 })) > 0);
  assert.ok(spanOf(viewAround({ from: 5, to: 5 }, 2)) >= 4);
});
