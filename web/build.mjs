// Builds the page into src/cernis/serve/assets, or with --test the unit tests into build/test.mjs.
//
// The built files are committed, so that installing the package needs no Node. build.json has the
// digests of the sources and of the built files: tests/serve/test_assets.py compares them without
// Node. The same sources give the same bytes: versions are pinned by package-lock.json.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf("--into");
const assets = flag > 0 ? process.argv[flag + 1] : join(here, "../src/cernis/serve/assets");

function filesUnder(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesUnder(path) : [path];
    })
    .sort();
}

function digest(...contents) {
  const hash = createHash("sha256");
  for (const content of contents) hash.update(content);
  return hash.digest("hex");
}

/** The digest of everything that the build reads: names and contents, in the order of the names. */
function digestSources() {
  const files = ["build.mjs", "package-lock.json", "tsconfig.json"].map((name) => join(here, name));
  files.push(...filesUnder(join(here, "src")));
  const names = files.map((path) => relative(here, path).replaceAll("\\", "/"));
  const pairs = files.map((path, i) => [names[i], readFileSync(path)]);
  pairs.sort(([a], [b]) => (a < b ? -1 : 1));
  return digest(...pairs.flatMap(([name, content]) => [name, "\0", content, "\0"]));
}

/** The licenses of the packages that a bundle contains. */
function licensesOf(metafile) {
  const names = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) names.add(match[1]);
  }
  const texts = [...names].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const license = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    return `${name}\n\n${readFileSync(join(folder, license), "utf8").trim()}\n`;
  });
  return texts.join(`\n${"-".repeat(78)}\n\n`);
}

const common = { absWorkingDir: here, bundle: true, write: false, charset: "utf8", logLevel: "warning" };

if (process.argv.includes("--test")) {
  const tests = filesUnder(join(here, "test")).map((path) => `import ${JSON.stringify(path)};`);
  const made = await build({
    ...common,
    stdin: { contents: tests.join("\n"), resolveDir: here },
    format: "esm",
    platform: "node",
  });
  mkdirSync(join(here, "build"), { recursive: true });
  writeFileSync(join(here, "build/test.mjs"), made.outputFiles[0].contents);
} else {
  const options = { ...common, minify: true, metafile: true, target: ["chrome111", "firefox115", "safari16.4"] };
  const script = await build({ ...options, entryPoints: ["src/main.ts"], format: "esm" });
  const code = await build({ ...options, entryPoints: ["src/code.ts"], format: "esm" });
  const style = await build({ ...options, entryPoints: ["src/style.css"] });
  const made = {
    "app.css": style.outputFiles[0].contents,
    "app.js": script.outputFiles[0].contents,
    "code.js": code.outputFiles[0].contents,
    "index.html": readFileSync(join(here, "src/index.html")),
    "licenses.txt": licensesOf(script.metafile),
  };
  const record = { sources: digestSources(), files: {} };
  mkdirSync(assets, { recursive: true });
  for (const [name, content] of Object.entries(made)) {
    writeFileSync(join(assets, name), content);
    record.files[name] = digest(content);
  }
  writeFileSync(join(assets, "build.json"), JSON.stringify(record, null, 2) + "\n");
}
