// The scale of a chart: chosen by the data or by the reader, and stored in the URL.

import { Menu } from "../../graph/controls";
import type { ChartScale, ScaleChoice } from "../../lib/charts/chart-scale";

/** The value of the range that holds all values. */
export const ALL = "all";

type Kept = Readonly<Record<string, string>>;

/** Names in the URL: `timeline.log` and `timeline.range` for the timeline. */
export function logName(name: string): string {
  return `${name}.log`;
}

export function rangeName(name: string): string {
  return `${name}.range`;
}

/** What the URL says about the scale of a chart. */
export function scaleChoice(kept: Kept, name: string): ScaleChoice {
  const log = kept[logName(name)];
  return { isLog: log ? log === "1" : null, isWhole: kept[rangeName(name)] === ALL };
}

/** Says which scale is in use, also where the data chose it, and offers the others. */
export function ScaleMenu({ kept, name, scale, onKeep }: { kept: Kept; name: string; scale: ChartScale; onKeep(name: string, text: string): void }) {
  const { isLog, isWhole } = scaleChoice(kept, name);
  const text = (is: boolean): string => (is ? "log" : "linear");
  const choose = (value: string): void => {
    onKeep(logName(name), value === ALL ? "" : value);
    onKeep(rangeName(name), value === ALL ? ALL : "");
  };
  return (
    <Menu name="Scale" value={isWhole ? ALL : isLog === null ? "" : isLog ? "1" : "0"} onChoose={choose}
      choices={[["", isLog === null && !isWhole ? `${text(scale.isLog)}, auto` : "auto"], ["0", text(false)], ["1", text(true)], [ALL, "all values"]]} />
  );
}
