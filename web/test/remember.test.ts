import assert from "node:assert/strict";
import { test } from "node:test";
import { recall, remember, type Remembered } from "../src/remember.ts";

const QUESTION: Remembered = {
  query: "SELECT * FROM S WHERE A -- ü\n",
  language: "ceql",
  source: { uploads: ["1f"], time: "at" },
  offered: false,
};

function makeStore(): Pick<Storage, "getItem" | "setItem" | "removeItem"> {
  const items = new Map<string, string>();
  return {
    getItem: (name) => items.get(name) ?? null,
    setItem: (name, value) => void items.set(name, value),
    removeItem: (name) => void items.delete(name),
  };
}

test("a question is remembered with its source, and forgotten", () => {
  const store = makeStore();
  assert.equal(recall("", store), null);
  remember(QUESTION, "", store);
  assert.deepEqual(recall("", store), { ...QUESTION, fragment: "" });
  remember(null, "", store);
  assert.equal(recall("", store), null);
});

test("a link that is opened later comes before what was remembered", () => {
  const store = makeStore();
  remember(QUESTION, "#query=A", store);
  assert.equal(recall("#query=B", store), null);
  assert.notEqual(recall("#query=A", store), null);
});

test("where storage is forbidden, nothing is remembered and nothing fails", () => {
  const forbidden = {
    getItem: () => assert.fail("forbidden"),
    setItem: () => assert.fail("forbidden"),
    removeItem: () => assert.fail("forbidden"),
  };
  remember(QUESTION, "", forbidden);
  assert.equal(recall("", forbidden), null);
});
