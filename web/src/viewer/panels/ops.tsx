// The Ops tab: the graph of a saved trace, with details from the server.

import { useMemo } from "preact/hooks";
import { App } from "../../graph/app";
import type { Frame } from "../../graph/hooks/use-address";
import { Menu } from "../../graph/controls";
import type { Host } from "../../lib/host";
import { detailQuery, traceQuery } from "../data/api";
import { PICTURE, TRACE } from "../data/pages";
import { Failure, Hint } from "../hint";
import type { FolderProps } from "../tabs";
import { useQuery } from "../data/use-query";

export function OpsPanel({ items: known, state, act, client, onTheme, onHelp }: FolderProps) {
  const items = known ?? [];
  const traces = items.filter(({ kind }) => kind === "trace");
  const item = traces.find(({ id }) => id === state.kept[TRACE]) ?? traces[0];
  const { value, error } = useQuery(client, item ? traceQuery(item.id) : null);
  const host = useMemo((): Host | null => item ? { detail: (row) => client.load(detailQuery(item.id, row)), delay: "The server is busy." } : null, [item?.id, client]);
  if (!item) {
    return (
      <Hint title="No traces in this folder">
        <p>A trace holds every op of a forward pass with its values. Save one in this folder to see it here:</p>
        <pre class="value-text">{'trace = cutaway.trace(model, batch)\ntrace.save("runs/first.trace")'}</pre>
      </Hint>
    );
  }
  const frame: Frame = {
    address: state.kept[PICTURE] ?? "", onTheme, onHelp,
    onAddress(text) {
      // Pin the trace by id, so that the URL still means it when other traces appear.
      act({ do: "keep", name: TRACE, text: item.id });
      act({ do: "keep", name: PICTURE, text });
    },
  };
  return (
    <div class="ops-panel">
      {(traces.length > 1 || items.some(({ kind }) => kind === "run")) && (
        <div class="panel-bar">
          <span class="label" title="Traces are saved separately from runs and may be of other models">Trace</span>
          {traces.length === 1 ? <code>{item.name}</code> : <Menu name="Trace" value={item.id} choices={traces.map(({ id, name }) => [id, name])} onChoose={(text) => {
            act({ do: "keep", name: PICTURE, text: "" });
            act({ do: "keep", name: TRACE, text });
          }} />}
        </div>
      )}
      {error && <Failure what={item.name} error={error} />}
      {!error && value && host && <App view={value} host={host} frame={frame} />}
      {!error && !value && <Hint title="Loading trace…" isQuiet />}
    </div>
  );
}
