// The Network tab: the module tree with parameter counts, as a table and a treemap.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted, quantity, short } from "../../lib/formatting";
import type { ModuleRow, NetworkView } from "../../lib/wire";
import { networkQuery } from "../data/api";
import { nodeOf } from "../choice";
import { Failure, Hint } from "../hint";
import type { PanelProps } from "./props";
import { tiles, type Tile } from "../charts/treemap";
import { useQuery } from "../data/use-query";
import { useNarrow } from "../use-narrow";
import { VirtualTable, type Column } from "../virtual-table";

const KEPT = "module";
/** Columns hidden in narrow windows; the card of the selected module shows them. */
const BESIDE = new Set(["class", "bytes"]);

export function NetworkPanel({ run, state, act, client }: PanelProps) {
  const { value: network, error } = useQuery(client, networkQuery(run.item.id, run.digest));
  const isNarrow = useNarrow();
  const [folded, setFolded] = useState<ReadonlySet<number>>(new Set());
  const modules = network?.modules ?? [];
  const inside = useMemo(() => insideOf(modules), [modules]);
  const selected = modules.findIndex(({ address }) => address === state.kept[KEPT]);
  const visible = useMemo(() => visibleOf(modules, folded), [modules, folded]);
  if (error) return <Failure what="The network" error={error} />;
  if (!network) return <Hint title="Loading modules…" isQuiet />;
  if (!modules.length) return <Hint title="No modules recorded in this run"><p>{network.why_missing}</p></Hint>;
  const select = (row: number): void => act({ do: "keep", name: KEPT, text: modules[row].address });
  const fold = (row: number): void => setFolded((before) => {
    const now = new Set(before);
    if (!now.delete(row)) now.add(row);
    return now;
  });
  const columns = columnsOf(modules, network, { inside, folded, fold }).filter(({ name }) => !isNarrow || !BESIDE.has(name));
  const module = modules[selected];
  return (
    <div class="two-panes network-panel">
      <section class="pane" aria-label="Modules">
        <div class="panel-bar network-facts">
          <span><b>{short(network.n_parameters)}</b> parameters</span>
          <span><b>{quantity(network.bytes, "B")}</b></span>
          <span><b>{share(network.n_trainable, network.n_parameters)}</b> trainable</span>
          <span><b>{counted(modules.length, "module")}</b></span>
        </div>
        <VirtualTable label="Modules" columns={columns} rows={visible} selected={selected < 0 ? null : selected} onSelect={select} version={folded} />
      </section>
      <section class="pane treemap-pane" aria-label="Parameter treemap">
        <Treemap modules={modules} inside={inside} selected={selected} onSelect={select} />
        {module && <Module module={module} run={run} act={act} />}
      </section>
    </div>
  );
}

/** The selected module, and the way to its parameters. */
function Module({ module, run, act }: { module: ModuleRow } & Pick<PanelProps, "run" | "act">) {
  return (
    <div class="module-card">
      <code>{module.address}</code> <span class="quiet">{module.class_name} · {counted(module.n_parameters, "parameter")} · {quantity(module.bytes, "B")}</span>
      <div class="highlights">
        {module.rows.map((row) => (
          <button type="button" class="button" key={row} onClick={() => {
            act({ do: "node", node: nodeOf(run.rows[row]) });
            act({ do: "tab", tab: "tensors" });
          }}>{run.rows[row].site.split(".").at(-1)}</button>
        ))}
      </div>
    </div>
  );
}

function share(part: number, whole: number): string {
  return whole ? `${short(Math.round((1000 * part) / whole) / 10)} %` : "–";
}

function insideOf(modules: readonly ModuleRow[]): readonly (readonly number[])[] {
  const out: number[][] = modules.map(() => []);
  modules.forEach(({ parent }, row) => parent >= 0 && out[parent].push(row));
  return out;
}

function visibleOf(modules: readonly ModuleRow[], folded: ReadonlySet<number>): Int32Array {
  const hidden = new Set<number>();
  const out: number[] = [];
  modules.forEach(({ parent }, row) => {
    if (parent >= 0 && (hidden.has(parent) || folded.has(parent))) hidden.add(row);
    else out.push(row);
  });
  return Int32Array.from(out);
}

