// The toolbar: depth, repeated blocks, color and size measures, direction.

import { counted } from "../lib/formatting";
import { Compare } from "./diff-bar";
import { IconButton, Labeled, Menu, Segments } from "./controls";
import { Icon } from "./icons";
import { usePage } from "./context";
import { deepest, depthOf } from "./state";

export const COLOR_MENU = "color-menu";

export function Toolbar() {
  const { view, state, drawn, act, fit } = usePage();
  const measures = view.measures.map(({ name, title }) => [name, title] as const);
  const isApart = state.apart.size === view.runs.length;
  const hasLoops = view.nodes.rolled.some((first, node) => first !== node);
  return (
    <div class="toolbar" role="toolbar" aria-label="Graph options">
      <Compare />
      <Depth />
      {hasLoops && (
        <Labeled name="Loops">
          <Segments name="Loops" value={state.rolled} onChoose={(is) => act({ do: "rolled", is })} choices={[
            { value: true, text: "rolled", title: "Draw the passes of a loop once, ×n (r)" },
            { value: false, text: "unrolled", title: "Draw every pass of a loop (r)" },
          ]} />
        </Labeled>
      )}
      {view.runs.length > 0 && (
        <Labeled name="Repeated blocks">
          <Segments name="Repeated blocks" value={isApart} onChoose={(is) => act({ do: "apart all", is })} choices={[
            { value: false, text: "once, ×n", title: "Draw identical blocks once" },
            { value: true, text: "one by one", title: "Draw every block" },
          ]} />
        </Labeled>
      )}
      {measures.length > 0 && (
        <Labeled name="Color">
          <Menu class={COLOR_MENU} name="Color by (c)" value={state.color} choices={[["", "role"], ...measures]}
            onChoose={(measure) => act({ do: "color", measure })} />
        </Labeled>
      )}
      {measures.length > 0 && (
        <Labeled name="Bars">
          <Menu name="Bar length in each box" value={state.size} choices={[["", "none"], ...measures]}
            onChoose={(measure) => act({ do: "size", measure })} />
        </Labeled>
      )}
      <Labeled name="Direction">
        <Segments name="Direction" value={state.direction} onChoose={(direction) => act({ do: "direction", direction })} choices={[
          { value: "down", text: <Icon name="toDown" />, title: "Top to bottom" },
          { value: "right", text: <Icon name="toRight" />, title: "Left to right" },
        ]} />
      </Labeled>
      <div class="toolbar-end">
        <span class="shown-count" title="Visible boxes">{counted(drawn.picture.boxes.length, "box", "boxes")} shown</span>
        <button type="button" class="button" title="Fit to view (0)" onClick={fit}><Icon name="fit" />fit</button>
      </div>
    </div>
  );
}

export function Depth() {
  const { view, state, act } = usePage();
  const most = deepest(view);
  if (most === 1) return null;
  const { depth, isExact } = depthOf(view, state.open);
  const isLeast = depth === 1 && isExact;
  const set = (to: number): void => act({ do: "depth", depth: to });
  return (
    <Labeled name={`Depth, of ${most}`}>
      <div class="stepper">
        <IconButton icon="minus" title="Fold one level ([)" isOff={isLeast} onClick={() => set(isExact ? depth - 1 : depth)} />
        <output title={isExact ? `Modules are open down to level ${depth}` : "Some modules are open below this level"}>
          {depth}{isExact ? "" : "+"}
        </output>
        <IconButton icon="plus" title="Open one level (])" isOff={depth === most} onClick={() => set(depth + 1)} />
        <button type="button" class="stepper-end" disabled={depth === most} title="Open all modules" onClick={() => set(most)}>all</button>
        <button type="button" class="stepper-end" disabled={isLeast} title="Fold all modules" onClick={() => set(1)}>none</button>
      </div>
    </Labeled>
  );
}
