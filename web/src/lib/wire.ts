// Types of the views that Python sends, generated from their dataclasses by `python -m tests.wire`: change those.

export type Kind = "input" | "buffer" | "constant" | "plain" | "parametric" | "made" | "standin" | "failed" | "target" | "loss";
export type Form = "function" | "leaf" | "folded" | "small";
export type Mark = "" | "new" | "gone" | "changed";
export type Total = "sum" | "max";
export type Scale = "log" | "linear" | "diverging";
export type RunState = "live" | "ended" | "killed" | "unknown";
export type RunKind = "run" | "trace" | "activations" | "result";
export type TableSource = "batch" | "kept";
export type Topic = "neurons" | "language";
export type StatisticTier = "core" | "full" | "spectral_norm" | "group";
export type StatisticUnit = "value" | "elements" | "share" | "flag";
export type StatisticScale = "linear" | "log";
export type StatisticPart = "number" | "quantile" | "histogram";

export const OUTPUT = 1;
export const LIGHT = 2;
export const CONDITION = 4;
export const FAILED = 8;

/** The whole graph. */
export interface GraphView {
  title: string;
  subtitle: string;
  /** Model class, ops and bytes, parameters…, for the header: what, how much. */
  facts: [string, string][];
  /** What ended the trace early; "" if nothing did. */
  error: string;
  nodes: NodeColumns;
  groups: GroupColumns;
  runs: BlockRun[];
  edges: EdgeColumns;
  measures: Measure[];
  comparison: Comparison | null;
  /** Whether loops are better rolled up at first. */
  is_rolled: boolean;
  kind: string;
  /** What its nodes are, in words: those of a run are tensors. */
  noun: string;
}

/** One entry for each op and each source that is drawn. Parents stand first, the nodes of a group together. */
export interface NodeColumns {
  /** Row in the trace, by which details are asked for; -1 for an op that failed, or that another trace has. */
  row: number[];
  label: string[];
  /** What the box says below its name. */
  lines: string[][];
  kind: Kind[];
  form: Form[];
  flags: number[];
  /** The innermost group; 0 is the whole picture. */
  group: number[];
  function: string[];
  site: string[];
  /** The first of the nodes that the same call of a function made: all results of a split have one. */
  event: number[];
  /** The node that stands for all its passes: the first of them. */
  rolled: number[];
  /** Number of the pass, from 1. */
  pass_: number[];
  /** Node → its lines where it stands for all its passes, if they are others. */
  rolled_lines: Record<number, string[]>;
  /** What the model returned: the place in the returned structure, "" for a bare tensor, and the node. */
  outputs: [string, number][];
}

/** One entry for each module call that can be a frame or be folded into a box; 0 is the whole picture. */
export interface GroupColumns {
  parent: number[];
  /** Address, and pass where the module ran several times. */
  label: string[];
  /** Address without the pass. */
  rolled_label: string[];
  class_name: string[];
  /** Shapes and bytes of what it returned. */
  size: string[];
  /** How many it has, in words; "" for none. */
  parameters: string[];
  kind: Kind[];
  flags: number[];
  /** How many module calls are around its own; -1 for the world outside all modules. */
  depth: number[];
  /** The first of its nodes. */
  first: number[];
  /** The node behind its last one. */
  end: number[];
  n_ops: number[];
  /** The group that stands for all runs of the module in a loop: the first of them. */
  rolled: number[];
  /** Number among those runs, from 1. */
  pass_: number[];
  /** The run of identical blocks it belongs to; -1 for none. */
  run: number[];
  /** Its place in that run, from 0. */
  place: number[];
  /** Number of the module call in the trace. */
  call: number[];
}

/** Identical blocks, one after the other: `h.0` to `h.23`. Nodes and groups of one correspond by their order. */
export interface BlockRun {
  groups: number[];
  /** `h.0 … 23`. */
  label: string;
}

/** One entry for each tensor that goes from a node to another, and each argument as which it does. */
export interface EdgeColumns {
  parent: number[];
  child: number[];
  /** Position or keyword, where it matters. */
  argument: string[];
  /** Numbers of the edges where the branch of a conditional leaves the path to the output. */
  begins: number[];
}

/** A number for every node, by which the picture can be colored. */
export interface Measure {
  /** `seconds`, `std`, `grad_norm`… */
  name: string;
  title: string;
  unit: string;
  /** What a folded group shows: the sum over its nodes, or the largest. */
  total: Total;
  scale: Scale;
  values: (number | null)[];
}

