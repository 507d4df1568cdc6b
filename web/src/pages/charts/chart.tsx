// The frame of a chart: axes, a cursor for pointer and keyboard, and a readout.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { short } from "../../lib/formatting";
import type { Scale } from "./scale";
import { cellAfterKey } from "../grid-keys";

export interface Frame {
  readonly width: number;
  readonly height: number;
  x(value: number): number;
  y(value: number): number;
}

interface Props {
  /** Accessible name of the chart. */
  readonly label: string;
  readonly xName: string;
  readonly yName: string;
  readonly x: Scale;
  readonly y: Scale;
  /** Number of cursor positions. */
  readonly n: number;
  /** The cursor position nearest to an x. */
  placeAt(x: number): number;
  /** X of the cursor for an index. */
  xOf(place: number): number;
  draw(frame: Frame, place: number): ComponentChildren;
  read(place: number): ComponentChildren;
}

const HEIGHT = 230;
const [TOP, BOTTOM, RIGHT] = [10, 38, 14];

export function Chart({ label, xName, yName, x, y, n, placeAt, xOf, draw, read }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const [whole, setWhole] = useState(0);
  const [place, setPlace] = useState(-1);
  useLayoutEffect(() => {
    const element = host.current!;
    const measure = (): void => setWhole(element.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => setPlace(-1), [n]);
  const left = 12 + 6.6 * Math.max(3, ...y.ticks.map((tick) => short(tick).length));
  const width = Math.max(40, whole - left - RIGHT);
  const height = HEIGHT - TOP - BOTTOM;
  const frame: Frame = { width, height, x: (value) => x.share(value) * width, y: (value) => (1 - y.share(value)) * height };
  const move = (event: PointerEvent): void => {
    const at = event.clientX - host.current!.getBoundingClientRect().left - left;
    setPlace(at < -20 || at > width + 20 ? -1 : placeAt(x.value(Math.max(0, Math.min(1, at / width)))));
  };
  const key = (event: KeyboardEvent): void => {
    const next = cellAfterKey(event.key, place < 0 ? null : [0, place], 1, n);
    if (event.key === "Escape" && place >= 0) setPlace(-1);
    else if (next) setPlace(next[1]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const cursor = place >= 0 && place < n ? left + frame.x(xOf(place)) : null;
  return (
    <div class="block-chart" ref={host} role="group" aria-label={label} tabIndex={0} onKeyDown={key} onPointerMove={move}
      onPointerLeave={() => setPlace(-1)} onBlur={() => setPlace(-1)}>
      {whole > 0 && (
        <svg width={whole} height={HEIGHT} aria-hidden="true">
          <g transform={`translate(${left} ${TOP})`}>
            {y.ticks.map((tick) => (
              <g key={tick}>
                <line class={tick === 0 ? "zero" : "grid"} x1={0} x2={width} y1={frame.y(tick)} y2={frame.y(tick)} />
                <text class="tick" x={-7} y={frame.y(tick) + 3.5} text-anchor="end">{short(tick)}</text>
              </g>
            ))}
            {thinned(x.ticks, frame).map((tick) => <text key={tick} class="tick" x={frame.x(tick)} y={height + 16} text-anchor="middle">{short(tick)}</text>)}
            {cursor !== null && <line class="cursor" x1={cursor - left} x2={cursor - left} y1={0} y2={height} />}
            {draw(frame, place)}
            <text class="axis-name" x={width / 2} y={height + 33} text-anchor="middle">{yName ? `${yName} by ${xName}` : xName}</text>
          </g>
        </svg>
      )}
      <div class={`block-tip${cursor === null ? " hidden" : ""}`} aria-live="polite"
        style={cursor === null ? {} : cursor > whole / 2 ? { right: `${whole - cursor + 10}px`, top: "6px" } : { left: `${cursor + 10}px`, top: "6px" }}>
        {cursor !== null && read(place)}
      </div>
    </div>
  );
}

/** Ticks with room for their numbers. */
function thinned(ticks: readonly number[], frame: Frame): number[] {
  const found: number[] = [];
  let end = -Infinity;
  for (const tick of ticks) {
    const half = 3.6 * short(tick).length;
    const at = frame.x(tick);
    if (at - half < end + 6) continue;
    found.push(tick);
    end = at + half;
  }
  return found;
}
