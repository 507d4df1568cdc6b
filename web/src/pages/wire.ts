// Types of the views that Python sends, generated from their dataclasses by `python -m tests.wire`: change those.

export type ColumnKind = "text" | "number" | "share" | "bar";

/** What is shown of a result: `cutaway.show(page)`, `page.to_html("page.html")`, or `print(page)`. */
export interface Page {
  title: string;
  about: string;
  sections: Section[];
  /** What it is about, and with that the tab of the viewer that lists it where it is saved: "neurons", say. */
  topic: string;
  kind: "page";
}

/** Plates that belong together, below one title. */
export interface Section {
  title: string;
  about: string;
  plates: (Prose | Facts | Table | Lines | Bars | Histogram | Heatmap | ColouredText)[];
  /** Whether it takes the whole width where two sections would stand side by side. */
  is_wide: boolean;
}

/** Paragraphs of plain text, with an empty line between them. */
export interface Prose {
  text: string;
  title: string;
  kind: "prose";
}

/** Names and what they are: `Facts([("units", "2,304"), ("accuracy", "0.93", "± 0.01")])`. */
export interface Facts {
  items: Fact[];
  title: string;
  kind: "facts";
}

/** One thing that is so. */
export interface Fact {
  name: string;
  value: string;
  remark: string;
}

/** Rows of cells; the reader sorts them. */
export interface Table {
  columns: Column[];
  rows: ((string | number | null)[])[];
  title: string;
  kind: "table";
}

/** The head of a column. */
export interface Column {
  name: string;
  kind: ColumnKind;
  /** What its numbers are, for who points at it. */
  about: string;
}

/** Numbers over a number: an accuracy over how many units are kept. */
export interface Lines {
  x_name: string;
  y_name: string;
  x: (number | null)[];
  lines: Line[];
  is_log_x: boolean;
  /** What stands at each place on x, a token say; none, or one a place. */
  x_names: string[];
  title: string;
  kind: "lines";
}

/** One line over the x of its plate. */
export interface Line {
  name: string;
  y: (number | null)[];
  /** The lower end of an interval around each point; none, or one a point. */
  low: (number | null)[];
  high: (number | null)[];
  is_dashed: boolean;
}

/** One number a name, each as long as it is large. */
export interface Bars {
  names: string[];
  values: (number | null)[];
  /** The lower end of an interval around each value; none, or one a value. */
  low: (number | null)[];
  high: (number | null)[];
  /** Whether bars go both ways from the middle. */
  is_signed: boolean;
  title: string;
  kind: "bars";
}

/** How values are spread, one series for each kind of them. */
export interface Histogram {
  /** Of the bins, ascending: one more than there are bins. */
  edges: (number | null)[];
  series: Series[];
  title: string;
  kind: "histogram";
}

/** How many values of one kind lie in each bin. */
export interface Series {
  name: string;
  counts: (number | null)[];
}

/** A matrix, each number as a color. */
export interface Heatmap {
  row_names: string[];
  column_names: string[];
  values: ((number | null)[])[];
  /** What has the palest color; the least value if nothing is said. Diverging, it is the other side of `high`. It may be the greater one: ranks have their full color at 1. */
  low: number | null;
  high: number | null;
  /** Whether zero is the middle, and both ends are remarkable. */
  is_diverging: boolean;
  /** Whether colors go by the logarithm; values and ends are above zero then. */
  is_log: boolean;
  shows_numbers: boolean;
  /** Whether values are shares from 0 to 1, read as percent. */
  is_share: boolean;
  /** What stands in each cell beside its number, a token say; none, or one a cell. */
  texts: string[][];
  /** What is said of each cell to who points at it; none, or one a cell. */
  notes: string[][];
  title: string;
  kind: "heatmap";
}

/** Texts whose tokens are colored by one channel at a time: a unit, a head, a factor. */
export interface ColouredText {
  channels: string[];
  texts: Text[];
  /** Whether values below zero have a color of their own. */
  is_signed: boolean;
  /** The size of a value that has the full color, for each channel; the largest there is if nothing is said. */
  most: number[];
  /** Whether the channels contend for the tokens, as factors do: each has a color and a line of its own beside the text, and a token has the color of the one that is largest there. */
  is_contest: boolean;
  /** Whether values are shares from 0 to 1, read as percent. */
  is_share: boolean;
  /** What is said of a token without a number. */
  missing: string;
  /** Colored texts of one page with the same link, if it is not empty, always show the same channel. */
  link: string;
  title: string;
  kind: "text";
}

/** Tokens with numbers. */
export interface Text {
  tokens: string[];
  /** One row for each channel of the plate, one number for each token; None for a token without one. */
  values: ((number | null)[])[];
  title: string;
  /** Places of the tokens that are meant: they are framed. */
  marks: number[];
  /** For each token the channel that it chooses when it is pointed at or clicked, -1 for none; empty where tokens choose nothing. */
  chooses: number[];
}

/** What is shown of a collection or a saved result. */
export interface PageView {
  page: Page;
  /** Of a collection: its units have pages, too. */
  sites: SiteUnits[];
}

/** One site of a collection, and which of its units are there. */
export interface SiteUnits {
  site: string;
  width: number;
  /** Their numbers within the site, where they are not all from 0 on; else empty. */
  units: number[];
}
