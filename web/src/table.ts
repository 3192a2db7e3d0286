// Tables of the page: plain HTML tables whose cells are text.

import { h } from "./dom.ts";
import { showValue } from "./numbers.ts";

export interface Column {
  name: string;
  detail?: string;
  /** Numbers stand at the right. */
  right?: boolean;
}

type Cell = Node | { value: unknown };

const LONGEST = 200;

const INSTANT = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d*[1-9])?)(?:\.?0+)?Z?$/;

/** Return a value as a cell shows it: times without T and zeros, long texts cut. */
export function cellText(value: unknown): string {
  const text = showValue(value).replace(INSTANT, "$1 $2");
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

/** Make a table in a box that scrolls. */
export function makeTable(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
): HTMLElement {
  const head = columns.map(({ name, detail, right }) =>
    h("th", { scope: "col", class: right ? "right" : null }, name, detail ? h("small", {}, detail) : null),
  );
  const body = rows.map((cells) =>
    h(
      "tr",
      {},
      ...cells.map((cell, i) => {
        if (cell instanceof Node) return h("td", {}, cell);
        const empty = cell.value === null || cell.value === undefined;
        const right = columns[i]?.right || typeof cell.value === "number";
        return h(
          "td",
          { class: [right && "right", empty && "empty"].filter(Boolean).join(" ") || null },
          cellText(cell.value),
        );
      }),
    ),
  );
  return h(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)),
  );
}
