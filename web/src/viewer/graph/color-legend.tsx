// Color legend of the graph: the ramp with the selected value, and the signs for anomalies.

import { useLayoutEffect, useRef } from "preact/hooks";
import { KindLegend } from "../../graph/legend";
import { gradient, middle } from "../../lib/colors";
import { positionOn, type Anomaly } from "../../lib/values/node-colors";
import { short } from "../../lib/formatting";
import { ANOMALY_COLORS, type NodeColoring } from "./box-colors";

interface Props {
  readonly coloring: NodeColoring | null;
  /** Message if there are no colors. */
  readonly missing: string;
  /** The number of what is selected; NaN for none. */
  readonly selected: number;
  /** Whether the color range is wider than this step needs, because it covers steps viewed before. */
  readonly isWide: boolean;
  /** Whether boxes have cells for the blocks they stand for, and whether edges lead back. */
  readonly hasCells: boolean;
  readonly hasLoops: boolean;
  onFit(): void;
}

const SIGNS: readonly (readonly [Anomaly, string])[] = [["nonfinite", "NaN or Inf"], ["zero", "all zeros"]];

/** Canvas size in pixels from which the legend starts expanded. */
const ROOMY = { width: 800, height: 520 };

export function ColorLegend({ coloring, missing, selected, isWide, hasCells, hasLoops, onFit }: Props) {
  const shapes = useRef<HTMLDetailsElement>(null);
  useLayoutEffect(() => {
    const stage = shapes.current?.closest(".stage");
    if (stage) shapes.current!.open = stage.clientWidth > ROOMY.width && stage.clientHeight > ROOMY.height;
  }, []);
  return (
    <div class="legend color-legend">
      {missing && <p class="quiet">{missing}</p>}
      {coloring?.scale && <Ramp coloring={coloring} selected={selected} />}
      {coloring && (
        <ul class="anomalies">
          {SIGNS.filter(([anomaly]) => coloring.nodeValues.anomalies.includes(anomaly)).map(([anomaly, text]) => (
            <li key={anomaly}><i style={{ background: ANOMALY_COLORS[anomaly as "zero"] }} />{text}</li>
          ))}
          {coloring.nodeValues.anomalies.includes("none") && <li key="none"><i class="hollow" />not recorded</li>}
          {hasCells && <li key="cells" title="One box for several identical modules"><i class="cells" />one cell per block</li>}
        </ul>
      )}
      {isWide && <button type="button" class="link" onClick={onFit} title="The color range covers all steps viewed so far">fit colors to this step</button>}
      {hasLoops && <p class="looped"><i />to the next iteration</p>}
      <details ref={shapes}><summary>Roles</summary><KindLegend /></details>
    </div>
  );
}

function Ramp({ coloring: { nodeValues, scale }, selected }: { coloring: NodeColoring; selected: number }) {
  const { low, high, scale: how, ramp } = scale!;
  const format = (value: number): string => (nodeValues.isChange ? `×${short(2 ** value)}` : short(value));
  const place = positionOn(scale, selected);
  const way = nodeValues.isChange ? "" : how === "log" ? ", log scale" : how === "symlog" ? ", around 0" : "";
  return (
    <div class="ramp-legend">
      <div>{nodeValues.title}{way}</div>
      <div class="ramp" style={{ background: gradient(ramp) }}>
        {place !== null && <b style={{ left: `${place * 100}%` }} title={`selected tensor: ${format(selected)}`} />}
      </div>
      <div class="ramp-ticks">
        {low === high ? <span class="only">{format(low)}</span>
          : <><span>{format(low)}</span><span>{format(middle(scale!))}</span><span>{format(high)}</span></>}
      </div>
    </div>
  );
}
