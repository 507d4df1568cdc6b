// A sentence in passing: why a key did nothing. It goes away by itself.

import { useEffect, useState } from "preact/hooks";

const [SECONDS, LONGER] = [2.5, 0.03];

interface Said {
  readonly sentence: string;
  readonly n: number;
}

export function useSaying(): { said: Said | null; say(sentence: string): void } {
  const [said, setSaid] = useState<Said | null>(null);
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => setSaid(null), 1000 * (SECONDS + LONGER * said.sentence.length));
    return () => clearTimeout(timer);
  }, [said]);
  return { said, say: (sentence) => setSaid((before) => ({ sentence, n: (before?.n ?? 0) + 1 })) };
}

export function Saying({ said }: { said: Said | null }) {
  return <div class="saying" role="status">{said && <span key={said.n}>{said.sentence}</span>}</div>;
}
