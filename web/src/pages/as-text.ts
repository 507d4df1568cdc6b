// Page items as tab-separated text in full precision, for spreadsheets and editors.

import { raw, type Maybe } from "./numbers";
import type { Bars, ColoredText, Facts, Heatmap, Histogram, Lines, Section, Table } from "./wire";

export type Block = Section["blocks"][number];

export function asText(block: Block): string {
  switch (block.kind) {
    case "prose": return block.text;
    case "facts": return ofFacts(block);
    case "table": return ofTable(block);
    case "lines": return ofLines(block);
    case "bars": return ofBars(block);
    case "histogram": return ofHistogram(block);
    case "heatmap": return ofHeatmap(block);
    case "text": return ofText(block);
  }
}

/** Lines of cells; what would break a cell becomes a space. */
function toTsv(lines: Iterable<readonly (string | Maybe)[]>): string {
  const cell = (value: string | Maybe): string => (typeof value === "string" ? value.replace(/[\t\r\n]+/g, " ") : raw(value));
  return Array.from(lines, (line) => line.map(cell).join("\t")).join("\n");
}

function ofFacts({ items }: Facts): string {
  return toTsv(items.map(({ name, value, remark }) => [name, value, ...(remark ? [remark] : [])]));
}

function ofTable({ columns, rows }: Table): string {
  return toTsv([columns.map(({ name }) => name), ...rows]);
}

function ofLines({ x_name, x_names, x, lines }: Lines): string {
  const heads = lines.flatMap(({ name, low, high }) => [name, ...(low.length ? [`${name} low`] : []), ...(high.length ? [`${name} high`] : [])]);
  const rows = x.map((at, i) => [at, ...(x_names.length ? [x_names[i]] : []), ...lines.flatMap(({ y, low, high }) => [y[i], ...(low.length ? [low[i]] : []), ...(high.length ? [high[i]] : [])])]);
  return toTsv([[x_name, ...(x_names.length ? [""] : []), ...heads], ...rows]);
}

function ofBars({ names, values, low, high }: Bars): string {
  return toTsv(names.map((name, i) => [name, values[i], ...(low.length ? [low[i]] : []), ...(high.length ? [high[i]] : [])]));
}

function ofHistogram({ edges, series }: Histogram): string {
  const bins = edges.slice(1).map((edge, i) => [edges[i], edge, ...series.map(({ counts }) => counts[i])]);
  return toTsv([["from", "to", ...series.map(({ name }) => name)], ...bins]);
}

function ofHeatmap({ row_names, column_names, values, texts }: Heatmap): string {
  const columns = column_names.flatMap((name) => (texts.length ? [name, ""] : [name]));
  return toTsv([["", ...columns], ...row_names.map((name, i) => [name, ...values[i].flatMap((value, j) => (texts.length ? [value, texts[i][j]] : [value]))])]);
}

function ofText({ channels, texts }: ColoredText): string {
  const rows = texts.flatMap(({ title, tokens, values }, i) => tokens.map((token, at) => [title || String(i + 1), token, ...values.map((row) => row[at])]));
  return toTsv([["text", "token", ...channels], ...rows]);
}
