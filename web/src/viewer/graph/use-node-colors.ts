// Hook for the colors of the graph: the selected statistic of every node, at this step or since another.

import { useEffect, useMemo } from "preact/hooks";
import { isGradient, quantityTitle } from "../../lib/values/quantity";
import { defaultStatistic } from "../../lib/values/statistics";
import { outlierMarks } from "../../lib/values/outlier-marks";
import { CHANGES, limitsIn, limitsText, rowsAt, scaleBetween, statisticAt, nodeValues, type Matrix } from "../../lib/values/node-colors";
import type { GraphView, RunGraph, TrainingMark } from "../../lib/wire";
import { limitsQuery, marksQuery, matrixQuery } from "../data/api";
import { choose } from "../choice";
import type { ColorChoice } from "./bar";
import { ofPass } from "./selection";
import type { PanelProps } from "../panels/props";
import type { NodeColoring } from "./box-colors";
import { useQuery } from "../data/use-query";

export interface NodeColors {
  readonly coloring: NodeColoring | null;
  /** Why nothing is colored; "" if something is. */
  readonly missing: string;
  /** Whether the limits in the address are not those that the run has now. */
  readonly isPinned: boolean;
  /** The help text of "unusual"; "" before it is known. */
  readonly help: string;
  readonly menu: ColorChoice;
  /** By node of the view, the row of its tensor; -1 for none. */
  readonly rows: Int32Array;
  /** Takes the limits that the run has now. */
  fit(): void;
}

export function useNodeColors(
  { run, state, choice, act, client, isDark }: PanelProps, { graph, view, isRolled }: { graph: RunGraph; view: GraphView; isRolled: boolean },
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
  const unusual = useQuery(client, choice.step < 0 ? null : marksQuery(run.item.id, choice.step, isSingle ? sample : null));
  // Marks of another step must not be shown as those of this one.
  const standing = unusual.value?.step === choice.step ? unusual.value : undefined;
  const outliers = useMemo(() => (found ? outlierMarks({
    nodeValues: found, links: view.edges, rows, statistic, unusual: standing?.unusual ?? [], since, isBackward: isGradient(of),
  }) : null), [found, view, standing]);
  const training = useMemo(() => {
    const byRow = new Map((standing?.training ?? []).map((mark) => [mark.row, mark]));
    const byNode = new Map<number, TrainingMark>();
    if (byRow.size) {
      view.nodes.row.forEach((row, node) => {
        const mark = graph.nodes[row]?.rows.map((number) => byRow.get(number)).find((one) => one !== undefined);
        if (mark) byNode.set(node, mark);
      });
    }
    return byNode;
  }, [standing, graph, view]);
  // The limits belong to the run and the selection, not to the step; those in the address take precedence.
  const kind = run.kinds[run.kind_of[choice.place] ?? -1] ?? "";
  const isAmount = statistic !== "" && since === null;
  const limits = useQuery(client, isAmount ? limitsQuery(run.item.id, statistic, of, kind) : null);
  const selection = [run.item.id, statistic, of, kind];
  const kept = isAmount ? limitsIn(state.kept.scale ?? "", selection) : null;
  const current = limits.value && !limits.isOld ? limitsText(selection, limits.value) : "";
  useEffect(() => {
    if (current && !kept) act({ do: "keep", name: "scale", text: current });
  }, [current, kept === null]);
  const between = kept ?? (limits.isOld ? null : limits.value) ?? null;
  const limitsKey = between && limitsText([], between);
  const shown = useMemo((): { coloring: NodeColoring } | null => {
    if (!found) return null;
    const scale = since !== null ? CHANGES : between && scaleBetween(between, isDark);
    const chosen = (nodes: readonly number[]): readonly number[] => ofPass(graph, view, nodes, { iteration, pass });
    return { coloring: { nodeValues: found, scale, isFilled, ...outliers, training, chosen: isRolled ? chosen : (nodes) => nodes } };
  }, [found, limitsKey, outliers, training, isFilled, isRolled, iteration, pass, isDark]);
  const isNothing = shown !== null && shown.coloring.nodeValues.anomalies.every((anomaly) => anomaly === "none");
  const missing = now.error ?? then.error ?? (isNothing ? `No ${quantityTitle(of)} was recorded at this step.` : "");
  return {
    coloring: shown?.coloring ?? null, isPinned: kept !== null && current !== "" && state.kept.scale !== current, missing, rows, help: standing?.help ?? "",
    fit: () => act({ do: "keep", name: "scale", text: current }),
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

/** Whether a matrix has this statistic for any tensor that depends on the sample. */
function isKnown(matrix: Matrix | undefined, rows: Int32Array, { nodes }: GraphView, column: number): boolean {
  if (!matrix) return false;
  return rows.some((row, node) => !["parametric", "buffer"].includes(nodes.kind[node]) && !Number.isNaN(statisticAt(matrix, row, column)));
}