/** What differs from another trace, by node. */
export interface Comparison {
  mark: Mark[];
  /** How far the values are apart, from 0 (not at all) to 4. */
  shade: number[];
  /** The same in words. */
  amount: string[];
  /** The same as a number to sort by. */
  order: number[];
}

/** What is open, and what is drawn once for many. */
export interface Fold {
  open: number[];
  rolled: boolean;
  apart: number[];
}

/** All that is to be drawn; boxes stand parents first, those of one frame next to each other. */
export interface Picture {
  title: string;
  subtitle: string;
  boxes: Box[];
  frames: Frame[];
  edges: Edge[];
  /** Boxes that are only there for orientation. */
  faint: number[];
}

/** One op, one source, one folded group, or a stand-in for what is drawn elsewhere. */
export interface Box {
  /** The same whatever else is open: "n12" for a node, "g3" for a group, "s…" for a stand-in. */
  key: string;
  /** The first of them is its name. */
  lines: string[];
  kind: Kind;
  form: Form;
  frame: number;
  /** Number among the nodes of the graph; -1 for none. */
  node: number;
  /** Number of the group that is folded into it; -1 for none. */
  group: number;
  flags: number;
  /** How many identical blocks it stands for. */
  stack: number;
  /** Of a stand-in: the keys of the boxes that it stands for. */
  stands_for: string[];
  mark: Mark;
  /** How far its values are apart from those of another trace, from 0 to 4. */
  shade: number;
}

/** An open group around several boxes; frame 0 is the whole picture. */
export interface Frame {
  key: string;
  title: string;
  parent: number;
  group: number;
  stack: number;
  flags: number;
  /** Whether all in it is new, or gone. */
  mark: Mark;
}

/** From a box to another one; the label tells the argument and, where it repeats, how often. */
export interface Edge {
  parent: number;
  child: number;
  label: string;
}

/** All that is known of one op or source. */
export interface Detail {
  row: number;
  label: string;
  site: string;
  kind: string;
  function: string;
  /** What, how much. */
  facts: [string, string][];
  arguments: Argument[];
  source: Source | null;
  /** File, line, function; the innermost first. */
  stack: [string, number, string][];
  /** The tests that it decided, and the arms in which it ran. */
  tests: string[];
  parameters: ParameterPicture[];
  value: ValuePicture | null;
  /** Why there is no value. */
  missing: string;
  grad: ValuePicture | null;
}

/** One argument of a call. */
export interface Argument {
  /** Its position, its keyword, or both with its place in a list: `0`, `dim`, `0.2`. */
  name: string;
  text: string;
  /** The row of the tensor, if it is one. */
  row: number | null;
}

/** A line of the user's code with its surroundings. */
export interface Source {
  file: string;
  function: string;
  line: number;
  /** The line number of the first of `text`. */
  first: number;
  /** Empty where the file is not at hand any more. */
  text: string[];
}

/** A parameter that an op reads. */
export interface ParameterPicture {
  name: string;
  shape: string;
  value: ValuePicture | null;
  grad: ValuePicture | null;
}

/** What can be seen of a value at a glance. */
export interface ValuePicture {
  shape: number[];
  dtype: string;
  /** mean, std, min, max and norm of the finite elements, the share of zeros, the numbers of NaN and Inf. */
  statistics: ([string, number | null])[];
  histogram: Histogram | null;
  image: Image | null;
  /** The whole value, if it is small; else how it was looked at, or why it could not be. */
  text: string;
}

/** How often values lie where, in equal steps from `low` to `high`; the outermost bins also hold what lies beyond. */
export interface Histogram {
  low: number;
  high: number;
  counts: number[];
}

