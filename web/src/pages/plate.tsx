// One page item with its title and copy button.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { IconButton } from "../graph/controls";
import { asText, type Plate } from "./as-text";
import { BarsPlate } from "./charts/bars";
import { copyText } from "./clipboard";
import { ColoredTextPlate } from "./colored-text";
import { FactsPlate } from "./facts";
import { HeatmapPlate } from "./charts/heatmap";
import { HistogramPlate } from "./charts/histogram";
import { LinesPlate } from "./charts/lines";
import { TablePlate } from "./table";
import type { Prose } from "./wire";

export function PlateView({ plate, isDark }: { plate: Plate; isDark: boolean }) {
  const [status, setStatus] = useState("");
  const copy = async (): Promise<void> => {
    setStatus((await copyText(asText(plate))) ? "copied" : "copy failed");
    setTimeout(() => setStatus(""), 1500);
  };
  return (
    <figure class="plate" data-kind={plate.kind}>
      <div class="plate-head">
        {plate.title && <figcaption>{plate.title}</figcaption>}
        <span class="plate-copy">
          <span role="status">{status}</span>
          <IconButton icon="copy" title={`Copy as text${plate.title ? `: ${plate.title}` : ""}`} onClick={() => void copy()} />
        </span>
      </div>
      {drawn(plate, isDark)}
    </figure>
  );
}

function drawn(plate: Plate, isDark: boolean): ComponentChildren {
  switch (plate.kind) {
    case "prose": return <ProsePlate plate={plate} />;
    case "facts": return <FactsPlate plate={plate} />;
    case "table": return <TablePlate plate={plate} />;
    case "lines": return <LinesPlate plate={plate} />;
    case "bars": return <BarsPlate plate={plate} />;
    case "histogram": return <HistogramPlate plate={plate} />;
    case "heatmap": return <HeatmapPlate plate={plate} isDark={isDark} />;
    case "text": return <ColoredTextPlate plate={plate} isDark={isDark} />;
    default: return <p class="quiet">This item needs a newer version of Cutaway.</p>;
  }
}

function ProsePlate({ plate }: { plate: Prose }) {
  return <div class="prose">{plate.text.split(/\n\s*\n/).map((paragraph, i) => <p key={i}>{paragraph}</p>)}</div>;
}