interface Tree {
  readonly inside: readonly (readonly number[])[];
  readonly folded: ReadonlySet<number>;
  fold(row: number): void;
}

function columnsOf(modules: readonly ModuleRow[], network: NetworkView, { inside, folded, fold }: Tree): Column[] {
  const name = (row: number): string => (modules[row].address === "." ? modules[row].class_name : modules[row].name);
  return [
    {
      name: "module", title: "module", least: 190, text: (row) => modules[row].address,
      draw: (row) => (
        <span class="tree-cell" style={{ paddingLeft: `${modules[row].depth * 15}px` }} title={modules[row].address}>
          {inside[row].length ? (
            <button type="button" tabIndex={-1} aria-label={folded.has(row) ? "open" : "fold"} onClick={(event) => { event.stopPropagation(); fold(row); }}>{folded.has(row) ? "▸" : "▾"}</button>
          ) : <i />}
          {name(row)}
        </span>
      ),
    },
    { name: "class", title: "class", width: 150, text: (row) => modules[row].class_name, by: (row) => modules[row].class_name },
    {
      name: "parameters", title: "parameters", width: 130, isNumber: true, text: (row) => modules[row].n_parameters.toLocaleString("en"), by: (row) => modules[row].n_parameters,
      draw: (row) => (
        <span class="share-cell"><i style={{ width: `${(100 * modules[row].n_parameters) / Math.max(1, network.n_parameters)}%` }} />{modules[row].n_parameters ? modules[row].n_parameters.toLocaleString("en") : "–"}</span>
      ),
    },
    { name: "bytes", title: "bytes", width: 84, isNumber: true, text: (row) => (modules[row].bytes ? quantity(modules[row].bytes, "B") : "–"), by: (row) => modules[row].bytes },
    {
      name: "trainable", title: "trainable", width: 84, isNumber: true, text: (row) => share(modules[row].n_trainable, modules[row].n_parameters),
      by: (row) => modules[row].n_trainable / Math.max(1, modules[row].n_parameters),
    },
  ];
}

/** Treemap by number of parameters; frozen modules are hatched. */
function Treemap({ modules, inside, selected, onSelect }: { modules: readonly ModuleRow[]; inside: Tree["inside"]; selected: number; onSelect(row: number): void }) {
  const host = useRef<HTMLDivElement>(null);
  const [{ width, height }, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = host.current!;
    const measure = (): void => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  const drawn = useMemo(() => (width && modules.length ? tiles(0, { x: 0, y: 0, width, height }, { size: (of) => modules[of].n_parameters, inside: (of) => inside[of] }) : []),
    [modules, inside, width, height]);
  return (
    <div class="treemap" ref={host} role="group" aria-label="Parameter treemap">
      {!modules[0]?.n_parameters && <p class="quiet">This network has no parameters.</p>}
      {drawn.filter(({ width: w, height: h }) => w > 2 && h > 2).map((tile) => <Area key={tile.of} tile={tile} module={modules[tile.of]} isSelected={tile.of === selected} onSelect={onSelect} />)}
    </div>
  );
}

function Area({ tile, module, isSelected, onSelect }: { tile: Tile; module: ModuleRow; isSelected: boolean; onSelect(row: number): void }) {
  const { x, y, width, height, of, depth, isLeaf } = tile;
  const name = module.address === "." ? module.class_name : module.name;
  const isFrozen = module.n_parameters > 0 && module.n_trainable === 0;
  return (
    <button type="button" tabIndex={-1} class={`tile${isLeaf ? " leaf" : ""}${isSelected ? " on" : ""}${isFrozen ? " frozen" : ""}`} data-depth={depth % 4}
      style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }} onClick={() => onSelect(of)}
      title={`${module.address}\n${module.class_name} · ${counted(module.n_parameters, "parameter")}${isFrozen ? ", frozen" : ""}`}>
      {width > 30 && height > 14 && <span>{name}{width > 110 && <small> {short(module.n_parameters)}</small>}</span>}
    </button>
  );
}