/** Values as grey levels, row by row. */
export interface Image {
  kind: "line" | "matrix" | "tiles";
  /** Pixels from top to bottom, tiles that stand below each other included. */
  rows: number;
  columns: number;
  /** Pixels of one tile from top to bottom; as many as `rows` where there is one. */
  tile_rows: number;
  tile_columns: number;
  /** Tiles that are filled, from the left and row by row; pixels behind the last one mean nothing. */
  n_tiles: number;
  low: number;
  high: number;
  /** Base64 of a byte for each pixel: 0 is `low` or less, 254 is `high` or more, 255 is not finite. */
  data: string;
  /** What is shown of the value. */
  caption: string;
  /** The dimensions of the value that count its tiles, its rows and its columns; -1 for none. */
  axes: [number, number, number];
  /** Where the first pixel stands in the value. */
  first: number[];
  /** What the tiles are: "channel", "head"…; "" where the value has none. */
  tile_word: string;
  /** How many of them the value has, shown or not. */
  n_all: number;
  /** The `low` and `high` of each tile, where each has its own; else none. */
  ranges: [number, number][];
}

/** One entry in the list of a folder. */
export interface RunItem {
  /** Short, the same at every start, and safe in an address. */
  id: string;
  name: string;
  path: string;
  kind: RunKind;
  /** `unknown` where another machine may be writing it. */
  state: RunState;
  n_steps: number;
  last_step: number | null;
  n_tensors: number;
  /** Kinds of steps, in the order they first were. */
  kinds: string[];
  /** What is damaged, or why it could not be opened. */
  problems: string[];
  /** The ranks that wrote; all else here is about the first of them, or the one that was asked for. */
  ranks: number[];
  /** Of a collection, or a saved result; none of all else, and of what could not be opened. */
  page: PageItem | null;
}

/** What the list says of a collection, or of a saved result. */
export interface PageItem {
  /** The tab it stands on; what has no topic stands with the neurons. */
  topic: Topic;
  /** The class of the result; "Activations" for a collection. */
  type: string;
  title: string;
  /** When, in seconds since 1970; 0 where that is not known. */
  made: number;
  n_rows: number;
  n_units: number;
  /** Of a collection; none for all else. */
  sites: SiteItem[];
  /** Changes when something else lies there, or more of it. */
  edition: string;
}

/** One site of a collection. */
export interface SiteItem {
  site: string;
  /** How many units it has. */
  width: number;
  /** The largest number that one of them has; one less than the width, unless only some were kept. */
  last: number;
}

/** All that is known of a run before any statistics or values are read. */
export interface RunView {
  item: RunItem;
  /** The recorded steps in order. */
  steps: number[];
  kinds: string[];
  /** By step, its kind: an index into `kinds`. */
  kind_of: number[];
  structures: StructureView[];
  /** By step, its dependency graph: an index into `structures`; -1 where it is not known. */
  structure_of: number[];
  /** The steps with which a resumed session began. */
  sessions: number[];
  rows: RowView[];
  /** The columns of every matrix. */
  statistics: string[];
  /** Changes when rows or statistics were added: matrices got before that are shorter. */
  digest: string;
  /** Changes when steps that were there before may hold something else: resumed, recorded anew, rows were added. */
  edition: string;
  iterations: number[];
  /** The losses with gradients of their own, `grad/<loss>`; in old runs a number may be a step of the optimizer. */
  losses: string[];
  scalars: string[];
  /** The first and the last step of which a number was logged; empty where none was. */
  logged: number[];
  /** The newest ones, in the order they were noted. */
  notes: NoteView[];
  n_notes: number;
  /** What is known of samples, at some step: text, label… */
  sample_fields: string[];
  config: Record<string, unknown>;
  environment: Record<string, unknown>;
  problems: string[];
  /** What could not be written. */
  lost: LostView[];
}

/** One dependency graph of the run. */
export interface StructureView {
  hash: string;
  /** The first recorded step that has it. */
  from_step: number;
  n_steps: number;
  kinds: string[];
}

/** One tensor and what of it was recorded: one row of every matrix of statistics. */
export interface RowView {
  /** The viewer's own number, the same over all steps and schemas, also while the run grows. */
  row: number;
  /** Without its pass: the same for all passes of a tensor. */
  site: string;
  /** "value", "grad", "grad/<loss>", "grad@2", "inner_grad", "update"… */
  of: string;
  /** From 1; 0 where steps have none. */
  iteration: number;
  /** Within its iteration, from 1. */
  pass_: number;
  /** The most passes that a step of the run has of the tensor, over all iterations. */
  n_passes: number;
  /** "input", "target", "loss", "parameter", "buffer", "value"; or whatever the writer said. */
  role: string;
  /** The node of the dependency graph it was given to; "" for one of its own. */
  node: string;
  part: string;
  /** Further names of the same tensor, without passes. */
  names: string[];
}

