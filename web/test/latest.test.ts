import assert from "node:assert/strict";
import { test } from "node:test";
import { Latest } from "../src/latest.ts";

test("while a request is under way, only the latest wish waits", async () => {
  const asked: number[] = [];
  const ends: (() => void)[] = [];
  const latest = new Latest<number>((wish) => {
    asked.push(wish);
    return new Promise((resolve) => ends.push(resolve));
  });
  const all = latest.ask(1);
  void latest.ask(2);
  void latest.ask(3);
  ends[0]!();
  await new Promise((resolve) => setImmediate(resolve));
  ends[1]!();
  await all;
  assert.deepEqual(asked, [1, 3]);
});

test("a wish after a failure is fulfilled", async () => {
  const asked: number[] = [];
  const latest = new Latest<number>(async (wish) => {
    asked.push(wish);
    if (wish === 1) throw new Error("no");
  });
  await assert.rejects(latest.ask(1));
  await latest.ask(2);
  assert.deepEqual(asked, [1, 2]);
});
