// Types of the views that Python sends, generated from their dataclasses by `python -m tests.wire`: change those.

export type Kind = "input" | "buffer" | "constant" | "plain" | "parametric" | "made" | "standin" | "failed" | "target" | "loss";
export type Form = "function" | "leaf" | "folded" | "small";
export type Mark = "" | "new" | "removed" | "changed";
export type Total = "sum" | "max";
export type Scale = "log" | "linear" | "diverging";
export type RunState = "live" | "ended" | "killed" | "unknown";
export type RunKind = "run" | "trace" | "activations" | "result";
export type TableSource = "batch" | "kept";
export type TrainingState = "no gradient" | "not updated" | "frozen";
export type LimitScale = "linear" | "log" | "symlog";
export type Topic = "start" | "neurons" | "language";
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
  /** (name, value) pairs for the header: ops, bytes, parameters… */
  facts: [string, string][];
  /** The error that ended the trace early; "" if there was none. */
  error: string;
  nodes: NodeColumns;
  groups: GroupColumns;
  runs: BlockRun[];
  edges: EdgeColumns;
  measures: Measure[];
  comparison: Comparison | null;
  /** Whether loops should be rolled up initially. */
  is_rolled: boolean;
  kind: string;
  /** What its nodes are called: "ops", or "tensors" for a run. */
  noun: string;
}

/** One entry for each drawn op and source. Parents come before children, nodes of a group are contiguous. */
export interface NodeColumns {
  /** Row in the trace, used to request details; -1 for an op that failed or is only in the other trace of a diff. */
  row: number[];
  label: string[];
  /** Lines of text below the name. */
  lines: string[][];
  kind: Kind[];
  form: Form[];
  flags: number[];
  /** The innermost group; 0 is the whole picture. */
  group: number[];
  function: string[];
  site: string[];
  /** The first node of the same function call: all results of a split share one. */
  event: number[];
  /** The node that represents all its passes: the first of them. */
  rolled: number[];
  /** The pass, from 1. */
  pass_: number[];
  /** Node → its lines when it represents all its passes, if they differ from `lines`. */
  rolled_lines: Record<number, string[]>;
  /** Outputs of the model: the path in the returned structure, "" for a bare tensor, and the node. */
  outputs: [string, number][];
}

/** One entry for each module call that can be a frame or a folded box; 0 is the whole picture. */
export interface GroupColumns {
  parent: number[];
  /** Address, and pass if the module ran several times. */
  label: string[];
  /** Address without the pass. */
  rolled_label: string[];
  class_name: string[];
  /** Shapes and bytes of its outputs. */
  size: string[];
  /** Number of parameters as text; "" for none. */
  parameters: string[];
  kind: Kind[];
  flags: number[];
  /** Nesting depth in module calls; -1 for code outside all modules. */
  depth: number[];
  /** Its first node. */
  first: number[];
  /** The node after its last one. */
  end: number[];
  n_ops: number[];
  /** The group that represents all passes of the module in a loop: the first of them. */
  rolled: number[];
  /** The pass, from 1. */
  pass_: number[];
  /** The run of identical blocks it belongs to; -1 for none. */
  run: number[];
  /** Its index in that run, from 0. */
  place: number[];
  /** Index of the module call in the trace. */
  call: number[];
}

/** Consecutive identical blocks, such as `h.0` to `h.23`. Their nodes and groups correspond by order. */
export interface BlockRun {
  groups: number[];
  /** `h.0 … 23`. */
  label: string;
}

/** One entry for each tensor from one node to another, and each argument it is passed as. */
export interface EdgeColumns {
  parent: number[];
  child: number[];
  /** Position or keyword, where the order of arguments matters. */
  argument: string[];
  /** Indices of the edges where the branch of a conditional leaves the path to the output. */
  branch_starts: number[];
}

/** A number for every node, to color the picture by. */
export interface Measure {
  /** `seconds`, `std`, `grad_norm`… */
  name: string;
  title: string;
  unit: string;
  /** How a folded group combines its nodes: their sum, or the largest. */
  total: Total;
  scale: Scale;
  values: (number | null)[];
}

