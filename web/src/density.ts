// The density strip: how many events there are along time, as SVG bars.

import type { Density } from "./api.ts";
import { h, svg } from "./dom.ts";
import { plural } from "./numbers.ts";
import { showTime } from "./times.ts";

const HEIGHT = 36;

/** Return the heights of the bars, from 0 to 1; a bin with any event is seen. */
export function barHeights(bins: readonly number[]): number[] {
  const most = Math.max(1, ...bins);
  return bins.map((count) => (count === 0 ? 0 : Math.max(0.08, Math.sqrt(count / most))));
}

export function drawDensity(density: Density): HTMLElement {
  const bars = barHeights(density.bins);
  const d = bars
    .map((tall, i) =>
      tall === 0 ? "" : `M${i} ${HEIGHT}v${-(tall * HEIGHT).toFixed(1)}h.82v${(tall * HEIGHT).toFixed(1)}z`,
    )
    .join("");
  const events = density.bins.reduce((sum, count) => sum + count, 0);
  // a strip of more than minutes has no use for milliseconds
  const round = (time: number): number =>
    density.unit === "ms" && density.to - density.from > 120_000 ? Math.round(time / 1000) * 1000 : time;
  const from = showTime(round(density.from), density.unit);
  const to = showTime(round(density.to), density.unit);
  return h(
    "figure",
    { class: "density" },
    svg(
      "svg",
      {
        viewBox: `0 0 ${bars.length} ${HEIGHT}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${plural(events, "event")} between ${from} and ${to}`,
      },
      svg("path", { d }),
    ),
    h("figcaption", {}, h("span", {}, from), h("span", {}, to)),
  );
}
