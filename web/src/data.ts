// The data panel: choose a sample, a file of the command line or an upload, and look at its events.

import {
  api,
  ApiError,
  type Data,
  type Limits,
  type Reading,
  type Sample,
  type Source,
  type Stream,
  type Upload,
} from "./api.ts";
import { drawDensity } from "./density.ts";
import { byId, h, iconButton, replace } from "./dom.ts";
import { groupDigits, plural, shortBytes, shortCount } from "./numbers.ts";
import { makeTable } from "./table.ts";

const PAGE = 50;
const TYPES_SHOWN = 12;

export interface DataOptions {
  onSource(source: Source, data: Data): void;
  /** Called when the data that is shown is gone. */
  onRemoved(): void;
  onTrouble(error: unknown): void;
}

const UNITS = ["s", "ms", "us", "ns"];

/** Return what names a source in the list, whichever way it is read. */
function keyOf(source: Source): string {
  return JSON.stringify("uploads" in source ? { uploads: source.uploads } : source);
}

export class DataPanel {
  readonly #select = byId("source", HTMLSelectElement);
  readonly #file = byId("upload", HTMLInputElement);
  readonly #body = byId("data-body", HTMLDivElement);
  readonly #options: DataOptions;
  #samples: readonly Sample[] = [];
  #limits: Limits | null = null;
  #uploads: Upload[] = [];
  #source: Source | null = null;
  /** Whether rows have numbers; those of several streams depend on the query, those of graphs are a column. */
  #numbered = false;

  constructor(options: DataOptions) {
    this.#options = options;
    this.#select.addEventListener("change", () => void this.open(JSON.parse(this.#select.value) as Source));
    this.#file.addEventListener("change", () => {
      const files = [...(this.#file.files ?? [])];
      this.#file.value = "";
      void this.upload(files);
    });
    this.#acceptDrops();
  }

  get source(): Source | null {
    return this.#source;
  }

  /** Offer these samples, the files of the command line, and what the visitor has uploaded before. */
  offer(samples: readonly Sample[], limits: Limits, uploads: Upload[]): void {
    this.#samples = samples;
    this.#limits = limits;
    this.#uploads = uploads;
    this.#listSources();
  }

  /** Whether an upload is still there. */
  has(id: string): boolean {
    return this.#uploads.some((upload) => upload.id === id);
  }

