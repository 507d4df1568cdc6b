/** Turns mouse, wheel, trackpad and touch events into gestures. Positions are CSS pixels from the corner of the canvas. */

export interface Gestures {
  pan(dx: number, dy: number): void;
  zoom(factor: number, x: number, y: number): void;
  click(x: number, y: number, event: PointerEvent): void;
  doubleClick(x: number, y: number, event: MouseEvent): void;
  move(x: number, y: number): void;
  leave(): void;
  menu(x: number, y: number, event: MouseEvent): void;
  /** A drag began or ended. */
  grip(isHeld: boolean): void;
}

/** Maximum movement in pixels during a click. */
const STEADY = 4;
/** Pixels per line: a mouse wheel scrolls in lines in Firefox. */
const LINE = 20;

export function listen(target: HTMLElement, gestures: Gestures, wheelZooms: () => boolean): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let start: { x: number; y: number } | null = null;
  let isDragging = false;

  const at = (event: MouseEvent): { x: number; y: number } => {
    const box = target.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const down = (event: PointerEvent): void => {
    if (event.button !== 0 && event.button !== 1) return;
    if (event.button === 1) event.preventDefault(); // no autoscroll
    pointers.set(event.pointerId, at(event));
    start = pointers.size === 1 ? at(event) : null; // two fingers are never a click
  };
  const move = (event: PointerEvent): void => {
    const was = pointers.get(event.pointerId);
    const now = at(event);
    if (!was) {
      gestures.move(now.x, now.y);
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)![1];
      pinch(was, now, other);
    } else if (isDragging || !start || Math.hypot(now.x - start.x, now.y - start.y) > STEADY) {
      if (!isDragging) {
        isDragging = true;
        target.setPointerCapture(event.pointerId);
        gestures.grip(true);
      }
      gestures.pan(was.x - now.x, was.y - now.y);
    } else return;
    pointers.set(event.pointerId, now);
  };
  const pinch = (was: { x: number; y: number }, now: { x: number; y: number }, other: { x: number; y: number }): void => {
    const [before, after] = [Math.hypot(was.x - other.x, was.y - other.y), Math.hypot(now.x - other.x, now.y - other.y)];
    gestures.pan((was.x - now.x) / 2, (was.y - now.y) / 2);
    if (before > 0 && after > 0) gestures.zoom(after / before, (now.x + other.x) / 2, (now.y + other.y) / 2);
  };
  const up = (event: PointerEvent): void => {
    if (!pointers.delete(event.pointerId)) return;
    const { x, y } = at(event);
    if (isDragging && !pointers.size) {
      isDragging = false;
      gestures.grip(false);
    } else if (start && event.type === "pointerup" && event.button === 0) gestures.click(x, y, event);
    start = null;
  };
  const wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { x, y } = at(event);
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : event.deltaMode === WheelEvent.DOM_DELTA_PAGE ? target.clientHeight : 1;
    // Browsers report a trackpad pinch as a wheel event with ctrlKey.
    const isPinch = event.ctrlKey || event.metaKey;
    if (isPinch || wheelZooms()) {
      const by = Math.max(-120, Math.min(120, event.deltaY * unit));
      gestures.zoom(Math.exp(-by * (Math.abs(by) < 40 ? 0.01 : 0.0025)), x, y);
    } else if (event.shiftKey && !event.deltaX) gestures.pan(event.deltaY * unit, 0);
    else gestures.pan(event.deltaX * unit, event.deltaY * unit);
  };
  const double = (event: MouseEvent): void => gestures.doubleClick(at(event).x, at(event).y, event);
  const menu = (event: MouseEvent): void => gestures.menu(at(event).x, at(event).y, event);
  const leave = (): void => gestures.leave();

  const listeners: [string, (event: never) => void, AddEventListenerOptions?][] = [
    ["pointerdown", down], ["pointermove", move], ["pointerup", up], ["pointercancel", up], ["pointerleave", leave],
    ["wheel", wheel, { passive: false }], ["dblclick", double], ["contextmenu", menu],
  ];
  for (const [name, listener, how] of listeners) target.addEventListener(name, listener as EventListener, how);
  return () => {
    for (const [name, listener] of listeners) target.removeEventListener(name, listener as EventListener);
  };
}
