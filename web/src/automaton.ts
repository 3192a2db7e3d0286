// The automaton as SVG. The server lays out the states; the page draws them, with what a step did.

import type { Automaton, AutomatonEdge, AutomatonState, Step } from "./api.ts";
import { svg } from "./dom.ts";
import { logOfText, plural, shortCount } from "./numbers.ts";

const RADIUS = 20;
const MARGIN = 56;

interface Point {
  x: number;
  y: number;
}

/** Return the path of an edge: straight to the next state, bowed where it skips some or goes back. */
export function edgePath(from: Point, to: Point, bow: number): { d: string; label: Point } {
  if (from.x === to.x && from.y === to.y) {
    const tall = 34 + 16 * bow;
    const d = `M ${from.x - 9} ${from.y - RADIUS + 2} C ${from.x - 26} ${from.y - RADIUS - tall}, ${from.x + 26} ${from.y - RADIUS - tall}, ${from.x + 9} ${from.y - RADIUS + 1}`;
    return { d, label: { x: from.x, y: from.y - RADIUS - tall * 0.8 } };
  }
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy);
  const control = {
    x: (from.x + to.x) / 2 + (dy / length) * bow * 42,
    y: (from.y + to.y) / 2 - (dx / length) * bow * 42,
  };
  const start = towards(from, control, RADIUS);
  const end = towards(to, control, RADIUS + 6);
  const middle = { x: (start.x + 2 * control.x + end.x) / 4, y: (start.y + 2 * control.y + end.y) / 4 };
  return { d: `M ${start.x} ${start.y} Q ${control.x} ${control.y} ${end.x} ${end.y}`, label: middle };
}

function towards(from: Point, to: Point, distance: number): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) / length) * distance, y: from.y + ((to.y - from.y) / length) * distance };
}

/** Return how far each edge is bowed, so that edges between the same states do not cover each other. */
export function bowEdges(automaton: Automaton): number[] {
  const seen = new Map<string, number>();
  const places = new Map(automaton.states.map((state) => [state.id, state]));
  return automaton.edges.map((edge) => {
    const key = `${edge.from}>${edge.to}`;
    const nth = seen.get(key) ?? 0;
    seen.set(key, nth + 1);
    if (edge.from === edge.to) return nth;
    const [from, to] = [places.get(edge.from), places.get(edge.to)];
    const skips = automaton.states.some((one) => one !== from && one !== to && isBetween(from!, to!, one));
    const back = automaton.edges.some((other) => other.from === edge.to && other.to === edge.from);
    return (skips ? 1.4 : back ? 0.8 : 0) + nth * 0.9;
  });
}

function isBetween(from: Point, to: Point, point: Point): boolean {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  if (length === 0) return false;
  const along = ((point.x - from.x) * (to.x - from.x) + (point.y - from.y) * (to.y - from.y)) / length;
  const aside = Math.abs((point.x - from.x) * (to.y - from.y) - (point.y - from.y) * (to.x - from.x)) / length;
  return along > 0 && along < length && aside < RADIUS;
}

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Draw an automaton; with a step, its live states and the edges that the event took stand out. */
export function drawAutomaton(automaton: Automaton, step: Step | null): SVGSVGElement {
  const places = new Map(automaton.states.map((state) => [String(state.id), state]));
  const live = new Map(step?.states.map(({ state, partial }) => [String(state), partial]));
  const taken = new Set(step?.taken.map(({ from, to }) => `${from}>${to}`));
  const bows = bowEdges(automaton);
  const drawing = svg("svg", {
    viewBox: `${-MARGIN} ${-MARGIN} ${automaton.width + 2 * MARGIN} ${automaton.height + 2 * MARGIN}`,
    width: automaton.width + 2 * MARGIN,
    height: automaton.height + 2 * MARGIN,
    class: "automaton",
    role: "img",
    "aria-label": `Automaton with ${plural(automaton.states.length, "state")} and ${plural(automaton.edges.length, "edge")}`,
  });
  drawing.append(arrowHead("arrow", "arrow"), arrowHead("arrow-taken", "arrow taken"));
  automaton.edges.forEach((edge, i) => {
    const from = places.get(String(edge.from));
    const to = places.get(String(edge.to));
    if (from && to) drawing.append(drawEdge(edge, from, to, bows[i] ?? 0, taken.has(`${edge.from}>${edge.to}`)));
  });
  for (const state of automaton.states) drawing.append(drawState(state, live.get(String(state.id))));
  return drawing;
}

function arrowHead(id: string, name: string): SVGMarkerElement {
  const shape = svg("path", { d: "M 0 0 L 8 4 L 0 8 z", class: name });
  return svg("marker", { id, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, shape); // prettier-ignore
}

function drawEdge(edge: AutomatonEdge, from: Point, to: Point, bow: number, taken: boolean): SVGGElement {
  const { d, label } = edgePath(from, to, bow);
  const count = edge.count === null ? "" : String(edge.count);
  const name = `edge${taken ? " taken" : ""}${count === "0" ? " unused" : ""}`;
  const width = 1.2 + Math.min(3, logOfText(count) / 2);
  return svg(
    "g",
    { class: name },
    svg("title", {}, [edge.label, edge.condition, count && `taken ${plural(count, "time")}`].filter(Boolean).join("\n")),
    svg("path", { d, "stroke-width": width, "marker-end": `url(#${taken ? "arrow-taken" : "arrow"})` }),
    svg("text", { x: label.x, y: label.y - 6, class: "edge-label" }, cut(edge.label, 26)),
    count && svg("text", { x: label.x, y: label.y + 15, class: "edge-count" }, `${shortCount(count)}×`),
  );
}

function drawState(state: AutomatonState, partial: string | undefined): SVGGElement {
  const { x, y } = state;
  return svg(
    "g",
    { class: `state${partial !== undefined ? " live" : ""}${state.final ? " final" : ""}` },
    svg("title", {}, state.name),
    state.initial && svg("path", { d: `M ${x - RADIUS - 24} ${y} L ${x - RADIUS - 7} ${y}`, class: "start", "marker-end": "url(#arrow)" }),
    svg("circle", { cx: x, cy: y, r: RADIUS }),
    state.final && svg("circle", { cx: x, cy: y, r: RADIUS - 4, class: "inner" }),
    svg("text", { x, y: y + 4 }, cut(state.name, 5)),
    partial !== undefined && svg("text", { x, y: y + RADIUS + 15, class: "partial" }, shortCount(partial)),
  );
}
