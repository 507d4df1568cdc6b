// One page item with its title and copy button.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { IconButton } from "../graph/controls";
import { asText, type Block } from "./as-text";
import { BarsBlock } from "./charts/bars";
import { copyText } from "../lib/clipboard";
import { ColoredTextBlock } from "./colored-text";
import { FactsBlock } from "./facts";
import { HeatmapBlock } from "./charts/heatmap";
import { HistogramBlock } from "./charts/histogram";
import { LinesBlock } from "./charts/lines";
import { TableBlock } from "./table";
import type { Prose } from "./wire";

export function BlockView({ block, isDark }: { block: Block; isDark: boolean }) {
  const [status, setStatus] = useState("");
  const copy = async (): Promise<void> => {
    setStatus((await copyText(asText(block))) ? "copied" : "copy failed");
    setTimeout(() => setStatus(""), 1500);
  };
  return (
    <figure class="block" data-kind={block.kind}>
      <div class="block-head">
        {block.title && <figcaption>{block.title}</figcaption>}
        <span class="block-copy">
          <span role="status">{status}</span>
          <IconButton icon="copy" title={`Copy as text${block.title ? `: ${block.title}` : ""}`} onClick={() => void copy()} />
        </span>
      </div>
      {drawn(block, isDark)}
    </figure>
  );
}

function drawn(block: Block, isDark: boolean): ComponentChildren {
  switch (block.kind) {
    case "prose": return <ProseBlock block={block} />;
    case "facts": return <FactsBlock block={block} />;
    case "table": return <TableBlock block={block} />;
    case "lines": return <LinesBlock block={block} />;
    case "bars": return <BarsBlock block={block} />;
    case "histogram": return <HistogramBlock block={block} />;
    case "heatmap": return <HeatmapBlock block={block} isDark={isDark} />;
    case "text": return <ColoredTextBlock block={block} isDark={isDark} />;
    default: return <p class="quiet">This item needs a newer version of Cutaway.</p>;
  }
}

function ProseBlock({ block }: { block: Prose }) {
  return <div class="prose">{block.text.split(/\n\s*\n/).map((paragraph, i) => <p key={i}>{paragraph}</p>)}</div>;
}
