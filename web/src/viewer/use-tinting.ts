// What colours the graph: the statistic that is looked at, of every node, at this step or since another one.

import { useMemo, useRef, useState } from "preact/hooks";
import type { ColourScale } from "../lib/colours";
import { joined, ofTitle, rowsAt, scaleFor, tints, usual } from "../lib/tinting";
import type { GraphView, RunGraph } from "../lib/wire";
import { matrixAsk } from "./asks";
import { choose } from "./choice";
import type { ColourChoice } from "./graph-bar";
import { ofIteration } from "./graph-selection";
import type { PanelProps } from "./panels";
import type { Tinting } from "./tinted";
import { useAsked } from "./use-asked";

export interface Tinted {
  readonly tinting: Tinting | null;
  /** Why nothing is coloured; "" if something is. */
  readonly missing: string;
  /** Whether colours reach further than this step needs. */
  readonly isWide: boolean;
  readonly menu: ColourChoice;
  /** Colours for this step alone. */
  fit(): void;
}

export function useTinting(
  { run, state, choice, act, client }: PanelProps, { graph, view, isRolled }: { graph: RunGraph; view: GraphView; isRolled: boolean },
): Tinted {
  const known = run.statistics.includes(state.statistic) ? state.statistic : usual(run.statistics);
  const statistic = state.kept.colour === "role" ? "" : known;
  const isFilled = state.kept.fill === "1";
  const since = state.since !== null && run.steps.includes(state.since) ? state.since : null;
  const ask = (step: number | null) => (statistic && step !== null && step >= 0 ? matrixAsk(run.item.id, step) : null);
  const now = useAsked(client, ask(choice.step));
  const then = useAsked(client, ask(since));
  // One tensor without a gradient must not turn all the others to their values.
  const { of, iteration } = choose(run, { ...state, node: null });
  const { part } = state;
  const rows = useMemo(() => {
    const byNode = rowsAt(graph.nodes, run.rows, { of, iteration, part });
    return Int32Array.from(view.nodes.row, (row) => (row < 0 ? -1 : byNode[row] ?? -1));
  }, [graph, view, run.rows, of, iteration, part]);
  const found = useMemo(() => {
    if (!statistic || !now.value || (since !== null && !then.value)) return null;
    const asked = { statistics: run.statistics, statistic, of, matrix: now.value };
    return tints(rows, { ...asked, since: since === null ? null : { step: since, matrix: then.value! } });
  }, [rows, now.value, then.value, since, statistic, of]);
  const scales = useRef(new Map<string, ColourScale | null>());
  const [nFits, setFits] = useState(0);
  const shown = useMemo((): { tinting: Tinting; isWide: boolean } | null => {
    if (!found) return null;
    const name = `${statistic} ${of} ${since}`;
    const own = scaleFor(found, statistic);
    const scale = joined(scales.current.get(name) ?? null, own);
    scales.current.set(name, scale);
    const isWide = own !== null && scale !== null && (scale.low !== own.low || scale.high !== own.high);
    const chosen = (nodes: readonly number[]): readonly number[] => ofIteration(graph, view, nodes, iteration);
    return { tinting: { tints: found, scale, isFilled, chosen: isRolled ? chosen : (nodes) => nodes }, isWide };
  }, [found, isFilled, isRolled, iteration, nFits]);
  const isNothing = shown !== null && shown.tinting.tints.oddities.every((oddity) => oddity === "none");
  const missing = now.error ?? then.error ?? (isNothing ? `No ${ofTitle(of)} was recorded at this step.` : "");
  return {
    tinting: shown?.tinting ?? null, isWide: shown?.isWide ?? false, missing,
    fit: () => {
      scales.current.clear();
      setFits(nFits + 1);
    },
    menu: {
      statistics: run.statistics, statistic, since, step: choice.step, first: run.steps[0] ?? 0, isFilled,
      onStatistic: (name) => {
        act({ do: "keep", name: "colour", text: name ? "" : "role" });
        if (name) act({ do: "statistic", statistic: name });
      },
      onSince: (step) => act({ do: "since", step }),
      onFill: (is) => act({ do: "keep", name: "fill", text: is ? "1" : "" }),
    },
  };
}
