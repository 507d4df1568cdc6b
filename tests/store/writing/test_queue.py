"""The queue: in order, bounded, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.store.writing.queue import BoundedQueue


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 40), max_size=40), most=st.integers(1, 60))
def test_all_come_out_in_order_and_never_more_than_the_limit_is_inside(sizes: list[int], most: int) -> None:
    queue = BoundedQueue[int](most)
    held: list[int] = []

    def put() -> None:
        for number, size in enumerate(sizes):
            assert queue.put(number, size)
            held.append(queue.n_bytes)
        queue.close()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(put)
        taken = []
        while not queue.is_finished:
            item = queue.take(timeout=1)
            if item is not None:
                taken.append(item)
                queue.done()
        done.result()
    assert taken == list(range(len(sizes)))
    assert all(bytes_ <= max(most, *sizes) for bytes_ in held)
    assert queue.n_bytes == 0


def test_who_puts_in_more_than_is_taken_waits() -> None:
    queue = BoundedQueue[str](10)
    assert queue.put("a", 8)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(queue.put, "b", 8)
        time.sleep(0.05)
        assert not second.done()
        assert queue.take(1) == "a"
        time.sleep(0.02)
        assert not second.done(), "what is being worked on takes room as well"
        queue.done()
        assert second.result(timeout=5)
    assert queue.seconds_waited >= 0.05
    assert queue.n_bytes == 8


def test_an_item_larger_than_the_limit_goes_in_alone() -> None:
    queue = BoundedQueue[str](10)
    assert queue.put("large", 1000)
    assert queue.take(0) == "large"
    queue.done()
    assert queue.seconds_waited == 0


def test_join_waits_for_what_was_put_in_before_and_not_for_more() -> None:
    queue = BoundedQueue[int](1000)
    assert queue.join(timeout=0)
    queue.put(1, 1)
    assert not queue.join(timeout=0.02)
    with ThreadPoolExecutor(1) as pool:
        joined = pool.submit(queue.join)
        time.sleep(0.02)
        queue.put(2, 1)
        queue.take(0)
        queue.done()
        assert joined.result(timeout=5)


def test_a_closed_queue_takes_nothing_and_gives_what_is_inside() -> None:
    queue = BoundedQueue[int](10)
    queue.put(1, 10)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.put, 2, 10)
        time.sleep(0.02)
        queue.close()
        assert waiting.result(timeout=5) is False
    assert queue.put(3, 0) is False
    assert not queue.is_finished
    assert queue.take(0) == 1
    queue.done()
    assert queue.take(10) is None, "at once, though there was time"
    assert queue.is_finished


@pytest.mark.parametrize("who", ["put", "join"])
def test_nobody_waits_for_a_queue_that_was_abandoned(who: str) -> None:
    queue = BoundedQueue[int](10)
    queue.put(1, 10)
    ended = threading.Event()

    def wait() -> None:
        _ = queue.put(2, 10) if who == "put" else queue.join()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.02)
    assert not ended.is_set()
    assert queue.abandon() == [1]
    assert ended.wait(5)
    assert queue.is_finished
    assert queue.join()
    assert queue.n_bytes == 0
