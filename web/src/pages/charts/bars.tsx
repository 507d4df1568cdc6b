// A bar chart: one number per name, diverging where numbers are signed.

import { useRef, useState } from "preact/hooks";
import { useEdges } from "../scroll-edges";
import { largest, shortNumber, exactNumber } from "../numbers";
import { sideOf } from "../colors";
import type { Bars } from "../wire";
import { cellAfterKey } from "../grid-keys";

/** More bars than these are scrolled. */
const MOST = 60;

export function BarsBlock({ block }: { block: Bars }) {
  const { names, values, low, high, is_signed: isSigned } = block;
  const [at, setAt] = useState(-1);
  const frame = useRef<HTMLDivElement>(null);
  useEdges(frame, ".block-bars");
  if (!names.length) return <p class="quiet">No values.</p>;
  const most = largest([...values, ...low, ...high]) || 1;
  const place = (value: number): number => (isSigned ? 50 + (50 * value) / most : (100 * Math.max(0, value)) / most);
  const key = (event: KeyboardEvent): void => {
    const next = cellAfterKey(event.key, at < 0 ? null : [at, 0], names.length, 1);
    if (!next) return;
    setAt(next[0]);
    (event.currentTarget as HTMLElement).children[next[0]]?.scrollIntoView({ block: "nearest" });
    event.preventDefault();
    event.stopPropagation();
  };
  const widest = Math.min(26, Math.max(...names.map((name) => name.length)));
  const number = Math.max(...values.map((value) => shortNumber(value).length));
  return (
    <>
      <div class="block-frame" ref={frame}>
        <div class={`block-bars${isSigned ? " signed" : ""}${names.length > MOST ? " long" : ""}`} role="list" aria-label={block.title || "Bars"} tabIndex={0} onKeyDown={key} onBlur={() => setAt(-1)}
          style={{ "--name": `${widest + 1}ch`, "--number": `${number + 1}ch` }} onPointerLeave={() => setAt(-1)}>
          {names.map((name, i) => {
            const value = values[i];
            const [from, to] = value === null ? [0, 0] : isSigned ? [Math.min(50, place(value)), Math.max(50, place(value))] : [0, place(value)];
            const [under, over] = [low[i] ?? null, high[i] ?? null];
            return (
              <div key={i} role="listitem" class={`bar-row${i === at ? " at" : ""}`} aria-label={`${name}: ${exactly(block, i)}`} title={`${name}: ${exactly(block, i)}`} onPointerEnter={() => setAt(i)}>
                <span class="bar-name">{name}</span>
                <span class="bar-room">
                  {value !== null && <i class={sideOf(value, isSigned)} style={{ left: `${from}%`, width: `${to - from}%` }} />}
                  {under !== null && over !== null && <u style={{ left: `${place(under)}%`, width: `${Math.max(0, place(over) - place(under))}%` }} />}
                </span>
                <span class="bar-number">{shortNumber(value)}</span>
              </div>
            );
          })}
        </div>
      </div>
      <div class="block-readout" aria-live="polite">{at >= 0 && at < names.length ? <><b>{names[at]}</b> {exactly(block, at)}</> : " "}</div>
    </>
  );
}

function exactly({ values, low, high }: Bars, i: number): string {
  return exactNumber(values[i]) + (low.length && high.length ? `, from ${exactNumber(low[i])} to ${exactNumber(high[i])}` : "");
}
