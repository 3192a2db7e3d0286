// Times on an axis: which instants get a label, and what the label says. All times are UTC.

import type { Unit } from "./api.ts";
import { groupDigits, plural } from "./numbers.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const CLOCK_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 30, 90, 180, 365, 730, 1825, 3650].map((n) => n * DAY),
];

/** Return the smallest step of 1, 2 or 5 times a power of ten that is at least `least`. */
export function decimalStep(least: number): number {
  if (!(least > 0) || !Number.isFinite(least)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least * (1 - 1e-9)) ?? 10 * power;
}

/** Return the distance between ticks of an axis that has room for `room` of them. */
export function tickStep(span: number, room: number, unit: Unit): number {
  const least = span / Math.max(1, room);
  if (unit !== "ms") return Math.max(unit === "row" ? 1 : 0, decimalStep(least));
  if (least < SECOND) return decimalStep(least);
  return CLOCK_STEPS.find((step) => step >= least) ?? decimalStep(least / DAY) * DAY;
}

/** Return the multiples of `step` in [from, to], at most a thousand. */
export function ticksBetween(from: number, to: number, step: number): number[] {
  const first = Math.ceil(from / step);
  const count = Math.min(1000, Math.max(0, Math.floor(to / step) - first + 1));
  return Array.from({ length: count }, (_, i) => (first + i) * step);
}

/** Return the label of a tick; `step` says how fine it has to be. */
export function tickLabel(time: number, step: number, unit: Unit): string {
  if (unit === "row") return groupDigits(time);
  if (unit !== "ms") return showNumber(time, step);
  const iso = isoOf(time);
  if (iso === null) return showNumber(time, step);
  if (step >= DAY) return iso.slice(0, 10);
  const midnight = time % DAY === 0;
  if (midnight) return iso.slice(0, 10);
  if (step >= MINUTE) return iso.slice(11, 16);
  return step >= SECOND ? iso.slice(11, 19) : iso.slice(11, 23).replace(/\.?0+$/, "");
}

function isoOf(time: number): string | null {
  return Math.abs(time) <= 8.64e15 ? new Date(time).toISOString().replace(/^\+0*/, "") : null;
}

function showNumber(value: number, step: number): string {
  const digits = step < 1 ? Math.min(12, Math.ceil(-Math.log10(step))) : 0;
  return Number.isInteger(value) ? groupDigits(value) : value.toFixed(Math.max(1, digits));
}

/** Return a time in full. */
export function showTime(time: number | null, unit: Unit): string {
  if (time === null) return "";
  if (unit === "row") return `row ${time}`;
  const iso = unit === "ms" ? isoOf(time) : null;
  if (iso === null) return Number.isInteger(time) ? groupDigits(time) : String(time);
  return iso.replace("T", " ").replace(/(\.000)?Z$/, "");
}

/** Return a length of time as text. */
export function showSpan(span: number, unit: Unit): string {
  if (unit === "row") return plural(Math.round(span) + 1, "event");
  if (unit === "number") return `a span of ${groupDigits(Number(span.toPrecision(4)))}`;
  const [size, name] = (
    [
      [DAY, "days"],
      [HOUR, "hours"],
      [MINUTE, "minutes"],
      [SECOND, "seconds"],
    ] as const
  ).find(([size]) => span >= 2 * size) ?? [1, "ms"];
  return `${Number((span / size).toPrecision(3))} ${name}`;
}
