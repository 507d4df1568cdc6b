// Wrapper around one uPlot instance: lines, axes, cursor.

import uPlot from "uplot";
import { rounds, tickTexts } from "../../lib/charts/axes";
import { isolatedPoints, stretches, type ChartData } from "../../lib/charts/chart-data";
import { duration, short } from "../../lib/formatting";

export interface ChartStyle {
  /** Colors by line, resolved for the canvas. */
  readonly colors: readonly string[];
  readonly dashes: readonly (readonly number[] | undefined)[];
  /** Letters of their runs; "" for none. */
  readonly letters: readonly string[];
  readonly text: string;
  readonly grid: string;
  readonly bad: string;
  readonly font: string;
}

export interface PlotInput {
  readonly data: ChartData;
  readonly style: ChartStyle;
  readonly isSmooth: boolean;
  /** Whether there are few enough points to distinguish dashes from gaps. */
  readonly isSparse: boolean;
  readonly xName: "step" | "seconds";
  /** Without axes, for the timeline. */
  readonly isBare: boolean;
}

/** A mark above a point. */
export interface Flag {
  readonly x: number;
  /** Its classes. */
  readonly kind: string;
}

export interface PlotEvents {
  /** The cursor is at an x, `left` pixels from the left; null when it has left. */
  over(place: { x: number; left: number } | null): void;
  zoom(low: number, high: number): void;
  pick(x: number): void;
  reset(): void;
}

/** A press that moved no farther than this is a click. */
const CLICK = 4;
/** Up to this many points, a line also shows its points. */
const FEW = 24;
/** Room for the letters of runs, in pixels. */
const LETTER = 11;
/** Least distance of two letters, in pixels. */
const CLOSEST = 8;
/** Opacity of a band. */
const BAND = 0.2;

export class Plot {
  private readonly plot: uPlot;
  private readonly mark = document.createElement("div");
  private marked: number | null = null;
  private readonly flags = document.createElement("div");
  private flagged: readonly Flag[] = [];
  private pressed = NaN;
  private later: ReturnType<typeof setTimeout> | undefined;

  constructor(host: HTMLElement, private shown: PlotInput, size: { width: number; height: number }, events: PlotEvents, private readonly isZoomed: () => boolean) {
    this.plot = new uPlot({ ...size, ...this.options(events) }, this.data(), host);
    this.mark.className = "curve-mark";
    this.plot.over.append(this.mark, this.flags);
    this.listen(events);
  }

  /** Replace the data; the number of lines must not change. */
  set(shown: PlotInput): void {
    this.shown = shown;
    this.plot.setData(this.data());
    this.place();
  }

  resize(width: number, height: number): void {
    this.plot.setSize({ width, height });
    this.place();
  }

  /** Position of the line at the selected step. */
  markAt(x: number | null): void {
    this.marked = x;
    this.place();
  }

  /** Flags above the lines. They take no clicks: those near one are told apart by their place. */
  flag(flags: readonly Flag[]): void {
    this.flagged = flags;
    this.place();
  }

  /** Move the cursor to an x; null hides it. */
  point(x: number | null): void {
    this.plot.setCursor(x === null ? { left: -10, top: -10 } : { left: this.plot.valToPos(x, "x"), top: this.plot.over.clientHeight / 2 });
  }

  destroy(): void {
    clearTimeout(this.later);
    this.plot.destroy();
  }

  private place(): void {
    const { low, high } = this.shown.data;
    const isIn = this.marked !== null && this.marked >= low && this.marked <= high;
    this.mark.hidden = !isIn;
    // In percent, because uPlot updates its layout a moment later.
    if (isIn) this.mark.style.left = `${(100 * (this.marked! - low)) / (high - low)}%`;
    this.flags.replaceChildren(...this.flagged.filter(({ x }) => x >= low && x <= high).map(({ x, kind }) => {
      const flag = document.createElement("i");
      flag.className = `spike-mark ${kind}`;
      flag.textContent = "!";
      flag.style.left = `${(100 * (x - low)) / (high - low)}%`;
      return flag;
    }));
  }

  private data(): uPlot.AlignedData {
    const { data: sheet, isSmooth } = this.shown;
    const faint = isSmooth ? sheet.raw : [];
    return [sheet.xs, ...faint, ...sheet.drawn] as uPlot.AlignedData;
  }

