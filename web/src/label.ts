// "Label": a sample of the matches, one by one; the visitor says which are real, and the server says how
// precise the query is. The labels are lines of a file that `cernis label` reads and writes. The page keeps
// them, also when the next version of a query runs, so that it is measured on the same labels.

import { api, ApiError, canLabel, type DrawnMatch, type EventRow, type Measured, type Run } from "./api.ts";
import type { SampleBy, TimelineMatch } from "./api.ts";
import { h, replace, svg } from "./dom.ts";
import { Latest } from "./latest.ts";
import { findMarks, listEvents } from "./matches.ts";
import { plural } from "./numbers.ts";

const DRAWN = 20;
const KEY = "cernis-labels";
const FILE = "labels.jsonl";
const ANSWERS = { y: "Real", n: "Not real", u: "Unsure" } as const;
type Answer = keyof typeof ANSWERS;

export interface LabelOptions {
  laneOf(event: EventRow, variable: string): number;
  /** Called to show a match on the timeline. */
  onShow(match: TimelineMatch | null): void;
  onTrouble(error: unknown): void;
}

/** Return the line of a match in the file of labels. */
export function writeLine({ id, ...rest }: DrawnMatch["line"], answer: Answer): string {
  return JSON.stringify({ id, label: answer === "u" ? "unsure" : answer, ...rest });
}

