// The step slider: recorded steps with marks for notes; drag, click or use the keyboard.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { NoteView, RunView } from "../../lib/wire";
import { SpikeMarks } from "./spike-marks";
import { nearest, optionsOf, placesLeft, stepBy, stepNotice, type Choice } from "../choice";
import { useHoveredStep, type HoverSync } from "../hover-sync";
import { perform, type CommandContext } from "../commands";
import type { Command } from "../keys";

/** Padding at both ends, so that the thumb is fully visible there. */
const EDGE = 10;
/** Distance in pixels within which a mark is hovered. */
const NEAR = 7;

const ROWS: Readonly<Record<string, Command>> = {
  ArrowLeft: "earlier", ArrowDown: "earlier", ArrowRight: "later", ArrowUp: "later", Home: "first", End: "last",
};
const OF_KIND: Readonly<Record<string, Command>> = { ArrowLeft: "earlier of kind", ArrowRight: "later of kind" };

const HERE = "slider";

interface Props {
  readonly running: CommandContext;
  /** From the first step to the last, as on the timeline. */
  readonly span: readonly [number, number];
  readonly hoverSync: HoverSync;
  readonly isDark: boolean;
}

export function StepSlider({ running, span, hoverSync, isDark }: Props) {
  const { run, choice, act, state: { step: asked } } = running;
  const pointed = useHoveredStep(hoverSync, HERE);
  const wasPressed = useRef(false);
  const [typed, setTyped] = useState<string | null>(null);
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<number | null>(null);
  const scale = useMemo(() => scaleOf(span, width), [span[0], span[1], width]);
  useEffect(() => running.onType(() => setTyped("")), [running.onType]);

  useLayoutEffect(() => {
    const element = host.current!;
    const measure = (): void => setWidth(element.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  const left = useMemo(() => (choice.left ? new Set(choice.left) : null), [choice.left]);
  useLayoutEffect(() => draw(canvas.current!, run, scale, choice.kind, left), [run, scale, choice.kind, isDark, left]);

  const at = (event: PointerEvent): number => event.clientX - host.current!.getBoundingClientRect().left;
  const go = (x: number, isPress: boolean): void => {
    const note = isPress ? noteAt(run, scale, x) : null;
    const step = note?.step ?? stepAt(run, choice, scale.step(x));
    if (step !== null && step !== running.state.step) act({ do: "step", step });
  };
  const press = (event: PointerEvent): void => {
    if (event.button !== 0 || !run.steps.length) return;
    const element = event.currentTarget as HTMLElement;
    wasPressed.current = true;
    element.setPointerCapture(event.pointerId);
    element.focus({ preventScroll: true });
    event.preventDefault();
    go(at(event), true);
  };
  const move = (event: PointerEvent): void => {
    setOver(at(event));
    hoverSync.point(stepAt(run, choice, scale.step(at(event))), HERE);
    if ((event.currentTarget as HTMLElement).hasPointerCapture(event.pointerId)) go(at(event), false);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const command = (event.shiftKey ? OF_KIND : ROWS)[event.key];
    const by = { PageUp: 0.1, PageDown: -0.1 }[event.key];
    if (command) perform(command, running);
    else if (by && choice.place >= 0) act({ do: "step", step: stepsForPage(run, choice, by) });
    // After a click, digit keys switch tabs; they type a step number only with keyboard focus.
    else if (/^\d$/.test(event.key) && !wasPressed.current) setTyped((before) => (before ?? "") + event.key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const x = choice.step < 0 ? EDGE : scale.x(choice.step);
  const leave = (): void => {
    setOver(null);
    hoverSync.point(null, HERE);
  };
  const side: Record<string, string> = x > width - 90 ? { right: `${width - x + 13}px` } : { left: `${x + 13}px` };
  return (
    <div class="step-place">
      <div class="step-slider" role="slider" tabIndex={0} ref={host} aria-label="Step" aria-valuemin={run.steps[0] ?? 0}
        aria-valuemax={run.steps.at(-1) ?? 0} aria-valuenow={choice.step} aria-valuetext={spoken(run, choice)}
        onPointerDown={press} onPointerMove={move} onPointerLeave={leave} onKeyDown={key} onBlur={() => (wasPressed.current = false)}>
        <canvas ref={canvas} />
        {choice.step >= 0 && <i class="thumb" style={{ transform: `translateX(${x}px)` }} />}
        {asked !== null && asked !== choice.step && <i class="step-asked" title={stepNotice(run, running.state, choice)} style={{ transform: `translateX(${scale.x(asked)}px)` }} />}
        {pointed !== null && <i class="step-pointed" style={{ transform: `translateX(${scale.x(pointed)}px)` }} />}
        {running.spikes && width > 0 && <SpikeMarks spikes={running.spikes} x={scale.x} />}
        {over !== null && width > 0 && <StepTooltip run={run} choice={choice} scale={scale} x={over} />}
      </div>
      {choice.step >= 0 && typed === null && (
        <button type="button" class="step-number" style={side} tabIndex={-1} aria-label="Go to step" title="Enter a step number (g)" onClick={() => setTyped("")}>
          {choice.step.toLocaleString("en")}
        </button>
      )}
      {typed !== null && (
        <StepField typed={typed} side={side} onType={setTyped} onLeave={() => setTyped(null)} onClose={() => { setTyped(null); host.current?.focus({ preventScroll: true }); }}
          onStep={(step) => act({ do: "step", step })} />
      )}
    </div>
  );
}

interface FieldProps {
  readonly typed: string;
  readonly side: Record<string, string>;
  onType(text: string): void;
  onStep(step: number): void;
  /** It was ended by a key. */
  onClose(): void;
  /** Something else has the focus now. */
  onLeave(): void;
}

/** Input for a step number; it selects the nearest recorded step. */
function StepField({ typed, side, onType, onStep, onClose, onLeave }: FieldProps) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    field.current!.focus();
    field.current!.setSelectionRange(typed.length, typed.length);
  }, []);
  const key = (event: KeyboardEvent): void => {
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    const digits = typed.replace(/\D/g, "");
    if (event.key === "Enter" && digits) onStep(Number(digits));
    onClose();
  };
  return (
    <input class="step-number" type="text" inputMode="numeric" size={7} ref={field} style={side} value={typed} aria-label="Step number" placeholder="step"
      onInput={(event) => onType(event.currentTarget.value)} onKeyDown={key} onBlur={onLeave} />
  );
}

/** Page Up and Page Down: a tenth of the recorded steps, at least one. */
function stepsForPage(run: RunView, { place, kind }: Choice, by: number): number {
  const n = optionsOf(run).places.get(kind)?.length ?? 1;
  return run.steps[stepBy(run, place, Math.sign(by) * Math.max(1, Math.round(Math.abs(by) * n)), kind)];
}

/** The hovered step and its notes. */
function StepTooltip({ run, choice, scale, x }: { run: RunView; choice: Choice; scale: Scale; x: number }) {
  const note = noteAt(run, scale, x);
  const step = note?.step ?? stepAt(run, choice, scale.step(x));
  if (step === null) return null;
  const place = run.steps.indexOf(step);
  const left = scale.x(step);
  return (
    <div class="slider-over" style={left > scale.width / 2 ? { right: `${scale.width - left}px` } : { left: `${left}px` }}>
      <b>step {step.toLocaleString("en")}</b>
      {place >= 0 && run.kinds.length > 1 && ` · ${run.kinds[run.kind_of[place]]}`}
      {note && <div class={isBad(note) ? "bad" : ""}>{note.text.length > 200 ? `${note.text.slice(0, 200)}…` : note.text}</div>}
    </div>
  );
}

interface Scale {
  readonly low: number;
  readonly high: number;
  readonly width: number;
  x(step: number): number;
  step(x: number): number;
}

/** From the first step of some runs to their last, whether recorded or only logged. */
export function spanOf(runs: readonly RunView[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { steps, logged } of runs) {
    for (const step of [steps[0], steps.at(-1), ...logged]) if (step !== undefined) [low, high] = [Math.min(low, step), Math.max(high, step)];
  }
  return low <= high ? [low, high] : [0, 1];
}

function scaleOf([low, high]: readonly [number, number], width: number): Scale {
  const [room, span] = [Math.max(1, width - 2 * EDGE), Math.max(1, high - low)];
  return {
    low, high, width,
    x: (step) => EDGE + (Math.max(0, Math.min(1, (step - low) / span)) * room),
    step: (x) => low + ((x - EDGE) / room) * span,
  };
}

function stepAt(run: RunView, { kind, left }: Choice, step: number): number | null {
  const places = placesLeft(run, kind, left);
  return places.length ? run.steps[places[nearest(places, (place) => run.steps[place], step)]] : null;
}

function noteAt(run: RunView, scale: Scale, x: number): NoteView | null {
  let best: NoteView | null = null;
  let far = NEAR;
  for (const note of run.notes) {
    if (note.step === null) continue;
    const own = Math.abs(scale.x(note.step) - x);
    if (own < far || (own === far && isBad(note))) [best, far] = [note, own];
  }
  return best;
}

/** Warnings and errors stand out. */
export function isBad({ level }: NoteView): boolean {
  return /warn|error|critical|fatal/i.test(level);
}

function spoken(run: RunView, { place, step }: Choice): string {
  if (place < 0) return "no steps recorded";
  return `step ${step}, ${run.kinds[run.kind_of[place]] || "any kind"}, ${place + 1} of ${run.steps.length} recorded`;
}

/** A tick for every step; where they are dense, opacity shows their density. */
function draw(canvas: HTMLCanvasElement, run: RunView, scale: Scale, kind: string | null, left: ReadonlySet<number> | null): void {
  const [width, height, ratio] = [scale.width, canvas.clientHeight, devicePixelRatio || 1];
  if (!width) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d")!;
  const style = getComputedStyle(canvas);
  const color = (name: string): string => style.getPropertyValue(name).trim();
  pen.scale(ratio, ratio);
  const middle = Math.round(height / 2) + 2;
  pen.fillStyle = color("--line");
  pen.fillRect(EDGE, middle - 0.5, width - 2 * EDGE, 1);
  // The extent of this run; other runs on the page may be longer.
  const [from, to] = [scale.x(run.steps[0] ?? scale.low), scale.x(run.steps.at(-1) ?? scale.low)];
  pen.fillRect(from, middle - 1.5, to - from, 3);
  const chosen = kind === null ? -1 : run.kinds.indexOf(kind);
  const columns = new Map<number, { own: number; other: number }>();
  run.steps.forEach((step, place) => {
    const x = Math.round(scale.x(step));
    const column = columns.get(x) ?? { own: 0, other: 0 };
    if ((chosen < 0 || run.kind_of[place] === chosen) && (left === null || left.has(place))) column.own += 1;
    else column.other += 1;
    columns.set(x, column);
  });
  pen.fillStyle = color("--soft");
  // Adjacent ticks form a solid band, which would look too heavy at full opacity.
  const ink = columns.size > width / 3 ? 0.5 : 1;
  for (const [x, { own, other }] of columns) {
    pen.globalAlpha = ink * (own ? Math.min(0.85, 0.5 + 0.1 * own) : Math.min(0.3, 0.14 + 0.05 * other));
    const half = own ? 5 : 3;
    pen.fillRect(x - 0.5, middle - half, 1, 2 * half);
  }
  pen.globalAlpha = 1;
  for (const isLoud of [false, true]) {
    pen.fillStyle = color(isLoud ? "--bad" : "--soft");
    for (const note of run.notes) {
      if (note.step === null || isBad(note) !== isLoud) continue;
      pen.beginPath();
      // Distinguishable without color: warnings are triangles.
      const x = scale.x(note.step);
      if (isLoud) {
        pen.moveTo(x - 4, 1);
        pen.lineTo(x + 4, 1);
        pen.lineTo(x, 8);
      } else pen.arc(x, 4.5, 3, 0, 7);
      pen.fill();
    }
  }
}
