// What the colors of the nodes mean: the ramp with three numbers, the place of what is selected on it, and the signs beside it.

import { useLayoutEffect, useRef } from "preact/hooks";
import { KindLegend } from "../../graph/legend";
import { gradient, middle } from "../../lib/colors";
import { placeOn, type Oddity } from "../../lib/node-colors";
import { short } from "../../lib/formatting";
import { ODD, type Tinting } from "./box-colors";

interface Props {
  readonly tinting: Tinting | null;
  /** What to say where there are no colors. */
  readonly missing: string;
  /** The number of what is selected; NaN for none. */
  readonly selected: number;
  /** Whether colors reach further than this step needs, from steps seen before. */
  readonly isWide: boolean;
  /** Whether boxes have cells for the blocks they stand for, and whether edges lead back. */
  readonly hasCells: boolean;
  readonly hasLoops: boolean;
  onFit(): void;
}

const SIGNS: readonly (readonly [Oddity, string])[] = [["nonfinite", "NaN or Inf"], ["zero", "all zeros"]];

/** With so much room the legend says all it knows. */
const ROOMY = { width: 800, height: 520 };

export function TintLegend({ tinting, missing, selected, isWide, hasCells, hasLoops, onFit }: Props) {
  const shapes = useRef<HTMLDetailsElement>(null);
  useLayoutEffect(() => {
    const stage = shapes.current?.closest(".stage");
    if (stage) shapes.current!.open = stage.clientWidth > ROOMY.width && stage.clientHeight > ROOMY.height;
  }, []);
  return (
    <div class="legend tint-legend">
      {missing && <p class="quiet">{missing}</p>}
      {tinting?.scale && <Ramp tinting={tinting} selected={selected} />}
      {tinting && (
        <ul class="oddities">
          {SIGNS.filter(([oddity]) => tinting.tints.oddities.includes(oddity)).map(([oddity, text]) => (
            <li key={oddity}><i style={{ background: ODD[oddity as "zero"] }} />{text}</li>
          ))}
          {tinting.tints.oddities.includes("none") && <li key="none"><i class="hollow" />not recorded</li>}
          {hasCells && <li key="cells" title="One box for several identical modules"><i class="cells" />one cell per block</li>}
        </ul>
      )}
      {isWide && <button type="button" class="link" onClick={onFit} title="The color range covers all steps viewed so far">fit colors to this step</button>}
      {hasLoops && <p class="looped"><i />to the next iteration</p>}
      <details ref={shapes}><summary>Roles</summary><KindLegend /></details>
    </div>
  );
}

function Ramp({ tinting: { tints, scale }, selected }: { tinting: Tinting; selected: number }) {
  const { low, high, scale: how, ramp } = scale!;
  const said = (value: number): string => (tints.isChange ? `×${short(2 ** value)}` : short(value));
  const place = placeOn(scale, selected);
  const way = tints.isChange ? "" : how === "log" ? ", log scale" : how === "symlog" ? ", around 0" : "";
  return (
    <div class="ramp-legend">
      <div>{tints.title}{way}</div>
      <div class="ramp" style={{ background: gradient(ramp) }}>
        {place !== null && <b style={{ left: `${place * 100}%` }} title={`selected tensor: ${said(selected)}`} />}
      </div>
      <div class="ramp-ticks">
        {low === high ? <span class="only">{said(low)}</span>
          : <><span>{said(low)}</span><span>{said(middle(scale!))}</span><span>{said(high)}</span></>}
      </div>
    </div>
  );
}
