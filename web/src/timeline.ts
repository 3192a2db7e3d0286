// The timeline: a canvas with zoom and pan by wheel, drag, pinch, keyboard and buttons. While the
// server aggregates a new view, the old aggregates are drawn at their own times, so nothing jumps.

import { api, type EventRow, type Mark, type Run, type Timeline, type TimelineMatch } from "./api.ts";
import { h, iconButton } from "./dom.ts";
import { describe, draw, heightOf, hitAt, laneHeight, type Hit, type Palette, type Picture } from "./draw.ts";
import { Latest } from "./latest.ts";
import { showSpan, showTime } from "./times.ts";
import { clampView, panView, spanOf, viewAround, wholeView, xToTime, zoomView, type View } from "./view.ts";

export type Lanes = "type" | "variable";
export interface PickedEvent {
  row: number;
  name: string;
  ts: number;
  lane: number;
}

export interface TimelineOptions {
  parent: HTMLElement;
  onSelect(match: TimelineMatch | null): void;
  onPick(event: PickedEvent): void;
  onError(error: unknown): void;
}

const EMPTY: Timeline = { from: 0, to: 1, lanes: [], events: [], matches: [], ends: { bins: [] } };

function readPalette(element: HTMLElement): Palette {
  const style = getComputedStyle(element);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  return {
    lanes: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => value(`--lane-${n}`)),
    text: value("--text"),
    faint: value("--faint"),
    line: value("--line"),
    ground: value("--card"),
    accent: value("--accent"),
    picked: value("--picked"),
    font: value("--sans"),
  };
}

