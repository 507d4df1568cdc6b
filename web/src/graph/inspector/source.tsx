// The source line that ran an op, with its context.

import { highlightPython } from "../../lib/python";
import type { Source } from "../../lib/wire";
import { Card } from "./parts";

export function SourceLines({ source, stack }: { source: Source; stack: readonly (readonly [string, number, string])[] }) {
  const file = source.file.split("/").pop();
  return (
    <Card title="Source" aside={<span title={source.file}>{file}:{source.line}</span>}>
      {source.function && <div class="quiet">in <code>{source.function}</code></div>}
      {source.text.length === 0 && <p class="quiet">Source file not found.</p>}
      {source.text.length > 0 && <pre class="code">
        {source.text.map((text, i) => (
          <div class={source.first + i === source.line ? "line here" : "line"} key={i}>
            <i>{source.first + i}</i>
            <span>{highlightPython(text).map(([piece, tint], place) => <span class={tint && `tint-${tint}`} key={place}>{piece}</span>)}</span>
          </div>
        ))}
      </pre>}
      {stack.length > 1 && (
        <details class="stack">
          <summary>called from {stack.length - 1} more</summary>
          <ol>
            {stack.map(([path, line, name], place) => (
              <li key={place} title={path}>
                <code>{name}</code> <span class="quiet">{path.split("/").slice(-2).join("/")}:{line}</span>
              </li>
            ))}
          </ol>
        </details>
      )}
    </Card>
  );
}
