// Types of the views that Python sends, generated from their dataclasses by `python -m tests.wire`: change those.

export type ColumnKind = "text" | "number" | "share" | "bar";

/** A page about a result: `cutaway.show(page)`, `page.to_html("page.html")`, or `print(page)`. */
export interface Page {
  title: string;
  about: string;
  sections: Section[];
  /** The tab of the viewer that lists a saved page: "neurons", "language", or "start". The viewer opens on a start page; texts in its columns named "saved as" link to the archives of that name. */
  topic: string;
  kind: "page";
}

/** Blocks of a page with a common title. */
export interface Section {
  title: string;
  about: string;
  blocks: (Prose | Facts | Table | Lines | Bars | Histogram | Heatmap | ColoredText)[];
  /** Whether it takes the full width; other sections may be side by side. */
  is_wide: boolean;
}

/** Paragraphs of plain text, separated by empty lines. */
export interface Prose {
  text: string;
  title: string;
  kind: "prose";
}

/** Names and values: `Facts([("units", "2,304"), ("accuracy", "0.93", "± 0.01")])`. */
export interface Facts {
  items: Fact[];
  title: string;
  kind: "facts";
}

/** One named value. */
export interface Fact {
  name: string;
  value: string;
  remark: string;
}

/** Rows of cells; the reader can sort them. */
export interface Table {
  columns: Column[];
  rows: ((string | number | null)[])[];
  title: string;
  kind: "table";
}

/** The header of a column. */
export interface Column {
  name: string;
  kind: ColumnKind;
  /** Explains the column, in its tooltip. */
  about: string;
}

/** A line chart, such as accuracy over the number of units kept. */
export interface Lines {
  x_name: string;
  y_name: string;
  x: (number | null)[];
  lines: Line[];
  is_log_x: boolean;
  /** Label of each x position, such as a token; empty, or one per position. */
  x_names: string[];
  title: string;
  kind: "lines";
}

/** One line of a chart. */
export interface Line {
  name: string;
  y: (number | null)[];
  /** Lower end of an interval around each point; empty, or one per point. */
  low: (number | null)[];
  high: (number | null)[];
  is_dashed: boolean;
}

/** A bar chart: one number per name. */
export interface Bars {
  names: string[];
  values: (number | null)[];
  /** Lower end of an interval around each value; empty, or one per value. */
  low: (number | null)[];
  high: (number | null)[];
  /** Whether bars start in the middle and go both ways. */
  is_signed: boolean;
  title: string;
  kind: "bars";
}

/** A histogram with one series per kind of value. */
export interface Histogram {
  /** Bin edges, ascending: one more than bins. */
  edges: (number | null)[];
  series: Series[];
  title: string;
  kind: "histogram";
}

/** Counts per bin for one kind of value. */
export interface Series {
  name: string;
  counts: (number | null)[];
}

/** A matrix shown as colors. */
export interface Heatmap {
  row_names: string[];
  column_names: string[];
  values: ((number | null)[])[];
  /** The value with the palest color; the least by default. If diverging, the negative of `high`. It may be greater than `high`: ranks have the full color at 1. */
  low: number | null;
  high: number | null;
  /** Whether the scale is symmetric around zero. */
  is_diverging: boolean;
  /** Whether the color scale is logarithmic; values and ends must be positive. */
  is_log: boolean;
  shows_numbers: boolean;
  /** Whether values are shares from 0 to 1, shown as percent. */
  is_share: boolean;
  /** Text in each cell beside its number, such as a token; empty, or one per cell. */
  texts: string[][];
  /** Tooltip of each cell; empty, or one per cell. */
  notes: string[][];
  title: string;
  kind: "heatmap";
}

/** Texts with tokens colored by one channel at a time: a unit, a head, a factor. */
export interface ColoredText {
  channels: string[];
  texts: Text[];
  /** Whether negative values have their own color. */
  is_signed: boolean;
  /** The magnitude with the full color, per channel; the largest by default. */
  most: number[];
  /** Whether channels compete for tokens, as factors do: each has its own color and a curve beside the text, and a token has the color of its strongest channel. */
  shows_strongest: boolean;
  /** Whether values are shares from 0 to 1, shown as percent. */
  is_share: boolean;
  /** Tooltip of a token without a value. */
  missing: string;
  /** Colored texts of a page with the same nonempty link always show the same channel. */
  link: string;
  title: string;
  kind: "text";
}

/** Tokens with values. */
export interface Text {
  tokens: string[];
  /** One row per channel of the block, one number per token; None for a token without a value. */
  values: ((number | null)[])[];
  title: string;
  /** Positions of tokens to frame. */
  marks: number[];
  /** For each token, the channel that it selects on hover or click, -1 for none; empty if tokens select nothing. */
  chooses: number[];
}

/** The page of a collection or a saved result. */
export interface PageView {
  page: Page;
  /** Sites of a collection, whose units have their own pages. */
  sites: SiteUnits[];
}

/** One site of a collection and the units it has there. */
export interface SiteUnits {
  site: string;
  width: number;
  /** Their indices within the site; empty if the collection has all of them in order. */
  units: number[];
}
