// The Ops tab: the graph of a saved trace, with details from the server. The bar says whose trace it is.

import { useMemo } from "preact/hooks";
import { App } from "../../graph/app";
import type { Frame } from "../../graph/hooks/use-address";
import { Link, Menu } from "../../graph/controls";
import type { Host } from "../../lib/host";
import type { RunItem, RunView } from "../../lib/wire";
import { detailQuery, traceQuery } from "../data/api";
import { describeOrigin, ownTraces, PICTURE, showTrace, TRACE, traceOfStep } from "../data/traces";
import { Failure, Hint } from "../hint";
import type { FolderProps } from "../tabs";
import { useQuery } from "../data/use-query";

export function OpsPanel(props: FolderProps) {
  const { items: known, run, step, state, act, client, onTheme, onHelp } = props;
  const items = known ?? [];
  const traces = items.filter(({ kind }) => kind === "trace");
  const item = traces.find(({ id }) => id === state.kept[TRACE]) ?? defaultTrace(items, traces, run, step);
  const { value, error } = useQuery(client, item ? traceQuery(item.id) : null);
  const host = useMemo((): Host | null => item ? { detail: (row) => client.load(detailQuery(item.id, row)), delay: "The server is busy." } : null, [item?.id, client]);
  if (!item) {
    return (
      <Hint title="No traces in this folder">
        <p>A trace holds every op of a forward pass with its values. Save one in this folder to see it here; made inside a step of a run, it is linked to both:</p>
        <pre class="value-text">{'with run.step():\n    with cutaway.watch(model) as trace:\n        loss = …\n    trace.save("runs/first.trace")'}</pre>
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
      <OriginBar {...props} items={items} traces={traces} item={item} />
      {error && <Failure what={item.name} error={error} />}
      {!error && value && host && <App view={value} host={host} frame={frame} />}
      {!error && !value && <Hint title="Loading trace…" isQuiet />}
    </div>
  );
}

/** A trace of the selected run, the nearest to the selected step; else the first. */
function defaultTrace(items: readonly RunItem[], traces: readonly RunItem[], run: RunView | null, step: number): RunItem | undefined {
  return (run && (traceOfStep(items, run, step)?.item ?? ownTraces(items, run)[0])) ?? traces[0];
}

/** Which trace is shown, of which model, made when, and in which step of which run. */
function OriginBar({ items, traces, item, run, act }: FolderProps & { items: readonly RunItem[]; traces: readonly RunItem[]; item: RunItem }) {
  const { text, to } = describeOrigin(items, item, run);
  const own = run ? ownTraces(items, run) : [];
  const others = traces.filter((each) => !own.includes(each));
  const isOwn = own.includes(item);
  const name = (each: RunItem): string => (own.includes(each) ? `step ${each.trace!.step!.toLocaleString("en")} · ${each.name}` : each.name);
  const go = (): void => {
    if (!to) return;
    act({ do: "run", id: to.run.id });
    act({ do: "step", step: to.step });
    act({ do: "tab", tab: "tensors" });
  };
  return (
    <div class="panel-bar origin-bar">
      <span class="label">Trace</span>
      {traces.length === 1 ? <code>{item.name}</code> : (
        <Menu name="Trace" value={item.id} choices={[...own, ...others].map((each) => [each.id, name(each)] as const)} onChoose={(id) => showTrace(id).forEach(act)} />
      )}
      <span class="origin-text">
        {item.trace?.model && <>of <code>{item.trace.model}</code>, </>}
        {text}
        {item.trace && item.trace.created > 0 && <span class="quiet"> · {new Date(item.trace.created * 1000).toLocaleString("sv").slice(0, 16)}</span>}
      </span>
      {to && <Link onGo={go}>tensors of step {to.step.toLocaleString("en")}</Link>}
      {run && !isOwn && <span class="quiet">{own.length ? `${run.item.name} has ${own.length === 1 ? "a trace" : `${own.length} traces`} of its own` : `${run.item.name} has no traces of its own`}</span>}
    </div>
  );
}
