// The table of matches: it pages through the compact set by offset, which may be beyond 2^53, and
// shows a uniform sample on demand. Nothing lists the set.

import {
  api,
  canAskWhy,
  canStep,
  type EventRow,
  type Events,
  type Mark,
  type MatchPage,
  type MatchRow,
  type Run,
  type TimelineMatch,
} from "./api.ts";
import { h, iconButton, replace } from "./dom.ts";
import { groupDigits, plural } from "./numbers.ts";
import { makeTable } from "./table.ts";
import { showTime } from "./times.ts";

const PAGE = 20n;
const MOST_EVENTS = 100;
const NONE = "Nothing matches.";
const ASK = 'Nothing matches. Under "Why not?" you can pick events that should have matched, and see where they stop.';

export interface MatchesOptions {
  onSelect(match: TimelineMatch | null): void;
  laneOf(event: EventRow, variable: string): number;
  /** Called to follow the run at an event. */
  onStep(row: number): void;
  onTrouble(error: unknown): void;
}

/** Return the offsets of the pages around one, as text; null where there is none. */
export function pagesAround(
  offset: bigint,
  total: bigint,
  page = PAGE,
): { before: bigint | null; after: bigint | null; last: bigint } {
  const last = total === 0n ? 0n : ((total - 1n) / page) * page;
  return {
    before: offset > 0n ? (offset > page ? offset - page : 0n) : null,
    after: offset + page < total ? offset + page : null,
    last,
  };
}

/** Read what a visitor writes into "go to": a number from `first` to `last`, with or without commas. */
export function readNumber(text: string, first: bigint, last: bigint): bigint | null {
  const digits = text.replace(/[\s,_]/g, "");
  if (!/^\d{1,400}$/.test(digits)) return null;
  const number = BigInt(digits);
  return number >= first && number <= last ? number : null;
}

/** Make a field for a number from `first` to `last`; Enter goes there. */
export function makeGoTo(
  label: string,
  [first, last]: readonly [bigint, bigint],
  onGo: (number: bigint) => void,
): HTMLInputElement {
  const field = h("input", {
    type: "text",
    inputmode: "numeric",
    "aria-label": label,
    placeholder: "go to …",
    size: 9,
    keydown: (event: KeyboardEvent) => {
      const number = event.key === "Enter" ? readNumber(field.value, first, last) : null;
      if (number !== null) onGo(number);
      field.toggleAttribute("aria-invalid", event.key === "Enter" && number === null);
    },
  });
  return field;
}

/** Return the number that people see, from 1. */
function nameOf(index: string): string {
  return /^\d+$/.test(index) ? groupDigits(String(BigInt(index) + 1n)) : index;
}

/** Find the events of a row of the table, as marks on the timeline. */
export async function findMarks(
  run: Run,
  row: MatchRow & { index: string },
  laneOf: (event: EventRow, variable: string) => number,
): Promise<{ match: TimelineMatch; events: Events }> {
  const pairs = Object.entries(row.events).flatMap(([variable, rows]) => rows.map((at) => ({ at, variable })));
  pairs.sort((a, b) => a.at - b.at);
  const events = await api.events(run.run, [...new Set(pairs.map(({ at }) => at))].slice(0, MOST_EVENTS));
  const byRow = new Map(events.events.map((event) => [event.row, event]));
  const marks = pairs.flatMap(({ at, variable }) => {
    const event = byRow.get(at);
    return event ? [{ row: at, name: event.name, ts: event.ts, lane: laneOf(event, variable), variable }] : [];
  });
  return { match: { index: row.index, marks }, events };
}

/** Make the table of the events of a match. */
export function listEvents(caption: string, marks: readonly Mark[], { columns, events }: Events): HTMLElement {
  const byRow = new Map(events.map((event) => [event.row, event]));
  const lines = marks.map(({ row, variable }) => [
    { value: variable || "no variable" },
    { value: byRow.get(row)?.name },
    ...columns.map((_, i) => ({ value: byRow.get(row)?.values[i] })),
  ]);
  const heads = ["variable", "event", ...columns].map((name) => ({ name }));
  return makeTable(caption, heads, lines);
}

export class MatchesPanel {
  readonly element = h("div", { class: "matches" });
  readonly #table = h("div");
  readonly #detail = h("div", { class: "detail", "aria-live": "polite" });
  readonly #options: MatchesOptions;
  #run: Run | null = null;
  #seed = 0;
  #selected: string | null = null;
  #first: number | null = null;

