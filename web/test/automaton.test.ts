import assert from "node:assert/strict";
import { test } from "node:test";
import type { AutomatonEdge, AutomatonState } from "../src/api.ts";
import { bundleEdges, labelOf, routeEdge, widthOf } from "../src/automaton.ts";

const state = (id: number, x: number, y = 50): AutomatonState => ({
  id,
  name: `after ${id}`,
  initial: id === 0,
  final: false,
  kind: "state",
  x,
  y,
});
const edge = (from: number, to: number, condition = "A", label = ""): AutomatonEdge => ({
  from,
  to,
  label,
  condition,
  kind: "read",
  count: "1",
  points: [],
});

test("edges between the same states are one line", () => {
  const bundles = bundleEdges([edge(0, 1), edge(1, 0), edge(0, 1, "B")]);
  assert.deepEqual(
    bundles.map((bundle) => bundle.length),
    [2, 1],
  );
});

test("a long label keeps what the event joins", () => {
  assert.equal(labelOf(edge(0, 1, "SELL with price > 100", "s")), "SELL with price > 100 → s");
  const long = labelOf(edge(0, 1, "x".repeat(100), "many"));
  assert.ok(long.length <= 46 && long.endsWith("… → many"));
});

test("an edge begins and ends at the pills of its states", () => {
  const [a, b] = [state(0, 100), state(1, 300)];
  const { d, label } = routeEdge(a, b, []);
  assert.ok(d.startsWith(`M${100 + widthOf(a) / 2} 50`));
  assert.ok(d.endsWith(`${300 - widthOf(b) / 2 - 2} 50`));
  assert.ok(Math.abs(label.x - 200) <= 1);
});

test("an edge that goes back runs below", () => {
  const { d, label } = routeEdge(state(1, 300), state(0, 100), [
    { x: 300, y: 120 },
    { x: 100, y: 120 },
  ]);
  assert.ok(d.includes("120"));
  assert.deepEqual(label, { x: 200, y: 116 });
});
