// "Why not": the visitor picks events that should have matched, and the server says at which step and
// at which condition they stopped.

import { api, type EventRow, type Run, type Why } from "./api.ts";
import { h, iconButton, replace } from "./dom.ts";
import { makeGoTo } from "./matches.ts";
import { groupDigits, nameEvent } from "./numbers.ts";
import { cellText, makeTable } from "./table.ts";
import type { PickedEvent } from "./timeline.ts";

const PAGE = 12;
const MOST = 50;

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
  readonly #options: WhyOptions;
  #run: Run | null = null;
  #offset = 0;
  #picked: PickedEvent[] = [];
  #opened = false;

  constructor(options: WhyOptions) {
    this.#options = options;
    this.element.append(
      h("p", { class: "note" }, "Pick the events that should have matched, here or on the timeline, and ask."),
      h("div", { class: "why-tools" }, this.#chosen, this.#ask),
      this.#answer,
      this.#list,
    );
  }

  show(run: Run | null): void {
    this.#run = run;
    this.#offset = 0;
    this.#opened = false;
    this.#picked = [];
    replace(this.#list);
    this.#changed();
  }

  open(): void {
    if (!this.#opened) void this.#load(0);
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
          { type: "button", class: "chip", "aria-label": `Take back ${nameEvent(event.row)}`, click: () => this.pick(event) },
          `${nameEvent(event.row)} ×`,
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

  async #load(offset: number): Promise<void> {
    const run = this.#run;
    if (run === null || run.events === 0) return;
    this.#offset = Math.max(0, Math.min(offset, run.events - 1));
    const wanted = Array.from({ length: Math.min(PAGE, run.events - this.#offset) }, (_, i) => this.#offset + i);
    try {
      const { columns, events } = await api.events(run.run, wanted);
      if (run !== this.#run) return;
      const heads = ["pick", "event", ...columns].map((name) => ({ name }));
      const lines = events.map((event) => [
        this.#box(event),
        ...[event.row + 1, ...event.values].map((value) => ({ value })),
      ]);
      replace(this.#list, this.#pager(run, events.length), makeTable("Events to pick", heads, lines));
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }

  #box(event: EventRow): HTMLInputElement {
    return h("input", {
      type: "checkbox",
      "data-row": event.row,
      "aria-label": `Pick ${nameEvent(event.row)}`,
      checked: this.#picked.some(({ row }) => row === event.row),
      change: () => this.pick({ row: event.row, ts: event.ts, lane: this.#options.laneOf(event, "") }),
    });
  }

  #pager(run: Run, count: number): HTMLElement {
    const turn = (label: string, sign: string, to: number, possible: boolean): HTMLElement =>
      iconButton(label, sign, possible ? () => void this.#load(to) : null);
    const at = this.#offset;
    return h(
      "div",
      { class: "pager" },
      h("span", {}, `events ${groupDigits(at + 1)}–${groupDigits(at + count)} of ${groupDigits(run.events)}`),
      turn("Events before", "←", at - PAGE, at > 0),
      turn("Events after", "→", at + PAGE, at + count < run.events),
      makeGoTo("Go to event number", BigInt(run.events), (position) => void this.#load(Number(position))),
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
    const steps = answer.steps.map(({ row, ok, condition, reason }) => {
      const [name, sign] = ok === null ? ["not reached", "·"] : ok ? ["passed", "✓"] : ["stopped", "✗"];
      return h(
        "li",
        { class: ok === null ? "unreached" : ok ? "ok" : "stopped" },
        h("span", { class: "sign", "aria-label": name, role: "img" }, sign),
        h("b", {}, `${nameEvent(row)} `),
        condition && h("code", {}, cellText(condition)),
        reason && h("span", {}, ` ${reason}`),
      );
    });
    const words = answer.matches ? "These events are a match." : "These events are no match.";
    const said = steps.length > 0 ? h("ol", {}, ...steps) : h("p", {}, answer.text);
    replace(this.#answer, h("p", { class: "verdict" }, words), said);
  }
}
