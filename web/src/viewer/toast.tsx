// Short messages that disappear by themselves, such as why a key did nothing.

import { useEffect, useState } from "preact/hooks";

const [SECONDS, LONGER] = [2.5, 0.03];

interface Message {
  readonly sentence: string;
  readonly n: number;
}

export function useToast(): { message: Message | null; notify(sentence: string): void } {
  const [message, setMessage] = useState<Message | null>(null);
  useEffect(() => {
    if (!message) return undefined;
    const timer = setTimeout(() => setMessage(null), 1000 * (SECONDS + LONGER * message.sentence.length));
    return () => clearTimeout(timer);
  }, [message]);
  return { message, notify: (sentence) => setMessage((before) => ({ sentence, n: (before?.n ?? 0) + 1 })) };
}

export function Toast({ message }: { message: Message | null }) {
  return <div class="toast" role="status">{message && <span key={message.n}>{message.sentence}</span>}</div>;
}