/** Something that was said during a run. */
export interface NoteView {
  step: number | null;
  /** Seconds since 1970. */
  time: number;
  level: string;
  text: string;
  about: Record<string, unknown>;
}

/** Something that could not be written, and why. */
export interface LostView {
  what: string;
  steps: number[];
  reason: string;
  time: number;
}

/** The dependency graph of one structure. */
export interface RunGraph {
  /** Its hash; "" where nothing is known but the tensors. */
  structure: string;
  /** `row` of its nodes is an index into `nodes`; groups are modules. */
  view: GraphView;
  nodes: NodeRows[];
  /** By group, the node that is the result of its module; -1 for none. */
  group_node: number[];
  /** Edges that carry no gradient. */
  no_gradient: number[];
  /** Edges that were drawn by hand. */
  manual: number[];
  /** Links that lead back to an earlier node, as can be where a node holds several tensors: parent, child. */
  loops: [number, number][];
  /** Nodes that are hidden on the user's own request. */
  n_hidden: number;
  /** Why there are no links; "" if there are. */
  why_missing: string;
}

/** What was recorded of one node of the graph. */
export interface NodeRows {
  name: string;
  /** The same without iteration and pass: `node` of its rows, or their site where that is empty. */
  node: string;
  /** From 1; 0 where it has none, or where its tensors are of several. */
  iteration: number;
  /** Within its iteration, from 1; 0 where its tensors are of several. */
  pass_: number;
  role: string;
  /** Every name of its tensors. */
  sites: string[];
  /** The viewer's rows of its tensors: values, gradients, updates; the main tensor first. */
  rows: number[];
  /** The parts its tensors play in it; empty where there is but one. */
  parts: string[];
}

/** The kept samples of one step. */
export interface SamplesView {
  step: number;
  /** Also counted where nothing is known of them, or they are too many to be listed. */
  n_kept: number;
  fields: string[];
  items: SampleItem[];
  /** Why there are none; "" if there are. */
  why_missing: string;
}

/** One sample. */
export interface SampleItem {
  /** Its place among the kept ones. */
  number: number;
  id: string;
  /** Its category; "" where it is not known. */
  label: string;
  /** Its text; that of its tokens where no other was given. */
  text: string;
  tokens: string[];
  image: SampleImage | null;
  /** Further fields: name, what it says. */
  others: [string, string][];
}

/** A sample's picture. */
export interface SampleImage {
  rows: number;
  columns: number;
  /** 1 for grey, 3 for red, green and blue, 4 with opacity. */
  n_channels: number;
  /** Base64 of a byte for each pixel and channel, row by row, channels last; low is 0 and high is 255. */
  data: string;
  low: number;
  high: number;
}

/** One row of the matrix of a step, with all that is known of it. */
export interface TensorView {
  row: number;
  /** Without its pass. */
  site: string;
  of: string;
  iteration: number;
  /** Within its iteration, from 1. */
  pass_: number;
  step: number;
  /** Of the step. */
  kind: string;
  role: string;
  node: string;
  part: string;
  names: string[];
  statistics: StatisticView[];
  /** Where one differs by powers of ten. */
  sibling: Sibling | null;
  /** Units that are zero for the whole batch; None where units were not recorded. */
  dead_units: number | null;
  /** Of at most 1,024 values of the whole tensor, as it was recorded. */
  histogram: Histogram | null;
  /** Of the kept value; "" if none was kept. */
  dtype: string;
  /** Of the kept value. */
  shape: number[];
  /** How many samples its first dimension counts; 0 where it counts none. */
  n_samples: number;
  /** The chosen sample. */
  sample: SampleItem | null;
  /** Whether the picture is of deviations from the mean over the batch, in standard deviations. */
  is_normalized: boolean;
  picture: ValuePicture | null;
  tokens: TokenValues | null;
  beside: Beside[];
  units: TableView | null;
  samples: TableView | null;
  /** What has to be known of its units: why they are not known, or that an older version guessed them; else "". */
  about_units: string;
  /** Why there is no picture; "" if there is one. */
  why_missing: string;
}

