// Where one box represents several ops or modules: selects which of them is shown.

import { IconButton, Link } from "../controls";
import { usePage } from "../context";
import { around } from "../state";

/** Steps through what is drawn as the same box, and a way to draw the blocks one by one. */
export function RepresentedStepper({ own, keys }: { own: string; keys: readonly string[] }) {
  const { view, state, act, part } = usePage();
  const place = keys.indexOf(own);
  if (keys.length < 2 || place < 0) return null;
  const show = (by: number): void => act({ do: "select", key: keys[(place + by + keys.length) % keys.length] });
  const groups = own.startsWith("g") ? [...around(view, own), Number(own.slice(1))] : around(view, own);
  const run = groups.map((group) => view.groups.run[group]).find((one) => one >= 0 && !state.apart.has(one));
  return (
    <div class="alike">
      <IconButton icon="left" title="Previous" onClick={() => show(-1)} />
      <span>{place + 1} of {keys.length.toLocaleString("en")} drawn as this box</span>
      <IconButton icon="right" title="Next" onClick={() => show(1)} />
      {run !== undefined && own.startsWith("n") && <Link onGo={() => part(run, true)}>show all {view.runs[run].groups.length} blocks</Link>}
    </div>
  );
}
