// "Why not": the visitor picks events that should have matched, and the server says at which step and
// at which condition they stopped. The funnel beside it counts how far all partial matches get.

import { api, type EventRow, type FoundEvents, type Run, type Search, type Why } from "./api.ts";
import { h, iconButton, replace } from "./dom.ts";
import { FunnelView } from "./funnel.ts";
import { Latest } from "./latest.ts";
import { makeGoTo } from "./matches.ts";
import { groupDigits } from "./numbers.ts";
import { cellText, makeTable } from "./table.ts";
import type { PickedEvent } from "./timeline.ts";

const PAGE = 12;
const MOST = 50;
const LAST_ROW = 10n ** 15n;

export interface WhyOptions {
  laneOf(event: EventRow, variable: string): number;
  onPicked(events: readonly PickedEvent[]): void;
  onTrouble(error: unknown): void;
}

export class WhyPanel {
  readonly element = h("div", { class: "why" });
  readonly #list = h("div");
  readonly #chosen = h("ol", { class: "chips", "aria-label": "Picked events" });
  readonly #answer = h("div", { class: "why-answer", "aria-live": "polite" });
  readonly #ask = h("button", { type: "button", disabled: true, click: () => void this.#askWhy() }, "Why not?");
  readonly #key = h("select", { "aria-label": "Key", change: () => this.#filter() });
  readonly #value = h("input", {
    type: "search",
    "aria-label": "Value of the key",
    placeholder: "all events",
    input: () => this.#filter(),
  });
  readonly #funnel: FunnelView;
  readonly #options: WhyOptions;
  readonly #loads = new Latest<Search>((search) => this.#load(search));
  #run: Run | null = null;
  #picked: PickedEvent[] = [];
  #opened = false;

  constructor(options: WhyOptions) {
    this.#options = options;
    this.#funnel = new FunnelView((error) => options.onTrouble(error));
    this.element.append(
      this.#funnel.element,
      h("p", { class: "note" }, "Pick the events that should have matched, here or on the timeline, and ask."),
      h("div", { class: "why-tools" }, this.#chosen, this.#ask),
      this.#answer,
      h("div", { class: "why-filter" }, h("span", {}, "Events with"), this.#key, h("span", {}, "="), this.#value),
      this.#list,
    );
  }

  show(run: Run | null): void {
    this.#run = run;
    this.#funnel.show(run);
    this.#opened = false;
    this.#picked = [];
    const key = this.#key.value;
    const keys = run?.keys ?? [];
    replace(this.#key, ...keys.map((name) => h("option", { value: name, selected: name === key }, name)));
    if (!keys.includes(key)) this.#value.value = "";
    replace(this.#list);
    this.#changed();
  }

  open(): void {
    if (!this.#opened) void this.#loads.ask({});
    this.#opened = true;
  }

  /** Pick an event, or take it back. */
  pick(event: PickedEvent): void {
    const rest = this.#picked.filter(({ row }) => row !== event.row);
    const taken = rest.length < this.#picked.length;
    this.#picked = taken || rest.length >= MOST ? rest : [...rest, event].sort((a, b) => a.row - b.row);
    this.#changed();
  }

  #changed(): void {
    const chips = this.#picked.map((event) =>
      h(
        "li",
        {},
        h(
          "button",
          { type: "button", class: "chip", "aria-label": `Take back ${event.name}`, click: () => this.pick(event) },
          `${event.name} ×`,
        ),
      ),
    );
    replace(this.#chosen, ...chips);
    replace(this.#answer);
    this.#ask.disabled = this.#picked.length === 0;
    const rows = new Set(this.#picked.map(({ row }) => row));
    for (const box of this.#list.querySelectorAll<HTMLInputElement>("input[data-row]"))
      box.checked = rows.has(Number(box.dataset["row"]));
    this.#options.onPicked(this.#picked);
  }

  #filter(): void {
    if (this.#opened) void this.#loads.ask({});
  }

  async #load(place: Search): Promise<void> {
    const run = this.#run;
    if (run === null || run.events === 0) return;
    const filter = this.#value.value === "" ? {} : { key: this.#key.value, value: this.#value.value };
    try {
      const found = await api.find(run.run, { ...place, ...filter }, PAGE);
      if (run !== this.#run) return;
      const heads = ["pick", "event", ...found.columns].map((name) => ({ name }));
      const lines = found.events.map((event) => [
        this.#box(event),
        ...[event.name, ...event.values].map((value) => ({ value })),
      ]);
      const table = makeTable("Events to pick", heads, lines);
      replace(this.#list, this.#pager(found), found.total > 0 && table);
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }

  #box(event: EventRow): HTMLInputElement {
    return h("input", {
      type: "checkbox",
      "data-row": event.row,
      "aria-label": `Pick ${event.name}`,
      checked: this.#picked.some(({ row }) => row === event.row),
      change: () =>
        this.pick({ row: event.row, name: event.name, ts: event.ts, lane: this.#options.laneOf(event, "") }),
    });
  }

  #pager({ offset, total, events }: FoundEvents): HTMLElement {
    const turn = (label: string, sign: string, to: number, possible: boolean): HTMLElement =>
      iconButton(label, sign, possible ? () => void this.#loads.ask({ offset: to }) : null);
    const end = offset + events.length;
    const words = `events ${groupDigits(offset + 1)}–${groupDigits(end)} of ${groupDigits(total)}`;
    return h(
      "div",
      { class: "pager" },
      h("span", {}, total === 0 ? "no event has this value" : words),
      turn("Events before", "←", Math.max(0, offset - PAGE), offset > 0),
      turn("Events after", "→", offset + PAGE, end < total),
      makeGoTo("Go to row", [0n, LAST_ROW], (number) => void this.#loads.ask({ number: Number(number) })),
    );
  }

  async #askWhy(): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    try {
      const answer = await api.why(
        run.run,
        this.#picked.map(({ row }) => row),
      );
      if (run === this.#run) this.#say(answer);
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }

  #say(answer: Why): void {
    const steps = answer.steps.map(({ name: event, ok, condition, reason }) => {
      const [name, sign] = ok === null ? ["not reached", "·"] : ok ? ["passed", "✓"] : ["stopped", "✗"];
      return h(
        "li",
        { class: ok === null ? "unreached" : ok ? "ok" : "stopped" },
        h("span", { class: "sign", "aria-label": name, role: "img" }, sign),
        h("b", {}, `${event} `),
        condition && h("code", {}, cellText(condition)),
        reason && h("span", {}, ` ${reason}`),
      );
    });
    const words = answer.matches ? "These events are a match." : "These events are no match.";
    const said = steps.length > 0 ? h("ol", {}, ...steps) : h("p", {}, answer.text);
    replace(this.#answer, h("p", { class: "verdict" }, words), said);
  }
}
