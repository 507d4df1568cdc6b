// Hook for the colors of the graph: the selected statistic of every node, at this step or since another.

import { useMemo, useRef, useState } from "preact/hooks";
import type { ColorScale } from "../../lib/colors";
import { isGradient, quantityTitle } from "../../lib/values/quantity";
import { defaultStatistic } from "../../lib/values/statistics";
import { outlierMarks } from "../../lib/values/outlier-marks";
import { medianRatio, isSigned, joinScales, rowsAt, scaleFor, statisticAt, nodeValues, zAt, type Matrix } from "../../lib/values/node-colors";
import { short } from "../../lib/formatting";
import type { GraphView, RunGraph } from "../../lib/wire";
import { matrixQuery } from "../data/api";
import { choose } from "../choice";
import type { ColorChoice } from "./bar";
import { ofPass } from "./selection";
import type { PanelProps } from "../panels/props";
import { isGiven, type NodeColoring } from "./box-colors";
import { useQuery } from "../data/use-query";

/** Median factor relative to the middle of the run from which a note is shown. */
const FAR = 10;

export interface NodeColors {
  readonly coloring: NodeColoring | null;
  /** Why nothing is colored; "" if something is. */
  readonly missing: string;
  /** Whether the color range is wider than this step needs. */
  readonly isWide: boolean;
  readonly menu: ColorChoice;
  /** By node of the view, the row of its tensor; -1 for none. */
  readonly rows: Int32Array;
  /** Message if nearly all values are far larger or smaller than in the middle of the run; else "". */
  readonly driftNote: string;
  /** Colors for this step alone. */
  fit(): void;
}

