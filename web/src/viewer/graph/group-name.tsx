// The input field to rename a group.

import { useLayoutEffect, useRef } from "preact/hooks";

export function GroupName({ name, onName, onClose }: { name: string; onName(name: string): void; onClose(): void }) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.select(), []);
  const key = (event: KeyboardEvent): void => {
    event.stopPropagation();
    const text = field.current!.value.trim();
    if (event.key === "Enter" && text && text !== name) onName(text);
    if (event.key === "Enter" || event.key === "Escape") onClose();
  };
  return (
    <div class="graph-name" role="dialog" aria-label="Rename group">
      <label>Group name <input ref={field} type="text" defaultValue={name} maxLength={60} onKeyDown={key} onBlur={onClose} /></label>
      <kbd>Enter</kbd>
    </div>
  );
}
