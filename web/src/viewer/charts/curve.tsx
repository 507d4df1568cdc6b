// Interactive curves: drag to zoom, double-click to reset, hover to read values, click to go to a step.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { chartScale, type ChartScale } from "../../lib/charts/chart-scale";
import { readings, xRange, chartData, nearestX, type Departure, type Line } from "../../lib/charts/chart-data";
import { duration, exact, short } from "../../lib/formatting";
import { shortNames } from "../../lib/run-names";
import type { CurveSpikes } from "../spike/use-curve-spikes";
import { Plot, type ChartStyle, type Flag, type PlotInput } from "./plot";
import { spacedApart } from "./spike-marks";
import "../../style/viewer/curves.css";

export type { Line } from "../../lib/charts/chart-data";

export interface CurveProps {
  readonly lines: readonly Line[];
  /** Accessible name of the curve. */
  readonly name: string;
  readonly height: number;
  /** Default: chosen by the data. */
  readonly scale?: ChartScale;
  /** Asks for an axis that holds all values, also those of runs far from the others. */
  readonly onWhole?: () => void;
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
  /** The spikes of one of the lines. A click near one opens it instead. */
  readonly spikes?: CurveSpikes;
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
/** A click no farther than this many pixels from a spike opens it. */
const NEAR = 8;
/** Maximum distance in pixels between the cursor and a point in the readout. */
const FAR = 28;

interface CursorPosition {
  readonly x: number;
  /** In pixels. */
  readonly left: number;
}

export function Curve(props: CurveProps) {
  const { lines, name, height, smoothing = 0, xName = "step", mark = null, isBare = false, isDark } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const [width, setWidth] = useState(0);
  const [zoom, setZoom] = useState<readonly [number, number] | null>(null);
  const [over, setOver] = useState<CursorPosition | null>(null);
  const nTicks = Math.max(2, Math.round(height / 42));
  const { pointed = null, span } = props;
  const scale = useMemo(() => props.scale ?? chartScale(lines), [lines, props.scale]);
  const sheet = useMemo(() => chartData(lines, { zoom: zoom ?? span ?? null, width, scale, smoothing, nTicks }), [lines, zoom, span?.[0], span?.[1], width, scale, smoothing, nTicks]);
  const isEmpty = sheet.isEmpty && !sheet.broken.length;
  const isElsewhere = useRef(false);
  const picking = useRef<(x: number) => void>(() => undefined);
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
  const made = `${lines.map(({ key, dash, letter }) => `${key} ${dash ?? ""} ${letter ?? ""}`).join("\n")} ${smoothing > 0} ${isSparse} ${isBare}`;
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
      pick: (x) => picking.current(x),
    }, () => newest.current.zoom !== null);
    one.markAt(mark);
    one.flag(flags());
    plot.current = one;
    return () => {
      one.destroy();
      plot.current = null;
    };
  }, [made, width > 0, isEmpty]);
  useLayoutEffect(() => plot.current?.resize(width, height), [width, height]);
  useLayoutEffect(() => plot.current?.set(shown()), [sheet, isDark, xName]);
  useLayoutEffect(() => plot.current?.markAt(mark), [mark]);
  useLayoutEffect(() => plot.current?.flag(flags()), [props.spikes, width, sheet, xName]);
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
  /** Spikes are known by their steps. */
  function flags(): Flag[] {
    const { spikes, open } = newest.current.spikes ?? { spikes: [], open: null };
    if (newest.current.xName === "seconds") return [];
    const perStep = width / Math.max(1e-9, sheet.high - sheet.low);
    return spacedApart(spikes.map(({ step }) => step * perStep)).map((i) => ({ x: spikes[i].step, kind: `${spikes[i].step === open ? "on" : ""} ${spikes[i].is_recorded ? "" : "logged"}` }));
  }
  function pick(x: number): void {
    const { spikes, xName: across } = newest.current;
    const far = (NEAR * (sheet.high - sheet.low)) / Math.max(1, width);
    const near = across === "seconds" ? undefined : spikes?.spikes.filter(({ step }) => Math.abs(step - x) <= far).sort((a, b) => Math.abs(a.step - x) - Math.abs(b.step - x))[0];
    if (near) {
      spikes!.onOpen(near.step);
      return;
    }
    const to = nearestX(newest.current.lines, x);
    if (to !== null) newest.current.onPick?.(to);
  }
  picking.current = pick;
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
      {!isEmpty && sheet.left.length > 0 && <LeftAxis {...props} left={sheet.left} />}
      {isEmpty && <p class="curve-hint">{props.hint ?? "No data recorded."}</p>}
      {zoom && !isEmpty && <button type="button" class="curve-reset" title="Reset zoom (double-click, Esc)" onClick={() => setZoom(null)}>reset zoom</button>}
      {over && !isEmpty && width > 0 && <Readout {...props} over={over} width={width} perPixel={(sheet.high - sheet.low) / width} />}
    </div>
  );
}

/** Names the lines that leave the axis, and how far they go. */
function LeftAxis({ lines, left, isBare, onWhole }: CurveProps & { left: readonly Departure[] }) {
  const texts = left.map(({ line, isAbove, farthest }) => `${isAbove ? "▲" : "▼"} ${lines[line].letter || lines[line].name} ${isAbove ? "up" : "down"} to ${short(farthest)}`);
  const about = left.map(({ line, isAbove, farthest }) => `${lines[line].name} leaves the axis at the ${isAbove ? "top" : "bottom"}: ${isAbove ? "up" : "down"} to ${exact(farthest)}.`).join("\n");
  const label = texts.length > 2 ? `${texts.slice(0, 2).join(", ")} and ${texts.length - 2} more` : texts.join(", ");
  const kind = `curve-left${isBare ? " bare" : ""}`;
  return onWhole ? <button type="button" class={kind} title={`${about}\nClick to show all values.`} onClick={onWhole}>{label}</button>
    : <span class={kind} title={about}>{label}</span>;
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
export function Swatch({ line }: { line: Pick<Line, "color" | "dash" | "letter"> }) {
  return (
    <>
    {line.letter && <em class="run-letter" style={{ color: line.color }}>{line.letter}</em>}
    <svg class="swatch" viewBox="0 0 18 8" aria-hidden="true">
      <line x1={1} x2={17} y1={4} y2={4} style={{ stroke: line.color }} stroke-dasharray={line.dash?.join(" ")} />
    </svg>
    </>
  );
}

/** The legend. */
export function CurveLegend({ lines }: { lines: readonly Line[] }) {
  if (lines.length < 2) return null;
  const names = shortNames(lines.map(({ name }) => name));
  return (
    <div class="curve-legend">
      {lines.map((line, i) => <span key={line.key} title={line.name}><Swatch line={line} />{names[i]}</span>)}
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
  // A canvas does not know the variables of the page: the browser resolves them, also within color-mix().
  const probe = document.createElement("i");
  element.append(probe);
  const plain = (color: string): string => {
    probe.style.color = color;
    return getComputedStyle(probe).color;
  };
  const colors = lines.map(({ color }) => plain(color));
  probe.remove();
  return {
    colors, dashes: lines.map(({ dash }) => dash), letters: lines.map(({ letter }) => letter ?? ""),
    text: read("--soft"), grid: read("--line"), bad: read("--bad"), font: `11px ${read("--mono") || "monospace"}`,
  };
}
