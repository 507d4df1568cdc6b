// Keeps the URL in sync with the state, so that a reload shows the same view.

import { useEffect, useRef } from "preact/hooks";
import type { GraphView } from "../../lib/wire";
import { fromHash, toHash, type Camera } from "../address";
import type { State } from "../state";

interface Shown {
  readonly state: State;
  readonly camera: Camera | null;
}

/** Write the state to the URL, and follow URLs that the user enters or goes back to. */
export function useAddress(view: GraphView, shown: Shown, isOn: boolean, onGo: (to: Shown) => void): void {
  const { state, camera } = shown;
  const written = useRef<string | null>(null);
  useEffect(() => {
    if (!isOn) return undefined;
    // Debounced: browsers limit how often the URL may change.
    const timer = setTimeout(() => {
      const hash = toHash(view, state, camera);
      if (hash === written.current || `#${hash}` === location.hash) return;
      written.current = hash;
      try {
        history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
      } catch {
        // Some viewers of local files forbid it; the picture works without.
      }
    }, 150);
    return () => clearTimeout(timer);
  }, [view, state, camera, isOn]);
  useEffect(() => {
    if (!isOn) return undefined;
    const go = (): void => onGo(fromHash(view, location.hash));
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, [view, isOn]);
}

/** A larger page of which this is a part. */
export interface Frame {
  /** The last value passed to `onAddress`, here or before a reload. */
  readonly address: string;
  onAddress(hash: string): void;
  onTheme(): void;
  onHelp(): void;
}

/** The same inside a larger page, which stores the text in its own URL. */
export function useFrame(view: GraphView, { state, camera }: Shown, frame: Frame | undefined, onGo: (to: Shown) => void): void {
  const lastReported = useRef(frame?.address ?? "");
  const newest = useRef(frame);
  newest.current = frame;
  const hash = frame ? toHash(view, state, camera) : "";
  useEffect(() => {
    const tell = (): void => {
      if (!newest.current || hash === lastReported.current) return;
      lastReported.current = hash;
      newest.current.onAddress(hash);
    };
    // Only the final camera matters, not the way there.
    const timer = setTimeout(tell, 100);
    return () => clearTimeout(timer);
  }, [hash]);
  useEffect(() => {
    if (!frame || frame.address === lastReported.current) return;
    lastReported.current = frame.address;
    onGo(fromHash(view, frame.address));
  }, [frame?.address]);
}