export class TimelineView {
  readonly #canvas = h("canvas", {
    tabindex: "0",
    role: "application",
    "aria-roledescription": "timeline",
    "aria-describedby": "timeline-words",
    "aria-label": "Timeline: arrow keys pan, plus and minus zoom, N and P select matches",
  });
  readonly #names = h("ul", { class: "lane-names", "aria-label": "Lanes" });
  readonly #words = h("p", { id: "timeline-words", class: "hidden-words" });
  readonly #tip = h("div", { class: "tip", hidden: true });
  readonly #range = h("span", { class: "range" });
  readonly #options: TimelineOptions;
  readonly #loads = new Latest<Run>(
    (run) => this.#load(run),
    (busy) => this.#canvas.setAttribute("aria-busy", String(busy)),
  );
  #run: Run | null = null;
  #lanes: Lanes = "type";
  #laneNames: string[] = [];
  #timeline = EMPTY;
  #whole: View = { from: 0, to: 1 };
  #view: View = { from: 0, to: 1 };
  #selected: TimelineMatch | null = null;
  #picked: PickedEvent[] = [];
  #picking = false;
  #playhead: number | null = null;
  #drawing = 0;

  constructor(options: TimelineOptions) {
    this.#options = options;
    const lanes = h(
      "select",
      {
        "aria-label": "Lanes by",
        change: (event: Event) => {
          this.#lanes = (event.target as HTMLSelectElement).value as Lanes;
          this.select(null);
          this.#refresh();
        },
      },
      h("option", { value: "type" }, "lanes by type"),
      h("option", { value: "variable" }, "lanes by variable"),
    );
    options.parent.append(
      h(
        "div",
        { class: "timeline-tools" },
        lanes,
        this.#range,
        h(
          "span",
          { class: "group", role: "group", "aria-label": "Zoom and pan" },
          iconButton("Earlier", "←", () => this.#move(panView(this.#view, -0.4))),
          iconButton("Later", "→", () => this.#move(panView(this.#view, 0.4))),
          iconButton("Zoom out", "−", () => this.#zoom(2)),
          iconButton("Zoom in", "+", () => this.#zoom(0.5)),
          iconButton("Show all", "⤢", () => this.#move(this.#whole)),
        ),
      ),
      h(
        "div",
        { class: "timeline-body" },
        this.#names,
        h("div", { class: "timeline-canvas" }, this.#canvas, this.#tip),
      ),
      this.#words,
    );
    this.#listen();
    let before = 0;
    new ResizeObserver(() => {
      const width = this.#canvas.clientWidth;
      if (width !== before) this.#refresh();
      before = width;
      this.#draw();
    }).observe(this.#canvas.parentElement!);
  }

  get view(): View {
    return this.#view;
  }

  /** Show another run, or nothing. */
  show(run: Run | null): void {
    this.#run = run;
    this.#timeline = EMPTY;
    this.#nameLanes([]);
    this.#selected = null;
    this.#picked = [];
    this.#playhead = null;
    if (run !== null) {
      this.#whole = wholeView(run.time);
      this.#view = this.#whole;
      this.#refresh();
    }
    this.#draw();
  }

  /** Select a match, and move to it if it is out of view. */
  select(match: TimelineMatch | null): void {
    this.#selected = match;
    if (match !== null && match.marks.length > 0) {
      const times = match.marks.map(({ ts }) => ts);
      const part = { from: Math.min(...times), to: Math.max(...times) };
      const tiny = spanOf(part) < spanOf(this.#view) / 200 && spanOf(part) > 0;
      if (part.from < this.#view.from || part.to > this.#view.to || tiny) this.#move(viewAround(part, this.#least()));
    }
    this.#draw();
  }

  /** Return the lane of an event, by its type or its variable; -1 if none has it. */
  laneOf(event: EventRow, variable: string): number {
    return this.#laneNames.indexOf(this.#lanes === "type" ? (event.type ?? event.stream) : variable);
  }

  /** In picking, a click takes single events instead of matches. */
  set picking(on: boolean) {
    this.#picking = on;
    this.#canvas.classList.toggle("picking", on);
  }

  set picked(events: readonly PickedEvent[]) {
    this.#picked = [...events];
    this.#draw();
  }

  set playhead(time: number | null) {
    this.#playhead = time;
    if (time !== null && (time < this.#view.from || time > this.#view.to)) {
      const half = spanOf(this.#view) / 2;
      this.#move({ from: time - half, to: time + half });
    }
    this.#draw();
  }

  /** Draw again, in the colours of the page as they are now. */
  recolour(): void {
    this.#draw();
  }

  #least(): number {
    return this.#run?.time.unit === "row" ? 4 : Math.max(spanOf(this.#whole) * 1e-9, 1e-6);
  }

  #move(view: View): void {
    this.#view = clampView(view, this.#whole, this.#least());
    this.#draw();
    this.#refresh();
  }

  #zoom(factor: number, around = (this.#view.from + this.#view.to) / 2): void {
    this.#move(zoomView(this.#view, factor, around));
  }

  #refresh(): void {
    if (this.#run !== null) void this.#loads.ask(this.#run);
  }

  async #load(run: Run): Promise<void> {
    const width = Math.round(this.#canvas.clientWidth);
    if (width === 0 || run !== this.#run) return;
    const { from, to } = this.#view;
    try {
      const bins = Math.max(20, Math.round(width / 3));
      const view = { from, to, width: bins, lanes: this.#lanes };
      const timeline = await api.timeline(run.run, view);
      if (this.#run !== run) return;
      this.#timeline = timeline;
      this.#nameLanes(timeline.lanes.map(({ name }) => name));
      this.#words.textContent = describe(timeline);
      this.#draw();
    } catch (error) {
      if (this.#run === run) this.#options.onError(error);
    }
  }

  #nameLanes(names: string[]): void {
    this.#laneNames = names;
    const items = names.map((name, i) =>
      h("li", { title: name, class: `lane lane-${(i % 8) + 1}` }, h("span", {}, name)),
    );
    for (const item of items) item.style.height = `${laneHeight(names.length)}px`;
    this.#names.replaceChildren(...items, h("li", { class: "lane ends" }, h("span", {}, "matches")));
  }

  #picture(): Picture {
    return {
      view: this.#view,
      unit: this.#run?.time.unit ?? "number",
      width: this.#canvas.clientWidth,
      timeline: this.#timeline,
      lanes: this.#laneNames.length,
      selected: this.#selected,
      picked: this.#picked,
      playhead: this.#playhead,
    };
  }

  #draw(): void {
    cancelAnimationFrame(this.#drawing);
    this.#drawing = requestAnimationFrame(() => {
      const picture = this.#picture();
      const scale = window.devicePixelRatio || 1;
      const height = heightOf(picture.lanes);
      this.#canvas.style.height = `${height}px`;
      this.#canvas.width = Math.round(picture.width * scale);
      this.#canvas.height = Math.round(height * scale);
      const context = this.#canvas.getContext("2d");
      if (context === null) return;
      context.scale(scale, scale);
      draw(context, picture, readPalette(this.#canvas));
      const unit = picture.unit;
      this.#range.textContent = this.#run === null ? "" : `${showSpan(spanOf(this.#view), unit)} in view`;
    });
  }

  #listen(): void {
    const canvas = this.#canvas;
    const pointers = new Map<number, { x: number; y: number }>();
    let moved = 0;
    const at = (event: MouseEvent): { x: number; y: number } => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const timeAt = (x: number): number => xToTime(x, this.#view, canvas.clientWidth);

    canvas.addEventListener(
      "wheel",
      (event) => {
        const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
        const all = spanOf(this.#view) >= spanOf(this.#whole) * 0.999;
        if (all && (sideways || event.deltaY > 0)) return; // nothing more to show: the page scrolls
        event.preventDefault();
        if (sideways) this.#move(panView(this.#view, (event.deltaX || event.deltaY) / canvas.clientWidth));
        else this.#zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) / 300), timeAt(at(event).x));
      },
      { passive: false },
    );

    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, at(event));
      canvas.setPointerCapture(event.pointerId);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      const now = at(event);
      if (before === undefined) {
        this.#hover(now.x, now.y);
        return;
      }
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      pointers.set(event.pointerId, now);
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      const other = others[0];
      if (other !== undefined) {
        const apart = Math.max(10, Math.abs(now.x - other.x));
        this.#zoom(Math.max(10, Math.abs(before.x - other.x)) / apart, timeAt((now.x + other.x) / 2));
      } else if (moved > 4) {
        canvas.classList.add("dragging");
        this.#move(panView(this.#view, (before.x - now.x) / canvas.clientWidth));
      }
    });
    const lift = (event: PointerEvent): void => {
      pointers.delete(event.pointerId);
      canvas.classList.remove("dragging");
    };
    canvas.addEventListener("pointerup", (event) => {
      lift(event);
      if (moved <= 4) this.#click(at(event).x, at(event).y);
    });
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => (this.#tip.hidden = true));
    canvas.addEventListener("dblclick", (event) => this.#zoom(0.4, timeAt(at(event).x)));
    canvas.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.#press(event.key)) event.preventDefault();
    });
  }

  #press(key: string): boolean {
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.#move(panView(this.#view, -0.15)),
      ArrowRight: () => this.#move(panView(this.#view, 0.15)),
      PageUp: () => this.#move(panView(this.#view, -0.9)),
      PageDown: () => this.#move(panView(this.#view, 0.9)),
      "+": () => this.#zoom(0.6),
      "=": () => this.#zoom(0.6),
      "-": () => this.#zoom(1 / 0.6),
      Home: () => this.#move(this.#whole),
      "0": () => this.#move(this.#whole),
      n: () => this.#selectNext(1),
      p: () => this.#selectNext(-1),
      Escape: () => this.#choose(null),
    };
    const action = actions[key.length === 1 ? key.toLowerCase() : key];
    action?.();
    return action !== undefined;
  }

  #selectNext(by: number): void {
    const matches = this.#timeline.matches;
    if (matches.length === 0) return;
    const now = matches.findIndex(({ index }) => index === this.#selected?.index);
    const next = now < 0 ? (by > 0 ? 0 : matches.length - 1) : (now + by + matches.length) % matches.length;
    this.#choose(matches[next] ?? null);
  }

  #choose(match: TimelineMatch | null): void {
    this.select(match);
    this.#options.onSelect(match);
  }

  #click(x: number, y: number): void {
    const hit = hitAt(x, y, this.#picture(), this.#picking);
    if (hit?.kind === "event" && this.#picking) this.#options.onPick(hit);
    else if (hit?.kind === "match") this.#choose(hit.match);
    else if (!this.#picking) this.#choose(null);
  }

  #hover(x: number, y: number): void {
    const hit = hitAt(x, y, this.#picture(), this.#picking);
    this.#canvas.classList.toggle("over", hit !== null && (hit.kind === "match" || this.#picking));
    this.#tip.hidden = hit === null;
    if (hit === null) return;
    this.#tip.textContent = this.#tipOf(hit);
    const right = x > this.#canvas.clientWidth * 0.6;
    this.#tip.style.left = right ? "" : `${x + 12}px`;
    this.#tip.style.right = right ? `${this.#canvas.clientWidth - x + 12}px` : "";
    this.#tip.style.top = `${y + 12}px`;
  }

  #tipOf(hit: Hit): string {
    const unit = this.#run?.time.unit ?? "number";
    if (hit.kind === "event") {
      const time = unit === "row" ? [] : [showTime(hit.ts, unit)];
      return [hit.label, hit.name, ...time].join(" · ");
    }
    const marks = hit.match.marks;
    const times = marks.map(({ ts }) => ts);
    const names = marks.map((mark: Mark) => mark.variable || (this.#laneNames[mark.lane] ?? ""));
    const shown = names.length > 6 ? [...names.slice(0, 5), `… ${names.length} events`] : names;
    return `${shown.join(" → ")} · ${showTime(Math.min(...times), unit)}`;
  }
}
