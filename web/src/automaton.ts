// The automaton as SVG: states are pills, edges carry their conditions and how often they were taken.
// The server lays it out (src/cernis/views/layout.py) and leaves room for labels of this size; a step
// adds the live states and the edges that its event took.

import type { Automaton, AutomatonEdge, AutomatonState, Step } from "./api.ts";
import { svg } from "./dom.ts";
import { plural, shortCount } from "./numbers.ts";

const LETTER = 6.7;
const PILL = 26;
const LINE = 14;
const LONGEST_NAME = 22;
const LONGEST_LABEL = 46;
const MOST_LINES = 4;
const DOUBLE = 3.5;
const SMALLEST = 0.85;

export interface Point {
  x: number;
  y: number;
}

export const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Return the width of a state's pill, as the layout has it. */
export function widthOf(state: AutomatonState): number {
  return state.kind === "join" ? 12 : Math.max(44, Math.min(state.name.length, LONGEST_NAME) * LETTER + 24);
}

/** Return an edge's label: which events take it, and which variables they join. */
export function labelOf(edge: AutomatonEdge): string {
  if (edge.label === "") return cut(edge.condition, LONGEST_LABEL);
  const whole = `${edge.condition} → ${edge.label}`;
  if (whole.length <= LONGEST_LABEL) return whole;
  const label = cut(edge.label, 12);
  return `${cut(edge.condition, LONGEST_LABEL - label.length - 3)} → ${label}`;
}

/** Put edges between the same two states together: they are drawn as one line. */
export function bundleEdges(edges: readonly AutomatonEdge[]): AutomatonEdge[][] {
  const bundles = new Map<string, AutomatonEdge[]>();
  for (const edge of edges) {
    const key = `${edge.from}>${edge.to}`;
    bundles.set(key, [...(bundles.get(key) ?? []), edge]);
  }
  return [...bundles.values()];
}

/** Return the way of an edge between two states, and where its label stands. */
export function routeEdge(
  from: AutomatonState,
  to: AutomatonState,
  points: readonly Point[],
): { d: string; label: Point } {
  const low = points[0];
  if (to.x <= from.x && low !== undefined) {
    const end = to.y + PILL / 2 + 2;
    const middle = (from.x + to.x) / 2;
    const d = `M${from.x} ${from.y + PILL / 2}C${from.x} ${low.y} ${from.x - 14} ${low.y} ${middle} ${low.y}S${to.x} ${low.y} ${to.x} ${end}`;
    return { d, label: { x: middle, y: low.y - 4 } };
  }
  const begin = { x: from.x + widthOf(from) / 2 + (from.final ? DOUBLE : 0), y: from.y };
  const end = { x: to.x - widthOf(to) / 2 - (to.final ? DOUBLE : 0) - 2, y: to.y };
  const way = [begin, ...points, end];
  let d = `M${begin.x} ${begin.y}`;
  for (let i = 1; i < way.length; i++) {
    const [a, b] = [way[i - 1]!, way[i]!];
    const bend = (a.x + b.x) / 2;
    d += `C${bend} ${a.y} ${bend} ${b.y} ${b.x} ${b.y}`;
  }
  const at = Math.floor((way.length - 2) / 2);
  const [a, b] = [way[at]!, way[at + 1]!];
  return { d, label: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 - 6 } };
}

/** Draw an automaton; with a step, its live states and the edges that the event took stand out. */
export function drawAutomaton(automaton: Automaton, step: Step | null): SVGSVGElement {
  const places = new Map(automaton.states.map((state) => [String(state.id), state]));
  const live = new Map(step?.states.map(({ state, partial }) => [String(state), partial]));
  const taken = new Set(step?.taken.map(({ from, to }) => `${from}>${to}`));
  const names = automaton.states.map(({ name }) => name).slice(0, 8);
  const drawing = svg("svg", {
    viewBox: `0 0 ${automaton.width} ${automaton.height}`,
    width: automaton.width,
    height: automaton.height,
    class: "automaton",
    role: "img",
    "aria-label": `Automaton with ${plural(automaton.states.length, "state")}: ${names.join(", ")}`,
  });
  drawing.style.minWidth = `${Math.round(automaton.width * SMALLEST)}px`; // then its box scrolls
  drawing.append(makeArrow("arrow", "arrow"), makeArrow("arrow-taken", "arrow taken"));
  for (const bundle of bundleEdges(automaton.edges)) {
    const from = places.get(String(bundle[0]!.from));
    const to = places.get(String(bundle[0]!.to));
    if (!from || !to) continue;
    const took = taken.has(`${from.id}>${to.id}`);
    drawing.append(from === to ? drawLoop(from, bundle, took) : drawEdge(from, to, bundle, took));
  }
  for (const state of automaton.states) drawing.append(drawState(state, live.get(String(state.id))));
  return drawing;
}