/** Differences from another trace, by node. */
export interface Comparison {
  mark: Mark[];
  /** Strength of the difference of values, from 0 (equal) to 4. */
  shade: number[];
  /** The difference as text. */
  amount: string[];
  /** The difference as a number to sort by. */
  order: number[];
}

/** Which groups are open, and which repetitions are drawn once. */
export interface Fold {
  open: number[];
  rolled: boolean;
  apart: number[];
}

/** Everything to draw. Boxes are ordered parents first, with those of one frame next to each other. */
export interface Picture {
  title: string;
  subtitle: string;
  boxes: Box[];
  frames: Frame[];
  edges: Edge[];
  /** Boxes to draw faded. */
  faint: number[];
}

/** One op, one source, one folded group, or a stand-in for boxes drawn elsewhere. */
export interface Box {
  /** Independent of what is folded: "n12" for a node, "g3" for a group, "s…" for a stand-in. */
  key: string;
  /** Lines of text; the first is its name. */
  lines: string[];
  kind: Kind;
  form: Form;
  frame: number;
  /** Index of the node in the graph; -1 for none. */
  node: number;
  /** Index of the group that is folded into it; -1 for none. */
  group: number;
  flags: number;
  /** Number of identical blocks it stands for. */
  stack: number;
  /** For a stand-in, the keys of the boxes that it stands for. */
  stands_for: string[];
  mark: Mark;
  /** Strength of the difference of its values from another trace, from 0 to 4. */
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
  /** The common mark if everything in it is new or removed. */
  mark: Mark;
}

/** An edge from one box to another; the label shows the argument and how often it repeats. */
export interface Edge {
  parent: number;
  child: number;
  label: string;
}

/** The details of one op or source. */
export interface OpDetails {
  row: number;
  label: string;
  site: string;
  kind: string;
  function: string;
  /** (name, value). */
  facts: [string, string][];
  arguments: Argument[];
  source: Source | null;
  /** (file, line, function), innermost first. */
  stack: [string, number, string][];
  /** The tests that it decided, and the branches in which it ran. */
  tests: string[];
  parameters: ParameterPicture[];
  value: ValuePicture | null;
  /** Why the value is missing; empty if it is there. */
  missing: string;
  grad: ValuePicture | null;
}

/** One argument of a call. */
export interface Argument {
  /** Its position or keyword, with its index if it is part of a list: `0`, `dim`, `0.2`. */
  name: string;
  text: string;
  /** The row of the tensor; None for other arguments. */
  row: number | null;
}

/** A line of the user's code with the lines around it. */
export interface Source {
  file: string;
  function: string;
  line: number;
  /** The line number of the first line of `text`. */
  first: number;
  /** Empty if the file is no longer available. */
  text: string[];
}

/** A parameter that an op reads. */
export interface ParameterPicture {
  name: string;
  shape: string;
  value: ValuePicture | null;
  grad: ValuePicture | null;
}

/** Statistics, histogram and image of a value. */
export interface ValuePicture {
  shape: number[];
  dtype: string;
  /** Mean, std, min, max and norm of the finite elements, the share of zeros, the numbers of NaN and Inf. */
  statistics: ([string, number | null])[];
  histogram: Histogram | null;
  image: Image | null;
  /** The whole value if it is small; else how it was sampled or converted, or why it could not be read. */
  text: string;
}

/** Counts in bins of equal width from `low` to `high`. The outermost bins include outliers. */
export interface Histogram {
  low: number;
  high: number;
  counts: number[];
}

