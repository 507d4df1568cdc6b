// Interactive curves: drag to zoom, double-click to reset, hover to read values, click to go to a step.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { readings, xRange, chartData, nearestX, type Line } from "../../lib/charts/chart-data";
import { duration, exact } from "../../lib/formatting";
import { Plot, type ChartStyle, type PlotInput } from "./plot";
import "../../style/curves.css";

export type { Line } from "../../lib/charts/chart-data";

export interface CurveProps {
  readonly lines: readonly Line[];
  /** Accessible name of the curve. */
  readonly name: string;
  readonly height: number;
  readonly isLog?: boolean;
  /** How much older points count, from 0 (as they are) to 1. */
  readonly smoothing?: number;
  readonly xName?: "step" | "seconds";
  /** X of the vertical line: the selected step. */
  readonly mark?: number | null;
  /** Range of x without zoom; default: that of all lines. */
  readonly span?: readonly [number, number];
  /** The x hovered in another chart: the cursor follows it. */
  readonly pointed?: number | null;
  /** The cursor is at an x; null when it has left. */
  readonly onPoint?: (x: number | null) => void;
  /** A point was clicked: its x. */
  readonly onPick?: (x: number) => void;
  /** Shown when there are no curves. */
  readonly hint?: string;
  /** Shown when no value is finite. */
  readonly broken?: string;
  /** Without axes, for the timeline. */
  readonly isBare?: boolean;
  readonly isDark: boolean;
}

/** Maximum number of lines in the readout. */
const MOST_READ = 12;
/** Maximum distance in pixels between the cursor and a point in the readout. */
const FAR = 28;

interface CursorPosition {
  readonly x: number;
  /** In pixels. */
  readonly left: number;
}

