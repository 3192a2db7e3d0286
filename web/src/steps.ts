// A slider through the stream: the event, the automaton with its live states, what the event did.

import { api, type Run, type Step } from "./api.ts";
import { drawAutomaton } from "./automaton.ts";
import { h, replace } from "./dom.ts";
import { Latest } from "./latest.ts";
import { groupDigits, plural, shortCount, showValue } from "./numbers.ts";
import { showTime } from "./times.ts";

export interface StepsOptions {
  onStep(time: number | null): void;
  onTrouble(error: unknown): void;
}

export class StepsPanel {
  readonly element = h("div", { class: "steps" });
  readonly #slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Event", input: () => this.#moved() });
  readonly #drawing = h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": "Automaton" });
  readonly #where = h("output", { class: "where" });
  readonly #words = h("div", { class: "step-words", "aria-live": "polite" });
  readonly #options: StepsOptions;
  readonly #loads = new Latest<number>((row) => this.#load(row));
  #run: Run | null = null;
  #started = false;

  constructor(options: StepsOptions) {
    this.#options = options;
    const turn = (label: string, sign: string, by: number): HTMLElement =>
      h("button", { type: "button", class: "quiet icon", "aria-label": label, title: label, click: () => this.#turn(by) }, sign);
    this.element.append(
      h("div", { class: "slider" }, turn("Event before", "←", -1), this.#slider, turn("Next event", "→", 1), this.#where),
      h("div", { class: "step-body" }, this.#drawing, this.#words),
    );
  }

  show(run: Run | null): void {
    this.#run = run;
    this.#started = false;
    this.#slider.max = String(Math.max(0, (run?.events ?? 0) - 1));
    this.#slider.value = "0";
    this.#where.textContent = "";
    replace(this.#words);
    this.#draw(null);
  }

  /** Called when the panel becomes visible: the first step is asked for then, not before. */
  open(): void {
    if (!this.#started && this.#run !== null && this.#run.events > 0) {
      this.#moved();
    }
  }

  #draw(step: Step | null): void {
    const automaton = this.#run?.automaton;
    replace(this.#drawing, automaton ? drawAutomaton(automaton, step) : null);
  }

  #turn(by: number): void {
    this.#slider.value = String(Number(this.#slider.value) + by);
    this.#moved();
  }

  #moved(): void {
    this.#started = true;
    void this.#loads.ask(Number(this.#slider.value));
  }

  async #load(row: number): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    try {
      const step = await api.step(run.run, row);
      if (run !== this.#run) return;
      this.#draw(step);
      this.#say(run, step);
      this.#options.onStep(step.event?.ts ?? null);
    } catch (error) {
      if (this.#run === run) this.#options.onTrouble(error);
    }
  }

  #say(run: Run, step: Step): void {
    const unit = run.time.unit;
    const names = new Map(run.automaton?.states.map((state) => [String(state.id), state.name]));
    const nameOf = (state: number | string): string => names.get(String(state)) ?? String(state);
    const event = step.event;
    this.#where.textContent = `event ${groupDigits(step.row + 1)} of ${groupDigits(run.events)}`;
    const values = event ? event.values.map((value, i) => h("div", {}, h("dt", {}, event.columns?.[i] ?? ""), h("dd", {}, showValue(value)))) : [];
    const live = step.states.map(({ state, partial, since }) =>
      h(
        "li",
        {},
        h("b", {}, nameOf(state)),
        ` ${plural(partial, "partial match", "partial matches")}`,
        since === null ? null : h("small", {}, ` since ${showTime(since, unit)}`),
      ),
    );
    const taken = step.taken.map(({ from, to, label }) => h("li", {}, `${nameOf(from)} → ${nameOf(to)}`, h("small", {}, ` ${label}`)));
    const waiting = step.waiting.map(({ state, text }) => h("li", {}, h("b", {}, nameOf(state)), ` ${text}`));
    const section = (title: string, items: HTMLElement[], none: string): HTMLElement[] => [
      h("h3", {}, title),
      items.length > 0 ? h("ul", {}, ...items) : h("p", { class: "note" }, none),
    ];
    replace(
      this.#words,
      event && h("h3", {}, event.type || event.stream, h("small", {}, ` ${showTime(event.ts, unit)}`)),
      event && h("dl", { class: "values" }, ...values),
      step.completed !== "0" && h("p", { class: "completed" }, `${shortCount(step.completed)} ${step.completed === "1" ? "match ends" : "matches end"} with this event.`),
      ...section("The event moved", taken, "nothing: no partial match waits for it."),
      ...section("Live states", live, "none."),
      ...(waiting.length > 0 ? section("Partial matches that wait", waiting, "") : []),
    );
  }
}
