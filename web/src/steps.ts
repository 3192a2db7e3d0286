// A slider through the stream: the event, the automaton with its live states, what the event did.

import { api, canStep, type Automaton, type Run, type Step } from "./api.ts";
import { drawAutomaton } from "./automaton.ts";
import { h, iconButton, replace } from "./dom.ts";
import { Latest } from "./latest.ts";
import { groupDigits, plural, shortCount } from "./numbers.ts";
import { cellText } from "./table.ts";
import { showTime } from "./times.ts";

export interface StepsOptions {
  onStep(time: number | null): void;
  onTrouble(error: unknown): void;
}

export class StepsPanel {
  readonly element = h("div", { class: "steps" });
  readonly #slider = h("input", {
    type: "range",
    min: 0,
    max: 0,
    value: 0,
    "aria-label": "Event",
    input: () => this.#moved(),
  });
  readonly #drawing = h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": "Automaton" });
  readonly #limit = h("p", { class: "note counted", hidden: true });
  readonly #where = h("output", { class: "where" });
  readonly #partition = h("span", { class: "note" });
  readonly #before = iconButton("Event before in its partition", "←", () => this.#goTo(this.#step?.partition?.before));
  readonly #after = iconButton("Next event in its partition", "→", () => this.#goTo(this.#step?.partition?.after));
  readonly #members = h("div", { class: "members", hidden: true }, this.#before, this.#after, this.#partition);
  readonly #words = h("div", { class: "step-words", "aria-live": "polite" });
  readonly #options: StepsOptions;
  readonly #loads = new Latest<number>((row) => this.#load(row));
  readonly #tools: HTMLElement;
  #run: Run | null = null;
  #automaton: Automaton | null = null;
  #step: Step | null = null;
  #counted = false;
  #begun: string | null = null;

  constructor(options: StepsOptions) {
    this.#options = options;
    this.#tools = h(
      "div",
      { class: "slider" },
      iconButton("Event before", "←", () => this.#turn(-1)),
      this.#slider,
      iconButton("Next event", "→", () => this.#turn(1)),
      this.#where,
    );
    this.element.append(this.#tools, this.#members, this.#drawing, this.#limit, this.#words);
  }

  show(run: Run | null): void {
    const follows = run !== null && canStep(run);
    this.#run = run;
    this.#automaton = run?.automaton ?? null;
    this.#step = null;
    this.#counted = false;
    this.#begun = null;
    this.#tools.hidden = !follows;
    this.#words.hidden = !follows;
    this.#members.hidden = true;
    this.#slider.max = String(Math.max(0, (run?.events ?? 0) - 1));
    this.#slider.value = "0";
    this.#where.textContent = "";
    replace(this.#words);
    this.#draw();
  }

  /** Called when the panel becomes visible: the counts and the first step are asked for then, not before.
   * It begins at the first event of the match that is open, and comes back to where it was. */
  open(match: { index: string; first: number } | null): void {
    const run = this.#run;
    if (run === null || !canStep(run) || run.events === 0) return;
    if (match !== null && match.index !== this.#begun) {
      this.#begun = match.index;
      this.#slider.value = String(match.first);
    }
    this.#moved();
    if (!this.#counted) void this.#count(run);
    this.#counted = true;
  }

  /** Go to an event of the run. */
  goTo(row: number): void {
    this.#slider.value = String(row);
    this.#moved();
  }

  #goTo(row: number | null | undefined): void {
    if (row !== null && row !== undefined) this.goTo(row);
  }

  /** Put on the edges how often they were taken. */
  async #count(run: Run): Promise<void> {
    try {
      const counted = await api.automaton(run.run);
      if (run !== this.#run || counted === null) return;
      this.#automaton = counted;
      this.#draw();
    } catch (error) {
      if (this.#run === run) this.#options.onTrouble(error);
    }
  }

  #draw(): void {
    if (this.#automaton === null) {
      replace(this.#drawing);
      return;
    }
    const drawn = drawAutomaton(this.#automaton, this.#step);
    replace(this.#drawing, drawn);
    const { counted } = this.#automaton;
    this.#limit.hidden = counted === 0 || counted >= (this.#run?.events ?? 0);
    this.#limit.textContent = `Edges are counted over the first ${groupDigits(counted)} events.`;
    const box = this.#drawing.getBoundingClientRect();
    const moved = drawn.querySelector(".taken, .live")?.getBoundingClientRect();
    if (moved && (moved.left < box.left || moved.right > box.right)) {
      this.#drawing.scrollLeft += moved.left + moved.width / 2 - box.left - box.width / 2;
    }
  }

  #turn(by: number): void {
    this.#slider.value = String(Number(this.#slider.value) + by);
    this.#moved();
  }

  #moved(): void {
    void this.#loads.ask(Number(this.#slider.value));
  }

  async #load(row: number): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    try {
      const step = await api.step(run.run, row);
      if (run !== this.#run) return;
      this.#step = step;
      this.#draw();
      this.#showPartition(step);
      this.#say(run, step);
      this.#options.onStep(step.event?.ts ?? null);
    } catch (error) {
      if (this.#run === run) this.#options.onTrouble(error);
    }
  }

  /** Name the partition that the step is of, with the ways to its other events. */
  #showPartition({ partition }: Step): void {
    this.#members.hidden = partition === null;
    if (partition === null) return;
    this.#partition.textContent = `in its partition, ${partition.key}`;
    // a button that has the focus keeps it, also where it leads nowhere
    this.#before.setAttribute("aria-disabled", String(partition.before === null));
    this.#after.setAttribute("aria-disabled", String(partition.after === null));
  }

  #say(run: Run, step: Step): void {
    const unit = run.time.unit;
    const names = new Map(run.automaton?.states.map((state) => [String(state.id), state.name]));
    const nameOf = (state: number | string): string => names.get(String(state)) ?? String(state);
    const event = step.event;
    const place = `${groupDigits(step.row + 1)} of ${groupDigits(run.events)}`;
    this.#where.textContent = event ? `${event.name} · ${place}` : place;
    const values = event
      ? event.values.map((value, i) =>
          h("div", {}, h("dt", {}, event.columns?.[i] ?? ""), h("dd", {}, cellText(value))),
        )
      : [];
    const live = step.states.map(({ state, partial, since }) =>
      h(
        "li",
        {},
        h("b", {}, nameOf(state)),
        ` ${step.exact ? "" : "at least "}${plural(partial, "partial match", "partial matches")}`,
        since === null ? null : h("small", {}, ` since ${showTime(since, unit)}`),
      ),
    );
    const taken = step.taken.map(({ from, to, label }) =>
      h("li", {}, `${nameOf(from)} → ${nameOf(to)}`, h("small", {}, ` ${label}`)),
    );
    const waiting = step.waiting.map(({ state, text }) => h("li", {}, h("b", {}, nameOf(state)), ` ${text}`));
    const list = (items: HTMLElement[], none: string): HTMLElement =>
      items.length > 0 ? h("ul", {}, ...items) : h("p", { class: "note" }, none);
    const ends = step.completed === "1" ? "match ends" : "matches end";
    replace(
      this.#words,
      event &&
        h(
          "section",
          {},
          h("h3", {}, event.type ?? event.stream, h("small", {}, ` ${showTime(event.ts, unit)}`)),
          h("dl", { class: "values" }, ...values),
        ),
      h(
        "section",
        {},
        h("h3", {}, "It moved"),
        list(taken, "Nothing: no partial match waits for it."),
        step.completed !== "0" &&
          h("p", { class: "completed" }, `${shortCount(step.completed)} ${ends} with this event.`),
      ),
      h(
        "section",
        {},
        h("h3", {}, "Now waiting"),
        list(live, step.partition === null ? "No partial match." : "No partial match in its partition."),
        waiting.length > 0 && h("h3", {}, "For example"),
        waiting.length > 0 && list(waiting, ""),
        !step.whole &&
          h(
            "p",
            { class: "note" },
            "Only the last events before this one were replayed: older partial matches are missing.",
          ),
      ),
    );
  }
}