/** One statistic at one step, and how far it is from what is usual. */
export interface StatisticView {
  name: string;
  /** None where there is none, or it is not finite. */
  value: number | null;
  /** "nan", "inf" or "-inf" where that is the value; "" of a number, and where such tensors have no such statistic. */
  word: string;
  /** Robust z-score among this tensor's own last steps of the same kind; None where there are too few. */
  z_history: number | null;
  /** Robust z-score among the tensors of the same role at this step; None where there are too few. */
  z_step: number | null;
  /** How many earlier steps it was compared with. */
  n_history: number;
  /** How many other tensors it was compared with. */
  n_step: number;
}

/** A tensor that should be alike and is not: the same name in the module next door, or the next block. */
export interface Sibling {
  row: number;
  site: string;
  /** How many such tensors there are; of several this is the one in the middle. */
  n: number;
  /** How many times the size of its values the own ones have; 0 where those are all zero. */
  ratio: number;
}

/** What the tensor holds for each token of the chosen sample. */
export interface TokenValues {
  tokens: string[];
  measures: string[];
  /** By measure, by token. */
  values: ((number | null)[])[];
  /** Whether the last two dimensions both count tokens: which of them looks at which. */
  is_square: boolean;
}

/** Another tensor of the same sample that belongs beside it: the target, the output of the model. */
export interface Beside {
  row: number;
  site: string;
  role: string;
  shape: number[];
  /** Its elements, if they are few; else how many there are. */
  text: string;
  /** Of an output: how it compares with the target, in words; "" where that cannot be said. */
  verdict: string;
}

/** A table that is fetched apart: one line for each unit or each sample. */
export interface TableView {
  columns: string[];
  n_rows: number;
  /** Whether it is of the whole batch, or only of the samples whose values were kept. */
  source: TableSource;
}

/** The module tree. */
export interface NetworkView {
  modules: ModuleRow[];
  n_parameters: number;
  n_trainable: number;
  bytes: number;
  /** Why there are no modules; "" if there are. */
  why_missing: string;
}

/** One module; those inside it follow. */
export interface ModuleRow {
  /** "." is the model itself. */
  address: string;
  /** The last part of the address. */
  name: string;
  class_name: string;
  /** The row around it; -1 for none. */
  parent: number;
  depth: number;
  /** With all that is inside it; a shared parameter counts where it is first met. */
  n_parameters: number;
  n_trainable: number;
  bytes: number;
  n_buffers: number;
  /** Without what is inside it. */
  own_parameters: number;
  own_trainable: number;
  own_bytes: number;
  /** The viewer's rows of its own parameters and buffers, their values. */
  rows: number[];
}

/** One number that sums up a tensor at a step, and how it is read. */
export interface Statistic {
  name: string;
  /** As labels show it. */
  title: string;
  /** What it is, as a phrase without a verb. */
  about: string;
  /** What records it: the level "core" or "full", the option `spectral_norm=True`; "group": units or samples only. */
  tier: StatisticTier;
  /** What it is measured in: the tensor's own unit, a number of elements, a share of 1, or 0 and 1. */
  unit: StatisticUnit;
  /** Whether it spans powers of ten, so that axes are logarithmic and z-scores are those of its logarithm. */
  scale: StatisticScale;
  /** Whether it can be negative. */
  is_signed: boolean;
  /** Whether it can be compared with that of another tensor: not if it depends on the number of elements. */
  is_comparable: boolean;
  /** Whether it can be compared with that of the same tensor at earlier steps. */
  is_tracked: boolean;
  /** Whether it tells how large the values are; the first one recorded is the one a page shows at first. */
  is_size: boolean;
  /** Whether anything above 0 is a fault. */
  is_fault: boolean;
  /** Whether it is read by itself, or as one of the quantiles, or as a piece of the histogram. */
  part: StatisticPart;
  /** Which tensors have none, so that NaN of finite elements is no fault: "a tensor that …"; "" if all have it. */
  undefined: string;
}

