import assert from "node:assert/strict";
import { test } from "node:test";
import type { Automaton } from "../src/api.ts";
import { bowEdges, edgePath } from "../src/automaton.ts";

const state = (id: number, x: number) => ({ id, name: String(id), initial: id === 0, final: id === 2, x, y: 0 });
const edge = (from: number, to: number) => ({ from, to, label: "", condition: "", count: "1" });

test("an edge to the next state is straight, one that skips a state is bowed", () => {
  const automaton: Automaton = {
    states: [state(0, 0), state(1, 100), state(2, 200)],
    edges: [edge(0, 1), edge(1, 2), edge(0, 2)],
    width: 200,
    height: 0,
  };
  const [first, second, over] = bowEdges(automaton);
  assert.equal(first, 0);
  assert.equal(second, 0);
  assert.ok(over! > 0);
});

test("edges between the same states do not cover each other", () => {
  const automaton: Automaton = { states: [state(0, 0), state(1, 100)], edges: [edge(0, 1), edge(0, 1), edge(1, 0)], width: 100, height: 0 };
  const bows = bowEdges(automaton);
  assert.equal(new Set(bows.slice(0, 2)).size, 2);
  assert.ok(bows.every((bow) => bow > 0));
});

test("a loop stands above its state", () => {
  const { label } = edgePath({ x: 50, y: 50 }, { x: 50, y: 50 }, 0);
  assert.equal(label.x, 50);
  assert.ok(label.y < 30);
});
