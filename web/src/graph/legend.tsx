// The legend: shapes and colors that occur in the picture.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { corners } from "../canvas/paint/boxes";
import { styleOf, type Style } from "../canvas/paint/style";
import { DARK_THEME, LIGHT_THEME } from "../canvas/paint/theme";
import { gradient, isOnScale, middle } from "../lib/colors";
import { quantity } from "../lib/formatting";
import { CONDITION, FAILED, OUTPUT, type Box, type Form, type Kind, type Mark } from "../lib/wire";
import type { BoxMeasure } from "./decorate";
import { usePage } from "./context";

interface LegendEntry {
  readonly text: string;
  readonly box: Box;
  fits(box: Box): boolean;
}

const PLAIN: Box = {
  key: "", lines: [], kind: "plain", form: "function", frame: 0, node: -1, group: -1, flags: 0, stack: 1, stands_for: [],
  mark: "", shade: 0,
};

function legendEntry(text: string, look: Partial<Box>, fits: (box: Box) => boolean): LegendEntry {
  return { text, box: { ...PLAIN, ...look }, fits };
}

const kind = (text: string, name: Kind, form: Form): LegendEntry => legendEntry(text, { kind: name, form }, (box) => box.kind === name);
const flag = (text: string, bit: number): LegendEntry => legendEntry(text, { flags: bit }, (box) => (box.flags & bit) !== 0);
const mark = (text: string, name: Mark): LegendEntry => legendEntry(text, { mark: name }, (box) => box.mark === name);

const FUNCTION = "function";

const MEANINGS: readonly LegendEntry[] = [
  kind("input", "input", "function"),
  flag("output", OUTPUT),
  legendEntry("has parameters", { kind: "parametric", form: "leaf" }, (box) => box.kind === "parametric" && box.form !== "small"),
  legendEntry("parameter", { kind: "parametric", form: "small" }, (box) => box.kind === "parametric" && box.form === "small"),
  kind("target", "target", "function"),
  kind("loss", "loss", "function"),
  legendEntry("module", { form: "leaf" }, (box) => box.kind === "plain" && box.form === "leaf"),
  legendEntry(FUNCTION, {}, (box) => box.kind === "plain" && box.form === "function"),
  legendEntry("folded module", { form: "folded" }, (box) => box.form === "folded"),
  legendEntry("identical blocks", { form: "folded", stack: 3 }, (box) => box.stack > 1),
  kind("created inside", "made", "function"),
  kind("buffer", "buffer", "small"),
  kind("constant", "constant", "small"),
  kind("drawn elsewhere", "standin", "small"),
  flag("condition", CONDITION),
  legendEntry("failed", { kind: "failed" }, (box) => box.kind === "failed" || (box.flags & FAILED) !== 0),
  mark("new", "new"),
  mark("removed", "removed"),
  mark("changed", "changed"),
  legendEntry("values differ a little", { shade: 1 }, (box) => box.shade > 0),
  legendEntry("… a lot", { shade: 4 }, (box) => box.shade > 0),
];

/** Signs of boxes, drawn as the canvas draws them. */
export function KindLegend({ isWhole = false }: { isWhole?: boolean }) {
  const { view, drawn, isDark } = usePage();
  const theme = isDark ? DARK_THEME : LIGHT_THEME;
  const { boxes, frames } = drawn.picture;
  const shown = useMemo(() => {
    const stacked = frames.some((frame) => frame.stack > 1);
    return MEANINGS.filter((one) => isWhole ? !one.box.mark && !one.box.shade : boxes.some(one.fits) || (stacked && one.box.stack > 1));
  }, [boxes, frames, isWhole]);
  return (
    <ul class="kinds">
      {shown.map(({ text, box }) => <li key={text}><Swatch box={box} style={styleOf(box, undefined, theme)} />{text === FUNCTION && view.noun === "tensors" ? "value" : text}</li>)}
    </ul>
  );
}

function Swatch({ box, style }: { box: Box; style: Style }) {
  const round = style.isRound ? 6 : 2;
  const dash = style.dash.length ? style.dash.map((part) => part * 0.7).join(" ") : undefined;
  const line = { stroke: style.stroke, "stroke-width": Math.min(style.width, 1.7), "stroke-dasharray": dash };
  const shape = { width: 20, height: 11, rx: round, fill: style.fill, ...line };
  if (style.shape !== "plain") {
    const points = corners(style.shape, { x: 3, y: 3, width: 20, height: 11 }).map((corner) => corner.join(",")).join(" ");
    return <svg class="swatch" viewBox="0 0 26 17" aria-hidden="true"><polygon points={points} fill={style.fill} {...line} /></svg>;
  }
  return (
    <svg class="swatch" viewBox="0 0 26 17" aria-hidden="true">
      {box.stack > 1 && <rect x={5} y={5} {...shape} />}
      {box.stack > 1 && <rect x={3.2} y={3.2} {...shape} />}
      <rect x={box.stack > 1 ? 1.4 : 3} y={box.stack > 1 ? 1.4 : 3} {...shape} />
      {style.sign && <text x={13} y={12} text-anchor="middle" fill={style.signColor}>{style.sign}</text>}
    </svg>
  );
}

/** The ramp behind the colors, with three numbers. */
function RampLegend({ color }: { color: BoxMeasure }) {
  const { measure, scale, values } = color;
  if (!scale) return <p class="quiet">{measure.title}: no visible box has a value.</p>;
  const format = (value: number): string => quantity(value, measure.unit);
  const without = values.filter((value) => !isOnScale(scale, value));
  const gap = [without.includes(null) ? "no number" : "", without.some((value) => value !== null) ? "0" : ""].filter(Boolean).join(", or ");
  const isOne = scale.low === scale.high;
  return (
    <div class="ramp-legend">
      <div>{measure.title}{scale.scale === "log" ? ", log scale" : scale.scale === "diverging" ? ", around 0" : ""}</div>
      <div class="ramp" style={{ background: gradient(scale.ramp) }} />
      <div class="ramp-ticks">
        {isOne ? <span class="only">{format(scale.low)}</span>
          : <><span>{format(scale.low)}</span><span>{format(middle(scale))}</span><span>{format(scale.high)}</span></>}
      </div>
      <div class="quiet">folded module: {measure.total === "sum" ? "sum of its contents" : "maximum of its contents"}</div>
      {gap && <div class="quiet">no color: {gap}</div>}
    </div>
  );
}

/** Window width in pixels from which the legend does not hide the graph. */
const ROOMY = 1000;

export function Legend({ hasKinds }: { hasKinds: boolean }) {
  const { color, size } = usePage();
  const place = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(true);
  useEffect(() => setOpen((place.current?.closest(".app")?.clientWidth ?? 0) > ROOMY), []);
  return (
    <div class="legend" ref={place}>
      {color && <RampLegend color={color} />}
      {size?.scale && (
        <div class="bar-legend"><i /> bar: {size.measure.title}, full {quantity(size.scale.high, size.measure.unit)}</div>
      )}
      {hasKinds && (
        <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>Legend</summary>
          <KindLegend />
        </details>
      )}
    </div>
  );
}
