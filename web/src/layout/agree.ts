// Runs the functions that exist in both languages, for the Python tests: `node agree.mjs CASES RESULTS`, one JSON value per line.
// A case is the name of a function and what it is given.

import { readFileSync, writeFileSync } from "node:fs";

import { fold } from "./fold";
import { place, placeCache } from "./place";
import type { Picture } from "../lib/wire";

/** One after the other with one cache, as when groups are opened and folded. */
function placeInTurn(pictures: Picture[], direction: "down" | "right"): unknown[] {
  const cache = placeCache();
  return pictures.map((picture) => place(picture, direction, cache));
}

/** How many milliseconds it takes to place pictures in turn, each with what is known of those before it. */
function timeInTurn(pictures: Picture[], direction: "down" | "right"): number[] {
  const cache = placeCache();
  return pictures.map((picture) => {
    const start = performance.now();
    place(picture, direction, cache);
    return performance.now() - start;
  });
}

const FUNCTIONS: Record<string, (...given: never[]) => unknown> = { fold, place, placeInTurn, timeInTurn };

const [, , cases, results] = process.argv;
const lines = readFileSync(cases, "utf8").split("\n").filter(Boolean);
const answers = lines.map((line) => {
  const [name, given] = JSON.parse(line) as [string, never[]];
  return JSON.stringify(FUNCTIONS[name](...given));
});
writeFileSync(results, answers.join("\n"));