  /** Show a source; tell the page when its data is there. */
  async open(source: Source): Promise<void> {
    this.#source = source;
    this.#listSources();
    this.#body.setAttribute("aria-busy", "true");
    try {
      const data = await api.data(source);
      if (this.#source !== source) return;
      this.#show(data);
      this.#options.onSource(source, data);
    } catch (error) {
      if (this.#source !== source) return;
      replace(this.#body, h("p", { class: "note" }, "This data cannot be shown."));
      this.#options.onTrouble(error);
    } finally {
      this.#body.removeAttribute("aria-busy");
    }
  }

  /** Send files to the server and show them; several are streams of one source. */
  async upload(files: readonly File[]): Promise<void> {
    if (files.length === 0) return;
    this.#body.setAttribute("aria-busy", "true");
    try {
      files.forEach((file) => this.#refuseLarge(file));
      const made: Upload[] = [];
      for (const file of files) made.push(await api.upload(file));
      this.#uploads.push(...made);
      await this.open({ uploads: made.map(({ id }) => id) });
    } catch (error) {
      this.#options.onTrouble(error);
    } finally {
      this.#body.removeAttribute("aria-busy");
    }
  }

  /** The server refuses large files as well, but only after they have been sent. */
  #refuseLarge(file: File): void {
    const most = this.#limits?.upload_bytes;
    if (most === undefined || file.size <= most) return;
    const message = `${file.name} has ${shortBytes(file.size)}; an upload may have at most ${shortBytes(most)}.`;
    throw new ApiError(413, "too_large", message, "Name the file on the command line: cernis serve --events FILE.");
  }

  #listSources(): void {
    const option = (source: Source, label: string): HTMLOptionElement =>
      h(
        "option",
        { value: keyOf(source), selected: this.#source !== null && keyOf(source) === keyOf(this.#source) },
        label,
      );
    const group = (label: string, options: HTMLOptionElement[]): HTMLElement | null =>
      options.length > 0 ? h("optgroup", { label }, ...options) : null;
    const files = this.#limits?.files ?? [];
    const several =
      this.#source !== null && "uploads" in this.#source && this.#source.uploads.length > 1 ? this.#source : null;
    replace(
      this.#select,
      group(
        "Samples",
        this.#samples.map(({ id, title }) => option({ sample: id }, title)),
      ),
      group("Files", [
        ...(files.length > 1 ? [option({ files }, `all ${files.length} files`)] : []),
        ...files.map((name) => option({ files: [name] }, name)),
      ]),
      group("Your uploads", [
        ...(several ? [option({ uploads: several.uploads }, `${several.uploads.length} files together`)] : []),
        ...this.#uploads.map(({ id, name }) => option({ uploads: [id] }, name)),
      ]),
    );
  }

  #show(data: Data): void {
    const source = this.#source;
    this.#numbered = data.language === "ceql" && data.streams.length === 1;
    const sample = this.#samples.find(({ id }) => source !== null && "sample" in source && source.sample === id);
    replace(
      this.#body,
      sample ? h("p", { class: "about" }, sample.about) : null,
      source !== null && "uploads" in source && data.language === "ceql" ? this.#showReading(source, data) : null,
      ...data.notes.map((note) => h("p", { class: "note" }, note)),
      data.density && data.density.bins.length > 0 ? drawDensity(data.density) : null,
      ...data.streams.map((stream, i) => this.#showStream(stream, i === 0, data.streams.length > 1)),
    );
  }

  /** Let a visitor say which columns of an upload have the types and the times, and remove it. */
  #showReading(source: { uploads: string[] } & Reading, data: Data): HTMLElement {
    const stream = data.streams[0];
    const columns = stream?.columns ?? [];
    const choose = (label: string, names: readonly string[], now: string | null, field: keyof Reading): HTMLElement => {
      const options = names.map((name) => h("option", { value: name, selected: name === now }, name));
      const none = now === null ? h("option", { value: "", selected: true }, "none") : null;
      const change = (event: Event): void => {
        const { value } = event.target as HTMLSelectElement;
        // a choice that was made while the one before is still being read is added to it
        const now = this.#source !== null && keyOf(this.#source) === keyOf(source) ? this.#source : source;
        if (value !== "") void this.open({ ...now, [field]: value });
      };
      return h("label", {}, label, h("select", { change }, none, ...options));
    };
    const names = columns.map(({ name }) => name);
    const time = columns.find(({ name }) => name === stream?.time?.column);
    return h(
      "div",
      { class: "reading" },
      choose("Types in", names, stream?.type ?? null, "type"),
      choose("Times in", names, time?.name ?? null, "time"),
      time?.type.includes("number") ? choose("counting", UNITS, source.time_unit ?? "ms", "time_unit") : null,
      h("span", { class: "grow" }),
      iconButton("Remove upload", "×", () => void this.#remove(source.uploads)),
    );
  }

  async #remove(ids: readonly string[]): Promise<void> {
    try {
      for (const id of ids) await api.removeUpload(id);
    } catch (error) {
      this.#options.onTrouble(error);
    }
    this.#uploads = this.#uploads.filter(({ id }) => !ids.includes(id));
    this.#options.onRemoved();
  }

  #showStream(stream: Stream, open: boolean, several: boolean): HTMLElement {
    const shown = stream.types.slice(0, TYPES_SHOWN);
    const more = stream.types.length - shown.length;
    const types = h(
      "ul",
      { class: "chips", "aria-label": "Event types" },
      ...shown.map(({ name, count }) => h("li", {}, name, h("small", {}, shortCount(count)))),
      more > 0 && h("li", {}, `${groupDigits(more)} more`),
    );
    const rows = h("div", { class: "rows" });
    const parts = [shown.length > 0 && types, rows];
    let loaded = false;
    const load = (): void => {
      if (!loaded) void this.#loadRows(stream, rows, 0);
      loaded = true;
    };
    if (open) load();
    if (!several) return h("div", { class: "stream" }, ...parts);
    const summary = h("summary", {}, h("b", {}, stream.name), ` ${plural(stream.rows, "event")}`);
    return h("details", { class: "stream", open, toggle: load }, summary, ...parts);
  }

  async #loadRows(stream: Stream, place: HTMLElement, offset: number): Promise<void> {
    const source = this.#source;
    if (source === null) return;
    try {
      const page = await api.rows(source, stream.name, offset, PAGE);
      const types = new Map(stream.columns.map(({ name, type }) => [name, type]));
      const columns = page.columns.map((name) => ({
        name,
        detail: name === stream.time?.column ? "time" : (types.get(name) ?? ""),
      }));
      const rows = page.rows.map((row) => row.map((value) => ({ value })));
      const table = this.#numbered
        ? makeTable(
            `Events of ${stream.name}`,
            [{ name: "row" }, ...columns],
            rows.map((row, i) => [{ value: offset + i }, ...row]),
          )
        : makeTable(`Events of ${stream.name}`, columns, rows);
      replace(place, table, this.#pager(stream, place, offset, page.rows.length, page.total));
    } catch (error) {
      this.#options.onTrouble(error);
    }
  }

  #pager(stream: Stream, place: HTMLElement, offset: number, count: number, total: number): HTMLElement {
    const turn = (label: string, sign: string, to: number, possible: boolean): HTMLElement =>
      iconButton(label, sign, possible ? () => void this.#loadRows(stream, place, to) : null);
    const last = Math.max(0, Math.floor((total - 1) / PAGE) * PAGE);
    const words =
      total === 0
        ? "no events"
        : `${groupDigits(offset + 1)}–${groupDigits(offset + count)} of ${plural(total, "event")}`;
    return h(
      "div",
      { class: "pager" },
      h("span", {}, words),
      turn("First events", "⇤", 0, offset > 0),
      turn("Events before", "←", Math.max(0, offset - PAGE), offset > 0),
      turn("Events after", "→", offset + PAGE, offset + count < total),
      turn("Last events", "⇥", last, offset + count < total),
    );
  }

  #acceptDrops(): void {
    const carriesFile = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
    document.addEventListener("dragover", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    document.addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) document.body.classList.remove("dropping");
    });
    document.addEventListener("drop", (event) => {
      document.body.classList.remove("dropping");
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      void this.upload(files);
    });
  }
}
