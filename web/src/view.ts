// The part of the time line that is in view, as a pure value: zoom and pan give a new one.

export interface View {
  from: number;
  to: number;
}

export const spanOf = (view: View): number => view.to - view.from;

/** Return the view that shows all of `whole`, with some room at both ends. */
export function wholeView(whole: View): View {
  const room = spanOf(whole) > 0 ? spanOf(whole) * 0.02 : 1;
  return { from: whole.from - room, to: whole.to + room };
}

/** Keep a view inside `whole`, and at least `least` long. */
export function clampView(view: View, whole: View, least: number): View {
  const span = Math.min(Math.max(spanOf(view), least), spanOf(whole));
  const middle = (view.from + view.to) / 2;
  const from = Math.min(Math.max(middle - span / 2, whole.from), whole.to - span);
  return { from, to: from + span };
}

/** Zoom by `factor` (above 1 shows more) around a time that stays where it is. */
export function zoomView(view: View, factor: number, around: number): View {
  return { from: around - (around - view.from) * factor, to: around + (view.to - around) * factor };
}

/** Move by a part of the span: 0.5 is half a view later. */
export function panView(view: View, part: number): View {
  const shift = spanOf(view) * part;
  return { from: view.from + shift, to: view.to + shift };
}

/** Return a view of `part` that leaves room around it, and never less than `least`. */
export function viewAround(part: View, least: number): View {
  const room = Math.max(spanOf(part) * 0.6, least);
  return { from: part.from - room, to: part.to + room };
}

export const timeToX = (time: number, view: View, width: number): number => ((time - view.from) / spanOf(view)) * width;

export const xToTime = (x: number, view: View, width: number): number => view.from + (x / width) * spanOf(view);
