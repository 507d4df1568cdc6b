// Builds the one bundle of the page, the notebook and the offline file; or, with --tests, bundles the tests and runs them.
//
//   node build.mjs                      into ../src/cutaway/server/static
//   node build.mjs --out FOLDER         into another folder
//   node build.mjs --tests [WORD]       only the test files whose path has the word, if one is given
//   node build.mjs --bundle ENTRY FILE  one module with what it imports, for Node: how Python's tests call the TypeScript

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const WEB = dirname(fileURLToPath(import.meta.url));
const STATIC = join(WEB, "..", "src", "cutaway", "server", "static");
const SHARED = { absWorkingDir: WEB, bundle: true, format: "esm", target: "es2022", jsx: "automatic", jsxImportSource: "preact", logLevel: "warning" };

// The place of the style sheet in the bundle, so that there is one file to carry about (see src/main.tsx).
const STYLE = '"__CUTAWAY_STYLE__"';

async function bundle(folder) {
  const result = await esbuild.build({
    ...SHARED, entryPoints: { cutaway: "src/main.tsx" }, outdir: folder, write: false, minify: true,
    metafile: true, charset: "utf8", legalComments: "none",
  });
  const named = (ending) => result.outputFiles.find((file) => file.path.endsWith(ending))?.text ?? "";
  const style = JSON.stringify(named(".css")).replaceAll("</", "<\\/");
  const script = named(".js");
  if (!script.includes(STYLE)) throw new Error(`the bundle has no place for the style sheet: ${STYLE}`);
  mkdirSync(folder, { recursive: true });
  write(join(folder, "cutaway.js"), script.replace(STYLE, () => style));
  write(join(folder, "LICENSES.txt"), licenses(Object.keys(result.metafile.inputs)));
}

// Readers never see half a file.
function write(path, text) {
  const beside = `${path}.${process.pid}`;
  writeFileSync(beside, text);
  renameSync(beside, path);
}

// The license of every package of which something is in the bundle.
function licenses(inputs) {
  const names = new Set(inputs.map((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]).filter(Boolean));
  return [...names].sort().map((name) => {
    const folder = join(WEB, "node_modules", name);
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
    if (!file) throw new Error(`${name} is bundled and comes without a license file`);
    return `${name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  }).join("\n----\n\n");
}

async function test(word) {
  const files = testFiles(join(WEB, "src")).filter((file) => relative(WEB, file).includes(word));
  if (!files.length) throw new Error(`no test file has '${word}' in its path`);
  const folder = mkdtempSync(join(tmpdir(), "cutaway-tests-"));
  try {
    const result = await esbuild.build({
      ...SHARED, entryPoints: files, outdir: folder, outbase: join(WEB, "src"), outExtension: { ".js": ".mjs" },
      platform: "node", sourcemap: "inline", loader: { ".css": "empty" }, metafile: true,
    });
    const built = Object.keys(result.metafile.outputs).map((path) => resolve(WEB, path));
    // One process for all files: 64 processes took 50 seconds of CPU time, most of it to start Node.
    const all = join(folder, "all.mjs");
    writeFileSync(all, built.map((file) => `await import(${JSON.stringify(file)});\n`).join(""));
    const run = spawnSync(process.execPath, ["--enable-source-maps", "--test-reporter=tap", all], { stdio: "inherit" });
    return run.status ?? 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function testFiles(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => /\.test\.tsx?$/.test(name)).map((name) => join(folder, name)).sort();
}

function after(flag) {
  return process.argv[process.argv.indexOf(flag) + 1] ?? "";
}

async function main() {
  if (process.argv.includes("--tests")) return test(after("--tests"));
  if (process.argv.includes("--bundle")) {
    const [entry, file] = process.argv.slice(process.argv.indexOf("--bundle") + 1).map((path) => resolve(path));
    if (!existsSync(entry)) throw new Error(`no file ${entry} to bundle`);
    await esbuild.build({ ...SHARED, entryPoints: [entry], outfile: file, platform: "node", loader: { ".css": "empty" } });
  } else {
    await bundle(process.argv.includes("--out") ? resolve(after("--out")) : STATIC);
  }
  return 0;
}

process.exitCode = await main().catch((error) => {
  if (!error.errors) console.error(error.message); // esbuild has told its own
  return 1;
});