export function useNodeColors(
  { run, state, choice, act, client }: PanelProps, { graph, view, isRolled }: { graph: RunGraph; view: GraphView; isRolled: boolean },
): NodeColors {
  const known = run.statistics.includes(state.statistic) ? state.statistic : defaultStatistic(run.statistics);
  const statistic = state.kept.color === "role" ? "" : known;
  const isFilled = state.kept.fill === "1";
  const since = state.since !== null && run.steps.includes(state.since) ? state.since : null;
  const { sample } = choice;
  const query = (step: number | null, of: number | null = null) =>
    (statistic && step !== null && step >= 0 ? matrixQuery(run.item.id, step, of) : null);
  const batch = useQuery(client, query(choice.step));
  const batchThen = useQuery(client, query(since));
  const single = useQuery(client, sample === null ? null : query(choice.step, sample));
  const singleThen = useQuery(client, sample === null ? null : query(since, sample));
  // If the selected tensor has no gradient, all other nodes still show theirs.
  const { of, iteration } = choose(run, { ...state, node: null });
  const { part, pass } = state;
  const rows = useMemo(() => {
    const byNode = rowsAt(graph.nodes, run.rows, { of, iteration, pass, part });
    return Int32Array.from(view.nodes.row, (row) => (row < 0 ? -1 : byNode[row] ?? -1));
  }, [graph, view, run.rows, of, iteration, pass, part]);
  // Either all nodes show the sample or all show the batch: the two are not comparable.
  const isSingle = useMemo(() => sample !== null && isKnown(single.value, rows, view, run.statistics.indexOf(statistic)), [single.value, rows, sample, statistic]);
  const [now, then] = isSingle ? [single, singleThen] : [batch, batchThen];
  const over = sample === null ? "" : isSingle ? `sample ${sample}` : "over the batch";
  const found = useMemo(() => {
    if (!statistic || !now.value || (since !== null && !then.value)) return null;
    const asked = { statistics: run.statistics, statistic, of, over, matrix: now.value };
    return nodeValues(rows, { ...asked, since: since === null ? null : { step: since, matrix: then.value! } });
  }, [rows, now.value, then.value, since, statistic, of, over]);
  // The scale includes a step from the middle of the run. Otherwise a step where everything is 1,000 times too large would look normal.
  const anchor = useQuery(client, since === null && !isSingle ? query(run.steps[middleOf(run.steps.length)] ?? null) : null);
  const anchored = useMemo(() => (anchor.value && statistic ? nodeValues(rows, { statistics: run.statistics, statistic, of, matrix: anchor.value, since: null }) : null), [anchor.value, rows, statistic, of]);
  const times = useMemo(() => (found && anchored && !isSigned(statistic) ? medianRatio(found, anchored) : NaN), [found, anchored, statistic]);
  const drifted = times >= FAR || times <= 1 / FAR ? `typical values are ×${short(times)} those at step ${run.steps[middleOf(run.steps.length)].toLocaleString("en")}` : "";
  const marks = useMemo(() => {
    if (!found || !now.value) return undefined;
    const matrix = now.value;
    const scores = found.isChange ? found.values.map((value, node) => (isGiven(view.nodes.kind[node]) ? NaN : value))
      : Float64Array.from(rows, (row) => zAt(matrix, row, statistic));
    return outlierMarks(found, view.edges, scores, isGradient(of));
  }, [found, view]);
  const scales = useRef(new Map<string, ColorScale | null>());
  const [nFits, setFits] = useState(0);
  const shown = useMemo((): { coloring: NodeColoring; isWide: boolean } | null => {
    if (!found) return null;
    const name = `${statistic} ${of} ${since} ${over}`;
    // Losses do not set the scale either: they are far from activations, and have their own curves.
    const isBeside = (node: number): boolean => isGiven(view.nodes.kind[node]) || view.nodes.kind[node] === "loss";
    const own = scaleFor(found, statistic, isBeside);
    // A step without finite values must not change the scale of the others.
    const isTold = found.values.some((value, node) => Number.isFinite(value) && !isBeside(node));
    const usually = anchored && nFits === 0 ? scaleFor(anchored, statistic, isBeside) : null;
    const scale = isTold ? joinScales(joinScales(scales.current.get(name) ?? null, usually), own) : own;
    if (isTold) scales.current.set(name, scale);
    const isWide = own !== null && scale !== null && (scale.low !== own.low || scale.high !== own.high);
    const chosen = (nodes: readonly number[]): readonly number[] => ofPass(graph, view, nodes, { iteration, pass });
    return { coloring: { nodeValues: found, scale, isFilled, marks, chosen: isRolled ? chosen : (nodes) => nodes }, isWide };
  }, [found, anchored, marks, isFilled, isRolled, iteration, pass, nFits]);
  const isNothing = shown !== null && shown.coloring.nodeValues.anomalies.every((anomaly) => anomaly === "none");
  const missing = now.error ?? then.error ?? (isNothing ? `No ${quantityTitle(of)} was recorded at this step.` : "");
  return {
    coloring: shown?.coloring ?? null, isWide: shown?.isWide ?? false, missing, rows, driftNote: drifted,
    fit: () => {
      scales.current.clear();
      setFits(nFits + 1);
    },
    menu: {
      statistics: run.statistics, statistic, since, step: choice.step, first: run.steps[0] ?? 0, isFilled,
      onStatistic: (name) => {
        act({ do: "keep", name: "color", text: name ? "" : "role" });
        if (name) act({ do: "statistic", statistic: name });
      },
      onSince: (step) => act({ do: "since", step }),
      onFill: (is) => act({ do: "keep", name: "fill", text: is ? "1" : "" }),
    },
  };
}

/** Index of a step near the middle. A power of two, so that it stays the same until the run has doubled. */
function middleOf(n: number): number {
  return n < 2 ? 0 : Math.min(n - 1, 2 ** Math.floor(Math.log2(n / 2)));
}

/** Whether a matrix has this statistic for any tensor that depends on the sample. */
function isKnown(matrix: Matrix | undefined, rows: Int32Array, { nodes }: GraphView, column: number): boolean {
  if (!matrix) return false;
  return rows.some((row, node) => !["parametric", "buffer"].includes(nodes.kind[node]) && !Number.isNaN(statisticAt(matrix, row, column)));
}