  constructor(options: MatchesOptions) {
    this.#options = options;
    this.element.append(this.#detail, this.#table);
  }

  show(run: Run | null): void {
    this.#run = run;
    this.#selected = null;
    replace(this.#detail);
    replace(this.#table, run?.count === "0" && h("p", { class: "note none" }, canAskWhy(run) ? ASK : NONE));
    if (run !== null && run.count !== "0") void this.#turnTo(0n);
  }

  async #turnTo(offset: bigint): Promise<void> {
    await this.#load((run) => api.matches(run.run, String(offset), Number(PAGE)), offset);
  }

  async #drawSample(): Promise<void> {
    const seed = this.#seed++;
    await this.#load((run) => api.sample(run.run, Number(PAGE), seed), null);
  }

  async #load(ask: (run: Run) => Promise<MatchPage>, offset: bigint | null): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    try {
      const page = await ask(run);
      if (run === this.#run) this.#showPage(run, page, offset);
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }

  #showPage(run: Run, page: MatchPage, offset: bigint | null): void {
    const unit = run.time.unit;
    const timed = unit !== "row" && page.rows.some(({ start }) => start !== null);
    const placed = page.rows.some(({ start_number }) => start_number !== null);
    const columns = [
      { name: run.kind === "rows" ? "row" : "match" },
      ...(placed ? [{ name: "start", detail: "row" }, { name: "end", detail: "row" }] : []),
      ...(timed ? [{ name: "from" }, { name: "to" }] : []),
      ...page.columns.map((name) => ({ name })),
    ];
    const rows = page.rows.map((row, i) => {
      const match = { ...row, index: row.index ?? `sample ${i + 1}` };
      const times = timed ? [{ value: showTime(row.start, unit) }, { value: showTime(row.end, unit) }] : [];
      const places = placed ? [{ value: row.start_number }, { value: row.end_number }] : [];
      return [this.#opener(match), ...places, ...times, ...row.values.map((value) => ({ value }))];
    });
    replace(this.#table, this.#tools(page, offset), makeTable("Matches", columns, rows));
  }

  /** Make the button that selects a row; a row without events has its number only. */
  #opener(row: MatchRow & { index: string }): HTMLElement {
    const name = nameOf(row.index);
    if (Object.keys(row.events).length === 0) return h("span", { class: "empty" }, name);
    const pressed = String(this.#selected === row.index);
    const label = `Show match ${name}`;
    return h(
      "button",
      {
        type: "button",
        class: "link",
        "data-index": row.index,
        "aria-pressed": pressed,
        "aria-label": label,
        click: () => void this.#selectRow(row),
      },
      name,
    );
  }

  #tools(page: MatchPage, offset: bigint | null): HTMLElement {
    const total = BigInt(page.total);
    const { before, after, last } = pagesAround(offset ?? 0n, total);
    const turn = (label: string, sign: string, to: bigint | null): HTMLElement =>
      iconButton(label, sign, to === null ? null : () => void this.#turnTo(to));
    const go = makeGoTo("Go to match number", [1n, total], (number) => void this.#turnTo(number - 1n));
    const end = (offset ?? 0n) + BigInt(page.rows.length);
    const all = this.#run?.kind === "rows" ? plural(page.total, "row") : plural(page.total, "match", "matches");
    const words =
      offset === null
        ? `a uniform sample of ${page.rows.length}, of ${all}`
        : `${groupDigits(String(offset + 1n))}–${groupDigits(String(end))} of ${all}`;
    return h(
      "div",
      { class: "pager" },
      h("span", {}, words),
      turn("First matches", "⇤", offset === null || offset > 0n ? 0n : null),
      turn("Matches before", "←", offset === null ? null : before),
      turn("Matches after", "→", offset === null ? null : after),
      turn("Last matches", "⇥", offset !== null && offset < last ? last : null),
      go,
      h("button", { type: "button", class: "quiet", click: () => void this.#drawSample() }, "Sample"),
    );
  }

  /** The match that is open, with the position of its first event. */
  get opened(): { index: string; first: number } | null {
    return this.#selected === null || this.#first === null ? null : { index: this.#selected, first: this.#first };
  }

  /** Show a match's events; called for a row of the table, and by the page for a match on the timeline. */
  async select(match: TimelineMatch | null): Promise<void> {
    const run = this.#run;
    this.#selected = match?.index ?? null;
    this.#first = match === null || match.marks.length === 0 ? null : Math.min(...match.marks.map(({ row }) => row));
    this.#markRows();
    if (match === null || run === null) {
      replace(this.#detail);
      return;
    }
    const marks = match.marks.slice(0, MOST_EVENTS);
    try {
      const events = await api.events(run.run, [...new Set(marks.map(({ row }) => row))]);
      if (this.#selected !== match.index) return;
      const number = nameOf(match.index);
      const more = match.marks.length - marks.length;
      replace(
        this.#detail,
        h(
          "div",
          { class: "detail-head" },
          h("h3", {}, `Match ${number}`),
          h("span", {}, plural(match.marks.length, "event"), more > 0 && `, the first ${MOST_EVENTS} below`),
          canStep(run) && marks[0] !== undefined && this.#stepper(marks[0].row),
          iconButton("Close match", "×", () => this.#close()),
        ),
        listEvents(`Events of match ${number}`, marks, events),
      );
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }

  #stepper(row: number): HTMLElement {
    return h("button", { type: "button", class: "quiet", click: () => this.#options.onStep(row) }, "Step through");
  }

  #close(): void {
    void this.select(null);
    this.#options.onSelect(null);
  }

  #markRows(): void {
    for (const button of this.#table.querySelectorAll<HTMLElement>("button[data-index]")) {
      button.setAttribute("aria-pressed", String(button.dataset["index"] === this.#selected));
    }
  }

  async #selectRow(row: MatchRow & { index: string }): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    try {
      const { match } = await findMarks(run, row, (event, variable) => this.#options.laneOf(event, variable));
      this.#options.onSelect(match);
      await this.select(match);
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }
}
