// The inspector beside the graph: details of the selection, or a guide.

import { usePage } from "../context";
import { GroupPanel } from "./group";
import { Guide } from "./guide";
import { OpPanel } from "./op";

export function Inspector() {
  const { state, drawn } = usePage();
  const key = state.selection;
  if (key === null) return <Guide />;
  const number = Number(key.slice(1));
  if (key.startsWith("n")) return <OpPanel node={number} />;
  if (key.startsWith("g")) return <GroupPanel group={number} />;
  // A stand-in: the selection is the box that it stands for.
  const standin = drawn.picture.boxes.find((box) => box.key === key);
  if (!standin) return <Guide />;
  return <StandIn keys={standin.stands_for} />;
}

function StandIn({ keys }: { keys: readonly string[] }) {
  const { view, go } = usePage();
  const name = (key: string): string => (key.startsWith("g") ? view.groups.label : view.nodes.label)[Number(key.slice(1))];
  const [first] = keys;
  const number = Number(first.slice(1));
  return (
    <>
      <p class="note">
        {keys.length === 1
          ? "A stand-in: many ops read this tensor, so it is drawn again beside each of them."
          : `A stand-in for ${keys.length} tensors that many ops read.`}{" "}
        {keys.map((key) => <button type="button" class="link" key={key} onClick={() => go(key)}>{name(key)}</button>)}
      </p>
      {keys.length === 1 && (first.startsWith("g") ? <GroupPanel group={number} /> : <OpPanel node={number} />)}
    </>
  );
}