function makeArrow(id: string, name: string): SVGMarkerElement {
  return svg(
    "marker",
    {
      id,
      viewBox: "0 0 8 8",
      refX: 7,
      refY: 4,
      markerWidth: 8,
      markerHeight: 8,
      markerUnits: "userSpaceOnUse",
      orient: "auto",
    },
    svg("path", { d: "M 0 0.8 L 8 4 L 0 7.2 z", class: name }),
  );
}

function drawEdge(
  from: AutomatonState,
  to: AutomatonState,
  bundle: readonly AutomatonEdge[],
  took: boolean,
): SVGGElement {
  const first = bundle[0]!;
  const points = (first.points ?? []).map(([x, y]) => ({ x, y }));
  const { d, label } = routeEdge(from, to, points);
  const soft = first.kind === "guard" || first.kind === "all";
  return svg(
    "g",
    { class: `edge${soft ? " soft" : ""}${took ? " taken" : ""}` },
    nameBundle(bundle),
    svg("path", { d, "marker-end": `url(#${took ? "arrow-taken" : "arrow"})` }),
    ...drawLabels(bundle, label),
  );
}

/** Draw what keeps a run in its state: above what it reads, below that it waits. */
function drawLoop(state: AutomatonState, bundle: readonly AutomatonEdge[], took: boolean): SVGGElement {
  const reads = bundle.filter(({ kind }) => kind !== "wait");
  const grow = state.final ? DOUBLE : 0;
  const group = svg("g", { class: `edge${took ? " taken" : ""}` }, nameBundle(bundle));
  if (reads.length > 0) {
    const top = state.y - PILL / 2 - grow;
    const d = `M${state.x - 13} ${top}C${state.x - 20} ${top - 28} ${state.x + 20} ${top - 28} ${state.x + 13} ${top - 2}`;
    group.append(svg("path", { d, "marker-end": `url(#${took ? "arrow-taken" : "arrow"})` }));
    group.append(...drawLabels(reads, { x: state.x, y: top - 26 }));
  }
  if (reads.length < bundle.length) {
    const low = state.y + PILL / 2 + grow;
    const d = `M${state.x - 9} ${low}C${state.x - 14} ${low + 16} ${state.x + 14} ${low + 16} ${state.x + 9} ${low}`;
    group.append(svg("path", { d, class: "wait" }, svg("title", {}, "waits: any event may pass")));
  }
  return group;
}

function nameBundle(bundle: readonly AutomatonEdge[]): SVGTitleElement {
  const lines = bundle.map((edge) => {
    const count = edge.count === null ? "" : `, taken ${plural(edge.count, "time")}`;
    return `${edge.label ? `${edge.condition} → ${edge.label}` : edge.condition}${count}`;
  });
  return svg("title", {}, lines.join("\n"));
}

/** Write the labels of edges above a point, one under the other; a single count stands below the line. */
function drawLabels(bundle: readonly AutomatonEdge[], { x, y }: Point): SVGTextElement[] {
  const written = bundle.filter((edge) => labelOf(edge) !== "");
  const shown = written.length > MOST_LINES ? written.slice(0, MOST_LINES - 1) : written;
  const below = shown.length === 1 && shown[0]!.from !== shown[0]!.to;
  const lines = shown.map((edge) => [labelOf(edge), edge.count === null ? "" : `${shortCount(edge.count)}×`] as const);
  if (shown.length < written.length) lines.push([`and ${written.length - shown.length} more`, ""]);
  const texts = lines.map(([label, count], i) =>
    svg(
      "text",
      { x, y: y - (lines.length - 1 - i) * LINE, class: count === "0×" ? "edge-label unused" : "edge-label" },
      label,
      count && !below && svg("tspan", { class: "edge-count" }, ` ${count}`),
    ),
  );
  const [, count] = lines[0] ?? ["", ""];
  if (below && count) texts.push(svg("text", { x, y: y + 19, class: "edge-label edge-count" }, count));
  return texts;
}

function drawState(state: AutomatonState, partial: string | undefined): SVGGElement {
  const { x, y } = state;
  if (state.kind === "join") return svg("g", { class: "state join" }, svg("circle", { cx: x, cy: y, r: 4 }));
  const width = widthOf(state);
  const box = (grow: number, name: string): SVGRectElement =>
    svg("rect", {
      x: x - width / 2 - grow,
      y: y - PILL / 2 - grow,
      width: width + 2 * grow,
      height: PILL + 2 * grow,
      rx: PILL / 2 + grow,
      class: name,
    });
  const alive = partial !== undefined;
  return svg(
    "g",
    { class: `state ${state.kind ?? ""}${alive ? " live" : ""}${state.final ? " final" : ""}` },
    svg("title", {}, state.name),
    state.initial &&
      svg("path", {
        d: `M${x - width / 2 - 20} ${y}H${x - width / 2 - 2}`,
        class: "start",
        "marker-end": "url(#arrow)",
      }),
    box(0, "pill"),
    state.final && box(DOUBLE, "ring"),
    svg("text", { x, y: y + 4 }, cut(state.name, LONGEST_NAME)),
    alive && svg("text", { x, y: y + PILL / 2 + 27, class: "partial" }, shortCount(partial)),
  );
}
