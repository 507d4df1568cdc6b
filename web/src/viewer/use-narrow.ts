// Whether there is so little room that things stand below each other. The style sheet has the same width.

import { useEffect, useState } from "preact/hooks";

const NARROW = 700;

export function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => innerWidth <= NARROW);
  useEffect(() => {
    const look = (): void => setNarrow(innerWidth <= NARROW);
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, []);
  return isNarrow;
}
