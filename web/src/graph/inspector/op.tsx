// Inspector of an op: value, gradient, arguments, source.

import { useEffect, useState } from "preact/hooks";
import type { OpDetails } from "../../lib/wire";
import { CONDITION, FAILED, OUTPUT } from "../../lib/wire";
import { Link } from "../controls";
import { usePage } from "../context";
import { around } from "../state";
import { RepresentedStepper } from "./represented";
import { Highlights, Numbers } from "./measures";
import { Card, CopyableText, Facts, NodeLinks, Path } from "./parts";
import { SourceLines } from "./source";
import { ValueView } from "./value";

const KINDS = {
  input: "input", buffer: "buffer", constant: "constant", parametric: "has parameters", made: "created inside",
  plain: "", standin: "", failed: "", target: "target", loss: "loss",
};

const NOT_KEPT = "Details of this op are not in this file: the file stores only as many as fit its size limit.";
const NOT_READ = "Details of this op are not available: the trace is closed or its file was deleted.";
/** After this time, the panel says that details are still loading. */
const LONG_MS = 4000;

export function OpPanel({ node }: { node: number }) {
  const { view, drawn } = usePage();
  const { nodes } = view;
  const flags = nodes.flags[node];
  const badges = [
    ...(nodes.kind[node] === "failed" ? [] : nodes.lines[node]),
    KINDS[nodes.kind[node]],
    flags & OUTPUT ? "output" : "",
    flags & CONDITION ? "condition" : "",
    nodes.pass_[node] > 1 ? `pass ${nodes.pass_[node]}` : "",
  ];
  const box = drawn.nodeBoxes.box[node];
  const alike = box >= 0 && drawn.picture.boxes[box].node >= 0 ? drawn.nodeBoxes.nodes[box] : [];
  return (
    <article class="panel" key={node}>
      <Path groups={around(view, `n${node}`)} />
      <h2>{nodes.label[node]}</h2>
      {nodes.site[node] && <CopyableText text={nodes.site[node]} />}
      <div class="badges">
        {badges.filter(Boolean).map((text) => <span class={text.startsWith("Δ") ? "badge apart" : "badge"} key={text}>{text}</span>)}
        {(flags & FAILED) !== 0 && <span class="badge bad">raised here</span>}
      </div>
      <RepresentedStepper own={`n${node}`} keys={alike.map((other) => `n${other}`)} />
      <Highlights />
      <Numbers nodes={[node]} />
      <OpDetails node={node} />
      <Neighbors node={node} />
    </article>
  );
}

/** Details that are loaded on demand: value, gradient, arguments, source. */
function OpDetails({ node }: { node: number }) {
  const { view, host } = usePage();
  const row = view.nodes.row[node];
  const [detail, setDetail] = useState<OpDetails | null | "asked" | "delayed">("asked");
  useEffect(() => {
    let isCurrent = true;
    setDetail("asked");
    const delayed = setTimeout(() => setDetail((now) => (now === "asked" ? "delayed" : now)), LONG_MS);
    if (row >= 0) host.detail(row).then((found) => isCurrent && setDetail(found), () => isCurrent && setDetail(null));
    return () => {
      isCurrent = false;
      clearTimeout(delayed);
    };
  }, [row, host]);
  if (row < 0) {
    const isFailed = view.nodes.kind[node] === "failed";
    if (isFailed) return <Failure lines={view.nodes.lines[node]} />;
    return <p class="note">{"This op is only in the other trace; its values are not available here."}</p>;
  }
  if (detail === "asked") return <p class="note loading">Loading details…</p>;
  if (detail === "delayed") return <p class="note loading">{host.delay ?? "Still loading details…"}</p>;
  if (detail === null) return <p class="note">{host.delay ? NOT_READ : NOT_KEPT}</p>;
  return <Details detail={detail} />;
}

/** Where and why it raised. */
function Failure({ lines }: { lines: readonly string[] }) {
  const { view } = usePage();
  return (
    <div class="note failure">
      <p>This op raised an exception, so it has no value.</p>
      <code>{view.error}</code>
      {lines.slice(1).map((line) => <div key={line}><code>{line}</code></div>)}
    </div>
  );
}

function Details({ detail }: { detail: OpDetails }) {
  const { view, go } = usePage();
  const toRow = (row: number | null): number => (row === null ? -1 : view.nodes.row.indexOf(row));
  return (
    <>
      {detail.value ? <ValueView title="Value" value={detail.value} /> : detail.missing && <p class="note">{detail.missing}</p>}
      {detail.grad && <ValueView title="Gradient" value={detail.grad} />}
      {detail.tests.length > 0 && (
        <Card title="Conditions"><ul class="plain-list">{detail.tests.map((test) => <li key={test}><code>{test}</code></li>)}</ul></Card>
      )}
      {detail.arguments.length > 0 && (
        <Card title="Arguments" aside={detail.function}>
          <dl class="fact-list">
            {detail.arguments.map(({ name, text, row }, place) => (
              <div key={`${name} ${place}`}>
                <dt>{name}</dt>
                <dd>{toRow(row) >= 0 ? <Link onGo={() => go(`n${toRow(row)}`)}>{text}</Link> : text}</dd>
              </div>
            ))}
          </dl>
        </Card>
      )}
      {detail.source && <SourceLines source={detail.source} stack={detail.stack} />}
      {detail.facts.length > 0 && <Card title="Facts"><Facts facts={detail.facts} /></Card>}
      {detail.parameters.map(({ name, shape, value, grad }) => (
        <Card title={name} aside={shape} isClosed key={name}>
          {value ? <ValueView value={value} /> : <p class="quiet">The values of this parameter are not available here.</p>}
          {grad && <ValueView title="Gradient" value={grad} />}
        </Card>
      ))}
    </>
  );
}

function Neighbors({ node }: { node: number }) {
  const { view, ways } = usePage();
  const near = ({ start, to }: { start: Int32Array; to: Int32Array }): number[] => [...new Set(to.subarray(start[node], start[node + 1]))];
  const [parents, children] = [near(ways.up), near(ways.down)];
  const { parent: from, child: to, argument } = view.edges;
  const taken = (parent: number): string => {
    const names = from.flatMap((one, edge) => (one === parent && to[edge] === node && argument[edge] ? [argument[edge]] : []));
    return [...names, view.nodes.lines[parent][0]].join(" · ");
  };
  return (
    <>
      {parents.length > 0 && <Card title="Parents" aside={parents.length}><NodeLinks nodes={parents} about={taken} /></Card>}
      {children.length > 0 && <Card title="Children" aside={children.length}><NodeLinks nodes={children} /></Card>}
    </>
  );
}
