// Numbers as people read them.

/** Put commas between the thousands of a decimal text. */
export function groupDigits(text: string | number): string {
  const [, sign = "", whole = "", rest = ""] = /^(-?)(\d+)(.*)$/.exec(String(text)) ?? [];
  return whole === "" ? String(text) : sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Return a count in a few characters: all digits up to a million, then `1.23 × 10⁹`. */
export function shortCount(text: string | number): string {
  const digits = String(text);
  if (!/^\d+$/.test(digits) || digits.length <= 7) return groupDigits(digits);
  const power = [...String(digits.length - 1)].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
  return `${digits[0]}.${digits.slice(1, 3)} × 10${power}`;
}

/** Return a difference of counts, a decimal text, with its sign. */
export function shortDifference(text: string): string {
  return text.startsWith("-") ? `−${shortCount(text.slice(1))}` : `+${shortCount(text)}`;
}

/** Return the base-10 logarithm of a decimal text; 0 for "0". */
export function logOfText(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) return 0;
  return text.length - 1 + Math.log10(Number(`${text[0]}.${text.slice(1, 15)}`));
}

/** Return a duration in seconds as text. */
export function shortSeconds(seconds: number): string {
  if (seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

export function shortBytes(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB"];
  let size = bytes;
  let unit = 0;
  for (; size >= 1000 && unit < units.length - 1; unit++) size /= 1000;
  return `${size < 10 && unit > 0 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export const plural = (count: string | number, noun: string, many = `${noun}s`): string =>
  `${groupDigits(count)} ${String(count) === "1" ? noun : many}`;

/** Return any value of the data as text. */
export function showValue(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
