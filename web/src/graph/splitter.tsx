// The draggable border between graph and inspector.

const [LEAST, MOST] = [260, 900];

export function Splitter({ width, onWidth }: { width: number; onWidth(width: number): void }) {
  const clamp = (value: number): number => Math.max(LEAST, Math.min(MOST, value));
  const begin = (event: PointerEvent): void => {
    const bar = event.currentTarget as HTMLElement;
    const from = event.clientX;
    bar.setPointerCapture(event.pointerId);
    const move = (moved: PointerEvent): void => onWidth(clamp(width + from - moved.clientX));
    bar.addEventListener("pointermove", move);
    bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", move), { once: true });
  };
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: 24, ArrowRight: -24 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    onWidth(clamp(width + by));
  };
  return (
    <div class="splitter" role="separator" aria-orientation="vertical" aria-label="Width of the inspector"
      aria-valuenow={width} aria-valuemin={LEAST} aria-valuemax={MOST} tabIndex={0} onPointerDown={begin} onKeyDown={key} />
  );
}