/** Values as gray levels, row by row. */
export interface Image {
  kind: "line" | "matrix" | "tiles";
  /** Height in pixels, over all rows of tiles. */
  rows: number;
  columns: number;
  /** Height of one tile in pixels; equal to `rows` if there is one tile. */
  tile_rows: number;
  tile_columns: number;
  /** Number of filled tiles, from the left and row by row. Pixels after the last one are padding. */
  n_tiles: number;
  low: number;
  high: number;
  /** Base64 of one byte per pixel: 0 is `low` or less, 254 is `high` or more, 255 is not finite. */
  data: string;
  /** Which part of the value is shown. */
  caption: string;
  /** The dimensions of the value for tiles, rows and columns; -1 for none. */
  axes: [number, number, number];
  /** The index of the first pixel in the value. */
  first: number[];
  /** What a tile is: "channel", "head"…; "" if the value has no tiles. */
  tile_word: string;
  /** Number of tiles of the value, shown or not. */
  n_tiles_total: number;
  /** The `low` and `high` of each tile, if each has its own; else empty. */
  ranges: [number, number][];
}

/** The served folders. */
export interface FoldersView {
  paths: string[];
  /** Where the search for archives gave up, one sentence per folder; empty if every folder was searched. */
  stopped: string[];
}

/** One entry of the viewer's list. */
export interface RunItem {
  /** Short, stable across restarts, and safe in a URL. */
  id: string;
  name: string;
  path: string;
  kind: RunKind;
  /** `unknown` if another machine may be writing it. */
  state: RunState;
  n_steps: number;
  last_step: number | null;
  n_tensors: number;
  /** Kinds of steps, in order of first occurrence. */
  kinds: string[];
  /** Damage on disk, or why it could not be opened. */
  damage: string[];
  /** The ranks that wrote; other fields describe the first of them, or the requested one. */
  ranks: number[];
  /** Details of a collection or a saved result; None for runs and traces, and if it could not be opened. */
  page: PageItem | null;
  /** Details of a saved trace; None for others, and if it could not be opened. */
  trace: TraceItem | null;
  /** The id in its manifest, which traces refer to; "" if unknown. */
  archive: string;
}

/** One entry of the list: a collection or a saved result. */
export interface PageItem {
  /** The tab that lists it; entries without a topic are listed with the neurons. */
  topic: Topic;
  /** Class of the result; "Activations" for a collection. */
  type: string;
  title: string;
  /** Creation time in seconds since 1970; 0 if unknown. */
  created: number;
  n_rows: number;
  n_units: number;
  /** Sites of a collection; empty for other entries. */
  sites: SiteItem[];
  /** Changes when the content changes or grows. */
  edition: string;
}

/** One site of a collection. */
export interface SiteItem {
  site: string;
  /** Number of units. */
  width: number;
  /** Largest unit number; the width minus 1, unless only some units were collected. */
  last: number;
}

/** What the list says about a saved trace. */
export interface TraceItem {
  /** Class of the traced model; "" for a trace of plain code. */
  model: string;
  /** Seconds since 1970; 0 if unknown. */
  created: number;
  /** `archive` of the run in whose step it was made; "" if it was not made in a step. */
  run: string;
  /** That step. */
  step: number | null;
}