/** Numbers with at least this z-score are outliers. */
export const FAR = 5;
/** Z-scores are clipped to this. */
export const LARGEST = 99;
/** Maximum number of elements that quantiles and histogram sample from a tensor. */
export const N_SAMPLED = 1024;
/** Defaults, also used for a statistic that is not in the table. */
export const UNKNOWN: Statistic = { name: "", title: "", about: "", tier: "core", unit: "value", scale: "linear", is_signed: true, is_comparable: false, is_tracked: true, is_size: false, is_fault: false, part: "number", undefined: "" };
/** All statistics, in display order. */
export const STATISTICS: readonly Statistic[] = [
  { ...UNKNOWN, name: "mean", title: "mean", about: "mean over all elements" },
  { ...UNKNOWN, name: "abs_mean", title: "abs mean", about: "mean of the magnitudes", scale: "log", is_signed: false, is_comparable: true, is_size: true },
  { ...UNKNOWN, name: "std", title: "std", about: "standard deviation over all elements, of the population", scale: "log", is_signed: false, is_comparable: true, is_size: true },
  { ...UNKNOWN, name: "batch_std", title: "batch std", about: "standard deviation over the samples of the batch, averaged over elements", scale: "log", is_signed: false, is_comparable: true, undefined: "a tensor without samples, or with one" },
  { ...UNKNOWN, name: "norm", title: "norm", about: "Euclidean norm", scale: "log", is_signed: false, is_size: true },
  { ...UNKNOWN, name: "zeros", title: "zeros", about: "number of elements that are 0", tier: "full", unit: "elements", is_signed: false },
  { ...UNKNOWN, name: "min", title: "min", about: "smallest element" },
  { ...UNKNOWN, name: "max", title: "max", about: "largest element" },
  { ...UNKNOWN, name: "abs_max", title: "abs max", about: "largest magnitude", tier: "group", scale: "log", is_signed: false, is_comparable: true },
  { ...UNKNOWN, name: "nonfinite", title: "NaN or Inf", about: "1 if an element is NaN or infinite, else 0", unit: "flag", is_signed: false, is_fault: true },
  { ...UNKNOWN, name: "nans", title: "NaN", about: "number of elements that are NaN", tier: "full", unit: "elements", is_signed: false, is_fault: true },
  { ...UNKNOWN, name: "infs", title: "Inf", about: "number of elements that are infinite", tier: "full", unit: "elements", is_signed: false, is_fault: true },
  { ...UNKNOWN, name: "spectral_norm", title: "spectral norm", about: "largest singular value of a matrix", tier: "spectral_norm", scale: "log", is_signed: false, is_comparable: true, undefined: "a tensor that is not a matrix" },
  { ...UNKNOWN, name: "zero_share", title: "zero share", about: "share of elements that are 0", tier: "group", unit: "share", is_signed: false },
  { ...UNKNOWN, name: "p1", title: "p1", about: "value that 1 % of the elements are below", part: "quantile" },
  { ...UNKNOWN, name: "p5", title: "p5", about: "value that 5 % of the elements are below", part: "quantile" },
  { ...UNKNOWN, name: "p25", title: "p25", about: "value that 25 % of the elements are below", part: "quantile" },
  { ...UNKNOWN, name: "p50", title: "median", about: "value that 50 % of the elements are below", part: "quantile" },
  { ...UNKNOWN, name: "p75", title: "p75", about: "value that 75 % of the elements are below", part: "quantile" },
  { ...UNKNOWN, name: "p95", title: "p95", about: "value that 95 % of the elements are below", part: "quantile" },
  { ...UNKNOWN, name: "p99", title: "p99", about: "value that 99 % of the elements are below", part: "quantile" },
  { ...UNKNOWN, name: "count", title: "elements", about: "number of elements", unit: "elements", scale: "log", is_signed: false, is_tracked: false },
  { ...UNKNOWN, name: "low", title: "low", about: "where the histogram begins", is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "high", title: "high", about: "where the histogram ends", is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h0", title: "h0", about: "share of elements in bin 0", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h1", title: "h1", about: "share of elements in bin 1", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h2", title: "h2", about: "share of elements in bin 2", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h3", title: "h3", about: "share of elements in bin 3", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h4", title: "h4", about: "share of elements in bin 4", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h5", title: "h5", about: "share of elements in bin 5", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h6", title: "h6", about: "share of elements in bin 6", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h7", title: "h7", about: "share of elements in bin 7", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h8", title: "h8", about: "share of elements in bin 8", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h9", title: "h9", about: "share of elements in bin 9", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h10", title: "h10", about: "share of elements in bin 10", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h11", title: "h11", about: "share of elements in bin 11", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h12", title: "h12", about: "share of elements in bin 12", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h13", title: "h13", about: "share of elements in bin 13", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h14", title: "h14", about: "share of elements in bin 14", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
  { ...UNKNOWN, name: "h15", title: "h15", about: "share of elements in bin 15", unit: "share", is_signed: false, is_tracked: false, part: "histogram" },
];