export function Curve(props: CurveProps) {
  const { lines, name, height, isLog = false, smoothing = 0, xName = "step", mark = null, isBare = false, isDark } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const [width, setWidth] = useState(0);
  const [zoom, setZoom] = useState<readonly [number, number] | null>(null);
  const [over, setOver] = useState<CursorPosition | null>(null);
  const nTicks = Math.max(2, Math.round(height / 42));
  const { pointed = null, span } = props;
  const sheet = useMemo(() => chartData(lines, { zoom: zoom ?? span ?? null, width, isLog, smoothing, nTicks }), [lines, zoom, span?.[0], span?.[1], width, isLog, smoothing, nTicks]);
  const isEmpty = sheet.isEmpty && !sheet.broken.length;
  const isElsewhere = useRef(false);
  const newest = useRef({ ...props, zoom, setZoom });
  newest.current = { ...props, zoom, setZoom };

  useLayoutEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const measure = (): void => setWidth(Math.floor(element.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  const isSparse = smoothing > 0 || sheet.xs.length < width;
  // A different number of lines needs a new plot; otherwise only the data changes.
  const made = `${lines.map(({ key, dash }) => `${key} ${dash ?? ""}`).join("\n")} ${smoothing > 0} ${isSparse} ${isBare}`;
  useLayoutEffect(() => {
    if (!host.current || !width || isEmpty) return undefined;
    const one = new Plot(host.current, shown(), { width, height }, {
      over: (place) => {
        setOver(place);
        if (!isElsewhere.current) newest.current.onPoint?.(place?.x ?? null);
      },
      zoom: (low, high) => {
        setOver(null);
        setZoom([low, high]);
      },
      reset: () => setZoom(null),
      pick: (x) => pick(x),
    }, () => newest.current.zoom !== null);
    one.markAt(mark);
    plot.current = one;
    return () => {
      one.destroy();
      plot.current = null;
    };
  }, [made, width > 0, isEmpty]);
  useLayoutEffect(() => plot.current?.resize(width, height), [width, height]);
  useLayoutEffect(() => plot.current?.set(shown()), [sheet, isDark, xName]);
  useLayoutEffect(() => plot.current?.markAt(mark), [mark]);
  useLayoutEffect(() => {
    isElsewhere.current = true;
    plot.current?.point(pointed);
    isElsewhere.current = false;
  }, [pointed]);
  // A zoom range in steps is meaningless in seconds.
  useEffect(() => setZoom(null), [xName]);

  function shown(): PlotInput {
    return { data: sheet, style: chartStyle(host.current!, lines), isSmooth: smoothing > 0, isSparse, xName, isBare };
  }
  function pick(x: number): void {
    const to = nearestX(newest.current.lines, x);
    if (to !== null) newest.current.onPick?.(to);
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      const [low, high] = zoom ?? xRange(lines);
      const from = over?.x ?? mark ?? low;
      const next = nextX(lines, from, by);
      if (next !== null && next >= low && next <= high) plot.current?.point(next);
    } else if (event.key === "Enter" && over) pick(over.x);
    else if (event.key === "Escape" && zoom) setZoom(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class={`curve${props.onPick ? " pickable" : ""}`} style={{ height: `${height}px` }} role="group" aria-label={about(name, lines)}
      tabIndex={isEmpty ? -1 : 0} onKeyDown={onKeyDown} onBlur={() => setOver(null)}>
      <div class="curve-plot" ref={host} />
      {!isEmpty && sheet.isEmpty && <p class="curve-hint clear">{props.broken ?? "NaN or infinite at every step."}</p>}
      {sheet.broken.length > 0 && !sheet.isEmpty && !isBare && <span class="curve-broken" title="Steps with NaN or Inf"><i />NaN or Inf</span>}
      {isEmpty && <p class="curve-hint">{props.hint ?? "No data recorded."}</p>}
      {zoom && !isEmpty && <button type="button" class="curve-reset" title="Reset zoom (double-click, Esc)" onClick={() => setZoom(null)}>reset zoom</button>}
      {over && !isEmpty && width > 0 && <Readout {...props} over={over} width={width} perPixel={(sheet.high - sheet.low) / width} />}
    </div>
  );
}

/** The numbers at the cursor. */
function Readout({ lines, over, width, perPixel, smoothing = 0, xName = "step" }: CurveProps & { over: CursorPosition; width: number; perPixel: number }) {
  const x = nearestX(lines, over.x);
  if (x === null) return null;
  const found = readings(lines, x, Math.max(FAR * perPixel, 1e-9), smoothing);
  const side = over.left > width / 2 ? { right: `${width - over.left + 12}px` } : { left: `${over.left + 12}px` };
  return (
    <div class="curve-readout" style={side} aria-live="polite">
      <div class="curve-x">{xName === "seconds" ? duration(x) : `step ${x.toLocaleString("en")}`}</div>
      {found.slice(0, MOST_READ).map(({ line, x: own, value, smooth, band }) => (
        <div key={lines[line].key} class="curve-reading">
          <Swatch line={lines[line]} />
          <span>{lines[line].name}</span>
          {own !== x && <small>{xName === "seconds" ? duration(own) : `at ${own.toLocaleString("en")}`}</small>}
          <b>{exact(value)}</b>
          {band && <small>{exact(Number(band[0].toPrecision(4)))} … {exact(Number(band[1].toPrecision(4)))}</small>}
          {smooth !== null && Number.isFinite(smooth) && <small>≈ {exact(Number(smooth.toPrecision(4)))}</small>}
        </div>
      ))}
      {found.length > MOST_READ && <div class="quiet">and {found.length - MOST_READ} more</div>}
    </div>
  );
}

/** A sample of the line style. */
export function Swatch({ line }: { line: Pick<Line, "color" | "dash"> }) {
  return (
    <svg class="swatch" viewBox="0 0 18 8" aria-hidden="true">
      <line x1={1} x2={17} y1={4} y2={4} style={{ stroke: line.color }} stroke-dasharray={line.dash?.join(" ")} />
    </svg>
  );
}

/** The legend. */
export function CurveLegend({ lines }: { lines: readonly Line[] }) {
  if (lines.length < 2) return null;
  return (
    <div class="curve-legend">
      {lines.map((line) => <span key={line.key}><Swatch line={line} />{line.name}</span>)}
    </div>
  );
}

function about(name: string, lines: readonly Line[]): string {
  const lastValues = lines.filter(({ y }) => y.length).map(({ name: own, y }) => `${own}: last value ${exact(y[y.length - 1])}`);
  return [name, ...lastValues.slice(0, 4)].join(". ");
}

/** The x of the next point of any line on one side. */
function nextX(lines: readonly Line[], x: number, by: number): number | null {
  let best: number | null = null;
  for (const { x: own } of lines) {
    for (const one of own) {
      if ((one - x) * by > 0 && (best === null || (best - one) * by > 0)) best = one;
    }
  }
  return best;
}

function chartStyle(element: HTMLElement, lines: readonly Line[]): ChartStyle {
  const style = getComputedStyle(element);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  const plain = (color: string): string => {
    const variable = /^var\((--[\w-]+)\)$/.exec(color)?.[1];
    return variable ? read(variable) || read("--a") : color;
  };
  return {
    colors: lines.map(({ color }) => plain(color)), dashes: lines.map(({ dash }) => dash),
    text: read("--soft"), grid: read("--line"), bad: read("--bad"), font: `11px ${read("--mono") || "monospace"}`,
  };
}