/** Return the lines of a file of labels: the last label of a match counts. */
export function readLines(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;

export class LabelPanel {
  readonly element = h("div", { class: "label" });
  readonly #ask = h("h3", { "aria-live": "polite" });
  readonly #events = h("div");
  readonly #precision = h("div", { class: "precision", role: "status" });
  readonly #buttons = (Object.keys(ANSWERS) as Answer[]).map((answer) => this.#button(answer));
  readonly #undo = h(
    "button",
    { type: "button", class: "quiet", "aria-keyshortcuts": "z", click: () => this.#takeBack() },
    "Undo ",
    h("kbd", { "aria-hidden": "true" }, "Z"),
  );
  readonly #save = h("button", { type: "button", class: "quiet", click: () => this.#download() }, "Download labels");
  readonly #clear = h("button", { type: "button", class: "quiet", click: () => this.#discard() }, "Discard");
  readonly #by = h(
    "select",
    { "aria-label": "Sample", change: () => this.#restart() },
    h("option", { value: "" }, "uniform sample"),
    h("option", { value: "key" }, "as many of each key"),
    h("option", { value: "day" }, "as many of each day"),
  );
  readonly #width = h(
    "select",
    { "aria-label": "Width of the interval", change: () => this.#measure() },
    ...[0.05, 0.1, 0.2].map((width) =>
      h("option", { value: width, selected: width === 0.1 }, `to a width of ${100 * width}%`),
    ),
  );
  readonly #options: LabelOptions;
  readonly #measures = new Latest<Run>((run) => this.#askPrecision(run));
  #run: Run | null = null;
  #opened = false;
  #head = "";
  #lines: string[] = [];
  #queue: DrawnMatch[] = [];
  #done: DrawnMatch[] = [];
  #seed = 0;

  constructor(options: LabelOptions) {
    this.#options = options;
    this.#recall();
    const file = h("input", {
      type: "file",
      id: "labels-file",
      class: "hidden-words",
      accept: ".jsonl",
      "aria-label": "Open labels",
      change: (event: Event) => void this.#read(event.target as HTMLInputElement),
    });
    this.element.append(
      h(
        "div",
        { class: "label-tools" },
        this.#by,
        this.#width,
        h("span", { class: "grow" }),
        file,
        h("label", { for: "labels-file", class: "button quiet" }, "Open labels"),
        this.#save,
        this.#clear,
      ),
      this.#precision,
      h("div", { class: "label-ask" }, this.#ask, h("span", { class: "grow" }), ...this.#buttons, this.#undo),
      this.#events,
    );
    document.addEventListener("keydown", (event) => this.#press(event));
  }

  #button(answer: Answer): HTMLButtonElement {
    const key = h("kbd", { "aria-hidden": "true" }, answer.toUpperCase());
    const name = { type: "button", class: `answer-${answer}`, "aria-keyshortcuts": answer };
    return h("button", { ...name, click: () => this.#answer(answer) }, `${ANSWERS[answer]} `, key);
  }

  show(run: Run | null): void {
    this.#run = run;
    this.#opened = false;
    this.#queue = [];
    this.#done = [];
    const keyed = (run?.partition.length ?? 0) > 0;
    for (const option of this.#by.options)
      option.disabled = (option.value === "key" && !keyed) || (option.value === "day" && run?.time.unit !== "ms");
    if (this.#by.selectedOptions[0]?.disabled) this.#by.value = "";
    replace(this.#precision);
    this.#showCurrent();
  }

  /** Called when the panel becomes visible: the sample is drawn then, not before. */
  open(): void {
    if (this.#run === null || !canLabel(this.#run)) return;
    if (!this.#opened) this.#restart();
    else this.#showCurrent();
    this.#opened = true;
  }

  get #text(): string {
    return this.#lines.length === 0 ? "" : [this.#head, ...this.#lines].join("\n");
  }

  get #sampleBy(): SampleBy {
    return (this.#by.value || null) as SampleBy;
  }

  #restart(): void {
    this.#queue = [];
    this.#done = [];
    void this.#draw();
    this.#measure();
  }

  async #draw(): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    try {
      const asked = { labels: this.#text, by: this.#sampleBy, n: DRAWN, seed: this.#seed++ };
      const { head, drawn } = await api.draw(run.run, asked);
      if (run !== this.#run) return;
      if (this.#lines.length === 0) this.#head = JSON.stringify(head);
      this.#queue = drawn;
      this.#showCurrent(drawn.length === 0 ? "Every match has a label." : "");
    } catch (error) {
      if (run !== this.#run) return;
      this.#showCurrent(error instanceof ApiError && error.code === "data" ? error.message : "");
      if (!(error instanceof ApiError && error.code === "data")) this.#options.onTrouble(error);
    }
  }

  #showCurrent(words = ""): void {
    const run = this.#run;
    const current = this.#queue[0];
    for (const button of this.#buttons) button.disabled = current === undefined;
    this.#undo.disabled = this.#done.length === 0;
    this.#save.disabled = this.#clear.disabled = this.#lines.length === 0;
    if (run === null || current === undefined) {
      this.#ask.textContent = words;
      replace(this.#events);
      if (words !== "") this.#options.onShow(null);
      return;
    }
    const { start, end, stratum } = current.line;
    this.#ask.textContent = `Is this real? Rows ${start} to ${end}${stratum && `, of ${stratum}`}`;
    void this.#showEvents(run, current);
  }

  async #showEvents(run: Run, drawn: DrawnMatch): Promise<void> {
    try {
      const row = { ...drawn.row, index: `rows ${drawn.line.start} to ${drawn.line.end}` };
      const { match, events } = await findMarks(run, row, (event, name) => this.#options.laneOf(event, name));
      if (drawn !== this.#queue[0] || this.element.hidden) return;
      this.#options.onShow(match);
      replace(this.#events, listEvents("Events of this match", match.marks, events));
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }

  #answer(answer: Answer): void {
    const drawn = this.#queue.shift();
    if (drawn === undefined) return;
    this.#lines.push(writeLine(drawn.line, answer));
    this.#done.push(drawn);
    this.#keep();
    if (this.#queue.length === 0) void this.#draw();
    this.#showCurrent();
    this.#measure();
  }

  #takeBack(): void {
    const drawn = this.#done.pop();
    if (drawn === undefined) return;
    this.#lines.pop();
    this.#queue.unshift(drawn);
    this.#keep();
    this.#showCurrent();
    this.#measure();
  }

  #press(event: KeyboardEvent): void {
    const target = event.target as Element;
    const isTyping = target.closest("input, select, textarea, canvas, dialog, [contenteditable]") !== null;
    if (this.element.hidden || this.element.offsetParent === null) return;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key === "z") this.#takeBack();
    else if (key in ANSWERS) this.#answer(key as Answer);
    else return;
    event.preventDefault();
  }

  // -------------------------------------------------------------- precision

  #measure(): void {
    if (this.#run !== null) void this.#measures.ask(this.#run);
  }

  async #askPrecision(run: Run): Promise<void> {
    try {
      const asked = { labels: this.#text, by: this.#sampleBy, width: Number(this.#width.value) };
      const found = await api.measure(run.run, asked);
      if (run === this.#run) this.#showPrecision(found);
    } catch (error) {
      replace(this.#precision);
      if (!(error instanceof ApiError && error.code === "data")) this.#options.onTrouble(error); // else the sample says it
    }
  }

  #showPrecision(found: Measured): void {
    const at = (share: number): string => `${(100 * share).toFixed(2)}%`;
    const label =
      found.value === null
        ? "No labels yet."
        : `Precision ${percent(found.value)}, between ${percent(found.low)} and ${percent(found.high)}`;
    const picture = svg(
      "svg",
      { class: "interval", height: 14, role: "img", "aria-label": label },
      svg("rect", { class: "whole", width: "100%", height: 6, y: 4, rx: 3 }),
      found.value !== null &&
        svg("rect", { class: "between", x: at(found.low), width: at(found.high - found.low), height: 6, y: 4, rx: 3 }),
      found.value !== null && svg("circle", { cx: at(found.value), cy: 7, r: 5 }),
    );
    const words = found.value === null ? "" : `${percent(found.low)} – ${percent(found.high)}`;
    const more = found.missing > 0 ? `about ${plural(found.missing, "more label")} for this width` : "";
    const others = found.text.split("\n").slice(1).filter((line) => !line.startsWith("about "));
    replace(
      this.#precision,
      h("b", {}, found.value === null ? "No labels yet" : `Precision ${percent(found.value)}`),
      picture,
      h("span", { class: "note" }, [words, plural(found.labelled, "label"), more].filter(Boolean).join(" · ")),
      ...others.map((line) => h("p", { class: "note" }, line)),
    );
  }

  // ------------------------------------------------------------------- file

  async #read(field: HTMLInputElement): Promise<void> {
    const file = field.files?.[0];
    field.value = "";
    if (file === undefined) return;
    [this.#head = "", ...this.#lines] = readLines(await file.text());
    this.#keep();
    this.#restart();
  }

  #download(): void {
    const address = URL.createObjectURL(new Blob([`${this.#text}\n`], { type: "application/x-ndjson" }));
    h("a", { href: address, download: FILE }).click();
    window.setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  #discard(): void {
    this.#lines = [];
    this.#keep();
    this.#restart();
  }

  #keep(): void {
    try {
      sessionStorage.setItem(KEY, this.#text);
    } catch {
      // storage may be forbidden or full: then a reload begins anew
    }
  }

  #recall(): void {
    try {
      [this.#head = "", ...this.#lines] = readLines(sessionStorage.getItem(KEY) ?? "");
    } catch {
      // storage may be forbidden
    }
  }
}
