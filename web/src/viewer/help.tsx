// Help sheet of the viewer.

import { HelpSheet } from "../graph/help";
import { helpOf } from "./keys";
import { isRunTab, tabOf, type Tab } from "./tabs";

/** The shortcuts of a tab; on the Ops tab, most keys belong to the graph. */
export function ViewerHelp({ tab, onClose }: { tab: Tab; onClose(): void }) {
  const { everywhere, title, own } = helpOf(tab);
  return (
    <HelpSheet onClose={onClose}>
      <section>
        <h3>Everywhere</h3>
        <dl>{everywhere.map(([shown, does]) => <div key={shown}><dt><kbd>{shown}</kbd></dt><dd>{does}</dd></div>)}</dl>
      </section>
      <section>
        <h3>{title}</h3>
        <dl>
          {own.map(([shown, does]) => <div key={shown}><dt><kbd>{shown}</kbd></dt><dd>{does}</dd></div>)}
          {isRunTab(tabOf(tab)) && <div><dt><kbd>Shift + ← ↑ ↓ →</kbd></dt><dd>move the selected box</dd></div>}
        </dl>
        {tabOf(tab).needs === "page" ? <p class="quiet">Names of units and results in tables are links. The URL stores the whole view, so you can share or reload it.</p> : <MouseHelp />}
      </section>
    </HelpSheet>
  );
}

function MouseHelp() {
  return (
    <>
      <h3>Mouse</h3>
      <dl>
        <div><dt>drag, wheel</dt><dd>pan; Ctrl + wheel or pinch zooms</dd></div>
        <div><dt>click a node</dt><dd>show its tensor in the inspector</dd></div>
        <div><dt>right click</dt><dd>open the menu of a node: hide, pin, highlight</dd></div>
        <div><dt>click a curve</dt><dd>go to that step; drag to zoom</dd></div>
        <div><dt>click a run</dt><dd>select it; Shift + click, or click its ●, to overlay or hide it</dd></div>
        <div><dt>hover over a step</dt><dd>on the slider or the timeline: show the values logged there</dd></div>
      </dl>
      <h3>Selectors</h3>
      <p class="quiet">
        If a tensor lacks what you select, such as a gradient, the closest recorded quantity is shown instead. Your selection applies again
        to the next tensor that has it. The URL stores the whole view, so you can share or reload it.
      </p>
    </>
  );
}
