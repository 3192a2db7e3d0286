import assert from "node:assert/strict";
import { test } from "node:test";
import type { Data } from "../src/api.ts";
import { quoteName, writeFirstQuery } from "../src/first.ts";

const data = (types: string[], unit: "ms" | "row" = "row"): Data => ({
  language: "ceql",
  streams: [
    {
      name: "trips",
      rows: 3,
      columns: [],
      type: null,
      types: types.map((name) => ({ name, count: 1 })),
      time: unit === "row" ? null : { column: "ts", first: 0, last: 1, unit },
    },
  ],
  density: null,
  notes: [],
});

test("the first query takes the most frequent types", () => {
  assert.equal(
    writeFirstQuery(data(["A", "B", "C"], "ms"), [])?.text,
    "SELECT *\nFROM trips\nWHERE A AS a ; B AS b\nWITHIN 5 MINUTES",
  );
  assert.match(writeFirstQuery(data(["A"]), [])?.text ?? "", /WHERE A AS a ; A AS b\nWITHIN 100 EVENTS/);
});

test("events without types are any events", () => {
  assert.match(writeFirstQuery(data([]), [])?.text ?? "", /WHERE \* AS a ; \* AS b/);
});

test("a name that is none in a query is quoted", () => {
  assert.equal(quoteName("SELL", ["WHERE"]), "SELL");
  assert.equal(quoteName("two words", ["WHERE"]), "`two words`");
  assert.equal(quoteName("`", ["WHERE"]), "````");
  assert.equal(quoteName("Where", ["WHERE"]), "`Where`");
});

test("graphs are asked for their triples", () => {
  const graphs: Data = { ...data([]), language: "spaseq" };
  const query = writeFirstQuery(graphs, []);
  assert.equal(query?.language, "spaseq");
  assert.match(query?.text ?? "", /FROM STREAM trips <urn:trips>\nWHERE \{\n  SEQ \(A\)/);
});