/** Everything about a run except statistics and values. */
export interface RunView {
  item: RunItem;
  /** The recorded steps, in order. */
  steps: number[];
  kinds: string[];
  /** By step, its kind: an index into `kinds`. */
  kind_of: number[];
  structures: StructureView[];
  /** By step, its dependency graph: an index into `structures`; -1 if unknown. */
  structure_of: number[];
  /** The first step of each resumed session. */
  sessions: number[];
  rows: RowView[];
  /** The columns of every matrix. */
  statistics: string[];
  /** Changes when rows or statistics are added; matrices fetched before are smaller. */
  digest: string;
  /** Changes when existing steps may have changed: the run was resumed or recorded again, or rows were added. */
  edition: string;
  iterations: number[];
  /** Losses with separate gradients, `grad/<loss>`; in old runs a number may be an optimizer step. */
  losses: string[];
  scalars: string[];
  /** The first and last step with logged scalars; empty if there are none. */
  logged: number[];
  /** The newest notes, in order. */
  notes: NoteView[];
  n_notes: number;
  /** Fields of samples at any step: text, label… */
  sample_fields: string[];
  /** Whether any step kept values; then its samples can be selected, also if they have no fields. */
  has_values: boolean;
  config: Record<string, unknown>;
  environment: Record<string, unknown>;
  /** Damage on disk that reading has found so far. */
  damage: string[];
  /** Data that could not be written. */
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

/** One recorded row: a tensor, or its gradient or update; one row of every matrix of statistics. */
export interface RowView {
  /** The viewer's number, the same over all steps and schemas, also while the run grows. */
  row: number;
  /** Without its pass: the same for all passes of a tensor. */
  site: string;
  /** "value", "grad", "grad/<loss>", "grad@2", "inner_grad", "update"… */
  of: string;
  /** From 1; 0 if steps have no iterations. */
  iteration: number;
  /** Within its iteration, from 1. */
  pass_: number;
  /** The largest number of passes of the tensor in any step, over all iterations. */
  n_passes: number;
  /** "input", "target", "loss", "parameter", "buffer", "value"; or any role given by the user. */
  role: string;
  /** The node of the dependency graph given by the user; "" for its own node. */
  node: string;
  part: string;
  /** Other names of the same tensor, without passes. */
  names: string[];
  /** For an input, its name in the forward of its module; else "". */
  title: string;
}

/** A note logged during a run. */
export interface NoteView {
  step: number | null;
  /** Seconds since 1970. */
  time: number;
  level: string;
  text: string;
  about: Record<string, unknown>;
}

/** Data that could not be written, and why. */
export interface LostView {
  /** What, of which steps, and why. */
  text: string;
  time: number;
}

/** The dependency graph of one structure. */
export interface RunGraph {
  /** Hash of the structure; "" if only the tensors are known. */
  structure: string;
  /** The view; `row` of a node is an index into `nodes`; groups are modules. */
  view: GraphView;
  nodes: NodeRows[];
  /** By group, the node that its module returns; -1 for none. */
  group_node: number[];
  /** Edges that carry no gradient. */
  no_gradient: number[];
  /** Edges added by the user. */
  manual: number[];
  /** (parent, child) links back to an earlier node, which occur if a node has several tensors. */
  loops: [number, number][];
  /** Number of nodes hidden by the user. */
  n_hidden: number;
  /** Why there are no links; "" if there are. */
  why_missing: string;
}

/** The recorded data of one node of the graph. */
export interface NodeRows {
  name: string;
  /** The name without iteration and pass: `node` of its rows, or their site if that is empty. */
  node: string;
  /** Iteration from 1; 0 if it has none, or its tensors have several. */
  iteration: number;
  /** Pass within the iteration, from 1; 0 if its tensors have several. */
  pass_: number;
  role: string;
  /** All names of its tensors. */
  sites: string[];
  /** The viewer's rows of its tensors: values, gradients, updates; the main tensor first. */
  rows: number[];
  /** The parts of its tensors; empty if there is only one. */
  parts: string[];
}

/** The kept samples of one step. */
export interface SamplesView {
  step: number;
  /** Number of kept samples, also if nothing is known about them or they are too many to list. */
  n_kept: number;
  fields: string[];
  items: SampleItem[];
  /** Why none were kept, or why nothing is known about them; "" if neither is the case. */
  why_missing: string;
}

/** One sample. */
export interface SampleItem {
  /** Index among the kept samples. */
  number: number;
  id: string;
  /** Class label; "" if unknown. */
  label: string;
  /** The text; joined tokens if no text was given. */
  text: string;
  tokens: string[];
  image: SampleImage | null;
  /** Other fields: (name, text). */
  others: [string, string][];
}

/** The image of a sample. */
export interface SampleImage {
  rows: number;
  columns: number;
  /** 1 for grayscale, 3 for RGB, 4 for RGBA. */
  n_channels: number;
  /** Base64, one byte per pixel and channel, row by row, channels last; 0 is `low` and 255 is `high`. */
  data: string;
  low: number;
  high: number;
}

/** One row at one step, with everything known about it. */
export interface TensorView {
  row: number;
  /** Without its pass. */
  site: string;
  of: string;
  iteration: number;
  /** Within its iteration, from 1. */
  pass_: number;
  step: number;
  /** Kind of the step. */
  kind: string;
  role: string;
  node: string;
  part: string;
  names: string[];
  statistics: StatisticView[];
  /** What the tensor holds: a code of `core.unusual.Contents`. */
  contents: number;
  /** Whether training does not reach the tensor. */
  training: TrainingMark | null;
  /** What "unusual" means. */
  unusual_help: string;
  /** A sibling that differs by a factor of 100 or more. */
  sibling: Sibling | null;
  /** Number of units that are zero for the whole batch; None if units were not recorded. */
  dead_units: number | null;
  /** Histogram of up to 1,024 recorded values of the whole tensor. */
  histogram: Histogram | null;
  /** Dtype of the kept value; "" if none was kept. */
  dtype: string;
  /** Shape of the kept value. */
  shape: number[];
  /** Size of the first dimension if it is the samples, else 0. */
  n_samples: number;
  /** The chosen sample. */
  sample: SampleItem | null;
  /** Whether the picture shows z-scores over the batch. */
  is_normalized: boolean;
  picture: ValuePicture | null;
  tokens: TokenValues | null;
  companions: Companion[];
  units: TableView | null;
  samples: TableView | null;
  /** Why units are unknown, or that an older version guessed them; else "". */
  about_units: string;
  /** Why there is no picture; "" if there is one. */
  why_missing: string;
}

/** One statistic at one step, with its z-scores. */
export interface StatisticView {
  name: string;
  /** None if there is none, or it is not finite. */
  value: number | null;
  /** "nan", "inf" or "-inf" if that is the value; "" for a number, and for statistics the tensor cannot have. */
  non_finite: string;
  /** Robust z-score against its own past (`core/unusual.py`); None if that is too short. */
  z_past: number | null;
  /** Robust z-score among tensors of the same role at this step; None if there are too few. */
  z_peers: number | null;
  /** Number of earlier steps compared with. */
  n_past: number;
  /** Number of other tensors compared with. */
  n_peers: number;
  /** The median of its past. */
  usual: number | null;
  /** What is unusual about it; None for nothing. */
  unusual: Unusual | null;
}

/** A statistic of a tensor that is unusual at a step. */
export interface Unusual {
  row: number;
  statistic: string;
  /** Robust z-score against its own past; None if that is too short. */
  z_past: number | null;
  /** Robust z-score among tensors of the same role at this step; None if there are too few. */
  z_peers: number | null;
  /** The value divided by the median of its past; None if that says nothing. */
  ratio: number | null;
  is_above: boolean;
  /** A few words for a label: "×41 of usual". */
  text: string;
  /** A sentence with what it was compared with, and since when. */
  about: string;
}

/** A tensor that training does not reach. */
export interface TrainingMark {
  /** The row of its value. */
  row: number;
  state: TrainingState;
  /** The first recorded step of the same kind from which on it has been so without a break. */
  since: number;
  /** Whether `since` is the first recorded step of the kind. */
  is_first: boolean;
  /** A few words for a label: "no gradient since step 0". */
  text: string;
  /** A sentence with the reason, as far as it was recorded. */
  about: string;
}

/** A tensor of the same name in a sibling module or another block, with a very different magnitude. */
export interface Sibling {
  row: number;
  site: string;
  /** Number of siblings; of several this is the median. */
  n: number;
  /** Magnitude of this tensor divided by that of the sibling; 0 if this tensor is all zero. */
  ratio: number;
}

/** The values of a tensor per token of the chosen sample. */
export interface TokenValues {
  tokens: string[];
  measures: string[];
  /** (measure, token). */
  values: ((number | null)[])[];
  /** Whether the last two dimensions are both tokens, as in attention weights. */
  is_square: boolean;
}

/** A companion of a tensor for the same sample: the target, or the model's output. */
export interface Companion {
  row: number;
  site: string;
  role: string;
  shape: number[];
  /** Its elements, if they are few; else their number. */
  text: string;
  /** For an output: how it compares with the target; "" if unknown. */
  verdict: string;
}

/** A table that is fetched separately: one row per unit or sample. */
export interface TableView {
  columns: string[];
  n_rows: number;
  /** Whether it covers the whole batch, or only the kept samples. */
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

/** One module; its children follow. */
export interface ModuleRow {
  /** "." is the model itself. */
  address: string;
  /** The last part of the address. */
  name: string;
  class_name: string;
  /** Row of the parent; -1 for none. */
  parent: number;
  depth: number;
  /** Including children; a shared parameter counts at its first module. */
  n_parameters: number;
  n_trainable: number;
  bytes: number;
  n_buffers: number;
  /** Without children. */
  own_parameters: number;
  own_trainable: number;
  own_bytes: number;
  /** The viewer's rows of its own parameters and buffers. */
  rows: number[];
}

/** One number that summarizes a tensor at a step, with how to display and compare it. */
export interface Statistic {
  name: string;
  /** The name shown in labels. */
  title: string;
  /** A short definition, as a noun phrase. */
  about: string;
  /** What records it: the level "core" or "full", or `spectral_norm=True`; "group": only per unit or per sample. */
  tier: StatisticTier;
  /** Unit of measurement: that of the tensor, a number of elements, a fraction of 1, or a flag (0 or 1). */
  unit: StatisticUnit;
  /** The scale of axes; "log" if it spans orders of magnitude, so that z-scores use its logarithm, too. */
  scale: StatisticScale;
  /** Whether it can be negative. */
  is_signed: boolean;
  /** Whether it can be compared between tensors; not if it depends on the number of elements. */
  is_comparable: boolean;
  /** Whether it can be compared with earlier steps of the same tensor. */
  is_tracked: boolean;
  /** Whether it measures the magnitude of the values; pages show the first recorded one by default. */
  is_size: boolean;
  /** Whether any value above 0 is a problem. */
  is_fault: boolean;
  /** Whether it is a number of its own, one of the quantiles, or a part of the histogram. */
  part: StatisticPart;
  /** Tensors without this statistic ("a tensor that …"), for which NaN is no problem; "" if all tensors have it. */
  undefined: string;
}

/** What stands out at a step; the same for the graph, the overview and the inspector. */
export interface StepMarks {
  step: number;
  /** The strongest first. */
  unusual: Unusual[];
  /** Tensors without gradient or update. */
  training: TrainingMark[];
  /** What "unusual" means. */
  help: string;
}

/** The limits of one statistic of one quantity over the steps of one kind. */
export interface ColorLimits {
  low: number;
  high: number;
  /** "log" for magnitudes, "symlog" around 0 for signed numbers, "linear" for shares and counts. */
  scale: LimitScale;
  /** Where a symlog scale becomes linear; 0 for other scales. */
  knee: number;
  /** How many steps were looked at. */
  n_steps: number;
  /** How many of them set no limits, because everything jumped by a factor of 100 or more. */
  n_left_out: number;
}

/** All spikes of one curve. */
export interface SpikesView {
  /** What the curve shows. */
  name: string;
  spikes: SpikeView[];
  /** Number of values on the curve. */
  n_values: number;
}

/** One spike. */
export interface SpikeView {
  step: number;
  /** The last step of the spike. */
  until: number;
  /** None if it is NaN or infinite. */
  value: number | null;
  /** The value divided by the median of the values before; None unless both are positive. */
  ratio: number | null;
  /** Whether its first step was recorded, not only logged. */
  is_recorded: boolean;
}

/** What changed at one step. */
export interface WhatChanged {
  step: number;
  /** What the curve shows. */
  name: string;
  /** A sentence in pieces; every second one is a number. */
  verdict: string[];
  /** Kind of the step; "" if it has none or was not recorded. */
  kind: string;
  /** Whether the step was recorded; else only logged values are known. */
  is_recorded: boolean;
  /** The nearest recorded steps, if this one was not. */
  nearest: number[];
  /** The most unusual first. */
  tensors: ChangedTensor[];
  /** Number of rows that were compared. */
  n_tensors: number;
  n_unusual: number;
  /** Why there are none, or that there were too few steps before; else "". */
  about_tensors: string;
  /** The samples of the batch, the largest share of the loss or the most unusual first. */
  samples: ChangedSample[];
  /** What the samples are ordered by, as a phrase. */
  order: string;
  /** Number of samples in the batch if it is known, else of the kept ones. */
  n_batch: number;
  n_kept: number;
  /** What is missing about the samples, and how to record it; "" if nothing is. */
  about_samples: string;
  /** One number per sample, for the unusual tensors that have one. */
  strips: SampleStrip[];
  /** Number of spikes of the curve whose step was recorded with ids of samples. */
  n_spikes: number;
  /** What unusual means. */
  help: string;
}

/** The most unusual statistic of one row at the step. */
export interface ChangedTensor {
  row: number;
  statistic: string;
  /** None if it is not finite; `broken` says what it is. */
  value: number | null;
  /** "NaN" or "Inf" if the tensor has such elements and had none before; else "". */
  broken: string;
  /** The median over the steps before; None if there are too few. */
  usual: number | null;
  /** The value divided by `usual`; None for signed statistics, and if it was usually 0. */
  ratio: number | null;
  /** Robust z-score against its past. */
  z_past: number | null;
  /** Robust z-score against tensors of the same role at this step. */
  z_peers: number | null;
  n_past: number;
  n_peers: number;
  is_unusual: boolean;
}

/** One sample of the batch. */
export interface ChangedSample {
  /** Its number among the kept samples; None if it was not kept. */
  number: number | null;
  /** Its place in the batch, if numbers of the whole batch were recorded; else its number among the kept samples. */
  position: number;
  /** What is known about it; None if nothing is. */
  item: SampleItem | null;
  loss: number | null;
  /** Its share of the summed loss of the samples whose loss is known. */
  share: number | null;
  /** The strongest z-score among the samples of this batch; None if all its numbers are usual. */
  z: number | null;
  /** The row in which it is most unusual. */
  row: number | null;
  /** Number of spikes whose batch had a kept sample of the same id, this one included; 0 if unknown. */
  n_spikes: number;
  /** Whether it passes the filters. */
  does_pass: boolean;
}

/** One statistic of one tensor for each sample of the batch. */
export interface SampleStrip {
  row: number;
  statistic: string;
  /** By `ChangedSample.position`. */
  values: (number | null)[];
}

/** What some filters leave of a run. Filters that were not understood are left out. */
export interface FilterView {
  terms: FilterTerm[];
  /** The recorded steps that are left, in order. */
  steps: number[];
  /** The kept samples of each of these steps that pass, by number; None if all do. */
  samples: number[][] | null;
  /** Number of recorded steps. */
  n_steps: number;
  /** Number of kept samples that pass. */
  n_samples: number;
  /** Number of kept samples of all recorded steps. */
  n_all_samples: number;
  /** What this run can be filtered by, to suggest: `loss`, `kind`, `label`… */
  names: string[];
  examples: string;
}

/** One filter. */
export interface FilterTerm {
  /** As the user wrote it. */
  text: string;
  /** What it keeps: "steps whose logged loss is above 2"; "" if it was not understood. */
  meaning: string;
  /** Why it was not understood, and what would be; "" if it was. */
  error: string;
}

/** Numbers with at least this z-score are outliers. */
export const FAR = 5;
/** Z-scores are clipped to this. */
export const LARGEST = 99;
/** Maximum number of elements that quantiles and histogram sample from a tensor. */
export const N_SAMPLED = 1024;
/** Code of `contents`: missing. */
export const HOLDS_MISSING = 0;
/** Code of `contents`: numbers. */
export const HOLDS_NUMBERS = 1;
/** Code of `contents`: zeros. */
export const HOLDS_ZEROS = 2;
/** Code of `contents`: nan. */
export const HOLDS_NAN = 3;
/** Code of `contents`: inf. */
export const HOLDS_INF = 4;
/** Code of `contents`: mask. */
export const HOLDS_MASK = 5;
/** Added to a code of `contents`: a buffer, whole numbers, a mask. */
export const LEFT_OUT = 8;
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
  { ...UNKNOWN, name: "count", title: "elements", about: "number of elements, exact at any size", unit: "elements", scale: "log", is_signed: false, is_tracked: false },
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