  private options(events: PlotEvents): Omit<uPlot.Options, "width" | "height"> {
    const { isSmooth, isBare, style: looks } = this.shown;
    const n = looks.colors.length;
    // Letters stand to the right of the lines.
    const room = looks.letters.some(Boolean) ? LETTER : 0;
    return {
      legend: { show: false },
      padding: isBare ? [4, 2 + room, 4, 2] : [8, 16 + room, 0, 0],
      scales: {
        x: { time: false, range: () => [this.shown.data.low, this.shown.data.high] },
        y: { range: () => ends(this.shown.data) },
      },
      axes: isBare ? [{ show: false }, { show: false }] : [this.xAxis(), this.yAxis()],
      cursor: {
        y: false,
        // Clicks are detected below: uPlot treats a slightly moving press, or one near an edge, as a drag.
        drag: { x: true, y: false, dist: CLICK + 1, setScale: false, click: () => undefined },
        points: { size: 7, width: 1.5, stroke: (_, i) => this.color(i), fill: (_, i) => (isSmooth && i <= n ? "transparent" : this.color(i)) },
        dataIdx: (plot, i, closest) => near(plot.data[i], closest),
        bind: { dblclick: () => () => null },
      },
      series: [{}, ...(isSmooth ? looks.colors.map((_, i) => this.series(i + 1, true)) : []), ...looks.colors.map((_, i) => this.series(i + 1 + (isSmooth ? n : 0), false))],
      hooks: {
        setCursor: [(plot) => {
          const { left = -1 } = plot.cursor;
          events.over(left < 0 ? null : { x: plot.posToVal(left, "x"), left: left + plot.over.offsetLeft });
        }],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width <= 0) return;
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          events.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
        }],
        drawAxes: [(plot) => this.drawBands(plot)],
        draw: [(plot) => this.drawBroken(plot), (plot) => this.drawLeft(plot), (plot) => this.drawLetters(plot)],
      },
    };
  }

  private series(i: number, isFaint: boolean): uPlot.Series {
    const dash = this.shown.style.dashes[(i - 1) % this.shown.style.colors.length];
    // Dashes of a dense line are invisible, and the slowest thing to draw.
    const isDashed = dash !== undefined && !isFaint && this.shown.isSparse;
    return {
      stroke: () => this.color(i), width: isFaint ? 1 : 1.75, alpha: isFaint ? 0.28 : dash && !isDashed ? 0.55 : 1,
      dash: isDashed ? [...dash] : undefined, spanGaps: false,
      points: {
        show: !isFaint, size: 5, width: 0, fill: () => this.color(i),
        filter: (plot) => (this.shown.data.drawn.every(isFew) ? null : isolatedPoints([...plot.data[i]])),
      },
    };
  }

  private color(i: number): string {
    const { colors } = this.shown.style;
    return colors[(i - 1) % colors.length] ?? "transparent";
  }

  private xAxis(): uPlot.Axis {
    const font = (): string => this.shown.style.font;
    const format = (value: number): string => (this.shown.xName === "seconds" ? duration(value) : short(value));
    return {
      size: 24, gap: 4, font: font(), stroke: () => this.shown.style.text, grid: { show: false }, ticks: { show: false },
      splits: (plot) => xTicks(this.shown.data, this.shown.xName, Math.max(2, (plot.width - 70) / 75)),
      values: (_, splits) => splits.map(format),
    };
  }

  private yAxis(): uPlot.Axis {
    return {
      size: (_, values) => 14 + 6.7 * Math.max(3, ...(values ?? []).map((value) => String(value).length)),
      gap: 6, font: this.shown.style.font, stroke: () => this.shown.style.text, ticks: { show: false },
      grid: { stroke: () => this.shown.style.grid, width: 1 },
      splits: () => this.ticks().map(this.shown.data.y.forward),
      values: () => tickTexts(this.ticks()),
    };
  }

  /** uPlot needs a range even if no value is finite. */
  private ticks(): readonly number[] {
    const { data: sheet } = this.shown;
    return sheet.isEmpty ? [] : sheet.y.ticks;
  }

  /** Bands are drawn below all lines, so that no band hides a line. */
  private drawBands({ ctx, bbox, valToPos }: uPlot): void {
    const { data: sheet, style: looks } = this.shown;
    if (!sheet.bands.some((band) => band !== null)) return;
    const at = (x: number, y: number): [number, number] => [valToPos(x, "x", true), valToPos(y, "y", true)];
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = BAND;
    sheet.bands.forEach((band, line) => {
      if (!band) return;
      ctx.fillStyle = ctx.strokeStyle = looks.colors[line];
      ctx.lineWidth = 3 * devicePixelRatio;
      for (const stretch of stretches(band.low, band.high)) {
        ctx.beginPath();
        stretch.forEach((i) => ctx.lineTo(...at(sheet.xs[i], band.high[i]!)));
        [...stretch].reverse().forEach((i) => ctx.lineTo(...at(sheet.xs[i], band.low[i]!)));
        // A single point has no width to fill, so it is stroked as a line.
        if (stretch.length > 1) ctx.fill();
        else ctx.stroke();
      }
    });
    ctx.restore();
  }

  /** Non-finite values are shown as ticks at the bottom. */
  private drawBroken({ ctx, bbox, valToPos }: uPlot): void {
    const { data: sheet, style: looks } = this.shown;
    if (!sheet.broken.length) return;
    ctx.save();
    ctx.fillStyle = looks.bad;
    const ratio = devicePixelRatio;
    for (const x of sheet.broken) {
      if (x < sheet.low || x > sheet.high) continue;
      ctx.fillRect(valToPos(x, "x", true) - ratio, bbox.top + bbox.height - 6 * ratio, 2 * ratio, 6 * ratio);
    }
    ctx.restore();
  }

  /** A triangle where a line leaves the axis. */
  private drawLeft({ ctx, bbox, valToPos }: uPlot): void {
    const { data: sheet, style: looks } = this.shown;
    const ratio = devicePixelRatio;
    ctx.save();
    for (const { line, x, isAbove } of sheet.left) {
      const at = Math.max(bbox.left + 5 * ratio, Math.min(bbox.left + bbox.width - 5 * ratio, valToPos(x, "x", true)));
      const [tip, base] = isAbove ? [bbox.top, bbox.top + 7 * ratio] : [bbox.top + bbox.height, bbox.top + bbox.height - 7 * ratio];
      ctx.fillStyle = looks.colors[line];
      ctx.beginPath();
      ctx.moveTo(at, tip);
      ctx.lineTo(at - 5 * ratio, base);
      ctx.lineTo(at + 5 * ratio, base);
      ctx.fill();
    }
    ctx.restore();
  }

  /** The letter of each run at the end of its line, moved apart where lines end close together. */
  private drawLetters({ ctx, bbox, valToPos }: uPlot): void {
    const { data: sheet, style: looks } = this.shown;
    if (!looks.letters.some(Boolean)) return;
    const [ratio, bottom] = [devicePixelRatio, bbox.top + bbox.height];
    const ends = new Map<string, { y: number; color: string }>();
    sheet.drawn.forEach((column, line) => {
      const last = column.reduce<number | null>((found, value) => value ?? found, null);
      // Of the lines of a run (its kinds of steps), the first has the letter.
      if (last === null || ends.has(looks.letters[line]) || !looks.letters[line]) return;
      ends.set(looks.letters[line], { y: Math.max(bbox.top, Math.min(bottom, valToPos(last, "y", true))), color: looks.colors[line] });
    });
    // Where there is no room for all of them, letters would cover each other: the legend and the cursor name the lines.
    if ((bottom - bbox.top) / Math.max(1, ends.size - 1) < CLOSEST * ratio) return;
    const placed = spread([...ends].map(([letter, end]) => ({ letter, ...end })), 10 * ratio, bbox.top, bottom);
    ctx.save();
    ctx.font = `600 ${10 * ratio}px ${looks.font.replace(/^\S+ /, "")}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const { letter, y, color } of placed) {
      ctx.fillStyle = color;
      ctx.fillText(letter, bbox.left + bbox.width + 3 * ratio, y);
    }
    ctx.restore();
  }

  private listen(events: PlotEvents): void {
    const { over } = this.plot;
    over.addEventListener("pointerenter", () => this.plot.syncRect(true));
    over.addEventListener("pointerdown", (event) => { this.pressed = event.clientX; });
    over.addEventListener("click", (event) => {
      if (!(Math.abs(event.clientX - this.pressed) <= CLICK)) return;
      const x = this.plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x");
      clearTimeout(this.later);
      // Wait: a click may be the first half of a double-click, which resets the zoom.
      if (this.isZoomed()) this.later = setTimeout(() => events.pick(x), 240);
      else if (event.detail < 2) events.pick(x);
    });
    over.addEventListener("dblclick", () => {
      clearTimeout(this.later);
      events.reset();
    });
  }
}

/** Labels at least `gap` apart, as near to their places as that allows; if there is no room for all, evenly. */
export function spread<T extends { y: number }>(labels: readonly T[], gap: number, top: number, bottom: number): T[] {
  const own = Math.min(gap, (bottom - top) / Math.max(1, labels.length - 1));
  const placed = [...labels].sort((a, b) => a.y - b.y).map((label) => ({ ...label }));
  placed.forEach((label, i) => { if (i) label.y = Math.max(label.y, placed[i - 1].y + own); });
  for (let i = placed.length - 1, most = bottom; i >= 0; i--, most -= own) placed[i].y = Math.min(placed[i].y, most);
  return placed;
}

function ends({ y }: ChartData): [number, number] {
  return [y.forward(y.low), y.forward(y.high)];
}

/** Seconds are counted in minutes or hours where there are many of them. */
function xTicks({ low, high }: ChartData, name: PlotInput["xName"], n: number): number[] {
  const unit = name === "step" || high < 120 ? 1 : high < 7200 ? 60 : 3600;
  const ticks = rounds(low / unit, high / unit, n).map((tick) => tick * unit);
  return name === "step" ? ticks.filter((tick) => Number.isInteger(tick)) : ticks;
}

function isFew(column: ArrayLike<number | null | undefined>): boolean {
  let n = 0;
  for (let i = 0; i < column.length && n <= FEW; i++) if (column[i] !== null && column[i] !== undefined) n++;
  return n <= FEW;
}

/** Index of the defined point nearest to an index. */
function near(column: ArrayLike<number | null | undefined>, place: number): number | null {
  for (let far = 0; far < column.length; far++) {
    for (const i of [place - far, place + far]) if (i >= 0 && i < column.length && column[i] != null) return i;
    if (far > 400) break;
  }
  return null;
}
