// Toolbar of the dependency graph: search, color, depth, hidden nodes.

import { IconButton, Labeled, Menu, Segments } from "../../graph/controls";
import { Icon } from "../../graph/icons";
import { usePage } from "../../graph/context";
import { Search } from "../../graph/search";
import { COLOR_MENU, Depth } from "../../graph/toolbar";
import { selectableStatistics, titleOf } from "../../lib/values/statistics";
import { counted } from "../../lib/formatting";

export interface ColorChoice {
  readonly statistics: readonly string[];
  /** "" colors by role alone. */
  readonly statistic: string;
  readonly since: number | null;
  readonly step: number;
  readonly first: number;
  readonly isFilled: boolean;
  onStatistic(statistic: string): void;
  onSince(step: number | null): void;
  onFill(is: boolean): void;
}

interface Props {
  readonly color: ColorChoice;
  readonly nHidden: number;
  /** Number of edges if there are too many to draw; else null. */
  readonly nEdges: number | null;
  readonly areEdgesShown: boolean;
  onEdges(are: boolean): void;
  onShowHidden(): void;
  /** Resets the layout; null if it is unchanged. */
  readonly onReset: (() => void) | null;
}

export function GraphBar({ color, nHidden, nEdges, areEdgesShown, onEdges, onShowHidden, onReset }: Props) {
  const { view, state, act, fit } = usePage();
  const hasIterations = view.nodes.rolled.some((first, node) => first !== node);
  return (
    <div class="graph-bar" role="toolbar" aria-label="Graph options">
      <Search example="attn, weight, h.*.mlp" />
      <ColorMenu {...color} />
      <Depth />
      {hasIterations && (
        <Labeled name="Iterations">
          <Segments name="Iterations" value={state.rolled} onChoose={(is) => act({ do: "rolled", is })} choices={[
            { value: true, text: "merged", title: "One box for all iterations; it shows the selected one (r)" },
            { value: false, text: "split", title: "Separate boxes for each iteration (r)" },
          ]} />
        </Labeled>
      )}
      <span class="graph-bar-end">
        {nEdges !== null && (
          <button type="button" class={`button${areEdgesShown ? " on" : ""}`} aria-pressed={areEdgesShown} onClick={() => onEdges(!areEdgesShown)}
            title="Large graphs hide their edges at first; edges of the selected node are always shown">
            {areEdgesShown ? "hide" : "show"} {counted(nEdges, "edge")}
          </button>
        )}
        {nHidden > 0 && (
          <button type="button" class="button" onClick={onShowHidden} title="Show hidden nodes">{nHidden.toLocaleString("en")} hidden<Icon name="close" /></button>
        )}
        {onReset && (
          <button type="button" class="button" onClick={onReset} title="Reset layout">reset</button>
        )}
        <IconButton icon={state.direction === "right" ? "toRight" : "toDown"} title="Left to right or top to bottom (v)"
          onClick={() => act({ do: "direction", direction: state.direction === "right" ? "down" : "right" })} />
        <button type="button" class="button fit" title="Fit to view (0)" aria-label="Fit to view (0)" onClick={fit}><Icon name="fit" /><span>fit</span></button>
      </span>
    </div>
  );
}

function ColorMenu({ statistics, statistic, since, step, first, isFilled, onStatistic, onSince, onFill }: ColorChoice) {
  const names = selectableStatistics(statistics).filter((name) => name !== "count");
  const others = [...new Set([first, step, ...(since === null ? [] : [since])])].sort((a, b) => a - b);
  return (
    <div class="labeled">
      <span class="label">Color</span>
      <span class="color-choice">
        <Menu class={COLOR_MENU} name="Color by (c)" value={statistic} onChoose={onStatistic}
          choices={[["", "role only"], ...names.map((name) => [name, titleOf(name)] as const)]} />
        {statistic && (
          <Menu name="Value at this step or change since another step" value={since === null ? "" : String(since)}
            onChoose={(text) => onSince(text === "" ? null : Number(text))}
            choices={[["", "at this step"], ...others.map((other) => [String(other), `since step ${other}`] as const)]} />
        )}
        {statistic && (
          <button type="button" class={`button${isFilled ? " on" : ""}`} aria-pressed={isFilled} title="Fill boxes with the color"
            onClick={() => onFill(!isFilled)}>fill</button>
        )}
      </span>
    </div>
  );
}
